#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

OperatorRow Row() {
  OperatorRow row;
  row.name = "smooth_l1";
  row.shapes_follow_from_output = true;
  row.takes_integers = true;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    const double s = ParameterReader(parameters).Real("scalar", 1);
    std::vector<Values> out = {in[0]};
    for (double& x : out[0].data) {
      x = std::abs(x) < 1 / (s * s) ? 0.5 * s * s * x * x : std::abs(x) - 0.5 / (s * s);
    }
    return out;
  };
  row.cases = {
      {.name = "defaults", .inputs = {{5, 7}}, .fills = {Fill::Distinct(-4, 4)}},
      {.name = "sharp",
       .parameters = {{"scalar", "2"}},
       .inputs = {{37}},
       .fills = {Fill::Distinct(-1, 1)}},
      {.name = "flat", .parameters = {{"scalar", "0"}}, .inputs = {{37}}},
      {.name = "rank_0", .inputs = {TShape::OfRank(0)}},
      {.name = "of_nothing", .inputs = {{0, 2}}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
