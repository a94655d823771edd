#include "tessera/ops/parameter.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera {
namespace ops_internal {
namespace {

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

std::string Strip(std::string_view text) {
  return std::string(absl::StripAsciiWhitespace(ToAbsl(text)));
}

bool ReadReal(const std::string& text, double* value) { return absl::SimpleAtod(text, value); }
bool ReadReal(const std::string& text, float* value) { return absl::SimpleAtof(text, value); }

/// Reads a number, "inf" or "nan". A number too large for T is an error, because infinity would
/// replace it silently.
template <typename T>
T ParseReal(std::string_view text) {
  T value = 0;
  const std::string stripped = Strip(text);
  if (!ReadReal(stripped, &value)) {
    throw InvalidArgument("\"", Excerpt(text), "\" is not a number");
  }
  // Only the word for infinity has letters n.
  if (std::isinf(value) && stripped.find_first_of("nN") == stripped.npos) {
    throw InvalidArgument("\"", Excerpt(text), "\" is out of range; expected at most ",
                          std::numeric_limits<T>::max());
  }
  return value;
}

/// Returns the number of significant digits of the shortest text that parses to the same number.
template <typename T>
int ShortestDigits(T value) {
  char buffer[32];
  const auto [end, error] =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const auto num_digits = std::count_if(buffer, std::find(buffer, end, 'e'),
                                        [](char c) { return absl::ascii_isdigit(c); });
  return std::max(1, static_cast<int>(num_digits));  // infinity has none
}

/// Returns the shortest text that parses to the same number.
template <typename T>
std::string PrintReal(T value) {
  if (std::isnan(value)) return "nan";
  std::string text;
  // A number that is rounded to as many digits as the shortest text has can be another one.
  for (int digits = ShortestDigits(value); digits <= 17; ++digits) {
    char buffer[32];
    const auto [end, error] =
        std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::general, digits);
    text.assign(buffer, end);
    T read = 0;
    if (ReadReal(text, &read) && read == value) break;
  }
  return text;
}

/// Returns the texts between the commas of a tuple in brackets, or of a text without brackets.
std::vector<std::string> TuplePieces(std::string_view given) {
  const std::string stripped = Strip(given);
  absl::string_view text = stripped;
  const bool round = absl::ConsumePrefix(&text, "(");
  const bool square = !round && absl::ConsumePrefix(&text, "[");
  if ((round && !absl::ConsumeSuffix(&text, ")")) || (square && !absl::ConsumeSuffix(&text, "]"))) {
    throw InvalidArgument("\"", Excerpt(given), "\" has unbalanced brackets; expected e.g. (2,3)");
  }
  text = absl::StripAsciiWhitespace(text);
  std::vector<std::string> pieces;
  if (text.empty() && (round || square)) return pieces;
  absl::ConsumeSuffix(&text, ",");
  for (const absl::string_view piece : absl::StrSplit(text, ',')) {
    pieces.emplace_back(absl::StripAsciiWhitespace(piece));
  }
  return pieces;
}

std::string PrintTuple(const std::vector<std::string>& pieces) {
  return absl::StrCat("(", absl::StrJoin(pieces, ","), pieces.size() == 1 ? ",)" : ")");
}

std::string ExpectedOneOf(const std::vector<std::string>& names) {
  if (names.empty()) return "expected none";
  return absl::StrCat("expected ", names.size() == 1 ? "" : "one of ", ListNames(names));
}

}  // namespace

int64_t ParameterText<int64_t>::Parse(std::string_view text) {
  int64_t value = 0;
  std::string digits = Strip(text);
  if (digits == "True" || digits == "False") digits = digits == "True" ? "1" : "0";
  if (!absl::SimpleAtoi(digits, &value)) {
    throw InvalidArgument("\"", Excerpt(text), "\" is not an integer");
  }
  return value;
}
std::string ParameterText<int64_t>::Print(int64_t value) { return absl::StrCat(value); }

int ParameterText<int>::Parse(std::string_view text) {
  const int64_t value = ParameterText<int64_t>::Parse(text);
  if (value != static_cast<int>(value)) {
    throw InvalidArgument("\"", Excerpt(text), "\" does not fit in 32 bits");
  }
  return static_cast<int>(value);
}
std::string ParameterText<int>::Print(int value) { return absl::StrCat(value); }

double ParameterText<double>::Parse(std::string_view text) { return ParseReal<double>(text); }
std::string ParameterText<double>::Print(double value) { return PrintReal(value); }

float ParameterText<float>::Parse(std::string_view text) { return ParseReal<float>(text); }
std::string ParameterText<float>::Print(float value) { return PrintReal(value); }

Number ParameterText<Number>::Parse(std::string_view text) {
  const double value = ParseReal<double>(text);
  const std::string stripped = Strip(text);
  int64_t integer = 0;
  uint64_t large = 0;
  // The double knows the sign of 0.
  if (absl::SimpleAtoi(stripped, &integer) && integer != 0) return integer;
  if (absl::SimpleAtoi(stripped, &large) && large != 0) return large;
  return value;
}
std::string ParameterText<Number>::Print(const Number& value) {
  const bool is_integer = value.IsInt64() || value.IsUint64();
  if (!is_integer || Number(value.value()) == value) return PrintReal(value.value());
  const int64_t bits = value.BitsIn(DType::kUint64);
  return value.IsInt64() ? absl::StrCat(bits) : absl::StrCat(static_cast<uint64_t>(bits));
}

bool ParameterText<bool>::Parse(std::string_view text) {
  const std::string lower = absl::AsciiStrToLower(Strip(text));
  if (lower == "1" || lower == "true") return true;
  if (lower == "0" || lower == "false") return false;
  throw InvalidArgument("\"", Excerpt(text), "\" is not a boolean; expected True, False, 1 or 0");
}
std::string ParameterText<bool>::Print(bool value) { return value ? "True" : "False"; }

TShape ParameterText<TShape>::Parse(std::string_view text) { return TShape::Parse(text); }
std::string ParameterText<TShape>::Print(const TShape& value) {
  return value.rank_known() ? value.ToString() : "()";
}

std::vector<int> ParameterText<std::vector<int>>::Parse(std::string_view text) {
  std::vector<int> values;
  for (const int64_t value : ParameterText<std::vector<int64_t>>::Parse(text)) {
    if (value != static_cast<int>(value)) {
      throw InvalidArgument("\"", Excerpt(text), "\" does not fit in 32 bits");
    }
    values.push_back(static_cast<int>(value));
  }
  return values;
}
std::string ParameterText<std::vector<int>>::Print(const std::vector<int>& values) {
  return ParameterText<std::vector<std::optional<int64_t>>>::Print({values.begin(), values.end()});
}

std::vector<std::optional<int64_t>> ParameterText<std::vector<std::optional<int64_t>>>::Parse(
    std::string_view given) {
  std::vector<std::optional<int64_t>> values;
  for (const std::string& text : TuplePieces(given)) {
    absl::string_view piece = text;
    absl::ConsumeSuffix(&piece, "L");  // Python 2 wrote long integers so
    int64_t value = 0;
    if (piece == "None") {
      values.push_back(std::nullopt);
    } else if (absl::SimpleAtoi(piece, &value)) {
      values.push_back(value);
    } else {
      throw InvalidArgument("\"", Excerpt(given),
                            "\" is not a tuple of integers; expected e.g. (2,3)");
    }
  }
  return values;
}
std::string ParameterText<std::vector<std::optional<int64_t>>>::Print(
    const std::vector<std::optional<int64_t>>& value) {
  std::vector<std::string> pieces;
  for (const auto& x : value) pieces.push_back(x ? absl::StrCat(*x) : "None");
  return PrintTuple(pieces);
}

std::vector<int64_t> ParameterText<std::vector<int64_t>>::Parse(std::string_view text) {
  std::vector<int64_t> values;
  for (const auto& value : ParameterText<std::vector<std::optional<int64_t>>>::Parse(text)) {
    if (!value) {
      throw InvalidArgument("\"", Excerpt(text),
                            "\" is not a tuple of integers; expected e.g. (2,3)");
    }
    values.push_back(*value);
  }
  return values;
}
std::string ParameterText<std::vector<int64_t>>::Print(const std::vector<int64_t>& value) {
  return ParameterText<std::vector<std::optional<int64_t>>>::Print({value.begin(), value.end()});
}

std::vector<float> ParameterText<std::vector<float>>::Parse(std::string_view text) {
  std::vector<float> values;
  for (const std::string& piece : TuplePieces(text)) values.push_back(ParseReal<float>(piece));
  return values;
}
std::string ParameterText<std::vector<float>>::Print(const std::vector<float>& values) {
  std::vector<std::string> pieces;
  for (const float value : values) pieces.push_back(PrintReal(value));
  return PrintTuple(pieces);
}

void ParseParameters(std::string_view owner, const std::vector<ParameterField>& fields,
                     const ParameterMap& values, void* parameters) {
  for (const auto& [name, text] : values) {
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&name = name](const auto& f) { return f.info.name == name; });
    if (field == fields.end()) {
      std::vector<std::string> names;
      for (const auto& known : fields) names.push_back(known.info.name);
      const std::string nearest = NearestName(name, names);
      throw InvalidArgument(
          owner, ": unknown parameter \"", Excerpt(name), "\"; ",
          nearest.empty() ? ExpectedOneOf(names) : "did you mean \"" + Excerpt(nearest) + "\"?");
    }
    try {
      field->parse(parameters, text);
    } catch (const Error& error) {
      throw Error(error.code(),
                  absl::StrCat(std::string(owner), ": parameter ", name, ": ", error.what()));
    }
  }
  for (const auto& field : fields) {
    if (field.info.required && !values.contains(field.info.name)) {
      throw InvalidArgument(owner, ": required parameter \"", field.info.name, "\" (",
                            field.info.type, ") is missing");
    }
  }
}

void LimitRange(ParameterField* field, double low, double high, const void* defaults) {
  const std::string& name = field->info.name;
  if (field->number == nullptr) {
    throw Internal("parameter ", name, " has a range and is no number");
  }
  const auto fits = [low, high, number = field->number](const void* parameters) {
    const std::optional<double> value = number(parameters);
    return !value.has_value() || (*value >= low && *value <= high);
  };
  if (!field->info.required && !fits(defaults)) {
    throw Internal("parameter ", name, ": its default ", field->info.default_value,
                   " is outside of its range [", low, ", ", high, "]");
  }
  field->parse = [parse = std::move(field->parse), fits, low, high](void* parameters,
                                                                    std::string_view text) {
    parse(parameters, text);
    if (fits(parameters)) return;
    throw InvalidArgument("\"", Excerpt(text), "\" is out of range; expected a value in [", low,
                          ", ", high, "]");
  };
}

void ThrowNotAChoice(std::string_view text, const std::string& choices) {
  throw InvalidArgument("\"", Excerpt(text), "\" is not one of ", choices);
}

}  // namespace ops_internal

std::string NearestName(std::string_view name, const std::vector<std::string>& names) {
  constexpr size_t kMaxLength = 64;
  name = name.substr(0, kMaxLength);
  std::array<size_t, kMaxLength + 1> row;
  // Computes Levenshtein's distance, one row at a time. A distance of `limit` or more may be
  // returned as `limit`.
  const auto distance = [&row](std::string_view a, std::string_view b, size_t limit) {
    if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) >= limit) return limit;
    for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
      size_t diagonal = row[0];
      size_t least = row[0] = i;
      for (size_t j = 1; j <= b.size(); ++j) {
        const size_t substituted =
            diagonal + (absl::ascii_tolower(static_cast<unsigned char>(a[i - 1])) !=
                        absl::ascii_tolower(static_cast<unsigned char>(b[j - 1])));
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
        least = std::min(least, row[j]);
      }
      if (least >= limit) return limit;  // rows only rise
    }
    return row[b.size()];
  };
  std::string nearest;
  size_t best = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : names) {
    const size_t d = distance(name, std::string_view(candidate).substr(0, kMaxLength), best);
    if (d < best) {
      best = d;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace tessera
