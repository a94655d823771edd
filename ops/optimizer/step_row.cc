#include "tessera/ops/optimizer/step_row.h"

#include <algorithm>

namespace tessera::ops_testing {

double StepReader::Clip(const std::string& name, double x) const {
  const double bound = Real(name, -1);
  return bound >= 0 ? std::clamp(x, -bound, bound) : x;
}

double StepReader::Gradient(double grad) const {
  return Clip("clip_gradient", Real("rescale_grad", 1) * grad);
}

double StepReader::DecayedGradient(double weight, double grad) const {
  return Clip("clip_gradient", Real("rescale_grad", 1) * grad + Real("wd", 0) * weight);
}

std::vector<double> NumbersOf(const std::string& text) {
  std::vector<double> numbers;
  size_t begin = 1;
  while (begin + 1 < text.size()) {
    const size_t end = text.find_first_of(",)", begin);
    numbers.push_back(static_cast<double>(std::stof(text.substr(begin, end - begin))));
    begin = end + 1;
  }
  return numbers;
}

OperatorRow MakeStepRow(const StepRow& given) {
  OperatorRow row;
  row.name = given.name;
  const auto num_states = static_cast<size_t>(given.num_states);
  row.forward = [given, num_states](const ParameterMap& parameters, const std::vector<Values>& in,
                                    std::vector<Values>* mutated) {
    const StepReader p(parameters);
    std::vector<double> states(num_states);
    Values out(in[0].shape);
    for (index_t i = 0; i < out.size(); ++i) {
      for (size_t k = 0; k < num_states; ++k) states[k] = (*mutated)[k][i];
      const double weight = given.master ? states.back() : in[0][i];
      out[i] = given.step(p, weight, in[1][i], states.data());
      if (given.master) states.back() = out[i];
      for (size_t k = 0; k < num_states; ++k) (*mutated)[k][i] = states[k];
    }
    return std::vector<Values>{out};
  };
  row.shapes_follow_from_output = true;
  const auto add = [&](const std::string& name, ParameterMap parameters, const TShape& shape) {
    parameters.insert(given.required.begin(), given.required.end());
    OperatorCase added = {.name = name,
                          .parameters = std::move(parameters),
                          .inputs = std::vector<TShape>(2 + num_states, shape),
                          .fills = {Fill(), Fill()}};
    added.fills.resize(2 + num_states, Fill::Uniform(0.5, 2));
    if (given.master) {
      added.dtypes = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
      added.fixed_types = {DType::kUnknown, DType::kUnknown};
      added.fixed_types.resize(2 + num_states, DType::kFloat32);
    }
    row.cases.push_back(std::move(added));
  };
  add("plain", {}, {33});
  add("empty", {}, {0, 3});
  add("rank_0", {}, TShape::OfRank(0));
  add("weight_decay", {{"wd", "0.3"}}, {3, 5});
  add("rescaled", {{"rescale_grad", "0.03125"}, {"wd", "0.0001"}}, {64, 9});
  add("clipped", {{given.clip, "0.25"}, {"wd", "0.25"}}, {31});
  add("clipped_after_rescaling", {{"rescale_grad", "4"}, {given.clip, "1"}}, {31});
  add("clipped_to_nothing", {{given.clip, "0"}, {"wd", "0.5"}}, {8});
  add("not_clipped", {{given.clip, "-2"}}, {8});
  for (size_t i = 0; i < given.cases.size(); ++i) {
    add("parameters_" + std::to_string(i), given.cases[i], {5, 1, 7});
  }
  add("parallel", {{"wd", "0.25"}}, {128, 777});
  row.cases.back().dtypes = {DType::kFloat32, DType::kBFloat16};
  for (const auto& [name, value] : given.required) {
    ParameterMap rest = given.required;
    rest.erase(name);
    row.errors.push_back(
        {.name = "without_" + name, .parameters = rest, .words = {"required", name}});
  }
  row.errors.push_back({.name = "gradient_of_other_shape",
                        .parameters = given.required,
                        .inputs = {{3, 4}, {4, 3}},
                        .words = {"grad", "(3,4)", "(4,3)"}});
  return row;
}

}  // namespace tessera::ops_testing
