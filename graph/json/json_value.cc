#include "tessera/graph/json/json_value.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <system_error>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera::graph {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

/// Returns the length of the UTF-8 character at the front (Unicode 15, table 3-7), or 0.
size_t CharacterLength(std::string_view text) {
  const auto byte = [text](size_t i) {
    return i < text.size() ? static_cast<unsigned>(static_cast<unsigned char>(text[i])) : 0u;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates, and code points above 10ffff.
  const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xc0u) != 0x80) return 0;
  }
  return length;
}

void AppendUtf8(uint32_t code, std::string* text) {
  const auto append = [text](uint32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    append(code);
  } else if (code < 0x800) {
    append(0xc0 | code >> 6);
    append(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    append(0xe0 | code >> 12);
    append(0x80 | (code >> 6 & 0x3f));
    append(0x80 | (code & 0x3f));
  } else {
    append(0xf0 | code >> 18);
    append(0x80 | (code >> 12 & 0x3f));
    append(0x80 | (code >> 6 & 0x3f));
    append(0x80 | (code & 0x3f));
  }
}

/// Reads `\uXXXX` at the front.
std::optional<uint32_t> ReadCodeUnit(std::string_view text) {
  if (!text.starts_with("\\u") || text.size() < 6) return std::nullopt;
  uint32_t code = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + 6, code, 16);
  if (error != std::errc() || end != text.data() + 6) return std::nullopt;
  return code;
}

/// A character of a string as it is written, and the code point that it stands for.
struct Escape {
  size_t length;
  uint32_t code;
};

/// Reads the escape at the front, which may be a pair of surrogates.
std::optional<Escape> ReadEscape(std::string_view text) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (text.size() < 2) return std::nullopt;
  const size_t letter = kLetters.find(text[1]);
  if (letter != kLetters.npos) return Escape{2, static_cast<uint32_t>(kMeanings[letter])};
  const std::optional<uint32_t> first = ReadCodeUnit(text);
  if (!first) return std::nullopt;
  if (*first < 0xd800 || *first > 0xdfff) return Escape{6, *first};
  const std::optional<uint32_t> second = ReadCodeUnit(text.substr(6));
  if (*first > 0xdbff || !second || *second < 0xdc00 || *second > 0xdfff) return std::nullopt;
  return Escape{12, 0x10000 + ((*first - 0xd800) << 10) + (*second - 0xdc00)};
}

/// Checks a text against JSON's grammar.
class Checker {
 public:
  Checker(std::string_view name, std::string_view text) : name_(name), text_(text) {}

  /// Returns the text of the one value.
  std::string_view Check() {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // a byte order mark
    Space();
    const size_t begin = at_;
    Value();
    const size_t end = at_;
    Space();
    if (at_ != text_.size()) Fail("the end");
    return text_.substr(begin, end - begin);
  }

 private:
  std::string_view rest() const { return text_.substr(at_); }
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void Space() { at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size()); }

  bool Take(char expected) {
    if (at_ == text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }

  void Value() {
    switch (next()) {
      case '{':
        return Container('}');
      case '[':
        return Container(']');
      case '"':
        return String();
      default:
        break;
    }
    for (const std::string_view word : {"true", "false", "null"}) {
      if (rest().starts_with(word)) {
        at_ += word.size();
        return;
      }
    }
    Number();
  }

  void Container(char close) {
    if (++depth_ > JsonValue::kMaxDepth) {
      Throw("arrays and objects are nested deeper than ", JsonValue::kMaxDepth);
    }
    ++at_;
    Space();
    if (!Take(close)) {
      do {
        Space();
        if (close == '}') {
          if (next() != '"') Fail("a key in quotes");
          String();
          Space();
          if (!Take(':')) Fail("':'");
          Space();
        }
        Value();
        Space();
      } while (Take(','));
      if (!Take(close)) Fail(close == '}' ? "',' or '}'" : "',' or ']'");
    }
    --depth_;
  }

  void String() {
    ++at_;
    while (!Take('"')) {
      if (next() == '\\') {
        const std::optional<Escape> escape = ReadEscape(rest());
        if (!escape) Fail("an escape of JSON");
        at_ += escape->length;
        continue;
      }
      if (static_cast<unsigned char>(next()) < 0x20) Fail("a character of a string");
      const size_t length = CharacterLength(rest());
      if (length == 0) Fail("a character in UTF-8");
      at_ += length;
    }
  }

  void Number() {
    const size_t begin = at_;
    Take('-');
    if (!Take('0')) Digits(begin);
    if (Take('.')) Digits(begin);
    if (Take('e') || Take('E')) {
      if (!Take('+')) Take('-');
      Digits(begin);
    }
  }

  void Digits(size_t begin) {
    const size_t end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
    if (end == at_) Fail(at_ == begin ? "a value" : "a digit");
    at_ = end;
  }

  [[noreturn]] void Fail(const char* expected) const {
    if (at_ == text_.size()) Throw("the text ends, expected ", expected);
    const size_t length = CharacterLength(rest());
    if (length == 0 || static_cast<unsigned char>(next()) < 0x20 || next() == '\x7f') {
      std::ostringstream byte;
      byte << std::hex << static_cast<unsigned>(static_cast<unsigned char>(next()));
      Throw("found the byte 0x", byte.str(), ", expected ", expected);
    }
    Throw("found '", rest().substr(0, length), "', expected ", expected);
  }

  template <typename... Pieces>
  [[noreturn]] void Throw(const Pieces&... pieces) const {
    const std::string_view before = text_.substr(0, at_);
    const size_t line_begin = before.rfind('\n') + 1;  // 0 in the first line
    throw DataLoss(name_, ": not JSON: line ", 1 + std::count(before.begin(), before.end(), '\n'),
                   ", column ", 1 + at_ - line_begin, ": ", pieces...);
  }

  const std::string_view name_;
  const std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

/// Returns the length of the string at the front of a checked text, with its quotes.
size_t StringLength(std::string_view text) {
  size_t at = 1;
  while (text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return at + 1;
}

/// Returns the length of the value at the front of a checked text.
size_t ValueLength(std::string_view text) {
  if (text[0] == '"') return StringLength(text);
  if (text[0] != '{' && text[0] != '[') {
    return std::min(text.find_first_of(",]} \t\r\n"), text.size());
  }
  int depth = 0;
  for (size_t at = 0;; ++at) {
    const char c = text[at];
    if (c == '"') at += StringLength(text.substr(at)) - 1;
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && --depth == 0) return at + 1;
  }
}

}  // namespace

JsonValue JsonValue::Parse(std::string_view name, std::string_view text) {
  return JsonValue(Checker(name, text).Check());
}

std::optional<int64_t> JsonValue::integer() const {
  int64_t value = 0;
  const char* const end = text_.data() + text_.size();
  const auto [read, error] = std::from_chars(text_.data(), end, value);
  if (error != std::errc() || read != end) return std::nullopt;
  return value;
}

std::string JsonValue::string() const {
  std::string decoded;
  std::string_view rest = text_.substr(1, text_.size() - 2);
  decoded.reserve(rest.size());
  while (!rest.empty()) {
    const size_t plain = std::min(rest.find('\\'), rest.size());
    decoded.append(rest.substr(0, plain));
    rest.remove_prefix(plain);
    if (rest.empty()) break;
    const std::optional<Escape> escape = ReadEscape(rest);
    AppendUtf8(escape->code, &decoded);
    rest.remove_prefix(escape->length);
  }
  return decoded;
}

int64_t JsonValue::size() const {
  int64_t size = 0;
  for (JsonWalker child(*this); child.Next();) ++size;
  return size;
}

void AppendQuoted(std::string_view text, std::string* json) {
  constexpr std::string_view kSpecial = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  json->push_back('"');
  for (size_t at = 0; at < text.size();) {
    const size_t length = CharacterLength(text.substr(at));
    if (length == 0) {
      throw InvalidArgument("symbol JSON: a text is not UTF-8: \"", Excerpt(text.substr(0, at)),
                            "\" is followed by a byte that begins no character");
    }
    if (const size_t special = kSpecial.find(text[at]); special != kSpecial.npos) {
      json->push_back('\\');
      json->push_back(kLetters[special]);
    } else if (static_cast<unsigned char>(text[at]) < 0x20) {
      constexpr char kDigits[] = "0123456789abcdef";
      *json += {'\\', 'u', '0', '0', text[at] < 0x10 ? '0' : '1', kDigits[text[at] & 0xf]};
    } else {
      json->append(text.substr(at, length));
    }
    at += length;
  }
  json->push_back('"');
}

JsonWalker::JsonWalker(JsonValue container)
    : rest_(container.text().substr(1)), is_object_(container.is_object()) {}

bool JsonWalker::Next() {
  rest_.remove_prefix(rest_.find_first_not_of(" \t\r\n,"));
  if (rest_[0] == ']' || rest_[0] == '}') return false;
  if (is_object_) {
    key_ = Take();
    rest_.remove_prefix(rest_.find_first_not_of(" \t\r\n:"));
  }
  value_ = Take();
  return true;
}

std::string_view JsonWalker::Take() {
  const std::string_view value = rest_.substr(0, ValueLength(rest_));
  rest_.remove_prefix(value.size());
  return value;
}

}  // namespace tessera::graph
