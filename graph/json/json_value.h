#ifndef TESSERA_GRAPH_JSON_JSON_VALUE_H_
#define TESSERA_GRAPH_JSON_JSON_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/dialect.h"

namespace tessera::graph {

/// A value in a JSON text (RFC 8259). It is a view of the text, which must outlive it: strings are
/// decoded when they are asked for, and JsonWalker finds the children in the text. A value
/// therefore takes no memory, however large its text is.
class JsonValue {
 public:
  /// The largest number of arrays and objects around a value.
  static constexpr int kMaxDepth = 64;

  /// Checks a whole text, in linear time. Throws Error(kDataLoss) that begins with `name` and
  /// states line and column if the text is not JSON in UTF-8 or is nested deeper than kMaxDepth.
  static JsonValue Parse(std::string_view name, std::string_view text);

  /// Return whether the value is of that kind.
  bool is_object() const { return text_[0] == '{'; }
  bool is_array() const { return text_[0] == '['; }
  bool is_string() const { return text_[0] == '"'; }
  bool is_null() const { return text_[0] == 'n'; }
  /// Returns the value of a number without fraction and exponent that fits in 64 bits.
  std::optional<int64_t> integer() const;
  /// Returns the string without quotes and escapes. Requires: is_string().
  std::string string() const;
  /// Returns the number of children. Requires: is_array() or is_object().
  int64_t size() const;
  /// Returns the value as it is written.
  std::string_view text() const { return text_; }

 private:
  friend class JsonWalker;
  explicit JsonValue(std::string_view text) : text_(text) {}

  std::string_view text_;  // not empty
};

/// Appends a text to `json` as a string in quotes. Throws Error(kInvalidArgument) if it is not
/// UTF-8.
void AppendQuoted(std::string_view text, std::string* json);

/// Walks over the elements of an array or the members of an object, in their order:
///
///     for (JsonWalker child(array); child.Next();) Use(child.value());
class JsonWalker {
 public:
  /// Requires: container.is_array() or is_object().
  explicit JsonWalker(JsonValue container);

  /// Goes to the next child. Returns false after the last one.
  bool Next();
  /// Returns the current member's key. Requires: the container is an object.
  std::string key() const { return JsonValue(key_).string(); }
  /// Returns the current child.
  JsonValue value() const { return JsonValue(value_); }

 private:
  std::string_view Take();

  std::string_view rest_;  // the text after the current child
  bool is_object_;
  std::string_view key_;
  std::string_view value_;
};

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_JSON_JSON_VALUE_H_
