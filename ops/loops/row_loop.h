#ifndef TESSERA_OPS_LOOPS_ROW_LOOP_H_
#define TESSERA_OPS_LOOPS_ROW_LOOP_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tessera/base/host_device.h"
#include "tessera/base/shape.h"
#include "tessera/tensor/device/runs_avx2.h"

/// Loops over the elements of a row, of which the compiler makes vectors. Included by files that
/// the build compiles with -O3.
namespace tessera::ops_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// Marks the lambda that is the body of a loop.
#define TESSERA_LOOP_BODY __attribute__((always_inline))

template <typename Loop>
TESSERA_AVX2_LOOP auto RunLoopAvx2(Loop loop) {
  return loop();
}

/// Calls a lambda marked TESSERA_LOOP_BODY that holds its variables by value, compiled for AVX2
/// where the machine has it. There is no fused multiply-add, so both give the same bits.
template <typename Loop>
auto RunLoop(Loop loop) {
  using namespace tensor_internal;  // NOLINT: RunsAvx2
  return RunsAvx2() ? RunLoopAvx2(loop) : loop();
}

/// Calls body(i) for each i in [0, n). Iterations must be independent of each other.
template <typename Body>
void ForEach(index_t n, Body body) {
  RunLoop([=]() TESSERA_LOOP_BODY {
#pragma GCC ivdep
    for (index_t i = 0; i < n; ++i) body(i);
  });
}

/// Returns the sum of value(i), of type T, over [0, n), as a double or long double: block by block,
/// so that its error grows slowly.
template <typename T, typename Value>
auto SumOf(index_t n, Value value) {
  using Total = std::common_type_t<T, double>;
  return RunLoop([=]() TESSERA_LOOP_BODY {
    constexpr index_t kLanes = 16;
    constexpr index_t kBlock = 1024;
    Total total = 0;
    for (index_t first = 0; first < n; first += kBlock) {
      const index_t end = std::min(n, first + kBlock);
      T lanes[kLanes] = {};
      index_t i = first;
      for (; i + kLanes <= end; i += kLanes) {
        for (index_t k = 0; k < kLanes; ++k) lanes[k] += value(i + k);
      }
      for (index_t half = kLanes / 2; half > 0; half /= 2) {
        for (index_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
      }
      for (; i < end; ++i) lanes[0] += value(i);
      total += static_cast<Total>(lanes[0]);
    }
    return total;
  });
}

/// The type of which the squares of finite T neither overflow nor underflow.
template <typename T>
using SquaresOf = std::conditional_t<std::is_same_v<T, float>, double, long double>;

/// Smaller sums of squares may lack squares that underflowed.
template <typename T>
constexpr T kLeastSumOfSquares = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();

/// Returns the sum of the squares of value(i, one) over [0, n), where one is 1 of the type to
/// compute in. That is T, or SquaresOf<T> if the sum overflows T, or if the sum plus `summand`, to
/// which the caller adds it, is below kLeastSumOfSquares<T>.
template <typename T, typename Value>
SquaresOf<T> SumOfSquares(index_t n, double summand, Value value) {
  const auto sum_in = [=](auto one) {
    using In = decltype(one);
    return SumOf<In>(n, [=](index_t i) TESSERA_LOOP_BODY { return value(i, one) * value(i, one); });
  };
  const double sum = sum_in(T(1));
  if (std::isfinite(sum) && sum + summand >= double{kLeastSumOfSquares<T>}) return sum;
  return sum_in(SquaresOf<T>(1));
}

/// Returns the largest element, where NaN counts as none; -infinity if there is no element.
template <typename T>
T LargestOf(const T* x, index_t n) {
  return RunLoop([=]() TESSERA_LOOP_BODY {
    constexpr index_t kLanes = 16;
    T lanes[kLanes];
    for (index_t k = 0; k < kLanes; ++k) lanes[k] = -std::numeric_limits<T>::infinity();
    index_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (index_t k = 0; k < kLanes; ++k) lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
    }
    T largest = lanes[0];
    for (index_t k = 1; k < kLanes; ++k) largest = lanes[k] > largest ? lanes[k] : largest;
    for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
    return largest;
  });
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_ROW_LOOP_H_
