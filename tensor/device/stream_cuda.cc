#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

#include "tessera/tensor/device/cublas_check.h"
#include "tessera/tensor/device/cuda_check.h"
#include "tessera/tensor/device/stream.h"

namespace tessera {

using tensor_internal::CheckCublas;
using tensor_internal::CheckCuda;
using tensor_internal::CudaStream;

template <>
Stream<gpu>* NewStream<gpu>(int dev_id) {
  CheckCuda(cudaSetDevice(dev_id), "NewStream<gpu>: cudaSetDevice");
  // The temporaries of expressions come from the device's pool. It returns all free memory to the
  // system whenever a thread waits for a stream, unless a threshold is set.
  cudaMemPool_t pool = nullptr;
  CheckCuda(cudaDeviceGetDefaultMemPool(&pool, dev_id), "NewStream<gpu>: default memory pool");
  uint64_t kept_bytes = 0;
  CheckCuda(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept_bytes),
            "NewStream<gpu>: cudaMemPoolGetAttribute");
  if (kept_bytes == 0) {  // the program has set no threshold
    kept_bytes = uint64_t{1} << 30;
    CheckCuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept_bytes),
              "NewStream<gpu>: cudaMemPoolSetAttribute");
  }
  auto stream = std::make_unique<Stream<gpu>>();
  stream->dev_id = dev_id;
  cudaStream_t cuda_stream = nullptr;
  // A non-blocking stream is not ordered with the legacy default stream, which other code may use.
  CheckCuda(cudaStreamCreateWithFlags(&cuda_stream, cudaStreamNonBlocking),
            "NewStream<gpu>: cudaStreamCreateWithFlags");
  stream->stream_ = cuda_stream;
  cublasHandle_t handle = nullptr;
  CheckCublas(cublasCreate(&handle), "NewStream<gpu>: cublasCreate");
  stream->blas_handle_ = handle;
  CheckCublas(cublasSetStream(handle, cuda_stream), "NewStream<gpu>: cublasSetStream");
  // This mode keeps the partial sums of half and bfloat16 in float.
  CheckCublas(cublasSetMathMode(handle, static_cast<cublasMath_t>(
                                            CUBLAS_DEFAULT_MATH |
                                            CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
              "NewStream<gpu>: cublasSetMathMode");
  return stream.release();
}

template <>
void DeleteStream<gpu>(Stream<gpu>* stream) {
  if (stream == nullptr) return;
  const std::unique_ptr<Stream<gpu>> owned(stream);
  // The stream is destroyed even if destroying the handle fails.
  const cublasStatus_t of_handle = cublasDestroy(static_cast<cublasHandle_t>(owned->blas_handle_));
  const cudaError_t of_stream = cudaStreamDestroy(CudaStream(owned.get()));
  CheckCublas(of_handle, "DeleteStream<gpu>: cublasDestroy");
  CheckCuda(of_stream, "DeleteStream<gpu>: cudaStreamDestroy");
}

void Stream<gpu>::Wait() {
  CheckCuda(cudaStreamSynchronize(CudaStream(this)), "Stream<gpu>::Wait");
}

bool Stream<gpu>::CheckIdle() const {
  const cudaError_t status = cudaStreamQuery(CudaStream(this));
  if (status == cudaErrorNotReady) {
    // cudaErrorNotReady is an answer and not a failure, but CUDA remembers it as the last error.
    static_cast<void>(cudaGetLastError());
    return false;
  }
  CheckCuda(status, "Stream<gpu>::CheckIdle");
  return true;
}

}  // namespace tessera
