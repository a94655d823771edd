#ifndef TESSERA_BASE_FLOAT16_H_
#define TESSERA_BASE_FLOAT16_H_

#include <Eigen/Core>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tessera/base/host_device.h"

namespace tessera {

template <typename Format>
class Float16;

/// IEEE binary16: 11 bits of precision, largest number 65504.
using half_t = Float16<Eigen::half>;
/// bfloat16: the upper half of a float; 8 bits of precision, the range of float.
using bfloat16_t = Float16<Eigen::bfloat16>;

/// A 16-bit floating-point number that behaves as mshadow's does: it converts to float by itself,
/// takes any number in an assignment (`h = 0.5f`) but not in an initialization (`half_t h(0.5f)`),
/// and stays 16 bits wide in arithmetic with any other number (`2.0f * h` is a half_t). Each
/// operation converts to float, computes there and rounds to the nearest, ties to even; a double
/// is rounded to float first. Comparisons are those of float.
///
/// Works on host and device. Format, Eigen's number type, only encodes and decodes. The functions
/// for volatile objects are for reducers in mshadow's style, `Reduce(volatile T& dst, volatile T
/// src)`. Default initialization leaves the value undetermined, as that of a float does.
template <typename Format>
class Float16 {
 public:
  Float16() = default;
  template <typename T>
  requires(std::is_arithmetic_v<T> ||
           (std::is_enum_v<T> && std::is_convertible_v<T, int>)) TESSERA_HD
      explicit Float16(T value)
      : half_(Encode(static_cast<float>(value))) {}
  template <typename Other>
  TESSERA_HD explicit Float16(Float16<Other> value) : half_(Encode(static_cast<float>(value))) {}

  /// The number whose encoding is `bits`.
  TESSERA_HD static constexpr Float16 Binary(uint16_t bits) { return Float16(Encoding{bits}); }
  /// The number's encoding.
  TESSERA_HD constexpr uint16_t bits() const { return half_; }

  /// The same number as a float.
  TESSERA_HD operator float() const { return Decode(half_); }           // NOLINT: exact
  TESSERA_HD operator float() const volatile { return Decode(half_); }  // NOLINT: exact

  /// The value, or the result of the operation in float, rounded to 16 bits.
  TESSERA_HD Float16& operator=(float value) {
    half_ = Encode(value);
    return *this;
  }
  /// Of what converts to this type, as a tensor's sum does: by that, if it converts to float as
  /// well.
  template <typename Number>
  requires requires(const Number& number) { number.operator Float16(); }
  TESSERA_HD Float16& operator=(const Number& number) { return *this = number.operator Float16(); }
  TESSERA_HD Float16& operator+=(float b) { return *this = float(*this) + b; }
  TESSERA_HD Float16& operator-=(float b) { return *this = float(*this) - b; }
  TESSERA_HD Float16& operator*=(float b) { return *this = float(*this) * b; }
  TESSERA_HD Float16& operator/=(float b) { return *this = float(*this) / b; }

  /// The same for a volatile object.
  TESSERA_HD void operator=(float value) volatile { half_ = Encode(value); }
  TESSERA_HD void operator+=(float b) volatile { half_ = Encode(Decode(half_) + b); }
  TESSERA_HD void operator-=(float b) volatile { half_ = Encode(Decode(half_) - b); }
  TESSERA_HD void operator*=(float b) volatile { half_ = Encode(Decode(half_) * b); }
  TESSERA_HD void operator/=(float b) volatile { half_ = Encode(Decode(half_) / b); }

  /// The other sign, of 0 and NaN too.
  TESSERA_HD Float16 operator-() const { return Binary(half_ ^ 0x8000); }
  /// The number itself.
  TESSERA_HD Float16 operator+() const { return *this; }

  uint16_t half_;  ///< the encoding, by mshadow's name; see bits()

 private:
  struct Encoding {
    uint16_t bits;
  };
  TESSERA_HD explicit constexpr Float16(Encoding encoding) : half_(encoding.bits) {}

  TESSERA_HD static uint16_t Encode(float value) {
    return Eigen::numext::bit_cast<uint16_t>(Format(value));
  }
  TESSERA_HD static float Decode(uint16_t bits) {
    return static_cast<float>(Eigen::numext::bit_cast<Format>(bits));
  }
};

/// What may stand beside a Float16 in arithmetic and leave the result 16 bits wide.
template <typename T>
concept BesideFloat16 = std::is_arithmetic_v<T>;

/// Arithmetic of two, or of one and another number, with a result of 16 bits.
#define TESSERA_FLOAT16_OPERATOR(OP)                                             \
  template <typename Format>                                                     \
  TESSERA_HD Float16<Format> operator OP(Float16<Format> a, Float16<Format> b) { \
    return Float16<Format>(float(a) OP float(b));                                \
  }                                                                              \
  template <typename Format, BesideFloat16 T>                                    \
  TESSERA_HD Float16<Format> operator OP(Float16<Format> a, T b) {               \
    return Float16<Format>(float(a) OP static_cast<float>(b));                   \
  }                                                                              \
  template <typename Format, BesideFloat16 T>                                    \
  TESSERA_HD Float16<Format> operator OP(T a, Float16<Format> b) {               \
    return Float16<Format>(static_cast<float>(a) OP float(b));                   \
  }
TESSERA_FLOAT16_OPERATOR(+)
TESSERA_FLOAT16_OPERATOR(-)
TESSERA_FLOAT16_OPERATOR(*)
TESSERA_FLOAT16_OPERATOR(/)
#undef TESSERA_FLOAT16_OPERATOR

}  // namespace tessera

template <>
class std::numeric_limits<tessera::half_t> {
 public:
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = true;
  static constexpr bool is_integer = false;
  static constexpr bool is_exact = false;
  static constexpr bool is_iec559 = true;
  static constexpr bool is_bounded = true;
  static constexpr bool is_modulo = false;
  static constexpr bool has_infinity = true;
  static constexpr bool has_quiet_NaN = true;
  static constexpr bool has_signaling_NaN = true;
  static constexpr float_round_style round_style = round_to_nearest;
  static constexpr int radix = 2;
  static constexpr int digits = 11;
  static constexpr int digits10 = 3;
  static constexpr int max_digits10 = 5;
  static constexpr int min_exponent = -13;
  static constexpr int min_exponent10 = -4;
  static constexpr int max_exponent = 16;
  static constexpr int max_exponent10 = 4;

  TESSERA_HD static constexpr tessera::half_t min() { return tessera::half_t::Binary(0x0400); }
  TESSERA_HD static constexpr tessera::half_t max() { return tessera::half_t::Binary(0x7bff); }
  TESSERA_HD static constexpr tessera::half_t lowest() { return tessera::half_t::Binary(0xfbff); }
  TESSERA_HD static constexpr tessera::half_t epsilon() { return tessera::half_t::Binary(0x1400); }
  TESSERA_HD static constexpr tessera::half_t round_error() {
    return tessera::half_t::Binary(0x3800);
  }
  TESSERA_HD static constexpr tessera::half_t infinity() { return tessera::half_t::Binary(0x7c00); }
  TESSERA_HD static constexpr tessera::half_t quiet_NaN() {
    return tessera::half_t::Binary(0x7e00);
  }
  TESSERA_HD static constexpr tessera::half_t signaling_NaN() {
    return tessera::half_t::Binary(0x7d00);
  }
  TESSERA_HD static constexpr tessera::half_t denorm_min() {
    return tessera::half_t::Binary(0x0001);
  }
};

template <>
class std::numeric_limits<tessera::bfloat16_t> {
 public:
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = true;
  static constexpr bool is_integer = false;
  static constexpr bool is_exact = false;
  static constexpr bool is_iec559 = false;
  static constexpr bool is_bounded = true;
  static constexpr bool is_modulo = false;
  static constexpr bool has_infinity = true;
  static constexpr bool has_quiet_NaN = true;
  static constexpr bool has_signaling_NaN = true;
  static constexpr float_round_style round_style = round_to_nearest;
  static constexpr int radix = 2;
  static constexpr int digits = 8;
  static constexpr int digits10 = 2;
  static constexpr int max_digits10 = 4;
  static constexpr int min_exponent = numeric_limits<float>::min_exponent;
  static constexpr int min_exponent10 = numeric_limits<float>::min_exponent10;
  static constexpr int max_exponent = numeric_limits<float>::max_exponent;
  static constexpr int max_exponent10 = numeric_limits<float>::max_exponent10;

  TESSERA_HD static constexpr tessera::bfloat16_t min() {
    return tessera::bfloat16_t::Binary(0x0080);
  }
  TESSERA_HD static constexpr tessera::bfloat16_t max() {
    return tessera::bfloat16_t::Binary(0x7f7f);
  }
  TESSERA_HD static constexpr tessera::bfloat16_t lowest() {
    return tessera::bfloat16_t::Binary(0xff7f);
  }
  TESSERA_HD static constexpr tessera::bfloat16_t epsilon() {
    return tessera::bfloat16_t::Binary(0x3c00);
  }
  TESSERA_HD static constexpr tessera::bfloat16_t round_error() {
    return tessera::bfloat16_t::Binary(0x3f00);
  }
  TESSERA_HD static constexpr tessera::bfloat16_t infinity() {
    return tessera::bfloat16_t::Binary(0x7f80);
  }
  TESSERA_HD static constexpr tessera::bfloat16_t quiet_NaN() {
    return tessera::bfloat16_t::Binary(0x7fc0);
  }
  TESSERA_HD static constexpr tessera::bfloat16_t signaling_NaN() {
    return tessera::bfloat16_t::Binary(0x7fa0);
  }
  TESSERA_HD static constexpr tessera::bfloat16_t denorm_min() {
    return tessera::bfloat16_t::Binary(0x0001);
  }
};

#endif  // TESSERA_BASE_FLOAT16_H_
