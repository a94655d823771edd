#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>

#include "tessera/tensor/device/cuda_check.h"
#include "tessera/tensor/device/stream.h"
#include "tessera/tensor/linalg/dot_cuda.h"

namespace tessera {
namespace tensor_internal {
namespace {

void CheckCublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  static_cast<void>(cudaGetLastError());  // as in CheckCuda
  if (status == CUBLAS_STATUS_ALLOC_FAILED) {
    throw ResourceExhausted(call, ": ", cublasGetStatusString(status));
  }
  throw Internal(call, ": ", cublasGetStatusString(status));
}

int CheckedInt(index_t value, const char* what) {
  if (value > std::numeric_limits<int>::max()) {
    throw InvalidArgument("dot on gpu: ", what, " = ", value, " is above cuBLAS's limit of 2^31-1");
  }
  return static_cast<int>(value);
}

// A CUDA grid holds 65535 blocks in its third dimension, and versions of cuBLAS have failed on
// batches beyond that (pytorch/pytorch#45724). A round number keeps each call's matrices as aligned
// as the first one's.
constexpr index_t kMaxBatch = index_t{1} << 15;

// cuBLAS is column-major: a row-major C = A * B is there C' = B' * A'. `compute` is the type of the
// sum and of the scale factors.
template <typename T, typename Scale>
void RunCublas(const GemmArguments<T>& g, Stream<gpu>* stream, const GemmBatch& batch,
               cudaDataType_t type, cublasComputeType_t compute) {
  if (g.m == 0 || g.n == 0 || batch.count == 0) return;
  if (stream == nullptr) stream = FallbackStream();
  if (stream == nullptr || stream->blas_handle_ == nullptr) {
    throw FailedPrecondition("dot on gpu: the destination needs a stream from NewStream<gpu>()");
  }
  const cublasHandle_t handle = static_cast<cublasHandle_t>(stream->blas_handle_);
  const cublasOperation_t op_a = g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t op_b = g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int m = CheckedInt(g.m, "m");
  const int n = CheckedInt(g.n, "n");
  const int k = CheckedInt(g.k, "k");
  const int lda = CheckedInt(std::max<index_t>(g.lda, 1), "lda");
  const int ldb = CheckedInt(std::max<index_t>(g.ldb, 1), "ldb");
  const int ldc = CheckedInt(std::max<index_t>(g.ldc, 1), "ldc");
  const Scale alpha = static_cast<Scale>(g.alpha);
  const Scale beta = static_cast<Scale>(g.beta);
  if (batch.count == 1) {
    CheckCublas(cublasGemmEx(handle, op_b, op_a, n, m, k, &alpha, g.b, type, ldb, g.a, type, lda,
                             &beta, g.c, type, ldc, compute, CUBLAS_GEMM_DEFAULT),
                "cublasGemmEx");
    return;
  }
  for (index_t i = 0; i < batch.count; i += kMaxBatch) {
    const GemmArguments<T> first = ProductOf(g, batch, i);
    const int count = static_cast<int>(std::min(kMaxBatch, batch.count - i));
    CheckCublas(cublasGemmStridedBatchedEx(handle, op_b, op_a, n, m, k, &alpha, first.b, type, ldb,
                                           batch.stride_b, first.a, type, lda, batch.stride_a,
                                           &beta, first.c, type, ldc, batch.stride_c, count,
                                           compute, CUBLAS_GEMM_DEFAULT),
                "cublasGemmStridedBatchedEx");
  }
}

}  // namespace

void GemmCuda(const GemmArguments<float>& first, Stream<gpu>* stream, const GemmBatch& batch) {
  RunCublas<float, float>(first, stream, batch, CUDA_R_32F, CUBLAS_COMPUTE_32F);
}
void GemmCuda(const GemmArguments<double>& first, Stream<gpu>* stream, const GemmBatch& batch) {
  RunCublas<double, double>(first, stream, batch, CUDA_R_64F, CUBLAS_COMPUTE_64F);
}
void GemmCuda(const GemmArguments<half_t>& first, Stream<gpu>* stream, const GemmBatch& batch) {
  RunCublas<half_t, float>(first, stream, batch, CUDA_R_16F, CUBLAS_COMPUTE_32F);
}
void GemmCuda(const GemmArguments<bfloat16_t>& first, Stream<gpu>* stream, const GemmBatch& batch) {
  RunCublas<bfloat16_t, float>(first, stream, batch, CUDA_R_16BF, CUBLAS_COMPUTE_32F);
}

}  // namespace tensor_internal

using tensor_internal::CheckCublas;
using tensor_internal::CheckCuda;
using tensor_internal::CudaStream;

template <>
Stream<gpu>* NewStream<gpu>(int dev_id) {
  CheckCuda(cudaSetDevice(dev_id), "NewStream<gpu>: cudaSetDevice");
  // The temporaries of expressions come from the device's pool, which by default gives all that is
  // free back to the system whenever somebody waits for a stream.
  cudaMemPool_t pool = nullptr;
  CheckCuda(cudaDeviceGetDefaultMemPool(&pool, dev_id), "NewStream<gpu>: default memory pool");
  uint64_t kept_bytes = 0;
  CheckCuda(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept_bytes),
            "NewStream<gpu>: cudaMemPoolGetAttribute");
  if (kept_bytes == 0) {  // not if the program has chosen
    kept_bytes = uint64_t{1} << 30;
    CheckCuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept_bytes),
              "NewStream<gpu>: cudaMemPoolSetAttribute");
  }
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
  // Partial sums of half and bfloat16 stay in float.
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
  // The stream goes even if the handle's end fails.
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
    // An answer and not a failure, but CUDA remembers it as the last error.
    static_cast<void>(cudaGetLastError());
    return false;
  }
  CheckCuda(status, "Stream<gpu>::CheckIdle");
  return true;
}

}  // namespace tessera
