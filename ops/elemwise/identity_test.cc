#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

std::vector<OperatorCase> Cases() {
  std::vector<OperatorCase> cases;
  for (const index_t size : {0, 1, 7, 8, 9, 31}) {
    cases.push_back({.name = "size_" + std::to_string(size), .inputs = {{size}}});
  }
  cases.push_back({.name = "rank_0", .inputs = {TShape::OfRank(0)}});
  cases.push_back({.name = "rank_3", .inputs = {{2, 3, 5}}});
  cases.push_back({.name = "of_nan_and_infinity",
                   .inputs = {{9}},
                   .fills = {Fill::Given({NAN, INFINITY, -INFINITY, -0.0})},
                   .large = true});
  return cases;
}

const RowRegistration kCopy({
    .name = "_copy",
    .cases = Cases(),
    .forward = [](const ParameterMap&, const std::vector<Values>& in,
                  std::vector<Values>*) { return in; },
    .backward = [](const ParameterMap&, const std::vector<Values>& out_grad,
                   const std::vector<Values>&, const std::vector<Values>&) { return out_grad; },
    .shapes_follow_from_output = true,
});

}  // namespace
}  // namespace tessera::ops_testing
