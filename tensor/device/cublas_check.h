#ifndef TESSERA_TENSOR_DEVICE_CUBLAS_CHECK_H_
#define TESSERA_TENSOR_DEVICE_CUBLAS_CHECK_H_

// This header is for files that nvcc compiles.

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "tessera/base/error.h"

namespace tessera::tensor_internal {

/// Throws Error if `status`, the result of the cuBLAS function `call`, is a failure. The code is
/// kResourceExhausted if memory ran out, otherwise kInternal.
inline void CheckCublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  static_cast<void>(cudaGetLastError());  // clears the last error; see CheckCuda
  if (status == CUBLAS_STATUS_ALLOC_FAILED) {
    throw ResourceExhausted(call, ": ", cublasGetStatusString(status));
  }
  throw Internal(call, ": ", cublasGetStatusString(status));
}

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_DEVICE_CUBLAS_CHECK_H_
