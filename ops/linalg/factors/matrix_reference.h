#ifndef TESSERA_OPS_LINALG_FACTORS_MATRIX_REFERENCE_H_
#define TESSERA_OPS_LINALG_FACTORS_MATRIX_REFERENCE_H_

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

/// Plain functions of single matrices for references, and the frame of these operators' rows.
namespace tessera::ops_testing {

/// A matrix as its rows.
using Rows = std::vector<std::vector<double>>;

inline Rows Zeros(size_t rows, size_t columns) { return Rows(rows, std::vector<double>(columns)); }
inline Rows Identity(size_t n) {
  Rows identity = Zeros(n, n);
  for (size_t i = 0; i < n; ++i) identity[i][i] = 1;
  return identity;
}
inline Rows Transposed(const Rows& a) {
  Rows result = Zeros(a.empty() ? 0 : a[0].size(), a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[i].size(); ++j) result[j][i] = a[i][j];
  }
  return result;
}
inline Rows Product(const Rows& a, const Rows& b, double factor = 1) {
  Rows c = Zeros(a.size(), b.empty() ? 0 : b[0].size());
  for (size_t i = 0; i < c.size(); ++i) {
    for (size_t j = 0; j < c[i].size(); ++j) {
      for (size_t k = 0; k < b.size(); ++k) c[i][j] += factor * a[i][k] * b[k][j];
    }
  }
  return c;
}
inline Rows Triangle(Rows a, bool lower) {
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[i].size(); ++j) {
      if (lower ? j > i : j < i) a[i][j] = 0;
    }
  }
  return a;
}
/// Returns (a + a^T) / 2, so that the gradient of a function of it is the symmetric one.
inline Rows SymmetricPart(const Rows& a) {
  Rows result = a;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a.size(); ++j) result[i][j] = (a[i][j] + a[j][i]) / 2;
  }
  return result;
}
/// Returns the matrix without a row and a column.
inline Rows Minor(const Rows& a, size_t row, size_t column) {
  Rows minor;
  for (size_t i = 0; i < a.size(); ++i) {
    if (i == row) continue;
    minor.push_back(a[i]);
    minor.back().erase(minor.back().begin() + static_cast<ptrdiff_t>(column));
  }
  return minor;
}
/// Returns the determinant by expansion along the first row.
inline double DeterminantOf(const Rows& a) {
  double sum = a.empty() ? 1 : 0;
  for (size_t j = 0; j < a.size(); ++j) {
    sum += (j % 2 == 0 ? 1 : -1) * a[0][j] * DeterminantOf(Minor(a, 0, j));
  }
  return sum;
}
/// Returns the inverse by cofactors.
inline Rows InverseOf(const Rows& a) {
  Rows inverse = Zeros(a.size(), a.size());
  const double determinant = DeterminantOf(a);
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a.size(); ++j) {
      inverse[j][i] = ((i + j) % 2 == 0 ? 1 : -1) * DeterminantOf(Minor(a, i, j)) / determinant;
    }
  }
  return inverse;
}

/// A function of the matrices of one element of the batch; a number is a matrix of one element, and
/// a vector one row.
using MatrixReference =
    std::function<std::vector<Rows>(const ParameterMap& parameters, const std::vector<Rows>& in)>;

/// Returns the reference for arrays whose values have `in_ranks` and `out_ranks` dimensions after
/// the batch.
inline ForwardReference ForEachInBatch(std::vector<int> in_ranks, std::vector<int> out_ranks,
                                       MatrixReference function) {
  return [=](const ParameterMap& parameters, const std::vector<Values>& in, std::vector<Values>*) {
    const int batch_rank = in[0].shape.ndim() - in_ranks[0];
    index_t batch = 1;
    std::vector<index_t> batch_extents(in[0].shape.begin(), in[0].shape.begin() + batch_rank);
    for (const index_t extent : batch_extents) batch *= extent;
    std::vector<Values> out(out_ranks.size());
    // A batch of no elements has the shapes of one.
    for (index_t b = 0; b < std::max<index_t>(batch, 1); ++b) {
      std::vector<Rows> matrices;
      for (size_t i = 0; i < in.size(); ++i) {
        const TShape& shape = in[i].shape;
        const int last = shape.ndim() - 1;
        const index_t columns = shape[last], rows = in_ranks[i] == 2 ? shape[last - 1] : 1;
        matrices.push_back(Zeros(static_cast<size_t>(rows), static_cast<size_t>(columns)));
        if (batch == 0) continue;
        index_t next = b * rows * columns;
        for (auto& row : matrices.back()) {
          for (double& element : row) element = in[i][next++];
        }
      }
      const std::vector<Rows> results = function(parameters, matrices);
      for (size_t k = 0; k < results.size(); ++k) {
        if (b == 0) {
          std::vector<index_t> extents = batch_extents;
          const size_t columns = results[k].empty() ? 0 : results[k][0].size();
          if (out_ranks[k] == 2) extents.push_back(static_cast<index_t>(results[k].size()));
          if (out_ranks[k] >= 1 || extents.empty())
            extents.push_back(static_cast<index_t>(columns));
          out[k] = Values(TShape(std::span<const index_t>(extents)));
        }
        if (batch == 0) continue;
        index_t next = b * (out[k].size() / batch);
        for (const auto& row : results[k]) {
          for (const double element : row) out[k][next++] = element;
        }
      }
    }
    return out;
  };
}

/// Returns a row whose gradients are compared with differences.
inline OperatorRow MatrixRow(const std::string& name, std::vector<int> in_ranks,
                             std::vector<int> out_ranks, MatrixReference function) {
  OperatorRow row;
  row.name = name;
  row.forward = ForEachInBatch(std::move(in_ranks), std::move(out_ranks), std::move(function));
  row.batch_follows_from_output = false;
  row.forward_tolerance = {.float64 = 1e-12, .float32 = 1e-5, .float16 = 1e-2, .bfloat16 = 6e-2};
  row.backward_tolerance = {.float64 = 1e-7, .float32 = 1e-4, .float16 = 6e-2, .bfloat16 = 0.4};
  return row;
}

/// Returns the elements of a positive definite 3 x 3 matrix, then of another.
inline Fill PositiveDefinite() {
  return Fill::Given({4, 1, 2, 1, 3, 0.5, 2, 0.5, 5, 2, -0.5, 0.25, -0.5, 1, 0, 0.25, 0, 3});
}
/// Returns the elements of two 3 x 3 matrices that are far from singular in every triangle.
inline Fill WellConditioned() {
  return Fill::Given({2, 0.5, -1, 1, -3, 0.25, 0.5, 1, 1.5, -1, 0.25, 0.5, 2, 2, -0.5, 1, 0.75, 3});
}

/// The element types in which most cases are tried.
inline std::vector<DType> WideDTypes() { return {DType::kFloat64, DType::kFloat32}; }

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_LINALG_FACTORS_MATRIX_REFERENCE_H_
