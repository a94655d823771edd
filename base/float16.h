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

namespace base_internal {

// Encodings of numbers in 16 bits without a branch, so that compilers put loops over them into
// vectors.

/// a or b, by arithmetic: of `condition ? a : b` compilers make a branch around what a or b alone
/// needs, and a sum of floats in a branch cannot become a vector's.
TESSERA_HD uint32_t Choose(bool condition, uint32_t a, uint32_t b) {
  return b ^ ((a ^ b) & (0u - uint32_t{condition}));
}

/// The float that a binary16 encodes. Normal numbers, infinities and NaN get an exponent so large
/// that a product scales all of them down to their own; below the normal numbers m 2^-24 is
/// (1/2 + m 2^-24) - 1/2. After M. Dukhan's FP16 library.
TESSERA_HD float DecodeHalf(uint16_t half) {
  using Eigen::numext::bit_cast;
  const uint32_t magnitude = uint32_t{half} << 17;  // without the sign
  const float normal = bit_cast<float>((magnitude >> 4) + (uint32_t{0xe0} << 23)) * 0x1p-112f;
  const float small = bit_cast<float>((magnitude >> 17) | bit_cast<uint32_t>(0.5f)) - 0.5f;
  constexpr uint32_t kLeastNormal = uint32_t{1} << 27;
  const uint32_t bits =
      Choose(magnitude < kLeastNormal, bit_cast<uint32_t>(small), bit_cast<uint32_t>(normal));
  return bit_cast<float>(bits | (half & 0x8000u) << 16);
}
/// The binary16 next to a float, ties to even; of a NaN the quiet one of its sign. A power of two
/// is added below whose last place the number is cut off, which rounds it; numbers too large became
/// infinite before. After the same library.
TESSERA_HD uint16_t EncodeHalf(float value) {
  using Eigen::numext::bit_cast;
  const uint32_t bits = bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits << 1;
  constexpr uint32_t kTooLarge = uint32_t{0x8f} << 24;  // 2^16
  const uint32_t held = magnitude < kTooLarge ? magnitude : kTooLarge;
  const float scaled = bit_cast<float>(held >> 1) * 4.0f;
  constexpr uint32_t kLeast = uint32_t{0x71} << 24;  // the exponent of the least normal number
  const uint32_t exponent = held & 0xff000000u;
  const uint32_t rounding = (exponent < kLeast ? kLeast : exponent) / 2 + (uint32_t{15} << 23);
  const uint32_t rounded = bit_cast<uint32_t>(bit_cast<float>(rounding) + scaled);
  const uint32_t encoded = (rounded >> 13 & 0x7c00u) + (rounded & 0x0fffu);
  return static_cast<uint16_t>(Choose(magnitude > 0xff000000u, 0x7e00u, encoded) |
                               (bits >> 16 & 0x8000u));
}

/// The same of bfloat16.
TESSERA_HD float DecodeBfloat(uint16_t half) {
  return Eigen::numext::bit_cast<float>(uint32_t{half} << 16);
}
TESSERA_HD uint16_t EncodeBfloat(float value) {
  const uint32_t bits = Eigen::numext::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const uint32_t quiet = 0x7fc0u | (bits >> 16 & 0x8000u);
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

}  // namespace base_internal

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

  // A binary16 alone is found sooner by Eigen's branches; a bfloat16 has no more work than this.
  static constexpr bool kIsBfloat = std::is_same_v<Format, Eigen::bfloat16> && !TESSERA_DEVICE_CODE;

  TESSERA_HD static uint16_t Encode(float value) {
    if constexpr (kIsBfloat) return base_internal::EncodeBfloat(value);
    return Eigen::numext::bit_cast<uint16_t>(Format(value));
  }
  TESSERA_HD static float Decode(uint16_t bits) {
    if constexpr (kIsBfloat) return base_internal::DecodeBfloat(bits);
    return static_cast<float>(Eigen::numext::bit_cast<Format>(bits));
  }
};

/// static_cast<To>(value), in a form of which compilers make vectors in a loop: of half_t it takes
/// longer alone. The bits are the same, but for signaling NaNs, which become quiet.
template <typename To, typename From>
TESSERA_HD To ConvertInLoop(const From& value) {
#if !TESSERA_DEVICE_CODE
  if constexpr (std::is_same_v<To, half_t> && std::is_arithmetic_v<From>) {
    return half_t::Binary(base_internal::EncodeHalf(static_cast<float>(value)));
  } else if constexpr (std::is_same_v<From, half_t> && std::is_arithmetic_v<To>) {
    return static_cast<To>(base_internal::DecodeHalf(value.bits()));
  }
#endif
  return static_cast<To>(value);
}

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
