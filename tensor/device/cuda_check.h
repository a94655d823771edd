#ifndef TESSERA_TENSOR_DEVICE_CUDA_CHECK_H_
#define TESSERA_TENSOR_DEVICE_CUDA_CHECK_H_

#include <cuda_runtime.h>

#include "tessera/base/error.h"
#include "tessera/tensor/device/stream.h"

namespace tessera::tensor_internal {

/// Throws Error(kInternal) that names the call and what CUDA said, unless it succeeded;
/// Error(kResourceExhausted) if memory ran out.
inline void CheckCuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  // CUDA remembers it as the last error, which the next launch would be taken to have caused.
  static_cast<void>(cudaGetLastError());
  if (status == cudaErrorMemoryAllocation) {
    throw ResourceExhausted(call, ": ", cudaGetErrorString(status));
  }
  throw Internal(call, ": ", cudaGetErrorString(status));
}

/// The CUDA stream of a tensor. A GPU tensor without one is a mistake, since work on the default
/// stream is ordered with nothing else.
inline cudaStream_t CudaStream(const Stream<gpu>* stream) { return Stream<gpu>::GetStream(stream); }

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_DEVICE_CUDA_CHECK_H_
