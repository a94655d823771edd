#ifndef TESSERA_OPS_LOOPS_ROW_LOOP_H_
#define TESSERA_OPS_LOOPS_ROW_LOOP_H_

#include <algorithm>
#include <limits>

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

/// Returns the sum of value(i), of type T, over [0, n): block by block, so that its error grows
/// slowly.
template <typename T, typename Value>
double SumOf(index_t n, Value value) {
  return RunLoop([=]() TESSERA_LOOP_BODY {
    constexpr index_t kLanes = 16;
    constexpr index_t kBlock = 1024;
    double total = 0;
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
      total += static_cast<double>(lanes[0]);
    }
    return total;
  });
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
