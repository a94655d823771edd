#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

// Cases whose mask is known; random_layers_test has the random ones.
std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ParameterReader p(parameters);
  const double factor = p.Real("p", 0.5) == 1 ? 0 : 1;
  TShape mask = in[0].shape;
  if (!p.Text("axes", "").empty()) {
    for (const index_t axis : TShape::Parse(p.Text("axes", ""))) mask[static_cast<int>(axis)] = 1;
  }
  std::vector<Values> out = {in[0], Values(mask, factor)};
  for (double& x : out[0].data) x *= factor;
  return out;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "Dropout";
  row.forward = Forward;
  row.cases = {
      {.name = "none", .parameters = {{"p", "0"}}, .inputs = {{3, 7}}},
      {.name = "all", .parameters = {{"p", "1"}}, .inputs = {{3, 7}}},
      {.name = "all_always", .parameters = {{"p", "1"}, {"mode", "always"}}, .inputs = {{5}}},
      {.name = "all_axes", .parameters = {{"p", "1"}, {"axes", "(0, 2)"}}, .inputs = {{2, 3, 4}}},
      {.name = "none_axes", .parameters = {{"p", "0"}, {"axes", "(1,)"}}, .inputs = {{2, 3, 4}}},
      {.name = "of_nothing", .inputs = {{0, 3}}},
      {.name = "rank_0", .parameters = {{"p", "0"}}, .inputs = {TShape::OfRank(0)}},
  };
  row.errors = {
      {.name = "p_above_1", .parameters = {{"p", "1.5"}}, .words = {"p", "1.5", "range"}},
      {.name = "p_nan", .parameters = {{"p", "nan"}}, .words = {"p", "nan"}},
      {.name = "axis_outside",
       .parameters = {{"axes", "(2,)"}},
       .inputs = {{3, 4}},
       .words = {"axes", "(2,)", "(3,4)"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
