#ifndef TESSERA_TENSOR_DEVICE_CUDA_CHECK_H_
#define TESSERA_TENSOR_DEVICE_CUDA_CHECK_H_

#include <cuda_runtime.h>

#include "tessera/base/error.h"
#include "tessera/tensor/device/stream.h"

namespace tessera::tensor_internal {

/// Throws Error if `status`, the result of the CUDA function `call`, is a failure. The message
/// names the call and gives CUDA's description of the failure. The code is kResourceExhausted if
/// memory ran out, otherwise kInternal.
inline void CheckCuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  // CUDA remembers the failure as its last error. This call clears it, since the check of the next
  // launch would report it again.
  static_cast<void>(cudaGetLastError());
  if (status == cudaErrorMemoryAllocation) {
    throw ResourceExhausted(call, ": ", cudaGetErrorString(status));
  }
  throw Internal(call, ": ", cudaGetErrorString(status));
}

/// Returns the CUDA stream of a tensor. Null stands for the fallback stream. Throws
/// Error(kFailedPrecondition) if there is none either, since work on CUDA's default stream is
/// ordered with no other work.
inline cudaStream_t CudaStream(const Stream<gpu>* stream) { return Stream<gpu>::GetStream(stream); }

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_DEVICE_CUDA_CHECK_H_
