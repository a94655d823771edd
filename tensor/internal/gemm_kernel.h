// The GEMM kernel: included by one .cc for each instruction set, which is compiled for that set and
// with Eigen's namespace renamed (-DEigen=…). Eigen's GEMM driver has one symbol for all
// instruction sets, so without the new name the linker would keep one body for all of them.
//
// Nothing here may instantiate a template of the standard library or of Tessera: such a symbol
// would be shared with code for lesser machines.
#ifndef TESSERA_TENSOR_INTERNAL_GEMM_KERNEL_H_
#define TESSERA_TENSOR_INTERNAL_GEMM_KERNEL_H_

#include <Eigen/Core>
#include <cstdint>

#ifndef TESSERA_GEMM_NAMESPACE
#error "define TESSERA_GEMM_NAMESPACE to the kernel's instruction set"
#endif

namespace tessera::tensor_internal::TESSERA_GEMM_NAMESPACE {
namespace {

template <typename T>
using MatrixMap = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                             Eigen::OuterStride<>>;
template <typename T>
using ConstMatrixMap =
    Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
               Eigen::OuterStride<>>;

template <typename C, typename T, typename A, typename B>
void Accumulate(C& c, T alpha, T beta, const A& a, const B& b) {
  if (beta == T(0)) {
    if (alpha == T(1)) {
      c.noalias() = a * b;
    } else {
      c.noalias() = alpha * a * b;
    }
    return;
  }
  if (beta != T(1)) c *= beta;
  c.noalias() += alpha * a * b;
}

template <typename T>
void GemmBlock(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, T alpha,
               const T* a_data, int64_t lda, const T* b_data, int64_t ldb, T beta, T* c_data,
               int64_t ldc) {
  MatrixMap<T> c(c_data, m, n, Eigen::OuterStride<>(ldc));
  const ConstMatrixMap<T> a(a_data, transpose_a ? k : m, transpose_a ? m : k,
                            Eigen::OuterStride<>(lda));
  const ConstMatrixMap<T> b(b_data, transpose_b ? n : k, transpose_b ? k : n,
                            Eigen::OuterStride<>(ldb));
  if (transpose_a && transpose_b) {
    Accumulate(c, alpha, beta, a.transpose(), b.transpose());
  } else if (transpose_a) {
    Accumulate(c, alpha, beta, a.transpose(), b);
  } else if (transpose_b) {
    Accumulate(c, alpha, beta, a, b.transpose());
  } else {
    Accumulate(c, alpha, beta, a, b);
  }
}

}  // namespace

void GemmFloat(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
               const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
               int64_t ldc) {
  GemmBlock(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void GemmDouble(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
                const double* a, int64_t lda, const double* b, int64_t ldb, double beta, double* c,
                int64_t ldc) {
  GemmBlock(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

}  // namespace tessera::tensor_internal::TESSERA_GEMM_NAMESPACE

#endif  // TESSERA_TENSOR_INTERNAL_GEMM_KERNEL_H_
