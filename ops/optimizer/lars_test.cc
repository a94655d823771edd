#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/optimizer/step_row.h"

namespace tessera::ops_testing {
namespace {

OperatorRow Row() {
  OperatorRow row;
  row.name = "multi_lars";
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    const StepReader p(parameters);
    Values out = in[0];
    for (index_t i = 0; i < out.size(); ++i) {
      const double weight = std::sqrt(in[1][i]);
      const double grad = p.Real("rescale_grad", 1) * std::sqrt(in[2][i]);
      if (!(weight > 0 && grad > 0)) continue;
      out[i] *= p.Real("eta", 0) * weight / (grad + in[3][i] * weight + p.Real("eps", 0));
    }
    return std::vector<Values>{out};
  };
  row.shapes_follow_from_output = true;
  const auto add = [&](const std::string& name, ParameterMap parameters, const TShape& shape,
                       std::vector<Fill> fills = {}) {
    parameters.insert({{"eta", "0.5"}, {"eps", "0.01"}});
    if (fills.empty()) fills.assign(4, Fill::Uniform(0.5, 2));
    row.cases.push_back({.name = name,
                         .parameters = std::move(parameters),
                         .inputs = std::vector<TShape>(4, shape),
                         .fills = std::move(fills)});
  };
  add("plain", {}, {5});
  add("several_axes", {}, {2, 3});
  add("empty", {}, {0});
  add("rank_0", {}, TShape::OfRank(0));
  add("rescaled", {{"rescale_grad", "0.25"}}, {5});
  add("norms_of_0", {}, {4},
      {Fill::Uniform(0.5, 2), Fill::Given({0, 1, 0, 1}), Fill::Given({1, 0, 0, 1}), Fill()});
  row.errors = {{.name = "without_eta", .parameters = {{"eps", "1"}}, .words = {"required", "eta"}},
                {.name = "without_eps", .parameters = {{"eta", "1"}}, .words = {"required", "eps"}},
                {.name = "other_number_of_decays",
                 .parameters = {{"eta", "1"}, {"eps", "1"}},
                 .inputs = {{3}, {3}, {3}, {4}},
                 .words = {"wds", "(3,)", "(4,)"}}};
  return row;
}
const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
