#ifndef TESSERA_OPS_LINALG_FACTORS_DENSE_MATRIX_H_
#define TESSERA_OPS_LINALG_FACTORS_DENSE_MATRIX_H_

#include <cstddef>
#include <vector>

#include "tessera/base/shape.h"

/// Single matrices, in which factorizations compute: in double whatever the arrays' type is, so
/// that they are compiled once.
namespace tessera::ops_internal {

/// A row-major matrix of doubles, which is zero at first.
class Matrix {
 public:
  Matrix() = default;
  Matrix(index_t rows, index_t columns)
      : rows_(rows), columns_(columns), data_(static_cast<size_t>(rows * columns)) {}

  index_t rows() const { return rows_; }
  index_t columns() const { return columns_; }
  double* row(index_t i) { return data_.data() + i * columns_; }
  const double* row(index_t i) const { return data_.data() + i * columns_; }
  double& operator()(index_t i, index_t j) { return row(i)[j]; }
  double operator()(index_t i, index_t j) const { return row(i)[j]; }

  Matrix& operator+=(const Matrix& other);
  /// A factor 0 makes every element 0, even NaN.
  Matrix& operator*=(double factor);

 private:
  index_t rows_ = 0, columns_ = 0;
  std::vector<double> data_;
};

/// The triangle of a square matrix, with its diagonal, that a function reads or returns.
enum class Triangle { kLower, kUpper };

/// The form in which an operand enters a product.
enum class Transpose { kNo, kYes };

Matrix Transposed(const Matrix& a);

/// Returns op(a) * op(b).
Matrix Multiply(const Matrix& a, const Matrix& b, Transpose transpose_a = Transpose::kNo,
                Transpose transpose_b = Transpose::kNo);

/// Returns the triangle of a square matrix among zeros.
Matrix TriangleOf(const Matrix& a, Triangle triangle);
/// Returns the symmetric matrix whose lower triangle is that of `a`.
Matrix SymmetricFromLower(const Matrix& a);

/// Returns op(a)^-1 b, where only a triangle of `a` is read. A zero on the diagonal gives infinity
/// or NaN.
Matrix SolveTriangular(const Matrix& a, Triangle triangle, Transpose transpose, Matrix b);

/// Returns the lower triangle L of a = L L^T (Cholesky), of which the lower triangle is read.
/// Throws Error(kInvalidArgument) if the matrix is not positive definite.
Matrix CholeskyFactor(const Matrix& a);

/// The factors of a matrix whose rows are permuted (partial pivoting): P a = L U.
struct LuFactors {
  Matrix lu;                 ///< U, and below its diagonal L, whose own diagonal is 1
  std::vector<index_t> row;  ///< the row of `a` that row i of P a is
  double sign = 1;           ///< the permutation's sign, or 0 if the matrix is singular
};
LuFactors FactorLu(const Matrix& a);
/// Returns the inverse of a matrix that is not singular.
Matrix InverseOf(const LuFactors& factors);

/// The factors of a = L Q by Householder reflections of the rows, with the signs that LAPACK's
/// gelqf gives.
struct LqFactors {
  Matrix q;  ///< (m, n), whose rows are orthonormal
  Matrix l;  ///< (m, m), lower triangular
};
/// Requires: no more rows than columns.
LqFactors FactorLq(const Matrix& a);

/// The eigenvalues of a symmetric matrix, ascending, and its eigenvectors: a = U^T diag(values) U.
struct SymmetricEigen {
  Matrix vectors;  ///< a row for each eigenvector, of which the largest element is positive
  std::vector<double> values;
};
/// Reads the lower triangle. Computes by cyclic Jacobi rotations (Golub and Van Loan, Matrix
/// Computations, 8.5), whose errors are a few units in the last place of the largest eigenvalue.
SymmetricEigen EigenOfSymmetric(const Matrix& a);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LINALG_FACTORS_DENSE_MATRIX_H_
