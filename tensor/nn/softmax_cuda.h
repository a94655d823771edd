#ifndef TESSERA_TENSOR_NN_SOFTMAX_CUDA_H_
#define TESSERA_TENSOR_NN_SOFTMAX_CUDA_H_

#include "tessera/tensor/dense/dense.h"

namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

template <typename T>
struct SoftmaxLine;
template <typename T>
struct SoftmaxLines;

// Softmax on a GPU, which nvcc alone compiles.
template <typename T>
void SoftmaxCuda(const SoftmaxLines<T>& out, const SoftmaxLines<const T>& in, index_t lines,
                 index_t classes, Stream<gpu>* stream);

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

#if defined(__CUDACC__)

#include "tessera/tensor/device/cuda_check.h"
#include "tessera/tensor/device/cuda_launch.h"

namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

template <typename T>
TESSERA_HD void SoftmaxOfLine(const SoftmaxLine<T>& out, const SoftmaxLine<const T>& in,
                              index_t count);

/// Computes softmax with one thread for each line, which suits the few classes of a classifier's
/// output.
template <typename T>
__global__ void SoftmaxKernel(SoftmaxLines<T> out, SoftmaxLines<const T> in, index_t lines,
                              index_t classes) {
  for (index_t i = blockIdx.x * index_t{blockDim.x} + threadIdx.x; i < lines;
       i += index_t{gridDim.x} * blockDim.x) {
    SoftmaxOfLine<T>(out[i], in[i], classes);
  }
}

template <typename T>
void SoftmaxCuda(const SoftmaxLines<T>& out, const SoftmaxLines<const T>& in, index_t lines,
                 index_t classes, Stream<gpu>* stream) {
  const auto launch = LaunchShapeFor(lines);
  SoftmaxKernel<<<launch.blocks, launch.threads, 0, CudaStream(stream)>>>(out, in, lines, classes);
  CheckCuda(cudaGetLastError(), "softmax kernel");
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

#endif  // defined(__CUDACC__)

#endif  // TESSERA_TENSOR_NN_SOFTMAX_CUDA_H_
