#include "tessera/ndarray/show/float_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

namespace tessera::ndarray_internal {
namespace {

constexpr int kPrecision = 8;  // digits after the point

/// A finite number in decimal: d.ddd times 10^exponent.
struct Decimal {
  double value = 0;    // the number itself, exactly
  std::string digits;  // the fewest that tell it from others of its type
  int exponent = 0;

  /// Returns how many digits stand after the point without an exponent.
  int FractionDigits() const { return std::max(0, static_cast<int>(digits.size()) - 1 - exponent); }
};

/// Returns the value with `digits` behind the point, in one of std::to_chars's notations. The
/// result depends on no locale, and is rounded correctly.
std::string Printed(double value, std::chars_format notation, int digits) {
  char buffer[400];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value, notation, digits);
  return {buffer, end};
}

/// Returns the shortest text in scientific notation that reads as the same value of its type.
template <typename T>
std::string Shortest(T value) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    char buffer[64];
    const auto [end, error] =
        std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
    return {buffer, end};
  } else {
    // The factor rounds a value in the middle of two texts up. The lower one may read as another
    // value, because a power of two is closer to the number below it than to the one above.
    const auto exact = static_cast<double>(static_cast<float>(value));
    std::string text;
    for (int digits = 0; digits < std::numeric_limits<float>::max_digits10; ++digits) {
      for (const double factor : {1.0, 1.0 + 0x1p-40}) {
        text = Printed(exact * factor, std::chars_format::scientific, digits);
        double read = 0;
        std::from_chars(text.data(), text.data() + text.size(), read);
        if (T(static_cast<float>(read)) == value) return text;
      }
    }
    return text;
  }
}

template <typename T>
Decimal ToDecimal(T value) {
  Decimal decimal;
  decimal.value = static_cast<double>(value);
  const std::string text = Shortest(value);
  const size_t e = text.find('e');
  for (const char letter : text.substr(0, e)) {
    if (letter != '-' && letter != '.') decimal.digits += letter;
  }
  const size_t begin = e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + begin, text.data() + text.size(), decimal.exponent);
  return decimal;
}

/// Removes zeros at the end of a text with a point.
void TrimZeros(std::string* text) { text->erase(text->find_last_not_of('0') + 1); }

/// Returns the number without an exponent, with at most `precision` digits behind its point and no
/// zeros at its end.
std::string Positional(const Decimal& decimal, int precision) {
  if (decimal.FractionDigits() > precision) {
    std::string text = Printed(decimal.value, std::chars_format::fixed, precision);
    TrimZeros(&text);
    return text;
  }
  std::string text = std::signbit(decimal.value) ? "-" : "";
  if (decimal.exponent < 0) {
    text += "0." + std::string(static_cast<size_t>(-decimal.exponent - 1), '0') + decimal.digits;
  } else {
    std::string digits = decimal.digits;
    const size_t before_point = static_cast<size_t>(decimal.exponent) + 1;
    if (digits.size() < before_point) digits.resize(before_point, '0');
    text += digits.insert(before_point, 1, '.');
  }
  TrimZeros(&text);
  return text;
}

/// The lengths of a number's text before its point, sign included, and behind it.
struct Parts {
  size_t before;
  size_t after;
};

Parts PartsOf(const std::string& text) {
  const size_t point = text.find('.');
  return {point, text.size() - point - 1};
}

/// Returns the value in scientific notation with exactly `digits` behind its point and at least
/// `exponent_digits` in the exponent.
std::string Scientific(double value, size_t digits, size_t exponent_digits) {
  std::string text = Printed(value, std::chars_format::scientific, static_cast<int>(digits));
  if (digits == 0) text.insert(text.find('e'), ".");
  const size_t exponent = text.find('e') + 2;  // behind its sign
  const size_t length = text.size() - exponent;
  if (length < exponent_digits) text.insert(exponent, exponent_digits - length, '0');
  return text;
}

/// Returns how many digits Scientific needs behind the point, at most kPrecision.
size_t ScientificDigits(const Decimal& decimal) {
  if (decimal.digits.size() <= kPrecision + 1) return decimal.digits.size() - 1;
  std::string text = Printed(decimal.value, std::chars_format::scientific, kPrecision);
  text.erase(text.find('e'));
  TrimZeros(&text);
  return PartsOf(text).after;
}

std::string NotFinite(double value) {
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

/// A notation for all numbers of an array.
class Notation {
 public:
  Notation(const std::vector<Decimal>& finite, bool is_scientific) : is_scientific_(is_scientific) {
    for (const Decimal& decimal : finite) {
      if (!is_scientific_) break;
      after_ = std::max(after_, ScientificDigits(decimal));
      const std::string exponent = std::to_string(std::abs(decimal.exponent));
      exponent_digits_ = std::max({exponent_digits_, exponent.size(), size_t{2}});
    }
    for (const Decimal& decimal : finite) {
      const Parts parts = PartsOf(Text(decimal));
      before_ = std::max(before_, parts.before);
      if (!is_scientific_) after_ = std::max(after_, parts.after);
    }
    width_behind_ = after_ + (is_scientific_ ? exponent_digits_ + 2 : 0);
  }

  /// Makes room for nan and inf.
  void MakeRoom(double value) {
    const size_t length = NotFinite(value).size();
    if (length > before_ + 1 + width_behind_) before_ = length - 1 - width_behind_;
  }

  std::string Aligned(double value) const {
    const std::string text = NotFinite(value);
    return std::string(before_ + 1 + width_behind_ - text.size(), ' ') + text;
  }
  std::string Aligned(const Decimal& decimal) const {
    const std::string text = Text(decimal);
    const Parts parts = PartsOf(text);
    return std::string(before_ - std::min(before_, parts.before), ' ') + text +
           std::string(width_behind_ - std::min(width_behind_, parts.after), ' ');
  }

 private:
  std::string Text(const Decimal& decimal) const {
    return is_scientific_ ? Scientific(decimal.value, after_, exponent_digits_)
                          : Positional(decimal, kPrecision);
  }

  const bool is_scientific_;
  size_t before_ = 0;  // the longest text before the point
  size_t after_ = 0;   // the most digits behind it
  size_t exponent_digits_ = 0;
  size_t width_behind_ = 0;  // all that stands behind the point
};

/// Returns whether NumPy prints an array with these finite numbers in scientific notation. The
/// quotient is one of T, which may be infinite.
template <typename T>
bool IsScientific(const std::vector<T>& values) {
  using Wide = std::conditional_t<sizeof(T) == 2, float, T>;
  Wide least = std::numeric_limits<Wide>::infinity(), most = 0;
  for (const T value : values) {
    const Wide magnitude = std::abs(static_cast<Wide>(value));
    if (!std::isfinite(magnitude) || magnitude == 0) continue;
    least = std::min(least, magnitude);
    most = std::max(most, magnitude);
  }
  if (most == 0) return false;
  return most >= Wide{1e8} || static_cast<double>(least) < 0.0001 ||
         static_cast<Wide>(T(most / least)) > Wide{1000};
}

template <typename T>
std::vector<std::string> Texts(const std::vector<T>& values) {
  std::vector<Decimal> finite;
  for (const T value : values) {
    if (std::isfinite(static_cast<double>(value))) finite.push_back(ToDecimal(value));
  }
  Notation notation(finite, IsScientific(values));
  for (const T value : values) {
    if (!std::isfinite(static_cast<double>(value))) {
      notation.MakeRoom(static_cast<double>(value));
    }
  }
  std::vector<std::string> texts;
  auto next = finite.begin();
  for (const T value : values) {
    texts.push_back(std::isfinite(static_cast<double>(value))
                        ? notation.Aligned(*next++)
                        : notation.Aligned(static_cast<double>(value)));
  }
  return texts;
}

template <typename T>
std::string Text(T value) {
  const auto wide = static_cast<double>(value);
  if (!std::isfinite(wide)) return NotFinite(wide);
  const Decimal decimal = ToDecimal(value);
  const double magnitude = std::abs(wide);
  if (magnitude == 0 || (magnitude < 1e16 && magnitude >= 1e-4)) {
    std::string text = Positional(decimal, std::numeric_limits<int>::max());
    if (text.back() == '.') text += '0';
    return text;
  }
  return Shortest(value);
}

}  // namespace

std::vector<std::string> FloatTexts(const std::vector<float>& values) { return Texts(values); }
std::vector<std::string> FloatTexts(const std::vector<double>& values) { return Texts(values); }
std::vector<std::string> FloatTexts(const std::vector<half_t>& values) { return Texts(values); }
std::vector<std::string> FloatTexts(const std::vector<bfloat16_t>& values) { return Texts(values); }

std::string FloatText(float value) { return Text(value); }
std::string FloatText(double value) { return Text(value); }
std::string FloatText(half_t value) { return Text(value); }
std::string FloatText(bfloat16_t value) { return Text(value); }

}  // namespace tessera::ndarray_internal
