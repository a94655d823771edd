#ifndef MSHADOW_BLAS_ENGINE_H_
#define MSHADOW_BLAS_ENGINE_H_

// BLAS functions that programs call directly.

#include "mshadow/base.h"
#include "mshadow/tensor_base.h"
#include "tessera/tensor/tensor.h"

namespace mshadow::expr {

/// Products of matrices and vectors given by address. Conventions are BLAS's: matrices are stored
/// by columns, which begin ld elements apart; increments may be negative; memory that beta == 0
/// overwrites is not read. Tessera's dot computes the products, for the types that it supports; a
/// GPU uses cuBLAS, on `stream`.
template <typename Device, typename DType = default_real_t>
struct BLASEngine {
  using Matrix = Tensor<Device, 2, DType>;

  /// Does nothing: every call has a stream.
  static void SetStream(Stream<Device>* stream) { static_cast<void>(stream); }

  /// Computes C = alpha op(A) op(B) + beta C. C has m rows and n columns, and op(A) has k columns.
  static void gemm(Stream<Device>* stream, bool transa, bool transb, index_t m, index_t n,
                   index_t k, DType alpha, const DType* A, index_t lda, const DType* B, index_t ldb,
                   DType beta, DType* C, index_t ldc) {
    // A matrix stored by columns is its transpose by rows: C' = op(B)' op(A)'.
    const Matrix a = transa ? ByRows(A, m, k, lda, stream) : ByRows(A, k, m, lda, stream);
    const Matrix b = transb ? ByRows(B, k, n, ldb, stream) : ByRows(B, n, k, ldb, stream);
    const Matrix c = ByRows(C, n, m, ldc, stream);
    if (transa && transb) {
      Combine(c, beta, alpha * tessera::dot(b.T(), a.T()));
    } else if (transa) {
      Combine(c, beta, alpha * tessera::dot(b, a.T()));
    } else if (transb) {
      Combine(c, beta, alpha * tessera::dot(b.T(), a));
    } else {
      Combine(c, beta, alpha * tessera::dot(b, a));
    }
  }

  /// Computes gemm for batch_count contiguous matrices.
  static void batched_gemm(Stream<Device>* stream, bool transa, bool transb, index_t m, index_t n,
                           index_t k, DType alpha, const DType* A, index_t lda, const DType* B,
                           index_t ldb, DType beta, DType* C, index_t ldc, index_t batch_count,
                           DType** workspace) {
    static_cast<void>(workspace);
    for (index_t i = 0; i < batch_count; ++i) {
      gemm(stream, transa, transb, m, n, k, alpha, A + i * m * k, lda, B + i * k * n, ldb, beta,
           C + i * m * n, ldc);
    }
  }

  /// Computes Y = alpha op(A) X + beta Y. A has m rows and n columns.
  static void gemv(Stream<Device>* stream, bool trans, index_t m, index_t n, DType alpha,
                   const DType* A, index_t lda, const DType* X, index_t incX, DType beta, DType* Y,
                   index_t incY) {
    const Matrix a = ByRows(A, n, m, lda, stream);
    WithVector(X, trans ? m : n, incX, stream, [&](const auto& x) {
      WithVector(Y, trans ? n : m, incY, stream, [&](const auto& y) {
        if (trans) {
          Combine(y, beta, alpha * tessera::dot(x, a.T()));
        } else {
          Combine(y, beta, alpha * tessera::dot(x, a));
        }
      });
    });
  }
  static void batched_gemv(Stream<Device>* stream, bool trans, index_t m, index_t n, DType alpha,
                           const DType* A, index_t lda, const DType* X, index_t incX, DType beta,
                           DType* Y, index_t incY, index_t batch_count) {
    for (index_t i = 0; i < batch_count; ++i) {
      gemv(stream, trans, m, n, alpha, A + i * m * n, lda, X + i * (trans ? m : n) * incX, incX,
           beta, Y + i * (trans ? n : m) * incY, incY);
    }
  }

  /// Computes A += alpha X Y'. A has m rows and n columns.
  static void ger(Stream<Device>* stream, index_t m, index_t n, DType alpha, const DType* X,
                  index_t incX, const DType* Y, index_t incY, DType* A, index_t lda) {
    Matrix a = ByRows(A, n, m, lda, stream);
    WithVector(X, m, incX, stream, [&](const auto& x) {
      WithVector(Y, n, incY, stream, [&](const auto& y) {
        a += alpha * tessera::broadcast<1>(x, a.shape_) * tessera::broadcast<0>(y, a.shape_);
      });
    });
  }
  static void batched_ger(Stream<Device>* stream, index_t m, index_t n, DType alpha, const DType* X,
                          index_t incX, const DType* Y, index_t incY, DType* A, index_t lda,
                          index_t batch_count) {
    for (index_t i = 0; i < batch_count; ++i) {
      ger(stream, m, n, alpha, X + i * m * incX, incX, Y + i * n * incY, incY, A + i * lda * n,
          lda);
    }
  }

  /// Computes *ret = X' Y. ret is in the device's memory.
  static void dot(Stream<Device>* stream, index_t n, const DType* X, index_t incX, const DType* Y,
                  index_t incY, DType* ret) {
    Tensor<Device, 1, DType> result(ret, Shape1(1), stream);
    WithVector(X, n, incX, stream, [&](const auto& x) {
      WithVector(Y, n, incY, stream, [&](const auto& y) { result = tessera::inner(x, y); });
    });
  }

 private:
  /// Returns the transpose of a matrix stored by columns.
  static Matrix ByRows(const DType* data, index_t rows, index_t columns, index_t stride,
                       Stream<Device>* stream) {
    return Matrix(const_cast<DType*>(data), Shape2(rows, columns), stride, stream);
  }

  /// Calls use(vector). BLAS counts from the last element if the increment is negative.
  template <typename Use>
  static void WithVector(const DType* data, index_t size, index_t increment, Stream<Device>* stream,
                         const Use& use) {
    DType* const first = const_cast<DType*>(increment < 0 ? data - (size - 1) * increment : data);
    if (increment == 1) {
      use(Tensor<Device, 1, DType>(first, Shape1(size), stream));
    } else {
      use(tessera::TensorView<Device, 1, DType>(first, Shape1(size), 0, increment, stream));
    }
  }

  /// Evaluates dst = product + beta dst. The destination is a handle.
  template <typename Dst, typename Product>
  static void Combine(Dst dst, DType beta, const Product& product) {
    if (beta == DType(0)) {
      dst = product;
    } else {
      if (beta != DType(1)) dst *= beta;
      dst += product;
    }
  }
};

}  // namespace mshadow::expr

#endif  // MSHADOW_BLAS_ENGINE_H_
