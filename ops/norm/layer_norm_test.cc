#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Data seen as (outer, n, inner), of which rows of n elements are normalized.
struct Layout {
  int axis;
  index_t outer, n, inner;
  Layout(const ParameterMap& parameters, const TShape& data) {
    axis = static_cast<int>(ParameterReader(parameters).Int("axis", -1));
    if (axis < 0) axis += data.ndim();
    outer = data.ProdShape(0, axis);
    n = data[axis];
    inner = data.ProdShape(axis + 1, data.ndim());
  }
  index_t num_rows() const { return outer * inner; }
  index_t At(index_t row, index_t k) const { return (row / inner * n + k) * inner + row % inner; }
};

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const Layout l(parameters, in[0].shape);
  const double eps = ParameterReader(parameters).Real("eps", 1e-5f);
  TShape rows = in[0].shape;
  rows[l.axis] = 1;
  std::vector<Values> out = {Values(in[0].shape), Values(rows), Values(rows)};
  for (index_t r = 0; r < l.num_rows(); ++r) {
    double mean = 0, var = 0;
    const double n = static_cast<double>(l.n);
    for (index_t k = 0; k < l.n; ++k) mean += in[0][l.At(r, k)] / n;
    for (index_t k = 0; k < l.n; ++k) var += std::pow(in[0][l.At(r, k)] - mean, 2) / n;
    out[1][r] = mean;
    out[2][r] = std::sqrt(var + eps);
    for (index_t k = 0; k < l.n; ++k) {
      out[0][l.At(r, k)] = (in[0][l.At(r, k)] - mean) / out[2][r] * in[1][k] + in[2][k];
    }
  }
  return out;
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>& out) {
  const Layout l(parameters, in[0].shape);
  std::vector<Values> grad;
  for (const Values& input : in) grad.emplace_back(input.shape);
  const Values& g = out_grad[0];
  for (index_t r = 0; r < l.num_rows(); ++r) {
    const auto xhat = [&](index_t k) { return (in[0][l.At(r, k)] - out[1][r]) / out[2][r]; };
    double sum = 0, dot = 0;
    for (index_t k = 0; k < l.n; ++k) {
      const double h = g[l.At(r, k)] * in[1][k];
      sum += h / static_cast<double>(l.n);
      dot += h * xhat(k) / static_cast<double>(l.n);
      grad[1][k] += g[l.At(r, k)] * xhat(k);
      grad[2][k] += g[l.At(r, k)];
    }
    for (index_t k = 0; k < l.n; ++k) {
      grad[0][l.At(r, k)] = (g[l.At(r, k)] * in[1][k] - sum - xhat(k) * dot) / out[2][r];
    }
  }
  return grad;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "LayerNorm";
  row.forward = Forward;
  row.backward = Backward;
  const auto add = [&](const std::string& name, ParameterMap parameters, const TShape& data,
                       index_t n) -> OperatorCase& {
    OperatorCase& made = row.cases.emplace_back(
        OperatorCase{.name = name,
                     .parameters = std::move(parameters),
                     .inputs = {data, {n}, {n}},
                     .fills = {Fill::Uniform(-1, 3), Fill::Uniform(0.5, 2)}});
    if (data.Size() > 1000) {
      made.large = true;
      made.dtypes = {DType::kFloat32, DType::kBFloat16};
    }
    return made;
  };
  add("rows", {}, {5, 7}, 7);
  add("vector", {}, {33}, 33);
  // Around the loops' partial sums.
  for (const index_t n : {31, 32, 64}) add("row_of_" + std::to_string(n), {}, {2, n}, n);
  add("batch_0", {}, {0, 4}, 4);
  add("first_axis", {{"axis", "0"}}, {6, 3}, 6);
  add("middle_axis", {{"axis", "1"}}, {2, 5, 19}, 5);
  add("eps", {{"eps", "0.5"}}, {3, 5}, 5);
  add("with_statistics", {{"output_mean_var", "True"}}, {2, 3, 5}, 5).large = true;
  add("parallel", {}, {300, 259}, 259);
  add("parallel_columns", {{"axis", "1"}}, {7, 150, 40}, 150);
  row.errors = {
      {.name = "axis_outside",
       .parameters = {{"axis", "2"}},
       .inputs = {{3, 4}},
       .words = {"axis", "2", "(3,4)"}},
      {.name = "gamma_of_other_length",
       .inputs = {{3, 4}, {3}},
       .words = {"gamma", "(3,)", "(4,)"}},
      {.name = "negative_eps", .parameters = {{"eps", "-1"}}, .words = {"eps", "-1"}},
  };
  row.forward_tolerance = {.float64 = 1e-14, .float32 = 4e-6, .float16 = 4e-3, .bfloat16 = 3e-2};
  row.backward_tolerance = {.float64 = 1e-13, .float32 = 2e-5, .float16 = 1e-2, .bfloat16 = 6e-2};
  row.backward_tolerance.of_largest = true;
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
