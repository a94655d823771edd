#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "tessera/tensor/internal/cuda_check.h"
#include "tessera/tensor/internal/dot_cuda.h"
#include "tessera/tensor/stream.h"

namespace tessera {
namespace tensor_internal {
namespace {

void CheckCublas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Internal(call, ": ", cublasGetStatusString(status));
  }
}

int CheckedInt(index_t value, const char* what) {
  if (value > std::numeric_limits<int>::max()) {
    throw InvalidArgument("dot on gpu: ", what, " = ", value, " is above cuBLAS's limit of 2^31-1");
  }
  return static_cast<int>(value);
}

// cuBLAS is column-major: a row-major C = A * B is there C' = B' * A'. `compute` is the type of the
// sum and of the scale factors.
template <typename T, typename Scale>
void RunCublas(const GemmArguments<T>& g, Stream<gpu>* stream, cudaDataType_t type,
               cublasComputeType_t compute) {
  if (g.m == 0 || g.n == 0) return;
  if (stream == nullptr) stream = FallbackStream();
  if (stream == nullptr || stream->blas_handle_ == nullptr) {
    throw FailedPrecondition("dot on gpu: the destination needs a stream from NewStream<gpu>()");
  }
  const Scale alpha = static_cast<Scale>(g.alpha);
  const Scale beta = static_cast<Scale>(g.beta);
  CheckCublas(
      cublasGemmEx(static_cast<cublasHandle_t>(stream->blas_handle_),
                   g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                   g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, CheckedInt(g.n, "n"),
                   CheckedInt(g.m, "m"), CheckedInt(g.k, "k"), &alpha, g.b, type,
                   CheckedInt(std::max<index_t>(g.ldb, 1), "ldb"), g.a, type,
                   CheckedInt(std::max<index_t>(g.lda, 1), "lda"), &beta, g.c, type,
                   CheckedInt(std::max<index_t>(g.ldc, 1), "ldc"), compute, CUBLAS_GEMM_DEFAULT),
      "cublasGemmEx");
}

}  // namespace

void GemmCuda(const GemmArguments<float>& arguments, Stream<gpu>* stream) {
  RunCublas<float, float>(arguments, stream, CUDA_R_32F, CUBLAS_COMPUTE_32F);
}
void GemmCuda(const GemmArguments<double>& arguments, Stream<gpu>* stream) {
  RunCublas<double, double>(arguments, stream, CUDA_R_64F, CUBLAS_COMPUTE_64F);
}
void GemmCuda(const GemmArguments<half_t>& arguments, Stream<gpu>* stream) {
  RunCublas<half_t, float>(arguments, stream, CUDA_R_16F, CUBLAS_COMPUTE_32F);
}
void GemmCuda(const GemmArguments<bfloat16_t>& arguments, Stream<gpu>* stream) {
  RunCublas<bfloat16_t, float>(arguments, stream, CUDA_R_16BF, CUBLAS_COMPUTE_32F);
}

}  // namespace tensor_internal

using tensor_internal::CheckCublas;
using tensor_internal::CheckCuda;
using tensor_internal::CudaStream;

template <>
Stream<gpu>* NewStream<gpu>(int dev_id) {
  CheckCuda(cudaSetDevice(dev_id), "NewStream<gpu>: cudaSetDevice");
  auto stream = std::make_unique<Stream<gpu>>();
  stream->dev_id = dev_id;
  cudaStream_t cuda_stream = nullptr;
  // Non-blocking: the legacy default stream of somebody else's code must not order with ours.
  CheckCuda(cudaStreamCreateWithFlags(&cuda_stream, cudaStreamNonBlocking),
            "NewStream<gpu>: cudaStreamCreateWithFlags");
  stream->stream_ = cuda_stream;
  cublasHandle_t handle = nullptr;
  CheckCublas(cublasCreate(&handle), "NewStream<gpu>: cublasCreate");
  stream->blas_handle_ = handle;
  CheckCublas(cublasSetStream(handle, cuda_stream), "NewStream<gpu>: cublasSetStream");
  return stream.release();
}

template <>
void DeleteStream<gpu>(Stream<gpu>* stream) {
  if (stream == nullptr) return;
  const std::unique_ptr<Stream<gpu>> owned(stream);
  CheckCublas(cublasDestroy(static_cast<cublasHandle_t>(owned->blas_handle_)),
              "DeleteStream<gpu>: cublasDestroy");
  CheckCuda(cudaStreamDestroy(CudaStream(owned.get())), "DeleteStream<gpu>: cudaStreamDestroy");
}

void Stream<gpu>::Wait() {
  CheckCuda(cudaStreamSynchronize(CudaStream(this)), "Stream<gpu>::Wait");
}

bool Stream<gpu>::CheckIdle() const {
  const cudaError_t status = cudaStreamQuery(CudaStream(this));
  if (status == cudaErrorNotReady) return false;
  CheckCuda(status, "Stream<gpu>::CheckIdle");
  return true;
}

}  // namespace tessera
