#ifndef TESSERA_TENSOR_DENSE_REFERENCE_CUDA_H_
#define TESSERA_TENSOR_DENSE_REFERENCE_CUDA_H_

#include "tessera/tensor/dense/dense.h"

#if defined(__CUDACC__)

#include "tessera/tensor/device/cuda_check.h"
#include "tessera/tensor/device/cuda_launch.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Combines element (y, x) that `dst` names with the expression's, in a grid-stride loop.
template <typename Saver, typename R, typename E>
__global__ void EvaluateIntoKernel(R dst, E e, index_t rows, index_t columns) {
  for (index_t i = blockIdx.x * index_t{blockDim.x} + threadIdx.x; i < rows * columns;
       i += index_t{gridDim.x} * blockDim.x) {
    const index_t y = i / columns;
    const index_t x = i - y * columns;
    SaveElement<Saver>(dst.Address(y, x), e.Eval(y, x));
  }
}

template <typename Saver, typename R, typename E>
void EvaluateIntoCuda(const R& dst, const E& e, const Shape<2>& shape, Stream<gpu>* stream) {
  const auto launch = tensor_internal::LaunchShapeFor(shape.Size());
  EvaluateIntoKernel<Saver>
      <<<launch.blocks, launch.threads, 0, tensor_internal::CudaStream(stream)>>>(dst, e, shape[0],
                                                                                  shape[1]);
  tensor_internal::CheckCuda(cudaGetLastError(), "expression kernel");
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // defined(__CUDACC__)

#endif  // TESSERA_TENSOR_DENSE_REFERENCE_CUDA_H_
