#ifndef TESSERA_TENSOR_REDUCE_CUDA_H_
#define TESSERA_TENSOR_REDUCE_CUDA_H_

#include "tessera/tensor/accumulate.h"
#include "tessera/tensor/dense.h"

#if defined(__CUDACC__)

#include "tessera/tensor/internal/cuda_check.h"
#include "tessera/tensor/internal/cuda_launch.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// One block for each kept index: strided partial results for each thread, then a tree in shared
/// memory, in an order that the launch shape fixes.
template <typename Red, typename Saver, typename Accumulator, typename T, typename E>
__global__ void ReduceExceptKernel(T* dst, E e, index_t outer, index_t kept, index_t inner,
                                   index_t columns, T scale) {
  using Op = typename Red::OPType;
  __shared__ Accumulator partial[256];
  for (index_t i = blockIdx.x; i < kept; i += gridDim.x) {
    Accumulator sum = Red::template InitialValue<Accumulator>();
    for (index_t j = threadIdx.x; j < outer * inner; j += blockDim.x) {
      const index_t o = j / inner;
      const index_t flat = (o * kept + i) * inner + (j - o * inner);
      const index_t y = flat / columns;
      sum = Op::Map(sum, static_cast<Accumulator>(e.Eval(y, flat - y * columns)));
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) {
        partial[threadIdx.x] = Op::Map(partial[threadIdx.x], partial[threadIdx.x + half]);
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      SaveElement<Saver>(dst + i,
                         static_cast<T>(op::mul::Map(partial[0], static_cast<Accumulator>(scale))));
    }
    __syncthreads();
  }
}

/// Enqueues dst[i] = scale * Red over (outer, inner) of the expression seen as (outer, kept,
/// inner).
template <typename Red, typename Saver, typename T, typename E>
void ReduceExceptCuda(const Tensor<gpu, 1, T>& dst, const E& e, index_t outer, index_t kept,
                      index_t inner, index_t columns, T scale) {
  if (kept == 0) return;
  const auto launch = tensor_internal::LaunchShapePerResult(kept);
  ReduceExceptKernel<Red, Saver, AccumulatorOf<Red, T>>
      <<<launch.blocks, launch.threads, 0, tensor_internal::CudaStream(dst.stream_)>>>(
          dst.dptr_, e, outer, kept, inner, columns, scale);
  tensor_internal::CheckCuda(cudaGetLastError(), "reduction kernel");
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // defined(__CUDACC__)

#endif  // TESSERA_TENSOR_REDUCE_CUDA_H_
