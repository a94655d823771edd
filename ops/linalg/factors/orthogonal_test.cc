#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/linalg/factors/matrix_reference.h"
#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// L and Q by products with whole reflection matrices.
std::vector<Rows> LqFactorsOf(const ParameterMap&, const std::vector<Rows>& in) {
  Rows l = in[0];
  const size_t m = l.size(), n = m == 0 ? 0 : l[0].size();
  Rows reflections = Identity(n);
  for (size_t i = 0; i < m; ++i) {
    std::vector<double> v(n);
    double tail = 0;
    for (size_t j = i; j < n; ++j) v[j] = l[i][j];
    for (size_t j = i + 1; j < n; ++j) tail += v[j] * v[j];
    if (tail == 0) continue;
    v[i] += std::copysign(std::sqrt(v[i] * v[i] + tail), v[i]);
    const double square = v[i] * v[i] + tail;
    Rows reflection = Identity(n);
    for (size_t j = 0; j < n; ++j) {
      for (size_t k = 0; k < n; ++k) reflection[j][k] -= 2 * v[j] * v[k] / square;
    }
    l = Product(l, reflection);
    reflections = Product(reflections, reflection);
  }
  Rows q = Transposed(reflections);
  q.resize(m);
  for (auto& row : l) row.resize(m);
  return {q, Triangle(l, true)};
}

OperatorRow GelqfRow() {
  OperatorRow row = MatrixRow("_linalg_gelqf", {2}, {2, 2}, LqFactorsOf);
  row.cases = {
      {.name = "wide",
       .inputs = {{2, 3}},
       .fills = {Fill::Given({1, 2, 3, 4, 5, 7})},
       .dtypes = WideDTypes()},
      {.name = "square", .inputs = {{3, 3}}, .fills = {WellConditioned()}, .dtypes = WideDTypes()},
      {.name = "batch",
       .inputs = {{2, 3, 3}},
       .fills = {WellConditioned()},
       .dtypes = WideDTypes()},
      {.name = "one_row", .inputs = {{1, 4}}, .fills = {Fill::Uniform(1, 2)}},
      {.name = "numbers",
       .inputs = {{3, 1, 1}},
       .fills = {Fill::Given({2, -1, 3})},
       .dtypes = WideDTypes()},
      {.name = "no_batch", .inputs = {{0, 2, 3}}, .dtypes = WideDTypes()},
      {.name = "no_elements", .inputs = {{2, 0, 0}}, .dtypes = WideDTypes()},
  };
  row.errors = {
      {.name = "tall", .inputs = {{3, 2}}, .words = {"A", "(3,2)", "as many columns as rows"}},
      {.name = "vector", .inputs = {{3}}, .words = {"A", "(3,)", "at least 2"}},
  };
  return row;
}

/// Eigenvectors and eigenvalues of matrices of one or two rows, in closed form.
std::vector<Rows> EigenOf(const ParameterMap&, const std::vector<Rows>& in) {
  const Rows a = SymmetricPart(in[0]);
  if (a.size() < 2) return {Identity(a.size()), a};
  const double mean = (a[0][0] + a[1][1]) / 2, half = (a[0][0] - a[1][1]) / 2;
  const double radius = std::hypot(half, a[0][1]);
  Rows vectors;
  for (const double value : {mean - radius, mean + radius}) {
    std::vector<double> v = {a[0][1], value - a[0][0]};
    const double norm = std::hypot(v[0], v[1]);
    const double largest = std::abs(v[0]) >= std::abs(v[1]) ? v[0] : v[1];
    for (double& x : v) x *= std::copysign(1 / norm, largest);
    vectors.push_back(v);
  }
  return {vectors, {{mean - radius, mean + radius}}};
}

OperatorRow SyevdRow() {
  OperatorRow row = MatrixRow("_linalg_syevd", {2}, {2, 1}, EigenOf);
  const Fill symmetric = Fill::Given({1, 2, 2, 4.5, -1, 0.5, 0.5, 0.25});
  row.cases = {
      {.name = "matrix", .inputs = {{2, 2}}, .fills = {symmetric}},
      {.name = "batch", .inputs = {{2, 2, 2}}, .fills = {symmetric}, .dtypes = WideDTypes()},
      {.name = "numbers", .inputs = {{3, 1, 1}}, .dtypes = WideDTypes()},
      {.name = "no_batch", .inputs = {{0, 2, 2}}, .dtypes = WideDTypes()},
      {.name = "no_elements", .inputs = {{2, 0, 0}}, .dtypes = WideDTypes()},
  };
  row.errors = {{.name = "not_square", .inputs = {{2, 3}}, .words = {"A", "(2,3)"}}};
  return row;
}

const RowRegistration kGelqf(GelqfRow());
const RowRegistration kSyevd(SyevdRow());

}  // namespace
}  // namespace tessera::ops_testing
