#ifndef TESSERA_OPS_LOOPS_ROW_LOOP_H_
#define TESSERA_OPS_LOOPS_ROW_LOOP_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "tessera/base/host_device.h"
#include "tessera/base/shape.h"
#include "tessera/ops/loops/row_segments.h"
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

/// Calls function(i) of the elements that follow element `base`.
template <typename Function>
struct FromElement {
  Function function;
  index_t base;

  TESSERA_LOOP_BODY auto operator()(index_t i) const { return function(base + i); }
};

/// Calls body(i) for the number i of each element of a row. Iterations must be independent of each
/// other.
template <typename Body>
void ForEach(const RowSegments& row, Body body) {
  for (index_t s = 0; s < row.count; ++s) {
    ForEach(row.run, FromElement<Body>{body, s * row.stride});
  }
}

/// The number of partial results of a reduction over a row. A loop over so many elements is too
/// long to be unrolled before the compiler makes vectors of it. (GCC 12 unrolls 16, and then
/// gathers the elements of each vector from several iterations of the loop around it.)
inline constexpr index_t kReductionLanes = 32;

/// Combines lanes[0], lanes[1], … to lanes[0], half and half.
template <index_t kLanes, typename T, typename Combine>
TESSERA_LOOP_BODY inline void FoldLanes(T* lanes, Combine combine) {
  if constexpr (kLanes > 1) {
    constexpr index_t kHalf = kLanes / 2;
    for (index_t k = 0; k < kHalf; ++k) lanes[k] = combine(lanes[k], lanes[k + kHalf]);
    FoldLanes<kHalf>(lanes, combine);
  }
}

/// Returns the sums of several value(i), of type T, over [0, n), as doubles or long doubles, from
/// one pass over the row: block by block, so that their errors grow slowly.
template <typename T, typename... Value>
auto SumsOf(index_t n, Value... value) {
  using Total = std::common_type_t<T, double>;
  return RunLoop([=]() TESSERA_LOOP_BODY {
    constexpr index_t kLanes = kReductionLanes;
    constexpr index_t kBlock = 64 * kLanes;
    const auto add = [](T a, T b) TESSERA_LOOP_BODY { return a + b; };
    std::array<Total, sizeof...(Value)> totals{};
    for (index_t first = 0; first < n; first += kBlock) {
      const index_t end = std::min(n, first + kBlock);
      // -0 changes no sum. Zeros would be written by `rep stos`, which starts slowly.
      T lanes[sizeof...(Value)][kLanes];
      for (auto& of_value : lanes) {
        for (index_t k = 0; k < kLanes; ++k) of_value[k] = -T(0);
      }
      index_t i = first;
      for (; i + kLanes <= end; i += kLanes) {
        for (index_t k = 0; k < kLanes; ++k) {
          size_t j = 0;
          ((lanes[j++][k] += value(i + k)), ...);
        }
      }
      for (index_t k = 0; k < end - i; ++k) {
        size_t j = 0;
        ((lanes[j++][k] += value(i + k)), ...);
      }
      for (size_t j = 0; j < sizeof...(Value); ++j) {
        FoldLanes<kLanes>(lanes[j], add);
        totals[j] += static_cast<Total>(lanes[j][0]);
      }
    }
    return totals;
  });
}

/// Returns the sums of value(i) for the number i of each element of a row, made of the sums over
/// its segments.
template <typename T, typename... Value>
auto SumsOf(const RowSegments& row, Value... value) {
  std::array<std::common_type_t<T, double>, sizeof...(Value)> totals{};
  for (index_t s = 0; s < row.count; ++s) {
    const auto sums = SumsOf<T>(row.run, FromElement<Value>{value, s * row.stride}...);
    for (size_t j = 0; j < sums.size(); ++j) totals[j] += sums[j];
  }
  return totals;
}

/// Returns the sum of value(i); see SumsOf. A row is its length or its segments.
template <typename T, typename Row, typename Value>
auto SumOf(const Row& row, Value value) {
  return SumsOf<T>(row, value)[0];
}

/// The type of which the squares of finite T neither overflow nor underflow.
template <typename T>
using SquaresOf = std::conditional_t<std::is_same_v<T, float>, double, long double>;

/// Smaller sums of squares may lack squares that underflowed.
template <typename T>
constexpr T kLeastSumOfSquares = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();

/// Returns the sum of the squares of value(i, one) over a row, where one is 1 of the type to
/// compute in. That is T, or SquaresOf<T> if the sum overflows T, or if the sum plus `summand`, to
/// which the caller adds it, is below kLeastSumOfSquares<T>.
template <typename T, typename Row, typename Value>
SquaresOf<T> SumOfSquares(const Row& row, double summand, Value value) {
  const auto sum_in = [=](auto one) {
    using In = decltype(one);
    return SumOf<In>(row,
                     [=](index_t i) TESSERA_LOOP_BODY { return value(i, one) * value(i, one); });
  };
  const double sum = sum_in(T(1));
  if (std::isfinite(sum) && sum + summand >= double{kLeastSumOfSquares<T>}) return sum;
  return sum_in(SquaresOf<T>(1));
}

/// Returns the largest element, where NaN counts as none; -infinity if there is no element.
template <typename T>
T LargestOf(const T* x, index_t n) {
  return RunLoop([=]() TESSERA_LOOP_BODY {
    constexpr index_t kLanes = kReductionLanes;
    const auto larger = [](T a, T b) TESSERA_LOOP_BODY { return b > a ? b : a; };
    T lanes[kLanes];
    for (index_t k = 0; k < kLanes; ++k) lanes[k] = -std::numeric_limits<T>::infinity();
    index_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (index_t k = 0; k < kLanes; ++k) lanes[k] = larger(lanes[k], x[i + k]);
    }
    for (index_t k = 0; k < n - i; ++k) lanes[k] = larger(lanes[k], x[i + k]);
    FoldLanes<kLanes>(lanes, larger);
    return lanes[0];
  });
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_ROW_LOOP_H_
