#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/optimizer/step_row.h"

namespace tessera::ops_testing {
namespace {

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_group_adagrad_update";
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>* mutated) {
    const StepReader p(parameters);
    Values out = in[0];
    Values& history = (*mutated)[0];
    const index_t rows = history.size();
    const index_t length = rows == 0 ? 0 : out.size() / rows;
    for (index_t row = 0; row < rows && length > 0; ++row) {
      double squares = 0;
      for (index_t i = row * length; i < (row + 1) * length; ++i) {
        squares += p.Gradient(in[1][i]) * p.Gradient(in[1][i]);
      }
      history[row] += squares / static_cast<double>(length);
      for (index_t i = row * length; i < (row + 1) * length; ++i) {
        out[i] -= p.Real("lr", 0) * p.Gradient(in[1][i]) /
                  std::sqrt(history[row] + p.Real("epsilon", 1e-5f));
      }
    }
    return std::vector<Values>{out};
  };
  const auto add = [&](const std::string& name, ParameterMap parameters, const TShape& shape,
                       const TShape& history) {
    parameters.emplace("lr", "0.5");
    row.cases.push_back({.name = name,
                         .parameters = std::move(parameters),
                         .inputs = {shape, shape, history},
                         .fills = {Fill(), Fill(), Fill::Uniform(0.5, 2)}});
  };
  add("plain", {}, {4, 5}, {4, 1});
  add("one_axis", {}, {5}, {5, 1});
  add("three_axes", {}, {3, 2, 4}, {3, 1});
  add("no_rows", {}, {0, 4}, {0, 1});
  add("empty_rows", {}, {3, 0}, {3, 1});
  add("rank_0", {}, TShape::OfRank(0), {1, 1});
  add("rescaled", {{"rescale_grad", "0.25"}}, {3, 5}, {3, 1});
  add("clipped", {{"clip_gradient", "0.25"}, {"epsilon", "0.1"}}, {3, 5}, {3, 1});
  add("clipped_to_nothing", {{"clip_gradient", "0"}}, {3, 5}, {3, 1});
  add("long_rows", {}, {3, 1300}, {3, 1});
  add("parallel", {}, {1024, 65}, {1024, 1});
  row.cases.back().dtypes = {DType::kFloat32, DType::kBFloat16};
  row.errors = {{.name = "without_lr", .words = {"required", "lr"}},
                {.name = "gradient_of_other_shape",
                 .parameters = {{"lr", "1"}},
                 .inputs = {{3, 4}, {4, 3}},
                 .words = {"grad", "(3,4)", "(4,3)"}},
                {.name = "history_of_elements",
                 .parameters = {{"lr", "1"}},
                 .inputs = {{3, 4}, {3, 4}, {3, 4}},
                 .words = {"history", "(3,4)", "(3,1)"}}};
  return row;
}
const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
