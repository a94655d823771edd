#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/optimizer/step_row.h"

namespace tessera::ops_testing {
namespace {

OperatorRow Row(const std::string& name, bool momentum, bool master) {
  const bool preloaded = name.starts_with("preloaded");
  OperatorRow row;
  row.name = name;
  const size_t num_states = size_t{momentum} + size_t{master};
  const size_t arrays = 2 + num_states;
  row.forward = [=](const ParameterMap& parameters, const std::vector<Values>& in,
                    std::vector<Values>* mutated) {
    const StepReader p(parameters);
    const auto rates = [&](const char* key, size_t back) {
      return preloaded ? in[in.size() - back].data : NumbersOf(parameters.at(key));
    };
    const auto lrs = rates("lrs", 2), wds = rates("wds", 1);
    std::vector<Values> out;
    for (size_t w = 0; w < lrs.size(); ++w) {
      Values next = in[w * arrays];
      Values* const states = mutated->data() + w * num_states;
      for (index_t i = 0; i < next.size(); ++i) {
        if (master) next[i] = states[num_states - 1][i];
        double step = -lrs[w] * (p.Gradient(in[w * arrays + 1][i]) + wds[w] * next[i]);
        if (momentum) step = states[0][i] = p.Real("momentum", 0) * states[0][i] + step;
        next[i] += step;
        if (master) states[num_states - 1][i] = next[i];
      }
      out.push_back(next);
    }
    return out;
  };
  row.batch_follows_from_output = true;
  const auto add = [&](const std::string& case_name, ParameterMap parameters,
                       const std::vector<TShape>& weights) {
    parameters.emplace("num_weights", std::to_string(weights.size()));
    OperatorCase added = {.name = case_name, .parameters = std::move(parameters)};
    for (const TShape& shape : weights) added.inputs.insert(added.inputs.end(), arrays, shape);
    added.shapes_follow_from_first = weights.size() == 1;
    if (master) {
      added.dtypes = {DType::kFloat16, DType::kBFloat16};
      for (size_t i = 0; i < added.inputs.size(); ++i) {
        added.fixed_types.push_back(i % arrays < 2 ? DType::kUnknown : DType::kFloat32);
      }
    }
    if (preloaded) {
      added.fixed_types.resize(added.inputs.size(), DType::kUnknown);
      for (const char* const key : {"lrs", "wds"}) {
        added.fills.resize(added.inputs.size());
        added.fills.push_back(Fill::Given(NumbersOf(added.parameters.at(key))));
        added.inputs.push_back({static_cast<index_t>(weights.size())});
        added.fixed_types.push_back(DType::kFloat32);
        added.parameters.erase(key);
      }
    }
    row.cases.push_back(std::move(added));
  };
  add("one", {{"lrs", "(0.5,)"}, {"wds", "(0.1,)"}}, {{33}});
  add("two", {{"lrs", "(0.5,0.25)"}, {"wds", "(0.1,0)"}}, {{4, 5}, {7}});
  add("clipped",
      {{"lrs", "(0.5,0.25)"}, {"wds", "(0,0.1)"}, {"rescale_grad", "3"}, {"clip_gradient", "0.5"}},
      {{2, 2, 2}, {9}});
  add("some_empty", {{"lrs", "(0.5,0.25,1)"}, {"wds", "(0,0,0)"}},
      {{0, 4}, {3}, TShape::OfRank(0)});
  add("parallel", {{"lrs", "(0.5,0.25,0.125,1)"}, {"wds", "(0,0,0.5,0)"}},
      {{128, 401}, {513}, {512}, {77, 333}});
  if (!master) row.cases.back().dtypes = {DType::kFloat32, DType::kBFloat16};
  if (momentum) {
    add("momentum", {{"lrs", "(0.5,0.25)"}, {"wds", "(0.1,0)"}, {"momentum", "0.9"}}, {{6}, {7}});
  }
  row.errors = {
      {.name = "no_weights",
       .parameters = {{"num_weights", "0"}},
       .words = {"num_weights", "range"}},
      {.name = "gradient_of_other_shape",
       .inputs = {{3, 4}, {4, 3}},
       .words = {"grad_0", "(3,4)", "(4,3)"}},
  };
  if (preloaded) return row;
  for (ErrorCase& each : row.errors) each.parameters.insert({{"lrs", "(1,)"}, {"wds", "(1,)"}});
  const std::vector<ErrorCase> of_rates = {
      {.name = "without_lrs", .parameters = {{"wds", "(1,)"}}, .words = {"required", "lrs"}},
      {.name = "too_few_lrs",
       .parameters = {{"lrs", "(1,)"}, {"wds", "(1,1)"}, {"num_weights", "2"}},
       .words = {"lrs", "1", "num_weights", "2"}},
      {.name = "too_many_wds",
       .parameters = {{"lrs", "(1,)"}, {"wds", "(1,1)"}},
       .words = {"wds", "2", "num_weights", "1"}},
      {.name = "very_many_weights",
       .parameters = {{"lrs", "(1,)"}, {"wds", "(1,)"}, {"num_weights", "2000000000"}},
       .words = {"num_weights", "range"}},
  };
  row.errors.insert(row.errors.end(), of_rates.begin(), of_rates.end());
  return row;
}

const RowRegistration kPlain(Row("multi_sgd_update", false, false));
const RowRegistration kMomentum(Row("multi_sgd_mom_update", true, false));
const RowRegistration kMaster(Row("multi_mp_sgd_update", false, true));
const RowRegistration kMasterMomentum(Row("multi_mp_sgd_mom_update", true, true));
const RowRegistration kPreloaded(Row("preloaded_multi_sgd_update", false, false));
const RowRegistration kPreloadedMomentum(Row("preloaded_multi_sgd_mom_update", true, false));
const RowRegistration kPreloadedMaster(Row("preloaded_multi_mp_sgd_update", false, true));
const RowRegistration kPreloadedMasterMomentum(Row("preloaded_multi_mp_sgd_mom_update", true,
                                                   true));

}  // namespace
}  // namespace tessera::ops_testing
