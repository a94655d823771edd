#ifndef TESSERA_OPS_LOOPS_MAP_FUNCTION_H_
#define TESSERA_OPS_LOOPS_MAP_FUNCTION_H_

#include <cstdint>
#include <utility>

#include "tessera/base/host_device.h"
#include "tessera/ops/loops/map.h"
#include "tessera/tensor/device/runs_avx2.h"
#include "tessera/tensor/expr/cost.h"
#if defined(TESSERA_XPU_GPU)
#include "tessera/ops/loops/map_gpu.h"
#endif

namespace tessera::ops_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// The types in which a functor's rows are compiled.
enum class MapTypes {
  kReal,        ///< float and double, one of which integers are converted to
  kArithmetic,  ///< int32 and int64 too
};

#if !defined(TESSERA_XPU_GPU)

/// Calls Op::Map for each element of a row, in a loop of which the compiler makes vectors.
template <typename Op, typename T, size_t... kIn>
__attribute__((always_inline)) inline void MapLoop(const T* const* in, T* out, index_t n,
                                                   std::index_sequence<kIn...>) {
  const T* const rows[] = {in[kIn]...};
#pragma GCC ivdep
  for (index_t i = 0; i < n; ++i) out[i] = static_cast<T>(Op::Map(rows[kIn][i]...));
}

/// MapLoop for machines with AVX2. Its arithmetic has no fused multiply-add, so the bits are the
/// same.
template <typename Op, int kOperands, typename T>
TESSERA_AVX2_LOOP void MapAvx2(const T* const* in, T* out, index_t n) {
  MapLoop<Op>(in, out, n, std::make_index_sequence<kOperands>());
}

/// Satisfied if a functor of one operand has a kernel over arrays, in the instruction set of the
/// machine.
template <typename Op, typename T>
concept HasArrayKernelOfOne = requires(const T* in, T* out, index_t n) {
  Op::ArrayKernel(in, out, n);
};

/// A RowFunction that applies Op, a functor of kOperands elements.
template <typename Op, int kOperands, typename T>
void MapRow(const T* const* in, T* out, index_t n) {
  if constexpr (kOperands == 1 && HasArrayKernelOfOne<Op, T>) {
    Op::ArrayKernel(in[0], out, n);
  } else if (tensor_internal::RunsAvx2()) {
    MapAvx2<Op, kOperands>(in, out, n);
  } else {
    MapLoop<Op>(in, out, n, std::make_index_sequence<kOperands>());
  }
}

#endif  // !TESSERA_XPU_GPU

/// Returns Op, a functor of kOperands elements, compiled for one row.
template <typename Op, int kOperands, MapTypes kTypes = MapTypes::kReal>
MapFunction MakeMapFunction() {
  static_assert(kOperands <= kMaxMapOperands);
  MapFunction function;
  function.num_operands = kOperands;
  function.cost = expr::FunctorCost<Op, float>();
#if defined(TESSERA_XPU_GPU)
  function.launch = &LaunchMap<Op, kOperands, kTypes == MapTypes::kArithmetic>;
  // They say which types are computed; the host's compilation has the rows.
  if (kTypes == MapTypes::kArithmetic) {
    function.of_int32 = [](const int32_t* const*, int32_t*, index_t) {};
    function.of_int64 = [](const int64_t* const*, int64_t*, index_t) {};
  }
#else
  function.of_float = &MapRow<Op, kOperands, float>;
  function.of_double = &MapRow<Op, kOperands, double>;
  if constexpr (kTypes == MapTypes::kArithmetic) {
    function.of_int32 = &MapRow<Op, kOperands, int32_t>;
    function.of_int64 = &MapRow<Op, kOperands, int64_t>;
  }
#endif
  return function;
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_MAP_FUNCTION_H_
