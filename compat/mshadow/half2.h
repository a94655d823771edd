#ifndef MSHADOW_HALF2_H_
#define MSHADOW_HALF2_H_

// Pairs of halves, over which programs ran a loop of half as many elements.

#include <type_traits>

#include "mshadow/half.h"
#include "tessera/base/host_device.h"

namespace mshadow::half {

/// Two halves side by side, computed each for itself as half_t is. What may stand beside one in
/// arithmetic or be assigned to it is a number for both.
struct alignas(4) half2_t {
  half_t half_t2[2];  ///< the two, by mshadow's name

  half2_t() = default;
  TESSERA_HD half2_t(half_t first, half_t second) : half_t2{first, second} {}
  template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_same_v<T, half_t>) TESSERA_HD explicit half2_t(T both)
      : half2_t(half_t(both), half_t(both)) {}

  /// A number for both.
  template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_same_v<T, half_t>) TESSERA_HD half2_t& operator=(
      T both) {
    return *this = half2_t(both);
  }

  /// The pair, and what gives zero with it.
  TESSERA_HD half2_t operator+() const { return *this; }
  TESSERA_HD half2_t operator-() const { return half2_t(-half_t2[0], -half_t2[1]); }
  /// Equal in both.
  TESSERA_HD friend bool operator==(const half2_t& a, const half2_t& b) {
    return a.half_t2[0] == b.half_t2[0] && a.half_t2[1] == b.half_t2[1];
  }
};

/// Arithmetic of two pairs, of a pair and a number, and into a pair.
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
