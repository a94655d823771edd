#ifndef TESSERA_BASE_FLOAT16_H_
#define TESSERA_BASE_FLOAT16_H_

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tessera/base/host_device.h"

namespace tessera {

namespace base_internal {

/// The object of type To that has the bits of `from`. (nvcc takes std::bit_cast for a host function
/// unless it gets the flag --expt-relaxed-constexpr.)
template <typename To, typename From>
TESSERA_HD constexpr To BitCast(From from) {
  return __builtin_bit_cast(To, from);
}

/// a if `condition` holds, otherwise b, computed without a branch. Compilers turn
/// `condition ? a : b` into a branch around what only a or only b needs, and a loop with a
/// floating-point sum in a branch cannot be vectorized.
TESSERA_HD uint32_t Choose(bool condition, uint32_t a, uint32_t b) {
  return b ^ ((a ^ b) & (0u - uint32_t{condition}));
}

/// IEEE binary16: a sign bit, 5 exponent bits and 10 fraction bits.
///
/// Encode rounds to nearest, ties to even, and overflows to infinity; a NaN becomes the quiet NaN
/// of its sign on the host and 0x7fff on a device. Decode is exact. Host code gives the same bits
/// whatever the instruction set: F16C, which keeps parts of a NaN, is not used here. The two
/// functions named InLoop have no branch, so that compilers vectorize loops over them; for one
/// number the other two are faster.
struct Binary16Format {
  static constexpr int kExponentBits = 5;
  static constexpr int kFractionBits = 10;
  static constexpr bool kIsIec559 = true;

  TESSERA_HD static uint16_t Encode(float value) {
#if TESSERA_DEVICE_CODE
    uint16_t encoding;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(encoding) : "f"(value));
    return encoding;
#else
    // The algorithm is F. Giesen's float_to_half_fast3_rtne.
    const uint32_t bits = BitCast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    constexpr uint32_t kTooLarge = uint32_t{127 + 16} << 23;     // 2^16
    constexpr uint32_t kLeastNormal = uint32_t{127 - 14} << 23;  // 2^-14
    uint32_t encoding;
    if (magnitude >= kTooLarge) {
      encoding = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    } else if (magnitude < kLeastNormal) {
      // The sum rounds to a multiple of 2^-24, the unit of subnormal numbers.
      encoding = BitCast<uint32_t>(BitCast<float>(magnitude) + 0.5f) - BitCast<uint32_t>(0.5f);
    } else {
      const uint32_t is_odd = magnitude >> 13 & 1u;
      const uint32_t rebiased = magnitude - (uint32_t{127 - 15} << 23);
      encoding = (rebiased + 0x0fffu + is_odd) >> 13;
    }
    return static_cast<uint16_t>(encoding | (bits >> 16 & 0x8000u));
#endif
  }

  TESSERA_HD static float Decode(uint16_t encoding) {
#if TESSERA_DEVICE_CODE
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(encoding));
    return value;
#else
    // The algorithm is F. Giesen's half_to_float.
    constexpr uint32_t kExponentMask = uint32_t{0x1f} << 23;
    const uint32_t shifted = (encoding & 0x7fffu) << 13;
    const uint32_t exponent = shifted & kExponentMask;
    uint32_t magnitude = shifted + (uint32_t{127 - 15} << 23);
    if (exponent == kExponentMask) {  // infinity or NaN
      magnitude += uint32_t{128 - 16} << 23;
    } else if (exponent == 0) {
      // A subnormal m 2^-24 is (2^-14 + m 2^-24) - 2^-14.
      magnitude += uint32_t{1} << 23;
      magnitude = BitCast<uint32_t>(BitCast<float>(magnitude) - 0x1p-14f);
    }
    return BitCast<float>(magnitude | (encoding & 0x8000u) << 16);
#endif
  }

  /// Encodes to the same bits as Encode does on the host.
  ///
  /// A power of two is added whose last place is that of the result, so that the sum rounds;
  /// numbers too large are replaced by 2^16 first. After M. Dukhan's FP16 library.
  TESSERA_HD static uint16_t EncodeInLoop(float value) {
    const uint32_t bits = BitCast<uint32_t>(value);
    const uint32_t magnitude = bits << 1;
    constexpr uint32_t kTooLarge = uint32_t{0x8f} << 24;  // 2^16
    const uint32_t held = magnitude < kTooLarge ? magnitude : kTooLarge;
    const float scaled = BitCast<float>(held >> 1) * 4.0f;
    constexpr uint32_t kLeast = uint32_t{0x71} << 24;  // the exponent of the least normal number
    const uint32_t exponent = held & 0xff000000u;
    const uint32_t rounding = (exponent < kLeast ? kLeast : exponent) / 2 + (uint32_t{15} << 23);
    const uint32_t rounded = BitCast<uint32_t>(BitCast<float>(rounding) + scaled);
    const uint32_t encoding = (rounded >> 13 & 0x7c00u) + (rounded & 0x0fffu);
    return static_cast<uint16_t>(Choose(magnitude > 0xff000000u, 0x7e00u, encoding) |
                                 (bits >> 16 & 0x8000u));
  }

  /// Decodes to the same bits as Decode, except that a signaling NaN becomes quiet.
  ///
  /// Normal numbers, infinities and NaN get an exponent so large that one product scales all of
  /// them to their values; a subnormal m 2^-24 is (1/2 + m 2^-24) - 1/2. After M. Dukhan's FP16
  /// library.
  TESSERA_HD static float DecodeInLoop(uint16_t encoding) {
    const uint32_t magnitude = uint32_t{encoding} << 17;
    const float normal = BitCast<float>((magnitude >> 4) + (uint32_t{0xe0} << 23)) * 0x1p-112f;
    const float small = BitCast<float>((magnitude >> 17) | BitCast<uint32_t>(0.5f)) - 0.5f;
    constexpr uint32_t kLeastNormal = uint32_t{1} << 27;
    const uint32_t bits =
        Choose(magnitude < kLeastNormal, BitCast<uint32_t>(small), BitCast<uint32_t>(normal));
    return BitCast<float>(bits | (encoding & 0x8000u) << 16);
  }
};

/// bfloat16: a sign bit, 8 exponent bits and 7 fraction bits, the upper half of a float.
///
/// Encode rounds to nearest, ties to even, and overflows to infinity; a NaN becomes the quiet NaN
/// of its sign. Decode is exact. Neither has a branch.
struct Bfloat16Format {
  static constexpr int kExponentBits = 8;
  static constexpr int kFractionBits = 7;
  static constexpr bool kIsIec559 = false;

  TESSERA_HD static uint16_t Encode(float value) {
    const uint32_t bits = BitCast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const uint32_t quiet = 0x7fc0u | (bits >> 16 & 0x8000u);
    return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }

  TESSERA_HD static float Decode(uint16_t encoding) {
    return BitCast<float>(uint32_t{encoding} << 16);
  }
};

}  // namespace base_internal

template <typename Format>
class Float16;

/// IEEE binary16: 11 bits of precision, largest number 65504.
using half_t = Float16<base_internal::Binary16Format>;
/// bfloat16: the upper half of a float; 8 bits of precision, the range of float.
using bfloat16_t = Float16<base_internal::Bfloat16Format>;

/// A 16-bit floating-point number that behaves as mshadow's does: it converts to float by itself,
/// any number converts to it by itself (`half_t h = 0.5f`), and it stays 16 bits wide in arithmetic
/// with any other number (`2.0f * h` is a half_t). Each operation converts to float, computes there
/// and rounds to the nearest, ties to even; a double is rounded to float first. Comparisons are
/// those of float. Since either type converts to the other, `condition ? h : 0.5f` does not
/// compile: write `half_t(0.5f)` or `float(h)`. Enumerators and other 16-bit formats convert
/// explicitly.
///
/// Float16 works on host and device. Format states the widths, and encodes and decodes. The
/// functions for volatile objects are for reducers in mshadow's style, `Reduce(volatile T& dst,
/// volatile T src)`. Default initialization leaves the value undetermined, as that of a float does.
template <typename Format>
class Float16 {
 public:
  Float16() = default;
  /// Rounds a number; enumerators and other 16-bit types convert explicitly.
  template <typename T>
  requires(std::is_arithmetic_v<T> ||
           (std::is_enum_v<T> && std::is_convertible_v<T, int>)) TESSERA_HD
      explicit(!std::is_arithmetic_v<T>) Float16(T value)
      : half_(Format::Encode(static_cast<float>(value))) {}
  template <typename Other>
  TESSERA_HD explicit Float16(Float16<Other> value)
      : half_(Format::Encode(static_cast<float>(value))) {}

  /// The number whose encoding is `bits`.
  TESSERA_HD static constexpr Float16 Binary(uint16_t bits) { return Float16(Encoding{bits}); }
  /// The number's encoding.
  TESSERA_HD constexpr uint16_t bits() const { return half_; }

  /// Converts to the float that is exactly this number.
  TESSERA_HD operator float() const { return Format::Decode(half_); }           // NOLINT: exact
  TESSERA_HD operator float() const volatile { return Format::Decode(half_); }  // NOLINT: exact

  /// The value, or the result of the operation in float, rounded to 16 bits.
  TESSERA_HD Float16& operator=(float value) {
    half_ = Format::Encode(value);
    return *this;
  }
  /// A number that converts to this type, such as a tensor's sum. This overload is chosen where the
  /// number converts to float as well.
  template <typename Number>
  requires requires(const Number& number) { number.operator Float16(); }
  TESSERA_HD Float16& operator=(const Number& number) { return *this = number.operator Float16(); }
  TESSERA_HD Float16& operator+=(float b) { return *this = float(*this) + b; }
  TESSERA_HD Float16& operator-=(float b) { return *this = float(*this) - b; }
  TESSERA_HD Float16& operator*=(float b) { return *this = float(*this) * b; }
  TESSERA_HD Float16& operator/=(float b) { return *this = float(*this) / b; }

  /// Assignments to a volatile object, which return nothing.
  TESSERA_HD void operator=(float value) volatile { half_ = Format::Encode(value); }
  TESSERA_HD void operator+=(float b) volatile {
    half_ = Format::Encode(Format::Decode(half_) + b);
  }
  TESSERA_HD void operator-=(float b) volatile {
    half_ = Format::Encode(Format::Decode(half_) - b);
  }
  TESSERA_HD void operator*=(float b) volatile {
    half_ = Format::Encode(Format::Decode(half_) * b);
  }
  TESSERA_HD void operator/=(float b) volatile {
    half_ = Format::Encode(Format::Decode(half_) / b);
  }

  /// The number with the other sign; 0 and NaN change theirs too.
  TESSERA_HD Float16 operator-() const { return Binary(half_ ^ 0x8000); }
  /// The number itself.
  TESSERA_HD Float16 operator+() const { return *this; }

  uint16_t half_;  ///< the encoding, by mshadow's name; see bits()

 private:
  struct Encoding {
    uint16_t bits;
  };
  TESSERA_HD explicit constexpr Float16(Encoding encoding) : half_(encoding.bits) {}
};

namespace base_internal {

/// static_cast<To>(value), in a form that compilers vectorize in a loop; for one half_t it is
/// slower than the cast. The bits are the same, except that signaling NaNs become quiet.
template <typename To, typename From>
TESSERA_HD To ConvertInLoop(const From& value) {
#if !TESSERA_DEVICE_CODE
  if constexpr (std::is_same_v<To, half_t> && std::is_arithmetic_v<From>) {
    return half_t::Binary(Binary16Format::EncodeInLoop(static_cast<float>(value)));
  } else if constexpr (std::is_same_v<From, half_t> && std::is_arithmetic_v<To>) {
    return static_cast<To>(Binary16Format::DecodeInLoop(value.bits()));
  }
#endif
  return static_cast<To>(value);
}

/// T may be the other operand of a Float16 in arithmetic, and the result stays 16 bits wide.
template <typename T>
concept BesideFloat16 = std::is_arithmetic_v<T>;

}  // namespace base_internal

/// Arithmetic of two Float16, or of a Float16 and another number, with a result of 16 bits.
#define TESSERA_FLOAT16_OPERATOR(OP)                                             \
  template <typename Format>                                                     \
  TESSERA_HD Float16<Format> operator OP(Float16<Format> a, Float16<Format> b) { \
    return Float16<Format>(float(a) OP float(b));                                \
  }                                                                              \
  template <typename Format, base_internal::BesideFloat16 T>                     \
  TESSERA_HD Float16<Format> operator OP(Float16<Format> a, T b) {               \
    return Float16<Format>(float(a) OP static_cast<float>(b));                   \
  }                                                                              \
  template <typename Format, base_internal::BesideFloat16 T>                     \
  TESSERA_HD Float16<Format> operator OP(T a, Float16<Format> b) {               \
    return Float16<Format>(static_cast<float>(a) OP float(b));                   \
  }
TESSERA_FLOAT16_OPERATOR(+)
TESSERA_FLOAT16_OPERATOR(-)
TESSERA_FLOAT16_OPERATOR(*)
TESSERA_FLOAT16_OPERATOR(/)
#undef TESSERA_FLOAT16_OPERATOR

}  // namespace tessera

template <typename Format>
class std::numeric_limits<tessera::Float16<Format>> {
  using Number = tessera::Float16<Format>;

  static constexpr int kFractionBits = Format::kFractionBits;
  static constexpr int kBias = (1 << (Format::kExponentBits - 1)) - 1;
  static constexpr int kInfinity = (2 * kBias + 1) << kFractionBits;

  /// n log10(2), without its fraction.
  static constexpr int DecimalDigits(int n) { return n * 30103 / 100000; }
  /// The power of two with this exponent.
  TESSERA_HD static constexpr Number Power(int exponent) {
    return Number::Binary(static_cast<uint16_t>((exponent + kBias) << kFractionBits));
  }
  TESSERA_HD static constexpr Number Encoded(int bits) {
    return Number::Binary(static_cast<uint16_t>(bits));
  }

 public:
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = true;
  static constexpr bool is_integer = false;
  static constexpr bool is_exact = false;
  static constexpr bool is_iec559 = Format::kIsIec559;
  static constexpr bool is_bounded = true;
  static constexpr bool is_modulo = false;
  static constexpr bool has_infinity = true;
  static constexpr bool has_quiet_NaN = true;
  static constexpr bool has_signaling_NaN = true;
  static constexpr float_round_style round_style = round_to_nearest;
  static constexpr int radix = 2;
  static constexpr int digits = kFractionBits + 1;
  static constexpr int digits10 = DecimalDigits(kFractionBits);
  static constexpr int max_digits10 = DecimalDigits(digits) + 2;
  static constexpr int min_exponent = 2 - kBias;
  static constexpr int min_exponent10 = DecimalDigits(min_exponent - 1);
  static constexpr int max_exponent = kBias + 1;
  static constexpr int max_exponent10 = DecimalDigits(max_exponent);

  TESSERA_HD static constexpr Number min() { return Power(min_exponent - 1); }
  TESSERA_HD static constexpr Number max() { return Encoded(kInfinity - 1); }
  TESSERA_HD static constexpr Number lowest() { return Encoded(0x8000 | (kInfinity - 1)); }
  TESSERA_HD static constexpr Number epsilon() { return Power(-kFractionBits); }
  TESSERA_HD static constexpr Number round_error() { return Power(-1); }
  TESSERA_HD static constexpr Number infinity() { return Encoded(kInfinity); }
  TESSERA_HD static constexpr Number quiet_NaN() {
    return Encoded(kInfinity | 1 << (kFractionBits - 1));
  }
  TESSERA_HD static constexpr Number signaling_NaN() {
    return Encoded(kInfinity | 1 << (kFractionBits - 2));
  }
  TESSERA_HD static constexpr Number denorm_min() { return Encoded(1); }
};

#endif  // TESSERA_BASE_FLOAT16_H_
