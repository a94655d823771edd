#ifndef DMLC_OPTIONAL_H_
#define DMLC_OPTIONAL_H_

#include <optional>
#include <ostream>
#include <utility>

#include "tessera/base/dialect.h"

namespace dmlc {

/// The absent value.
using nullopt_t = std::nullopt_t;
using std::nullopt;

/// A value that may be absent, which is written as "None" then.
template <typename T>
class optional {
 public:
  using value_type = T;  ///< the type of the value

  optional() = default;
  optional(nullopt_t) {}                           // NOLINT: absent
  optional(T value) : value_(std::move(value)) {}  // NOLINT: present

  /// Return whether there is a value.
  bool has_value() const { return value_.has_value(); }
  explicit operator bool() const { return has_value(); }
  /// Return the value. `value` throws std::bad_optional_access if there is none.
  const T& value() const { return value_.value(); }
  const T& operator*() const { return *value_; }
  T& operator*() { return *value_; }

  bool operator==(const optional&) const = default;

 private:
  std::optional<T> value_;
};

/// Prints the value, or "None".
template <typename T>
std::ostream& operator<<(std::ostream& os, const optional<T>& value) {
  if (!value) return os << "None";
  return os << *value;
}

}  // namespace dmlc

#endif  // DMLC_OPTIONAL_H_
