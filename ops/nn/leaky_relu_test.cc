#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

double Rectify(const std::string& type, double x, double slope) {
  if (type == "gelu") return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
  if (type == "elu") return x > 0 ? x : slope * std::expm1(x);
  if (type == "selu") {
    return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x));
  }
  return x > 0 ? x : slope * x;
}

/// The element of gamma for element i of data.
index_t SlopeIndex(const TShape& gamma, const TShape& data, index_t i) {
  if (gamma.ndim() == 1 && gamma[0] == 1) return 0;
  const index_t channel_size = data.ProdShape(2, data.ndim());
  if (gamma.ndim() == 1) return i / channel_size % data[1];
  if (data.ndim() > 2 && gamma[0] == data[0] && gamma[1] == data[1]) return i / channel_size;
  index_t index = 0, stride = 1;
  for (int d = data.ndim() - 1, g = gamma.ndim() - 1; g >= 0; --d, --g) {
    if (gamma[g] != 1) index += i % data[d] * stride;
    stride *= gamma[g];
    i /= data[d];
  }
  return index;
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ParameterReader p(parameters);
  const std::string type = p.Text("act_type", "leaky");
  std::vector<Values> out = {Values(in[0].shape)};
  for (index_t i = 0; i < in[0].size(); ++i) {
    double slope = p.Real("slope", 0.25);
    if (type == "prelu") slope = in[1][SlopeIndex(in[1].shape, in[0].shape, i)];
    if (type == "rrelu") slope = p.Real("lower_bound", 0);
    out[0][i] = Rectify(type, in[0][i], slope);
  }
  // Both bounds of the random slopes are equal in these cases.
  if (type == "rrelu") out.emplace_back(in[0].shape, p.Real("lower_bound", 0));
  return out;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "LeakyReLU";
  row.forward = Forward;
  const auto add = [&](const std::string& name, ParameterMap parameters,
                       std::vector<TShape> inputs) -> OperatorCase& {
    return row.cases.emplace_back(OperatorCase{.name = name,
                                               .parameters = std::move(parameters),
                                               .inputs = std::move(inputs),
                                               .fills = {Fill::Distinct(-3, 3)}});
  };
  for (const std::string type : {"leaky", "elu", "selu", "gelu"}) {
    add(type, {{"act_type", type}}, {{3, 7}});
    add(type + "_of_nothing", {{"act_type", type}}, {{0, 2}});
    add(type + "_rank_0", {{"act_type", type}}, {TShape::OfRank(0)});
    add(type + "_slope", {{"act_type", type}, {"slope", "0.5"}}, {{33}});
    // One more than a block of the loops.
    add(type + "_blocks", {{"act_type", type}}, {{257}});
  }
  add("large_arguments", {{"act_type", "elu"}}, {{6}}).fills = {
      Fill::Given({-1e4, -100, -20, 20, 100, 1e4})};
  add("gelu_of_large_arguments", {{"act_type", "gelu"}}, {{8}}).fills = {
      Fill::Given({-1e4, -100, -38, -6, 6, 38, 100, 1e4})};
  const ParameterMap prelu = {{"act_type", "prelu"}};
  add("prelu", prelu, {{2, 3, 4}, {3}});
  add("prelu_matrix", prelu, {{4, 3}, {3}});
  add("prelu_vector", prelu, {{5}, {1}});
  add("prelu_one_slope", prelu, {{2, 3, 4}, {1}}).shapes_follow_from_first = false;
  add("prelu_broadcast", prelu, {{2, 3, 4}, {3, 1}}).shapes_follow_from_first = false;
  add("prelu_in_front", prelu, {{3, 4, 2, 2}, {3, 4}}).shapes_follow_from_first = false;
  add("prelu_of_nothing", prelu, {{0, 3, 2}, {3}});
  add("rrelu", {{"act_type", "rrelu"}, {"lower_bound", "0.25"}, {"upper_bound", "0.25"}}, {{3, 7}});
  add("leaky_without_bounds", {{"act_type", "leaky"}, {"lower_bound", "0.5"}}, {{3, 7}});
  row.errors = {
      {.name = "unknown_type",
       .parameters = {{"act_type", "relu"}},
       .words = {"act_type", "prelu"}},
      {.name = "bounds",
       .parameters = {{"act_type", "rrelu"}, {"lower_bound", "0.5"}},
       .words = {"lower_bound", "0.5", "upper_bound"}},
      {.name = "gamma_of_other_channels",
       .parameters = prelu,
       .inputs = {{2, 3, 4}, {4}},
       .words = {"gamma", "(4,)", "(3,)"}},
      {.name = "gamma_that_does_not_broadcast",
       .parameters = prelu,
       .inputs = {{2, 3, 4}, {3, 2}},
       .words = {"gamma", "(3,2)", "(2,3,4)"}},
  };
  row.forward_tolerance = {.float64 = 4e-15, .float32 = 2e-6};
  row.backward_tolerance = {.float64 = 1e-7, .float32 = 1e-5, .float16 = 2e-2, .bfloat16 = 1.6e-1};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
