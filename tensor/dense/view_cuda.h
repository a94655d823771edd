#ifndef TESSERA_TENSOR_DENSE_VIEW_CUDA_H_
#define TESSERA_TENSOR_DENSE_VIEW_CUDA_H_

#include "tessera/tensor/dense/dense.h"

#if defined(__CUDACC__)

#include "tessera/tensor/device/cuda_check.h"
#include "tessera/tensor/device/cuda_launch.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

template <typename Device, int N, typename T>
struct ViewExp;

/// Evaluates an expression into a view, one thread for each element, in a grid-stride loop.
template <typename Saver, typename T, typename E>
__global__ void EvaluateViewKernel(T* dst, index_t row_step, index_t column_step, index_t rows,
                                   index_t columns, E e) {
  const index_t size = rows * columns;
  for (index_t i = blockIdx.x * index_t{blockDim.x} + threadIdx.x; i < size;
       i += index_t{gridDim.x} * blockDim.x) {
    const index_t y = i / columns;
    const index_t x = i - y * columns;
    SaveElement<Saver>(dst + y * row_step + x * column_step, e.Eval(y, x));
  }
}

/// Enqueues the evaluation on the destination's stream. Requires: equal shapes.
template <typename Saver, int N, typename T, typename E>
void Evaluate(const ViewExp<gpu, N, T>& dst, const E& e) {
  const index_t size = dst.shape_.Size();
  if (size == 0) return;
  const auto launch = tensor_internal::LaunchShapeFor(size);
  const Shape<2> shape = dst.shape_.FlatTo2D();
  EvaluateViewKernel<Saver>
      <<<launch.blocks, launch.threads, 0, tensor_internal::CudaStream(dst.stream_)>>>(
          dst.dptr_, dst.row_step_, dst.column_step_, shape[0], shape[1], e);
  tensor_internal::CheckCuda(cudaGetLastError(), "expression kernel over a view");
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // defined(__CUDACC__)

#endif  // TESSERA_TENSOR_DENSE_VIEW_CUDA_H_
