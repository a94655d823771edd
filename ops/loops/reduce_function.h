#ifndef TESSERA_OPS_LOOPS_REDUCE_FUNCTION_H_
#define TESSERA_OPS_LOOPS_REDUCE_FUNCTION_H_

#include <cstdint>

#include "tessera/base/host_device.h"
#include "tessera/ops/loops/reduce.h"
#include "tessera/tensor/device/runs_avx2.h"
#if defined(TESSERA_XPU_GPU)
#include "tessera/ops/loops/reduce_gpu.h"
#else
#include "tessera/ops/loops/row_loop.h"
#endif

namespace tessera::ops_internal {

inline namespace TESSERA_ISA_NAMESPACE {

// What follows has internal linkage, for the reason that map_function.h gives.

#if !defined(TESSERA_XPU_GPU)

/// Reduces a row: in kReductionLanes independent results, of which the compiler makes vectors, and
/// then these, half and half.
template <typename R, typename T>
__attribute__((always_inline)) inline T Fold(const T* row, index_t n) {
  constexpr index_t kLanes = kReductionLanes, kFew = 16;
  if (n < kFew) {
    T total = R::Map(row[0]);
    for (index_t i = 1; i < n; ++i) total = R::Combine(total, R::Map(row[i]));
    return total;
  }
  T lanes[kLanes];
  index_t i = 0;
  if (n < kLanes) {
    for (index_t k = 0; k < kLanes; ++k) lanes[k] = R::template Identity<T>();
  } else {
    // Plain copies would be made in smaller pieces than the vectors that follow read.
    for (; i < kLanes; ++i) lanes[i] = R::Combine(R::template Identity<T>(), R::Map(row[i]));
  }
  for (; i + kLanes <= n; i += kLanes) {
    for (index_t k = 0; k < kLanes; ++k) lanes[k] = R::Combine(lanes[k], R::Map(row[i + k]));
  }
  for (index_t k = 0; k < n - i; ++k) lanes[k] = R::Combine(lanes[k], R::Map(row[i + k]));
  FoldLanes<kLanes>(lanes, [](T a, T b) TESSERA_LOOP_BODY { return R::Combine(a, b); });
  return lanes[0];
}

template <typename R, typename T>
__attribute__((always_inline)) inline void Accumulate(T* totals, const T* row, index_t n) {
#pragma GCC ivdep
  for (index_t i = 0; i < n; ++i) totals[i] = R::Combine(totals[i], R::Map(row[i]));
}

/// Fold and Accumulate for machines with AVX2, with the same bits.
template <typename R, typename T>
TESSERA_AVX2_LOOP static T FoldAvx2(const T* row, index_t n) {
  return Fold<R>(row, n);
}
template <typename R, typename T>
TESSERA_AVX2_LOOP static void AccumulateAvx2(T* totals, const T* row, index_t n) {
  Accumulate<R>(totals, row, n);
}

template <typename R, typename T>
static ReduceRows<T> MakeReduceRows() {
  return {.fold =
              [](const T* row, index_t n) {
                return tensor_internal::RunsAvx2() ? FoldAvx2<R>(row, n) : Fold<R>(row, n);
              },
          .accumulate =
              [](T* totals, const T* row, index_t n) {
                tensor_internal::RunsAvx2() ? AccumulateAvx2<R>(totals, row, n)
                                            : Accumulate<R>(totals, row, n);
              },
          .merge =
              [](T* totals, const T* parts, index_t n) {
                for (index_t i = 0; i < n; ++i) totals[i] = R::Combine(totals[i], parts[i]);
              },
          .identity = R::template Identity<T>()};
}

#endif  // !TESSERA_XPU_GPU

/// Returns reducer R, as reducers.h describes them, compiled for rows.
template <typename R>
static ReduceFunction MakeReduceFunction() {
  ReduceFunction function;
#if defined(TESSERA_XPU_GPU)
  function.launch = &LaunchReduce<R>;
#else
  function.of_float = MakeReduceRows<R, float>();
  function.of_double = MakeReduceRows<R, double>();
  function.of_int64 = MakeReduceRows<R, int64_t>();
#endif
  return function;
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_REDUCE_FUNCTION_H_
