#include <cublas_v2.h>

#include <algorithm>
#include <limits>

#include "tessera/tensor/device/cublas_check.h"
#include "tessera/tensor/device/stream.h"
#include "tessera/tensor/linalg/dot_cuda.h"

namespace tessera {
namespace tensor_internal {
namespace {

int CheckedInt(index_t value, const char* what) {
  if (value > std::numeric_limits<int>::max()) {
    throw InvalidArgument("dot on gpu: ", what, " = ", value, " is above cuBLAS's limit of 2^31-1");
  }
  return static_cast<int>(value);
}

// The largest number of products in one call of cuBLAS. A CUDA grid holds 65535 blocks in its third
// dimension, and versions of cuBLAS have failed on batches beyond that (pytorch/pytorch#45724). A
// round number keeps each call's matrices as aligned as the first one's.
constexpr index_t kMaxBatch = index_t{1} << 15;

// Enqueues products through cuBLAS, which is column-major: a row-major C = A * B is there C' = B' *
// A'. `compute` is the type of the sum and of the scale factors.
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
}  // namespace tessera
