#ifndef TESSERA_BASE_NUMBER_H_
#define TESSERA_BASE_NUMBER_H_

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tessera/base/dtype.h"
#include "tessera/base/host_device.h"

namespace tessera {

/// A number that a caller gives an operator beside its arrays. An integer from -2^63 to 2^64 - 1 is
/// kept exactly, whether it came as text, as an integer or as a floating-point value; every other
/// number is kept as a double.
class Number {
 public:
  constexpr Number() = default;
  constexpr Number(double value) : value_(value) {  // NOLINT: numbers are operands
    if (value >= -0x1p63 && value < 0x1p63) {
      integer_ = static_cast<int64_t>(value);
      kind_ = static_cast<double>(integer_) == value ? Kind::kInt64 : Kind::kReal;
    } else if (value >= 0x1p63 && value < 0x1p64) {
      *this = Number(static_cast<uint64_t>(value));
    } else {
      kind_ = Kind::kReal;
      constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
      constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
      integer_ = value < 0 ? kLow : value > 0 ? kHigh : 0;  // 0 for NaN
    }
  }
  template <std::integral T>
  constexpr Number(T value)  // NOLINT: numbers are operands
      : value_(static_cast<double>(value)), integer_(static_cast<int64_t>(value)) {
    if (value > T(0) && integer_ < 0) kind_ = Kind::kUint64;
  }

  friend constexpr bool operator==(const Number& a, const Number& b) = default;

  /// Returns the double that is nearest to the number.
  TESSERA_HD constexpr double value() const { return value_; }
  /// Returns whether the number is an integer that int64 holds, respectively that only uint64 does.
  TESSERA_HD constexpr bool IsInt64() const { return kind_ == Kind::kInt64; }
  TESSERA_HD constexpr bool IsUint64() const { return kind_ == Kind::kUint64; }

  /// Returns the number as an element of T: a floating-point type, int32_t or int64_t. Integers are
  /// cut off towards 0; numbers outside of T's range become its ends, and NaN becomes 0.
  template <typename T>
  TESSERA_HD constexpr T As() const {
    if constexpr (std::is_integral_v<T>) {
      constexpr int64_t kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
      if (IsUint64() || integer_ > kHigh) return static_cast<T>(kHigh);
      return static_cast<T>(integer_ < kLow ? kLow : integer_);
    } else {
      return static_cast<T>(value_);
    }
  }
  /// Returns an int64 whose last bits are those of the number as an element of an integer type, as
  /// a conversion of arrays makes it: cut off towards 0 and wrapped around. Numbers outside of
  /// int64 become its ends, except where `dtype` is uint64 and holds them.
  TESSERA_HD constexpr int64_t BitsIn(DType dtype) const {
    return IsUint64() && dtype == DType::kUint64 ? integer_ : As<int64_t>();
  }
  /// Returns the number as an element of any type T, converted as BitsIn converts to integers.
  template <typename T>
  T Element() const {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return static_cast<T>(BitsIn(kDTypeOf<T>));
    } else {
      return static_cast<T>(value_);
    }
  }
  /// Returns whether `dtype` is no integer type or holds the number without its fraction.
  bool FitsIn(DType dtype) const {
    if (IsReal(dtype) || dtype == DType::kBool) return true;
    const Number integer = kind_ == Kind::kReal ? Number(std::trunc(value_)) : *this;
    return integer == SaturatedTo(dtype);
  }
  /// Returns the number cut off towards 0 if `dtype` is an integer type, or its nearest end if
  /// the type does not hold that. A floating-point type keeps the number as it is.
  Number SaturatedTo(DType dtype) const {
    if (IsReal(dtype)) return *this;
    return VisitDType(dtype, [this](auto tag) -> Number {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_same_v<T, uint64_t>) {
        if (IsUint64()) return *this;
        if (value_ >= 0x1p64) return std::numeric_limits<uint64_t>::max();
        return std::max<int64_t>(integer_, 0);
      } else if constexpr (std::is_integral_v<T>) {
        return std::clamp<int64_t>(As<int64_t>(), std::numeric_limits<T>::min(),
                                   std::numeric_limits<T>::max());
      }
      return *this;
    });
  }

 private:
  enum class Kind : uint8_t { kInt64, kUint64, kReal };

  double value_ = 0;
  int64_t integer_ = 0;  // the number without its fraction; of kUint64, the same bits
  Kind kind_ = Kind::kInt64;
};

}  // namespace tessera

#endif  // TESSERA_BASE_NUMBER_H_
