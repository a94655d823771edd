#ifndef TESSERA_TENSOR_REDUCTIONS_CUDA_H_
#define TESSERA_TENSOR_REDUCTIONS_CUDA_H_

#include "tessera/tensor/accumulate.h"
#include "tessera/tensor/dense.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// A number that a reduction leaves in a GPU's memory, as an expression.
template <typename T>
struct DeviceNumberExp : Exp<DeviceNumberExp<T>> {
  using value_type = T;
  using device_type = gpu;
  static constexpr int kRank = 0;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = false;

  const T* number;

  explicit DeviceNumberExp(const T* address) : number(address) {}
  TESSERA_HD T Eval(index_t, index_t) const { return *number; }
  bool IsFlat() const { return true; }
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#if defined(__CUDACC__)

#include "tessera/tensor/internal/cuda_check.h"
#include "tessera/tensor/internal/cuda_launch.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Combines the values of a block's 256 threads by a tree in shared memory; thread 0 has the
/// result.
template <typename Op, typename Accumulator>
__device__ Accumulator CombineBlock(Accumulator value) {
  __shared__ Accumulator partial[256];
  __syncthreads();
  partial[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      partial[threadIdx.x] = Op::Map(partial[threadIdx.x], partial[threadIdx.x + half]);
    }
    __syncthreads();
  }
  return partial[0];
}

/// partial[b] = the reduction of the elements that block b's threads visit.
template <typename Red, typename Accumulator, typename E>
__global__ void ReducePartsKernel(Accumulator* partial, E e, index_t size, index_t columns) {
  using Op = typename Red::OPType;
  Accumulator value = Red::template InitialValue<Accumulator>();
  for (index_t i = blockIdx.x * index_t{blockDim.x} + threadIdx.x; i < size;
       i += index_t{gridDim.x} * blockDim.x) {
    const index_t y = i / columns;
    value = Op::Map(value, static_cast<Accumulator>(e.Eval(y, i - y * columns)));
  }
  value = CombineBlock<Op>(value);
  if (threadIdx.x == 0) partial[blockIdx.x] = value;
}

/// *dst = the finished reduction of `parts` partial results, by one block.
template <typename Red, typename Finish, typename T, typename Accumulator>
__global__ void CombinePartsKernel(T* dst, const Accumulator* partial, index_t parts,
                                   index_t count) {
  using Op = typename Red::OPType;
  Accumulator value = Red::template InitialValue<Accumulator>();
  for (index_t i = threadIdx.x; i < parts; i += blockDim.x) value = Op::Map(value, partial[i]);
  value = CombineBlock<Op>(value);
  if (threadIdx.x == 0) *dst = Finish::template Map<T>(value, count);
}

/// The same in one kernel of one block, which suffices for few elements.
template <typename Red, typename Finish, typename Accumulator, typename T, typename E>
__global__ void ReduceFewKernel(T* dst, E e, index_t size, index_t columns) {
  using Op = typename Red::OPType;
  Accumulator value = Red::template InitialValue<Accumulator>();
  for (index_t i = threadIdx.x; i < size; i += blockDim.x) {
    const index_t y = i / columns;
    value = Op::Map(value, static_cast<Accumulator>(e.Eval(y, i - y * columns)));
  }
  value = CombineBlock<Op>(value);
  if (threadIdx.x == 0) *dst = Finish::template Map<T>(value, size);
}

/// Enqueues *dst = the reduction of all `size` elements of the expression.
template <typename Red, typename Finish, typename T, typename E>
void ReduceAllCuda(T* dst, const E& e, index_t size, Scratch<gpu>* scratch) {
  using Accumulator = AccumulatorOf<Red, typename E::value_type>;
  constexpr index_t kThreads = 256;
  constexpr index_t kFew = 16 * kThreads;
  constexpr index_t kMaxParts = 1024;
  const cudaStream_t stream = tensor_internal::CudaStream(scratch->stream());
  const index_t columns = e.shape()[E::kRank - 1];
  if (size <= kFew) {
    ReduceFewKernel<Red, Finish, Accumulator><<<1, kThreads, 0, stream>>>(dst, e, size, columns);
  } else {
    const index_t parts = std::min(kMaxParts, (size + kThreads - 1) / kThreads);
    auto* const partial = static_cast<Accumulator*>(
        scratch->Allocate(parts * static_cast<index_t>(sizeof(Accumulator))));
    ReducePartsKernel<Red>
        <<<static_cast<unsigned>(parts), kThreads, 0, stream>>>(partial, e, size, columns);
    CombinePartsKernel<Red, Finish><<<1, kThreads, 0, stream>>>(dst, partial, parts, size);
  }
  tensor_internal::CheckCuda(cudaGetLastError(), "reduction kernel");
}

/// One block for each row.
template <typename Red, typename Finish, typename Accumulator, typename T, typename E>
__global__ void ReduceAlongRowsKernel(T* dst, E e, index_t rows, index_t columns) {
  using Op = typename Red::OPType;
  for (index_t y = blockIdx.x; y < rows; y += gridDim.x) {
    Accumulator value = Red::template InitialValue<Accumulator>();
    for (index_t x = threadIdx.x; x < columns; x += blockDim.x) {
      value = Op::Map(value, static_cast<Accumulator>(e.Eval(y, x)));
    }
    value = CombineBlock<Op>(value);
    if (threadIdx.x == 0) dst[y] = Finish::template Map<T>(value, columns);
  }
}

/// One thread for each result; neighbouring threads read neighbouring columns.
template <typename Red, typename Finish, typename Accumulator, typename T, typename E>
__global__ void ReduceAcrossRowsKernel(T* dst, E e, index_t outer, index_t extent, index_t inner,
                                       index_t columns) {
  using Op = typename Red::OPType;
  const index_t size = outer * inner * columns;
  for (index_t i = blockIdx.x * index_t{blockDim.x} + threadIdx.x; i < size;
       i += index_t{gridDim.x} * blockDim.x) {
    const index_t line = i / columns;
    const index_t x = i - line * columns;
    const index_t first_row = line / inner * extent * inner + line % inner;
    Accumulator value = Red::template InitialValue<Accumulator>();
    for (index_t k = 0; k < extent; ++k) {
      value = Op::Map(value, static_cast<Accumulator>(e.Eval(first_row + k * inner, x)));
    }
    dst[i] = Finish::template Map<T>(value, extent);
  }
}

/// Enqueues a reduction along one axis. `dst` has at least one element.
template <typename Red, typename Finish, int N, typename T, typename E, typename Walk>
void ReduceAxisCuda(const Tensor<gpu, N, T>& dst, const E& e, const Walk& walk, index_t columns) {
  using Accumulator = AccumulatorOf<Red, typename E::value_type>;
  const cudaStream_t stream = tensor_internal::CudaStream(dst.stream_);
  if constexpr (Walk::kAlongRow) {
    const auto launch = tensor_internal::LaunchShapePerResult(walk.outer);
    ReduceAlongRowsKernel<Red, Finish, Accumulator>
        <<<launch.blocks, launch.threads, 0, stream>>>(dst.dptr_, e, walk.outer, columns);
  } else {
    const auto launch = tensor_internal::LaunchShapeFor(dst.shape_.Size());
    ReduceAcrossRowsKernel<Red, Finish, Accumulator><<<launch.blocks, launch.threads, 0, stream>>>(
        dst.dptr_, e, walk.outer, walk.extent, walk.inner, columns);
  }
  tensor_internal::CheckCuda(cudaGetLastError(), "reduction kernel");
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // defined(__CUDACC__)

#endif  // TESSERA_TENSOR_REDUCTIONS_CUDA_H_
