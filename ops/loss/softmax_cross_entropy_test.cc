#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

std::vector<double> Softmax(const Values& data, index_t row) {
  const index_t classes = data.shape[1];
  std::vector<double> p(static_cast<size_t>(classes));
  double largest = -INFINITY, sum = 0;
  for (index_t k = 0; k < classes; ++k) largest = std::max(largest, data[row * classes + k]);
  for (index_t k = 0; k < classes; ++k) {
    sum += p[static_cast<size_t>(k)] = std::exp(data[row * classes + k] - largest);
  }
  for (double& x : p) x /= sum;
  return p;
}

std::vector<Values> Forward(const ParameterMap&, const std::vector<Values>& in,
                            std::vector<Values>*) {
  std::vector<Values> out = {Values(TShape{1})};
  for (index_t row = 0; row < in[0].shape[0]; ++row) {
    const double p = Softmax(in[0], row)[static_cast<size_t>(in[1][row])];
    out[0][0] -= std::log(std::max(p, 1e-8));
  }
  return out;
}

std::vector<Values> Backward(const ParameterMap&, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>&) {
  std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
  const index_t classes = in[0].shape[1];
  for (index_t row = 0; row < in[0].shape[0]; ++row) {
    const std::vector<double> p = Softmax(in[0], row);
    for (index_t k = 0; k < classes; ++k) {
      const double target = k == static_cast<index_t>(in[1][row]) ? 1 : 0;
      grad[0][row * classes + k] = out_grad[0][0] * (p[static_cast<size_t>(k)] - target);
    }
  }
  return grad;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "softmax_cross_entropy";
  row.forward = Forward;
  row.backward = Backward;
  row.batch_follows_from_output = false;
  const std::vector<Fill> fills = {Fill::Uniform(-3, 3), Fill::Integers(0, 3)};
  row.cases = {
      {.name = "rows", .inputs = {{5, 4}, {5}}, .fills = fills},
      {.name = "one_sample", .inputs = {{1, 19}, {1}}, .fills = fills},
      {.name = "batch_0", .inputs = {{0, 4}, {0}}, .fills = fills},
      // Probabilities below the smallest that counts; there the output is flat.
      {.name = "improbable_labels",
       .inputs = {{3, 2}, {3}},
       .fills = {Fill::Given({100, -100}), Fill::Given({1})},
       .large = true},
  };
  row.errors = {
      {.name = "label_of_other_batch", .inputs = {{3, 4}, {2}}, .words = {"label", "(2,)", "(3,)"}},
      {.name = "vector", .inputs = {{4}}, .words = {"data", "(4,)"}},
  };
  row.forward_tolerance = {.float64 = 4e-15, .float32 = 4e-6, .float16 = 4e-3, .bfloat16 = 3e-2};
  row.backward_tolerance = {.float64 = 4e-15, .float32 = 4e-6, .float16 = 4e-3, .bfloat16 = 3e-2};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
