#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// lr * (clip(rescale_grad * grad) + wd * weight)
double Descent(const ParameterReader& p, double weight, double grad) {
  double g = p.Real("rescale_grad", 1) * grad;
  const double bound = p.Real("clip_gradient", -1);
  if (bound >= 0) g = std::clamp(g, -bound, bound);
  return p.Real("lr", 0) * (g + p.Real("wd", 0) * weight);
}

std::vector<Values> PlainStep(const ParameterMap& parameters, const std::vector<Values>& in,
                              std::vector<Values>*) {
  const ParameterReader p(parameters);
  Values weight = in[0];
  for (index_t i = 0; i < weight.size(); ++i) weight[i] -= Descent(p, in[0][i], in[1][i]);
  return {weight};
}

std::vector<Values> MomentumStep(const ParameterMap& parameters, const std::vector<Values>& in,
                                 std::vector<Values>* mutated) {
  const ParameterReader p(parameters);
  Values weight = in[0];
  Values& mom = (*mutated)[0];
  for (index_t i = 0; i < weight.size(); ++i) {
    mom[i] = p.Real("momentum", 0) * mom[i] - Descent(p, in[0][i], in[1][i]);
    weight[i] += mom[i];
  }
  return {weight};
}

OperatorRow Row(const std::string& name, ForwardReference forward, const ParameterMap& momentum) {
  OperatorRow row;
  row.name = name;
  row.forward = std::move(forward);
  row.shapes_follow_from_output = true;
  const auto add = [&](const std::string& case_name, ParameterMap parameters, const TShape& shape) {
    parameters.insert(momentum.begin(), momentum.end());
    const std::vector<TShape> inputs(momentum.empty() ? 2 : 3, shape);
    row.cases.push_back({.name = case_name, .parameters = std::move(parameters), .inputs = inputs});
  };
  add("plain", {{"lr", "0.5"}}, {33});
  add("empty", {{"lr", "0.5"}}, {0, 3});
  add("rank_0", {{"lr", "0.5"}}, TShape::OfRank(0));
  add("weight_decay", {{"lr", "0.5"}, {"wd", "0.25"}}, {3, 5});
  add("rescaled", {{"lr", "0.5"}, {"rescale_grad", "0.03125"}, {"wd", "0.0001"}}, {64, 9});
  add("clipped", {{"lr", "0.5"}, {"clip_gradient", "0.25"}, {"wd", "0.25"}}, {31});
  add("clipped_after_rescaling",
      {{"lr", "0.5"}, {"rescale_grad", "4"}, {"clip_gradient", "1"}, {"lazy_update", "False"}},
      {31});
  add("clipped_to_nothing", {{"lr", "0.5"}, {"clip_gradient", "0"}, {"wd", "0.5"}}, {8});
  add("parallel", {{"lr", "0.5"}, {"wd", "0.25"}}, {128, 777});
  row.cases.back().dtypes = {DType::kFloat32, DType::kBFloat16};
  row.errors = {{.name = "without_lr", .words = {"required", "lr"}},
                {.name = "gradient_of_other_shape",
                 .parameters = {{"lr", "0.5"}},
                 .inputs = {{3, 4}, {4, 3}},
                 .words = {"grad", "(3,4)", "(4,3)"}}};
  return row;
}

const RowRegistration kPlain(Row("sgd_update", PlainStep, {}));
const RowRegistration kMomentum(Row("sgd_mom_update", MomentumStep, {{"momentum", "0.75"}}));

}  // namespace
}  // namespace tessera::ops_testing
