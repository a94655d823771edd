#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/optimizer/step_row.h"

namespace tessera::ops_testing {
namespace {

/// The rates of one weight.
struct Rates {
  double lr, wd, eta;
};

OperatorRow Row(const std::string& name, bool several, bool master) {
  OperatorRow row;
  row.name = name;
  const size_t num_states = master ? 3 : 2, arrays = 2 + num_states;
  const auto rates_of = [several](const ParameterMap& parameters, size_t i) {
    if (!several) {
      const StepReader p(parameters);
      return Rates{p.Real("lr", 0), p.Real("wd", 0), p.Real("eta", 0)};
    }
    const auto number = [&](const char* key) { return NumbersOf(parameters.at(key))[i]; };
    return Rates{number("lrs"), number("wds"), number("etas")};
  };
  row.forward = [=](const ParameterMap& parameters, const std::vector<Values>& in,
                    std::vector<Values>* mutated) {
    const StepReader p(parameters);
    const double beta1 = p.Real("beta1", 0.9f), beta2 = p.Real("beta2", 0.999f);
    const double rescale_grad = in.back()[0];
    const bool is_left_out = rescale_grad == 0 || !std::isfinite(rescale_grad);
    std::vector<Values> out;
    for (size_t w = 0; w * arrays + 1 < in.size(); ++w) {
      const Rates rates = rates_of(parameters, w);
      Values next = in[w * arrays];
      Values* const states = mutated->data() + w * num_states;
      for (index_t i = 0; i < next.size() && !is_left_out; ++i) {
        const double weight = master ? states[2][i] : next[i];
        const double g = p.Clip("clip_gradient", rescale_grad * in[w * arrays + 1][i]);
        states[0][i] = beta1 * states[0][i] + (1 - beta1) * g;
        states[1][i] = beta2 * states[1][i] + (1 - beta2) * g * g;
        const double step = states[0][i] / (std::sqrt(states[1][i]) + p.Real("epsilon", 1e-8f));
        next[i] = weight - rates.eta * (rates.lr * step + rates.wd * weight);
        if (master) states[2][i] = next[i];
      }
      out.push_back(next);
    }
    return out;
  };
  const auto add = [&](const std::string& case_name, ParameterMap parameters,
                       const std::vector<TShape>& weights, double rescale_grad) {
    if (several) parameters.emplace("num_weights", std::to_string(weights.size()));
    OperatorCase added = {.name = case_name, .parameters = std::move(parameters)};
    for (const TShape& shape : weights) {
      added.inputs.insert(added.inputs.end(), arrays, shape);
      added.fills.insert(added.fills.end(), 2, Fill());
      added.fills.insert(added.fills.end(), num_states, Fill::Uniform(0.5, 2));
    }
    if (master) added.dtypes = {DType::kFloat16, DType::kBFloat16};
    if (master && !several) added.dtypes.push_back(DType::kFloat32);
    for (size_t i = 0; i < added.inputs.size(); ++i) {
      added.fixed_types.push_back(!master || i % arrays < 2 ? DType::kUnknown : DType::kFloat32);
    }
    added.inputs.push_back({1});
    added.fills.push_back(Fill::Given({rescale_grad}));
    added.fixed_types.push_back(DType::kFloat32);
    added.shapes_follow_from_first = weights.size() == 1;
    row.cases.push_back(std::move(added));
  };
  ParameterMap required = {{"lr", "0.5"}, {"eta", "0.75"}};
  if (several) required = {{"lrs", "(0.5,)"}, {"wds", "(0.1,)"}, {"etas", "(0.75,)"}};
  const auto with = [&](ParameterMap more) {
    more.insert(required.begin(), required.end());
    return more;
  };
  add("plain", with({}), {{33}}, 1);
  add("rank_0", with({}), {TShape::OfRank(0)}, 1);
  add("decays", with({{"beta1", "0.5"}, {"beta2", "0.75"}, {"epsilon", "0.1"}}), {{3, 5}}, 0.5);
  add("clipped", with({{"clip_gradient", "0.25"}}), {{31}}, 2);
  add("clipped_to_nothing", with({{"clip_gradient", "0"}}), {{8}}, 2);
  add("negative_factor", with({}), {{8}}, -1);
  add("left_out", with({}), {{8}}, 0);
  add("left_out_after_overflow", with({}), {{8}}, INFINITY);
  add("parallel", with({}), {{128, 777}}, 0.5);
  if (several) {
    add("three", {{"lrs", "(0.5,0.25,1)"}, {"wds", "(0.1,0,0.5)"}, {"etas", "(1,0.5,0.25)"}},
        {{4, 5}, {0, 3}, {7}}, 0.5);
    row.errors.push_back(
        {.name = "too_few_etas",
         .parameters = {{"lrs", "(1,1)"}, {"wds", "(1,1)"}, {"etas", "(1,)"}, {"num_weights", "2"}},
         .words = {"etas", "1", "num_weights", "2"}});
  } else {
    add("weight_decay", with({{"wd", "0.3"}}), {{3, 5}}, 1);
  }
  for (const auto& [key, value] : required) {
    ParameterMap rest = required;
    rest.erase(key);
    row.errors.push_back(
        {.name = "without_" + key, .parameters = rest, .words = {"required", key}});
  }
  row.errors.push_back({.name = "gradient_of_other_shape",
                        .parameters = required,
                        .inputs = {{3, 4}, {4, 3}},
                        .words = {"grad", "(3,4)", "(4,3)"}});
  return row;
}

const RowRegistration kOne(Row("_adamw_update", false, false));
const RowRegistration kOneMaster(Row("_mp_adamw_update", false, true));
const RowRegistration kSeveral(Row("_multi_adamw_update", true, false));
const RowRegistration kSeveralMaster(Row("_multi_mp_adamw_update", true, true));

}  // namespace
}  // namespace tessera::ops_testing
