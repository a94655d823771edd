#ifndef TESSERA_TENSOR_EVALUATOR_CUDA_H_
#define TESSERA_TENSOR_EVALUATOR_CUDA_H_

#include "tessera/tensor/expression.h"
#include "tessera/tensor/stream.h"

#if defined(__CUDACC__)

#include "tessera/tensor/internal/cuda_check.h"
#include "tessera/tensor/internal/cuda_launch.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The one element-wise kernel: element i of a (rows, columns) destination is combined with
/// element i of the expression; a grid-stride loop, so that any grid covers any size.
template <typename Saver, typename T, typename E>
__global__ void EvaluateKernel(T* dst, index_t stride, index_t rows, index_t columns, E e) {
  const index_t size = rows * columns;
  for (index_t i = blockIdx.x * index_t{blockDim.x} + threadIdx.x; i < size;
       i += index_t{gridDim.x} * blockDim.x) {
    const index_t y = i / columns;
    const index_t x = i - y * columns;
    T* const element = dst + y * stride + x;
    if constexpr (std::is_same_v<Saver, sv::saveto>) {
      *element = e.Eval(y, x);
    } else {
      *element = Saver::OPType::Map(*element, e.Eval(y, x));
    }
  }
}

/// The same over one contiguous row, which needs no division for each element.
template <typename Saver, typename T, typename E>
__global__ void EvaluateFlatKernel(T* dst, index_t size, E e) {
  for (index_t i = blockIdx.x * index_t{blockDim.x} + threadIdx.x; i < size;
       i += index_t{gridDim.x} * blockDim.x) {
    if constexpr (std::is_same_v<Saver, sv::saveto>) {
      dst[i] = e.Eval(0, i);
    } else {
      dst[i] = Saver::OPType::Map(dst[i], e.Eval(0, i));
    }
  }
}

/// Enqueues the evaluation on the destination's stream. The shapes have been checked.
template <typename Saver, int N, typename T, typename E>
void Evaluate(const Tensor<gpu, N, T>& dst, const E& e) {
  const index_t size = dst.shape_.Size();
  if (size == 0) return;
  const cudaStream_t stream = tensor_internal::CudaStream(dst.stream_);
  const auto launch = tensor_internal::LaunchShapeFor(size);
  if (dst.CheckContiguous() && e.IsFlat()) {
    EvaluateFlatKernel<Saver><<<launch.blocks, launch.threads, 0, stream>>>(dst.dptr_, size, e);
  } else {
    const Shape<2> shape = dst.shape_.FlatTo2D();
    EvaluateKernel<Saver><<<launch.blocks, launch.threads, 0, stream>>>(dst.dptr_, dst.stride_,
                                                                        shape[0], shape[1], e);
  }
  tensor_internal::CheckCuda(cudaGetLastError(), "expression kernel");
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // defined(__CUDACC__)

#endif  // TESSERA_TENSOR_EVALUATOR_CUDA_H_
