#ifndef TESSERA_TENSOR_INTERNAL_GEMM_H_
#define TESSERA_TENSOR_INTERNAL_GEMM_H_

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"

namespace tessera::tensor_internal {

/// One product of row-major matrices: C = alpha * op(A) * op(B) + beta * C, where op(A) is m x k
/// and op(B) is k x n; lda, ldb, ldc are the elements from one stored row to the next. With beta ==
/// 0, C is written without being read. C overlaps neither A nor B.
template <typename T>
struct GemmArguments {
  bool transpose_a;
  bool transpose_b;
  index_t m;
  index_t n;
  index_t k;
  T alpha;
  const T* a;
  index_t lda;
  const T* b;
  index_t ldb;
  T beta;
  T* c;
  index_t ldc;
};

/// Runs the product on the CPU, in parallel where it is large enough, with the kernel of the best
/// instruction set that this machine has. half and bfloat16 accumulate in float.
void Gemm(const GemmArguments<float>& arguments);
void Gemm(const GemmArguments<double>& arguments);
void Gemm(const GemmArguments<half_t>& arguments);
void Gemm(const GemmArguments<bfloat16_t>& arguments);

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_INTERNAL_GEMM_H_
