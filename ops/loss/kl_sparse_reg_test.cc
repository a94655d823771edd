#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Calls function(element, feature) for each element of data.
template <typename Function>
void ForEachElement(const TShape& data, const Function& function) {
  const index_t inner = data.ProdShape(2, data.ndim());
  for (index_t i = 0; i < data.Size(); ++i) function(i, i / inner % data[1]);
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>* mutated) {
  const double momentum = static_cast<float>(ParameterReader(parameters).Real("momentum", 0.9));
  Values mean(in[1].shape), average = in[1];
  const double n = in[0].shape[1] == 0 ? 0 : static_cast<double>(in[0].size() / in[0].shape[1]);
  if (n > 0) {
    ForEachElement(in[0].shape, [&](index_t i, index_t f) { mean[f] += in[0][i] / n; });
    for (index_t f = 0; f < mean.size(); ++f) {
      average[f] = average[f] * momentum + mean[f] * (1 - momentum);
    }
  }
  (*mutated)[0] = average;
  return {in[0], average};
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>& out) {
  const ParameterReader p(parameters);
  const double target = static_cast<float>(p.Real("sparseness_target", 0.1f));
  const double penalty = static_cast<float>(p.Real("penalty", 0.001f));
  std::vector<Values> grad = {out_grad[0], Values(in[1].shape)};
  ForEachElement(in[0].shape, [&](index_t i, index_t f) {
    const double average = out[1][f];
    grad[0][i] += penalty * ((1 - target) / (1 - average) - target / average);
  });
  return grad;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "IdentityAttachKLSparseReg";
  row.forward = Forward;
  row.backward = Backward;
  row.gradient_is_derivative = false;
  const ParameterMap strong = {
      {"sparseness_target", "0.25"}, {"penalty", "0.5"}, {"momentum", "0.75"}};
  const auto add = [&](const std::string& name, const ParameterMap& parameters,
                       const TShape& data) {
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {data, {data[1]}},
                         .fills = {Fill::Uniform(0.1, 0.9), Fill::Uniform(0.2, 0.8)}});
  };
  add("defaults", {}, {5, 3});
  add("strong", strong, {4, 7});
  add("image", strong, {3, 4, 2, 5});
  add("one_sample", strong, {1, 3});
  add("no_memory", {{"momentum", "0"}, {"penalty", "0.1"}}, {4, 3});
  add("batch_0", strong, {0, 3});
  add("no_features", strong, {3, 0});
  add("parallel", strong, {300, 65, 4});
  row.cases.back().large = true;
  row.errors = {
      {.name = "vector", .inputs = {{4}}, .words = {"data", "(4,)", "(batch, features"}},
      {.name = "other_features", .inputs = {{2, 3}, {4}}, .words = {"moving_avg", "(4,)", "(3,)"}},
      {.name = "target_above_1",
       .parameters = {{"sparseness_target", "1.5"}},
       .words = {"sparseness_target", "1.5"}},
      {.name = "momentum_below_0", .parameters = {{"momentum", "-1"}}, .words = {"momentum", "-1"}},
  };
  row.forward_tolerance.float32 = 2e-6;
  // The hidden average has the type of data.
  row.backward_tolerance = {.float64 = 1e-14, .float32 = 4e-6, .float16 = 8e-3, .bfloat16 = 6e-2};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
