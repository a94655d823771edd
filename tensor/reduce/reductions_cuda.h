#ifndef TESSERA_TENSOR_REDUCE_REDUCTIONS_CUDA_H_
#define TESSERA_TENSOR_REDUCE_REDUCTIONS_CUDA_H_

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/functors/accumulate.h"
#include "tessera/tensor/reduce/reduce_cuda.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// A number in a GPU's memory, the result of a reduction, as an expression.
template <typename T>
struct DeviceNumberExp : Exp<DeviceNumberExp<T>, T>, Number<DeviceNumberExp<T>, T, 0> {
  using value_type = T;
  using device_type = gpu;
  static constexpr int kRank = 0;
  static constexpr bool kHasPacket = false;
  static constexpr bool kHasGroups = true;
  static constexpr bool kMovesElements = false;

  const T* number;

  explicit DeviceNumberExp(const T* address) : number(address) {}
  TESSERA_HD T Eval(index_t, index_t) const { return *number; }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t, index_t) const {
    return SetPacket<P>(*number);
  }
  bool IsFlat() const { return true; }
  bool GroupsAreAligned(index_t) const { return true; }
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#if defined(__CUDACC__)

#include <algorithm>
#include <type_traits>

#include "tessera/tensor/device/cuda_check.h"
#include "tessera/tensor/device/cuda_launch.h"
#include "tessera/tensor/expr/element_group.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Returns true to the last block of the grid that calls it. All earlier writes of every block are
/// then visible to that block. `*arrivals` must be 0 at first.
inline __device__ bool IsLastBlock(unsigned* arrivals) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(arrivals, 1u) == gridDim.x - 1;
  __syncthreads();
  return last;
}

/// Sets *dst to the finished reduction of (rows, columns) elements, in one kernel. Each block
/// stores a partial result. The last block to do so combines them in the order of the blocks, so
/// that the result does not depend on which block is last.
template <typename Red, typename Finish, bool kGroups, typename Accumulator, typename T, typename E>
__global__ void ReduceAllKernel(T* dst, Accumulator* partial, unsigned* arrivals, E e, index_t rows,
                                index_t columns, index_t count) {
  using Op = typename Red::OPType;
  const index_t first = blockIdx.x * index_t{blockDim.x} + threadIdx.x;
  const index_t threads = index_t{gridDim.x} * blockDim.x;
  Accumulator value = Red::template InitialValue<Accumulator>();
  if (rows == 1) {
    value = ReduceStrided<Red, Accumulator, kGroups>(e, 0, 0, columns, first, threads);
  } else {
    for (index_t i = first; i < rows * columns; i += threads) {
      const index_t y = i / columns;
      value = Op::Map(value, static_cast<Accumulator>(e.Eval(y, i - y * columns)));
    }
  }
  value = CombineBlock<Op>(value);
  if (gridDim.x > 1) {
    if (threadIdx.x == 0) partial[blockIdx.x] = value;
    if (!IsLastBlock(arrivals)) return;
    value = Red::template InitialValue<Accumulator>();
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
      value = Op::Map(value, static_cast<const volatile Accumulator*>(partial)[i]);
    }
    value = CombineBlock<Op>(value);
  }
  if (threadIdx.x == 0) *dst = Finish::template Map<T>(value, count);
}

/// Enqueues *dst = the finished reduction of all `size` elements of the expression.
template <typename Red, typename Finish, typename T, typename E>
void ReduceAllCuda(T* dst, const E& e, index_t size, Scratch<gpu>* scratch) {
  using Accumulator = AccumulatorOf<Red, typename E::value_type>;
  constexpr index_t kThreads = 256;
  constexpr index_t kElementsPerThread = 16;
  constexpr index_t kMaxBlocks = 1024;
  const cudaStream_t stream = tensor_internal::CudaStream(scratch->stream());
  const bool one_row = e.IsFlat();
  const index_t columns = one_row ? size : e.shape()[E::kRank - 1];
  const index_t rows = one_row ? 1 : size / std::max<index_t>(1, columns);
  const index_t blocks = std::clamp<index_t>(size / (kThreads * kElementsPerThread), 1, kMaxBlocks);
  auto* const partial = static_cast<Accumulator*>(
      scratch->Allocate(blocks * static_cast<index_t>(sizeof(Accumulator))));
  auto* const arrivals = static_cast<unsigned*>(scratch->Allocate(sizeof(unsigned)));
  tensor_internal::CheckCuda(cudaMemsetAsync(arrivals, 0, sizeof(unsigned), stream),
                             "reduction: counter of blocks");
  bool groups = false;
  if constexpr (HasGroups<E>()) groups = one_row && e.GroupsAreAligned(1);
  const auto launch = [&](auto in_groups) {
    ReduceAllKernel<Red, Finish, decltype(in_groups)::value>
        <<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(dst, partial, arrivals, e, rows,
                                                                 columns, size);
  };
  if constexpr (HasGroups<E>()) {
    if (groups) {
      launch(std::true_type());
    } else {
      launch(std::false_type());
    }
  } else {
    launch(std::false_type());
  }
  tensor_internal::CheckCuda(cudaGetLastError(), "reduction kernel");
}

/// Enqueues a reduction along one axis. Requires: `dst` has at least one element.
template <typename Red, typename Finish, int N, typename T, typename E, typename Walk>
void ReduceAxisCuda(const Tensor<gpu, N, T>& dst, const E& e, const Walk& walk, index_t columns,
                    Scratch<gpu>* scratch) {
  using Accumulator = AccumulatorOf<Red, typename E::value_type>;
  if constexpr (Walk::kAlongRow) {
    ReduceAlongRowsCuda<Red, Finish, Accumulator>(dst.dptr_, e, walk.outer, columns, columns,
                                                  scratch);
  } else {
    ReduceAcrossRowsCuda<Red, Finish, Accumulator>(dst.dptr_, e, walk.outer, walk.extent,
                                                   walk.inner, columns, walk.extent, scratch);
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // defined(__CUDACC__)

#endif  // TESSERA_TENSOR_REDUCE_REDUCTIONS_CUDA_H_
