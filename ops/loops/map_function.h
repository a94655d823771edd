#ifndef TESSERA_OPS_LOOPS_MAP_FUNCTION_H_
#define TESSERA_OPS_LOOPS_MAP_FUNCTION_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tessera/base/host_device.h"
#include "tessera/ops/loops/map.h"
#include "tessera/tensor/device/runs_avx2.h"
#include "tessera/tensor/expr/cost.h"
#include "tessera/tensor/functors.h"
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

// What follows has internal linkage. The linker would keep one of several sources' copies of a row,
// and those of a source that is compiled without -O3 are no loops over vectors.

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
TESSERA_AVX2_LOOP static void MapAvx2(const T* const* in, T* out, index_t n) {
  MapLoop<Op>(in, out, n, std::make_index_sequence<kOperands>());
}

/// MapLoop in the instruction set of the machine.
template <typename Op, int kOperands, typename T>
static void MapInLoop(const T* const* in, T* out, index_t n) {
  if (tensor_internal::RunsAvx2()) {
    MapAvx2<Op, kOperands>(in, out, n);
  } else {
    MapLoop<Op>(in, out, n, std::make_index_sequence<kOperands>());
  }
}

/// Satisfied if a functor of one operand has a kernel over arrays, in the instruction set of the
/// machine.
template <typename Op, typename T>
concept HasArrayKernelOfOne = requires(const T* in, T* out, index_t n) {
  Op::ArrayKernel(in, out, n);
};

/// Satisfied if each of the functors has such a kernel.
template <typename T, typename... Op>
concept HasArrayKernelsOf = (HasArrayKernelOfOne<Op, T> && ...);

/// Satisfied if a functor computes rows of T itself, as a RowFunction.
template <typename Op, typename T>
concept HasRow = requires(const T* const* in, T* out, index_t n) {
  Op::Row(in, out, n);
};

/// A RowFunction that applies Op, a functor of kOperands elements.
template <typename Op, int kOperands, typename T>
static void MapRow(const T* const* in, T* out, index_t n) {
  if constexpr (HasRow<Op, T>) {
    Op::Row(in, out, n);
  } else if constexpr (kOperands == 1 && HasArrayKernelOfOne<Op, T>) {
    Op::ArrayKernel(in[0], out, n);
  } else {
    MapInLoop<Op, kOperands>(in, out, n);
  }
}

/// The functor whose Map is Op::Argument, or Op::Result.
template <typename Op>
struct ArgumentOf {
  template <typename... T>
  static auto Map(T... a) {
    return Op::Argument(a...);
  }
};
template <typename Op>
struct ResultOf {
  template <typename... T>
  static auto Map(T... a) {
    return Op::Result(a...);
  }
};

#endif  // !TESSERA_XPU_GPU

/// The elements that a row with more than one loop computes at a time. Its buffers stay within the
/// first cache.
inline constexpr index_t kMapBlock = 256;

/// The base of a functor `Op` of kOperands elements a… that is made of Costly, functors of one
/// element with array kernels: Result(Costly::Map(Argument(a…))…, a…). Op defines Argument and
/// Result as Map is defined. Rows are computed by the kernels, since a kernel's call for one
/// element takes as long as for a packet.
template <typename Op, int kOperands, typename... Costly>
struct ThroughKernels {
  template <typename T>
  static constexpr index_t ElementCost() {
    return (expr::FunctorCost<Costly, T>() + ...);
  }
  template <typename T, typename... More>
  TESSERA_HD static T Map(T a, More... more) {
    const T argument = Op::Argument(a, more...);
    return Op::Result(static_cast<T>(Costly::Map(argument))..., a, more...);
  }
#if !defined(TESSERA_XPU_GPU)
  template <HasArrayKernelsOf<Costly...> T>
  static void Row(const T* const* in, T* out, index_t n) {
    constexpr int kCostly = sizeof...(Costly);
    alignas(64) T values[kCostly][kMapBlock];
    const T* operands[kCostly + kOperands];
    for (int j = 0; j < kCostly; ++j) operands[j] = values[j];
    // The last kernel overwrites the arguments.
    T* const arguments = values[kCostly - 1];
    for (index_t first = 0; first < n; first += kMapBlock) {
      const index_t count = std::min(kMapBlock, n - first);
      for (int j = 0; j < kOperands; ++j) operands[kCostly + j] = in[j] + first;
      MapInLoop<ArgumentOf<Op>, kOperands>(operands + kCostly, arguments, count);
      int j = 0;
      (Costly::ArrayKernel(arguments, values[j++], count), ...);
      MapInLoop<ResultOf<Op>, kCostly + kOperands>(operands, out + first, count);
    }
  }
#endif
};

/// Returns the kind of a functor's function.
template <typename Op>
constexpr MapKind KindOf() {
  if constexpr (std::is_same_v<Op, op::plus>) return MapKind::kPlus;
  if constexpr (std::is_same_v<Op, op::minus>) return MapKind::kMinus;
  if constexpr (std::is_same_v<Op, op::mul>) return MapKind::kTimes;
  if constexpr (std::is_same_v<Op, op::maximum>) return MapKind::kMaximum;
  if constexpr (std::is_same_v<Op, op::relu>) return MapKind::kRelu;
  return MapKind::kOther;
}

/// Returns Op, a functor of kOperands elements, compiled for one row.
template <typename Op, int kOperands, MapTypes kTypes = MapTypes::kReal>
static MapFunction MakeMapFunction() {
  static_assert(kOperands <= kMaxMapOperands);
  MapFunction function;
  function.num_operands = kOperands;
  function.cost = expr::FunctorCost<Op, float>();
  function.kind = KindOf<Op>();
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
