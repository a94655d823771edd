#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/optimizer/step_row.h"

namespace tessera::ops_testing {
namespace {

double Phase1(const StepReader& p, double weight, double grad, double* state) {
  const double beta1 = p.Real("beta1", 0.9f), beta2 = p.Real("beta2", 0.999f);
  const double t = p.Real("t", 1), g = p.Gradient(grad);
  state[0] = beta1 * state[0] + (1 - beta1) * g;
  state[1] = beta2 * state[1] + (1 - beta2) * g * g;
  double mean = state[0], var = state[1];
  if (p.reader().Bool("bias_correction", true)) {
    mean /= 1 - std::pow(beta1, t);
    var /= 1 - std::pow(beta2, t);
  }
  return mean / (std::sqrt(var) + p.Real("epsilon", 1e-6f)) + p.Real("wd", 0) * weight;
}

const std::vector<ParameterMap> kCases = {{{"beta1", "0.5"}, {"beta2", "0.75"}},
                                          {{"epsilon", "0.1"}},
                                          {{"t", "1"}, {"wd", "0.25"}},
                                          {{"t", "1"}, {"bias_correction", "False"}}};

const StepRow kStep = {.name = "lamb_update_phase1",
                       .num_states = 2,
                       .step = Phase1,
                       .required = {{"t", "3"}, {"wd", "0.125"}},
                       .cases = kCases};
const RowRegistration kPhase1(MakeStepRow(kStep));

OperatorRow MasterPhase1Row() {
  StepRow step = kStep;
  step.name = "mp_lamb_update_phase1";
  OperatorRow row = MakeStepRow(step);
  const ForwardReference forward = row.forward;
  row.forward = [forward](const ParameterMap& parameters, const std::vector<Values>& in,
                          std::vector<Values>* mutated) {
    return forward(parameters, {in[4], in[1]}, mutated);
  };
  for (OperatorCase& each : row.cases) {
    each.inputs.push_back(each.inputs[0]);
    each.dtypes = {DType::kFloat32, DType::kFloat16};
    each.fixed_types = {DType::kUnknown, DType::kUnknown, DType::kFloat32, DType::kFloat32,
                        DType::kFloat32};
  }
  return row;
}
const RowRegistration kMasterPhase1(MasterPhase1Row());

OperatorRow Phase2Row(const std::string& name, bool master) {
  OperatorRow row;
  row.name = name;
  row.forward = [master](const ParameterMap& parameters, const std::vector<Values>& in,
                         std::vector<Values>* mutated) {
    const StepReader p(parameters);
    double r1 = in[2][0];
    const double lower = p.Real("lower_bound", -1), upper = p.Real("upper_bound", -1);
    if (lower >= 0) r1 = std::max(r1, lower);
    if (upper >= 0) r1 = std::min(r1, upper);
    const double ratio = r1 == 0 || in[3][0] == 0 ? 1 : r1 / in[3][0];
    Values out = master ? in[4] : in[0];
    for (index_t i = 0; i < out.size(); ++i) out[i] -= p.Real("lr", 0) * ratio * in[1][i];
    if (master) (*mutated)[0] = out;
    return std::vector<Values>{out};
  };
  const auto add = [&](const std::string& case_name, ParameterMap parameters, double r1, double r2,
                       const TShape& shape) {
    parameters.emplace("lr", "0.3");
    OperatorCase added = {.name = case_name,
                          .parameters = std::move(parameters),
                          .inputs = {shape, shape, {1}, {1}},
                          .fills = {Fill(), Fill(), Fill::Given({r1}), Fill::Given({r2})}};
    if (master) {
      added.inputs.push_back(shape);
      added.dtypes = {DType::kFloat32, DType::kFloat16};
      added.fixed_types = {DType::kUnknown, DType::kFloat32, DType::kFloat32, DType::kFloat32,
                           DType::kFloat32};
    }
    row.cases.push_back(std::move(added));
  };
  add("plain", {}, 2, 0.5, {4, 5});
  add("first_norm_0", {}, 0, 0.5, {7});
  add("second_norm_0", {}, 2, 0, {7});
  add("raised", {{"lower_bound", "1.5"}}, 0.25, 0.5, {7});
  add("lowered", {{"upper_bound", "1.5"}}, 2.5, 0.5, {7});
  add("lowered_to_0", {{"upper_bound", "0"}}, 2.5, 0.5, {7});
  add("empty", {}, 2, 0.5, {0, 5});
  add("rank_0", {}, 2, 0.5, TShape::OfRank(0));
  add("parallel", {}, 2, 0.5, {128, 777});
  row.cases.back().dtypes = {DType::kFloat32};
  row.errors = {{.name = "without_lr", .words = {"required", "lr"}},
                {.name = "norms_of_elements",
                 .parameters = {{"lr", "1"}},
                 .inputs = {{3, 4}, {3, 4}, {3}},
                 .words = {"r1", "(3,)", "(1,)"}},
                {.name = "direction_of_other_shape",
                 .parameters = {{"lr", "1"}},
                 .inputs = {{3, 4}, {4, 3}},
                 .words = {"g has", "(3,4)", "(4,3)"}}};
  return row;
}
const RowRegistration kPhase2(Phase2Row("lamb_update_phase2", false));
const RowRegistration kMasterPhase2(Phase2Row("mp_lamb_update_phase2", true));

OperatorRow MultiRow(const std::string& name, bool master) {
  OperatorRow row;
  row.name = name;
  const size_t num_states = master ? 3 : 2, arrays = 2 + num_states;
  row.forward = [=](const ParameterMap& parameters, const std::vector<Values>& in,
                    std::vector<Values>* mutated) {
    const StepReader p(parameters);
    std::vector<Values> out;
    for (size_t w = 0; w * arrays < in.size(); ++w) {
      const auto number = [&](const char* key) { return NumbersOf(parameters.at(key))[w]; };
      ParameterMap own = parameters;
      own["t"] = std::to_string(static_cast<int>(number("step_count")));
      own["wd"] = std::to_string(number("wds"));
      Values* const states = mutated->data() + w * num_states;
      Values next = master ? states[2] : in[w * arrays];
      Values direction(next.shape);
      double weight_squares = 0, squares = 0;
      for (index_t i = 0; i < next.size(); ++i) {
        double of_element[] = {states[0][i], states[1][i]};
        direction[i] = Phase1(StepReader(own), next[i], in[w * arrays + 1][i], of_element);
        states[0][i] = of_element[0];
        states[1][i] = of_element[1];
        weight_squares += in[w * arrays][i] * in[w * arrays][i];
        squares += direction[i] * direction[i];
      }
      double norm = std::sqrt(weight_squares);
      const double lower = p.Real("lower_bound", -1), upper = p.Real("upper_bound", -1);
      if (lower >= 0) norm = std::max(norm, lower);
      if (upper >= 0) norm = std::min(norm, upper);
      const double ratio = norm == 0 || squares == 0 ? 1 : norm / std::sqrt(squares);
      for (index_t i = 0; i < next.size(); ++i) {
        next[i] -= number("learning_rates") * ratio * direction[i];
      }
      if (master) states[2] = next;
      out.push_back(next);
    }
    return out;
  };
  const auto add = [&](const std::string& case_name, ParameterMap parameters,
                       const std::vector<TShape>& weights) {
    parameters.emplace("num_tensors", std::to_string(weights.size()));
    OperatorCase added = {.name = case_name, .parameters = std::move(parameters)};
    for (const TShape& shape : weights) {
      added.inputs.insert(added.inputs.end(), arrays, shape);
      added.fills.insert(added.fills.end(), 2, Fill());
      added.fills.insert(added.fills.end(), num_states, Fill::Uniform(0.5, 2));
    }
    if (master) {
      added.dtypes = {DType::kFloat16, DType::kBFloat16};
      for (size_t i = 0; i < added.inputs.size(); ++i) {
        added.fixed_types.push_back(i % arrays < 2 ? DType::kUnknown : DType::kFloat32);
      }
    }
    added.shapes_follow_from_first = weights.size() == 1;
    row.cases.push_back(std::move(added));
  };
  const ParameterMap required = {
      {"learning_rates", "(0.5,)"}, {"wds", "(0.125,)"}, {"step_count", "(3,)"}};
  const auto with = [&](ParameterMap more) {
    more.insert(required.begin(), required.end());
    return more;
  };
  add("plain", with({}), {{33}});
  add("rank_0", with({}), {TShape::OfRank(0)});
  add("not_corrected", with({{"bias_correction", "False"}, {"beta1", "0.5"}}), {{7}});
  add("clipped", with({{"rescale_grad", "3"}, {"clip_gradient", "0.25"}}), {{4, 5}});
  add("raised", with({{"lower_bound", "9"}, {"beta2", "0.75"}}), {{7}});
  add("lowered", with({{"upper_bound", "0.5"}, {"epsilon", "0.1"}}), {{7}});
  add("three",
      {{"learning_rates", "(0.5,0.25,1)"}, {"wds", "(0.125,0,0.5)"}, {"step_count", "(1,5,2)"}},
      {{4, 5}, {0, 3}, {7}});
  add("parallel", {{"learning_rates", "(0.5,0.25)"}, {"wds", "(0,0.25)"}, {"step_count", "(1,5)"}},
      {{128, 401}, {513}});
  if (!master) row.cases.back().dtypes = {DType::kFloat32, DType::kBFloat16};
  for (const auto& [key, value] : required) {
    ParameterMap rest = required;
    rest.erase(key);
    row.errors.push_back(
        {.name = "without_" + key, .parameters = rest, .words = {"required", key}});
  }
  row.errors.push_back(
      {.name = "step_0",
       .parameters = {{"learning_rates", "(1,)"}, {"wds", "(1,)"}, {"step_count", "(0,)"}},
       .words = {"step_count", "0", "1"}});
  row.errors.push_back({.name = "too_few_counts",
                        .parameters = {{"learning_rates", "(1,1)"},
                                       {"wds", "(1,1)"},
                                       {"step_count", "(1,)"},
                                       {"num_tensors", "2"}},
                        .words = {"step_count", "1", "num_tensors", "2"}});
  row.errors.push_back({.name = "gradient_of_other_shape",
                        .parameters = required,
                        .inputs = {{3, 4}, {4, 3}},
                        .words = {"grad_0", "(3,4)", "(4,3)"}});
  return row;
}
const RowRegistration kMulti(MultiRow("_multi_lamb_update", false));
const RowRegistration kMasterMulti(MultiRow("_multi_mp_lamb_update", true));

}  // namespace
}  // namespace tessera::ops_testing
