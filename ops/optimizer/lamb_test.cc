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

}  // namespace
}  // namespace tessera::ops_testing
