#ifndef MSHADOW_HALF2_H_
#define MSHADOW_HALF2_H_

// Pairs of halves, for loops of programs over half as many elements.

#include <type_traits>

#include "mshadow/half.h"
#include "tessera/base/host_device.h"

namespace mshadow::half {

/// A pair of halves, each computed as half_t is. A number that is combined with a pair or assigned
/// to it is used for both halves.
struct alignas(4) half2_t {
  half_t half_t2[2];  ///< the two halves, by mshadow's name

  half2_t() = default;
  TESSERA_HD half2_t(half_t first, half_t second) : half_t2{first, second} {}
  template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_same_v<T, half_t>) TESSERA_HD explicit half2_t(T both)
      : half2_t(half_t(both), half_t(both)) {}

  /// Assigns a number to both halves.
  template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_same_v<T, half_t>) TESSERA_HD half2_t& operator=(
      T both) {
    return *this = half2_t(both);
  }

  /// Return the pair, and the negated pair.
  TESSERA_HD half2_t operator+() const { return *this; }
  TESSERA_HD half2_t operator-() const { return half2_t(-half_t2[0], -half_t2[1]); }
  /// Returns whether both halves are equal.
  TESSERA_HD friend bool operator==(const half2_t& a, const half2_t& b) {
    return a.half_t2[0] == b.half_t2[0] && a.half_t2[1] == b.half_t2[1];
  }
};

/// Compute with two pairs or with a pair and a number, and assign to a pair.
#define MSHADOW_INTERNAL_HALF2_OPERATOR(OP)                                                     \
  TESSERA_HD half2_t operator OP(half2_t a, half2_t b) {                                        \
    return half2_t(a.half_t2[0] OP b.half_t2[0], a.half_t2[1] OP b.half_t2[1]);                 \
  }                                                                                             \
  template <typename T>                                                                         \
  requires std::is_constructible_v<half2_t, T> TESSERA_HD half2_t operator OP(half2_t a, T b) { \
    return a OP half2_t(b);                                                                     \
  }                                                                                             \
  template <typename T>                                                                         \
  requires std::is_constructible_v<half2_t, T> TESSERA_HD half2_t operator OP(T a, half2_t b) { \
    return half2_t(a) OP b;                                                                     \
  }                                                                                             \
  template <typename T>                                                                         \
  requires std::is_constructible_v<half2_t, T> TESSERA_HD half2_t& operator OP##=(half2_t& a,   \
                                                                                  const T& b) { \
    return a = a OP b;                                                                          \
  }
MSHADOW_INTERNAL_HALF2_OPERATOR(+)
MSHADOW_INTERNAL_HALF2_OPERATOR(-)
MSHADOW_INTERNAL_HALF2_OPERATOR(*)
MSHADOW_INTERNAL_HALF2_OPERATOR(/)
#undef MSHADOW_INTERNAL_HALF2_OPERATOR

}  // namespace mshadow::half

#endif  // MSHADOW_HALF2_H_
