#include <cuda_runtime.h>

#include "tessera/tensor/dense/copy.h"
#include "tessera/tensor/device/cuda_check.h"

namespace tessera::tensor_internal {

void CopyRowsCuda(void* dst, int64_t dst_stride_bytes, const void* src, int64_t src_stride_bytes,
                  int64_t row_bytes, int64_t rows, CopyDirection direction, Stream<gpu>* stream) {
  if (row_bytes == 0 || rows == 0) return;
  const cudaMemcpyKind kind = direction == CopyDirection::kHostToDevice ? cudaMemcpyHostToDevice
                              : direction == CopyDirection::kDeviceToHost
                                  ? cudaMemcpyDeviceToHost
                                  : cudaMemcpyDeviceToDevice;
  CheckCuda(cudaMemcpy2DAsync(dst, static_cast<size_t>(dst_stride_bytes), src,
                              static_cast<size_t>(src_stride_bytes), static_cast<size_t>(row_bytes),
                              static_cast<size_t>(rows), kind, CudaStream(stream)),
            "Copy: cudaMemcpy2DAsync");
}

}  // namespace tessera::tensor_internal
