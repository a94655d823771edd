#ifndef TESSERA_TENSOR_INDEX_SCATTER_CUDA_H_
#define TESSERA_TENSOR_INDEX_SCATTER_CUDA_H_

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/index/row_number.h"

namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

// The functions of scatter.h on a GPU, which nvcc alone compiles.
template <OutOfRange kRule, typename I, typename T>
void AddTakeGradCuda(const Tensor<gpu, 2, T>& dst, const Tensor<gpu, 1, I>& index,
                     const Tensor<gpu, 2, T>& src);
template <typename I, typename T>
void AddTakeGradLargeBatchCuda(const Tensor<gpu, 2, T>& dst, const Tensor<gpu, 1, I>& sorted,
                               const Tensor<gpu, 1, I>& index, const Tensor<gpu, 2, T>& src);
template <typename I, typename T>
void IndexFillCuda(const Tensor<gpu, 2, T>& dst, const Tensor<gpu, 1, I>& index,
                   const Tensor<gpu, 2, T>& src);

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

#if defined(__CUDACC__)

#include "tessera/tensor/device/cuda_check.h"
#include "tessera/tensor/device/cuda_launch.h"

namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

template <int kBlock, typename Device, typename I, typename T>
TESSERA_HD void AddRuns(const Tensor<Device, 2, T>& dst, const Tensor<Device, 1, I>& sorted,
                        const Tensor<Device, 1, I>& index, const Tensor<Device, 2, T>& src,
                        index_t begin, index_t end);

// Scatters rows with one thread for each column, which processes the rows in order. Neighbouring
// threads access neighbouring memory, sums do not depend on timing, and no two threads write the
// same element.

template <OutOfRange kRule, bool kAdd, typename I, typename T>
__global__ void ScatterKernel(Tensor<gpu, 2, T> dst, Tensor<gpu, 1, I> index,
                              Tensor<gpu, 2, T> src) {
  for (index_t x = blockIdx.x * index_t{blockDim.x} + threadIdx.x; x < dst.shape_[1];
       x += index_t{gridDim.x} * blockDim.x) {
    for (index_t i = 0; i < index.shape_[0]; ++i) {
      const index_t row = RowFor<kRule>(index.dptr_[i], dst.shape_[0]);
      if (row < 0) continue;
      T* const to = dst.dptr_ + row * dst.stride_ + x;
      const T value = src.dptr_[i * src.stride_ + x];
      *to = kAdd ? static_cast<T>(*to + value) : value;
    }
  }
}

template <typename I, typename T>
__global__ void AddRunsKernel(Tensor<gpu, 2, T> dst, Tensor<gpu, 1, I> sorted,
                              Tensor<gpu, 1, I> index, Tensor<gpu, 2, T> src) {
  for (index_t x = blockIdx.x * index_t{blockDim.x} + threadIdx.x; x < dst.shape_[1];
       x += index_t{gridDim.x} * blockDim.x) {
    AddRuns<1>(dst, sorted, index, src, x, x + 1);
  }
}

template <OutOfRange kRule, typename I, typename T>
void AddTakeGradCuda(const Tensor<gpu, 2, T>& dst, const Tensor<gpu, 1, I>& index,
                     const Tensor<gpu, 2, T>& src) {
  if (src.shape_.Size() == 0) return;
  const auto launch = LaunchShapeFor(dst.shape_[1]);
  ScatterKernel<kRule, true>
      <<<launch.blocks, launch.threads, 0, CudaStream(dst.stream_)>>>(dst, index, src);
  CheckCuda(cudaGetLastError(), "AddTakeGrad kernel");
}

template <typename I, typename T>
void AddTakeGradLargeBatchCuda(const Tensor<gpu, 2, T>& dst, const Tensor<gpu, 1, I>& sorted,
                               const Tensor<gpu, 1, I>& index, const Tensor<gpu, 2, T>& src) {
  if (sorted.shape_[0] == 0 || dst.shape_[1] == 0) return;
  const auto launch = LaunchShapeFor(dst.shape_[1]);
  AddRunsKernel<<<launch.blocks, launch.threads, 0, CudaStream(dst.stream_)>>>(dst, sorted, index,
                                                                               src);
  CheckCuda(cudaGetLastError(), "AddTakeGradLargeBatch kernel");
}

template <typename I, typename T>
void IndexFillCuda(const Tensor<gpu, 2, T>& dst, const Tensor<gpu, 1, I>& index,
                   const Tensor<gpu, 2, T>& src) {
  if (src.shape_.Size() == 0) return;
  const auto launch = LaunchShapeFor(dst.shape_[1]);
  ScatterKernel<OutOfRange::kSkipped, false>
      <<<launch.blocks, launch.threads, 0, CudaStream(dst.stream_)>>>(dst, index, src);
  CheckCuda(cudaGetLastError(), "IndexFill kernel");
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

#endif  // defined(__CUDACC__)

#endif  // TESSERA_TENSOR_INDEX_SCATTER_CUDA_H_
