#ifndef TESSERA_TENSOR_SOFTMAX_CUDA_H_
#define TESSERA_TENSOR_SOFTMAX_CUDA_H_

#include "tessera/tensor/dense.h"

#if defined(__CUDACC__)

#include "tessera/tensor/internal/cuda_check.h"
#include "tessera/tensor/internal/cuda_launch.h"

namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {

template <typename T>
TESSERA_HD void SoftmaxLine(T* out, const T* in, index_t count, index_t step);

/// One thread a line: right for the few classes of a classifier's output.
template <typename T>
__global__ void SoftmaxKernel(T* dst, const T* src, Shape<3> shape) {
  const index_t lines = shape[0] * shape[2];
  for (index_t i = blockIdx.x * index_t{blockDim.x} + threadIdx.x; i < lines;
       i += index_t{gridDim.x} * blockDim.x) {
    const index_t first = i / shape[2] * shape[1] * shape[2] + i % shape[2];
    SoftmaxLine(dst + first, src + first, shape[1], shape[2]);
  }
}

template <typename T>
void SoftmaxCuda(const Tensor<gpu, 3, T>& dst, const Tensor<gpu, 3, T>& src) {
  if (src.shape_.Size() == 0) return;
  const auto launch = tensor_internal::LaunchShapeFor(src.shape_[0] * src.shape_[2]);
  SoftmaxKernel<<<launch.blocks, launch.threads, 0, tensor_internal::CudaStream(dst.stream_)>>>(
      dst.dptr_, src.dptr_, src.shape_);
  tensor_internal::CheckCuda(cudaGetLastError(), "softmax kernel");
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // defined(__CUDACC__)

#endif  // TESSERA_TENSOR_SOFTMAX_CUDA_H_
