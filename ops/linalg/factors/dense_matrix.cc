#include "tessera/ops/linalg/factors/dense_matrix.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/tensor/linalg/gemm.h"

namespace tessera::ops_internal {
namespace {

using base_internal::At;

/// Adds factor * from[j] to to[j] for j in [begin, end).
void AddRow(double factor, const double* from, index_t begin, index_t end, double* to) {
  for (index_t j = begin; j < end; ++j) to[j] += factor * from[j];
}

double Dot(const double* a, const double* b, index_t begin, index_t end) {
  double sum = 0;
  for (index_t j = begin; j < end; ++j) sum += a[j] * b[j];
  return sum;
}

/// Applies I - tau v v^T, whose v is row i of `vectors` from column i on with 1 in place of its
/// first element, from the right to a row.
void Reflect(const Matrix& vectors, index_t i, double tau, double* row) {
  const double* const v = vectors.row(i);
  const index_t n = vectors.columns();
  const double sum = tau * (row[i] + Dot(row, v, i + 1, n));
  row[i] -= sum;
  AddRow(-sum, v, i + 1, n, row);
}

/// Rotates rows and columns p and q so that element (p, q) of a symmetric matrix becomes 0. Returns
/// false if it is negligible beside the diagonal or not above `tiny`.
bool Rotate(index_t p, index_t q, double tiny, Matrix* a, Matrix* vectors) {
  const double element = (*a)(p, q), magnitude = std::abs(element);
  const double scale = std::abs((*a)(p, p)) + std::abs((*a)(q, q));
  if (!(magnitude > tiny) || scale + magnitude == scale) {
    (*a)(p, q) = (*a)(q, p) = 0;
    return false;
  }
  const double theta = ((*a)(q, q) - (*a)(p, p)) / (2 * element);
  const double t = std::copysign(1, theta) / (std::abs(theta) + std::hypot(theta, 1));
  const double c = 1 / std::hypot(t, 1), s = t * c;
  const auto rotate = [c, s](double& x, double& y) {
    const double old = x;
    x = c * old - s * y;
    y = s * old + c * y;
  };
  const index_t n = a->rows();
  for (index_t k = 0; k < n; ++k) rotate((*a)(k, p), (*a)(k, q));
  for (index_t k = 0; k < n; ++k) rotate((*a)(p, k), (*a)(q, k));
  for (index_t k = 0; k < n; ++k) rotate((*vectors)(p, k), (*vectors)(q, k));
  (*a)(p, q) = (*a)(q, p) = 0;
  return true;
}

Matrix Identity(index_t n) {
  Matrix identity(n, n);
  for (index_t i = 0; i < n; ++i) identity(i, i) = 1;
  return identity;
}

}  // namespace

Matrix& Matrix::operator+=(const Matrix& other) {
  for (size_t i = 0; i < data_.size(); ++i) data_[i] += other.data_[i];
  return *this;
}

Matrix& Matrix::operator*=(double factor) {
  for (double& element : data_) element = factor == 0 ? 0 : element * factor;
  return *this;
}

Matrix Transposed(const Matrix& a) {
  Matrix result(a.columns(), a.rows());
  for (index_t i = 0; i < a.rows(); ++i) {
    for (index_t j = 0; j < a.columns(); ++j) result(j, i) = a(i, j);
  }
  return result;
}

Matrix Multiply(const Matrix& a, const Matrix& b, Transpose transpose_a, Transpose transpose_b) {
  const bool ta = transpose_a == Transpose::kYes, tb = transpose_b == Transpose::kYes;
  Matrix c(ta ? a.columns() : a.rows(), tb ? b.rows() : b.columns());
  tensor_internal::Gemm(tensor_internal::GemmArguments<double>{.transpose_a = ta,
                                                               .transpose_b = tb,
                                                               .m = c.rows(),
                                                               .n = c.columns(),
                                                               .k = ta ? a.rows() : a.columns(),
                                                               .alpha = 1,
                                                               .a = a.row(0),
                                                               .lda = a.columns(),
                                                               .b = b.row(0),
                                                               .ldb = b.columns(),
                                                               .beta = 0,
                                                               .c = c.row(0),
                                                               .ldc = c.columns()});
  return c;
}

Matrix TriangleOf(const Matrix& a, Triangle triangle) {
  Matrix result(a.rows(), a.columns());
  for (index_t i = 0; i < a.rows(); ++i) {
    for (index_t j = 0; j < a.columns(); ++j) {
      if (triangle == Triangle::kLower ? j <= i : j >= i) result(i, j) = a(i, j);
    }
  }
  return result;
}

Matrix SymmetricFromLower(const Matrix& a) {
  Matrix result(a.rows(), a.columns());
  for (index_t i = 0; i < a.rows(); ++i) {
    for (index_t j = 0; j <= i; ++j) result(i, j) = result(j, i) = a(i, j);
  }
  return result;
}

Matrix SolveTriangular(const Matrix& a, Triangle triangle, Transpose transpose, Matrix b) {
  const index_t n = a.rows(), columns = b.columns();
  const bool transposed = transpose == Transpose::kYes;
  const bool forward = (triangle == Triangle::kLower) != transposed;
  for (index_t step = 0; step < n; ++step) {
    const index_t i = forward ? step : n - 1 - step;
    double* const row = b.row(i);
    for (index_t j = 0; j < columns; ++j) row[j] /= a(i, i);
    for (index_t other = step + 1; other < n; ++other) {
      const index_t k = forward ? other : n - 1 - other;
      AddRow(-(transposed ? a(i, k) : a(k, i)), row, 0, columns, b.row(k));
    }
  }
  return b;
}

Matrix CholeskyFactor(const Matrix& a) {
  Matrix l = TriangleOf(a, Triangle::kLower);
  for (index_t i = 0; i < l.rows(); ++i) {
    for (index_t j = 0; j < i; ++j) l(i, j) = (l(i, j) - Dot(l.row(i), l.row(j), 0, j)) / l(j, j);
    const double square = l(i, i) - Dot(l.row(i), l.row(i), 0, i);
    if (!(square > 0)) {
      throw InvalidArgument("the matrix is not positive definite: pivot ", i, " of its Cholesky ",
                            "factorization is ", square);
    }
    l(i, i) = std::sqrt(square);
  }
  return l;
}

LuFactors FactorLu(const Matrix& a) {
  const index_t n = a.rows();
  LuFactors factors{.lu = a, .row = std::vector<index_t>(At(n)), .sign = 1};
  std::iota(factors.row.begin(), factors.row.end(), 0);
  Matrix& lu = factors.lu;
  for (index_t k = 0; k < n; ++k) {
    index_t pivot = k;
    for (index_t i = k + 1; i < n; ++i) {
      if (std::abs(lu(i, k)) > std::abs(lu(pivot, k))) pivot = i;
    }
    if (lu(pivot, k) == 0) {
      factors.sign = 0;
      continue;
    }
    if (pivot != k) {
      std::swap_ranges(lu.row(k), lu.row(k) + n, lu.row(pivot));
      std::swap(factors.row[At(k)], factors.row[At(pivot)]);
      factors.sign = -factors.sign;
    }
    for (index_t i = k + 1; i < n; ++i) {
      lu(i, k) /= lu(k, k);
      AddRow(-lu(i, k), lu.row(k), k + 1, n, lu.row(i));
    }
  }
  return factors;
}

Matrix InverseOf(const LuFactors& factors) {
  const index_t n = factors.lu.rows();
  Matrix unit = factors.lu, permuted(n, n);
  for (index_t i = 0; i < n; ++i) {
    unit(i, i) = 1;
    permuted(i, factors.row[At(i)]) = 1;
  }
  return SolveTriangular(
      factors.lu, Triangle::kUpper, Transpose::kNo,
      SolveTriangular(unit, Triangle::kLower, Transpose::kNo, std::move(permuted)));
}

LqFactors FactorLq(const Matrix& a) {
  const index_t m = a.rows(), n = a.columns();
  Matrix work = a;  // L, and right of its diagonal the vectors of the reflections
  std::vector<double> taus(At(m));
  for (index_t i = 0; i < m; ++i) {
    double* const row = work.row(i);
    const double rest = std::sqrt(Dot(row, row, i + 1, n));
    if (rest == 0) continue;  // no reflection, as in LAPACK
    const double norm = -std::copysign(std::hypot(row[i], rest), row[i]);
    taus[At(i)] = (norm - row[i]) / norm;
    for (index_t j = i + 1; j < n; ++j) row[j] /= row[i] - norm;
    row[i] = norm;
    for (index_t k = i + 1; k < m; ++k) Reflect(work, i, taus[At(i)], work.row(k));
  }
  LqFactors factors{.q = Matrix(m, n), .l = TriangleOf(work, Triangle::kLower)};
  Matrix l(m, m);
  for (index_t i = 0; i < m; ++i) std::copy_n(factors.l.row(i), m, l.row(i));
  factors.l = std::move(l);
  for (index_t i = 0; i < m; ++i) {
    factors.q(i, i) = 1;
    for (index_t k = m - 1; k >= 0; --k) Reflect(work, k, taus[At(k)], factors.q.row(i));
  }
  return factors;
}

SymmetricEigen EigenOfSymmetric(const Matrix& a) {
  constexpr int kMaxSweeps = 60;
  constexpr double kTiny = 1e-18;
  const index_t n = a.rows();
  Matrix work = SymmetricFromLower(a), vectors = Identity(n);
  double largest = 0;
  for (index_t i = 0; i < n; ++i) {
    for (index_t j = 0; j <= i; ++j) largest = std::max(largest, std::abs(work(i, j)));
  }
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    bool changed = false;
    for (index_t p = 0; p < n; ++p) {
      for (index_t q = p + 1; q < n; ++q) changed |= Rotate(p, q, kTiny * largest, &work, &vectors);
    }
    if (!changed) break;
  }
  std::vector<index_t> order(At(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](index_t i, index_t j) { return work(i, i) < work(j, j); });
  SymmetricEigen eigen{.vectors = Matrix(n, n), .values = std::vector<double>(At(n))};
  for (index_t i = 0; i < n; ++i) {
    const index_t from = order[At(i)];
    eigen.values[At(i)] = work(from, from);
    const double* const vector = vectors.row(from);
    const double* const peak = std::max_element(
        vector, vector + n, [](double x, double y) { return std::abs(x) < std::abs(y); });
    const double sign = *peak < 0 ? -1 : 1;
    for (index_t j = 0; j < n; ++j) eigen.vectors(i, j) = sign * vector[j];
  }
  return eigen;
}

}  // namespace tessera::ops_internal
