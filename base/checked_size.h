#ifndef TESSERA_BASE_CHECKED_SIZE_H_
#define TESSERA_BASE_CHECKED_SIZE_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "tessera/base/error.h"

namespace tessera {

/// A size that files or users have a say in: it never wraps. Once a result leaves [0, 2^63) the
/// value is invalid and stays so.
///
///     const CheckedSize bytes = CheckedSize(rows) * columns * sizeof(float);
///     buffer.resize(bytes.ValueOrThrow("LoadMatrix: size in bytes"));
class CheckedSize {
 public:
  constexpr CheckedSize(int64_t value) : value_(value), valid_(value >= 0) {}  // NOLINT

  /// Invalid where an operand is, or where the result is not below 2^63.
  constexpr CheckedSize operator*(CheckedSize other) const {
    int64_t product = 0;
    const bool overflow = __builtin_mul_overflow(value_, other.value_, &product);
    return CheckedSize(product, valid_ && other.valid_ && !overflow);
  }
  constexpr CheckedSize operator+(CheckedSize other) const {
    int64_t sum = 0;
    const bool overflow = __builtin_add_overflow(value_, other.value_, &sum);
    return CheckedSize(sum, valid_ && other.valid_ && !overflow);
  }

  /// Whether it and all that it was computed from fit.
  constexpr bool valid() const { return valid_; }

  /// The size, or nothing if it does not fit.
  constexpr std::optional<int64_t> value() const {
    return valid_ ? std::optional<int64_t>(value_) : std::nullopt;
  }

  /// Throws Error(kInvalidArgument) that begins with `what` if the size does not fit.
  int64_t ValueOrThrow(const char* what) const {
    if (!valid_) throw InvalidArgument(what, ": negative or not below 2^63");
    return value_;
  }

 private:
  constexpr CheckedSize(int64_t value, bool valid) : value_(value), valid_(valid && value >= 0) {}

  int64_t value_;
  bool valid_;
};

}  // namespace tessera

#endif  // TESSERA_BASE_CHECKED_SIZE_H_
