#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

std::vector<OperatorCase> Cases() {
  std::vector<OperatorCase> cases;
  const auto add = [&](const std::string& name, size_t count, const TShape& shape) {
    cases.push_back({.name = name,
                     .parameters = {{"num_args", std::to_string(count)}},
                     .inputs = std::vector<TShape>(count, shape)});
  };
  add("one", 1, {7});
  add("two", 2, {3, 5});
  add("three", 3, {9});
  add("seven", 7, {2, 3, 4});
  add("empty", 2, {0, 3});
  add("rank_0", 3, TShape::OfRank(0));
  return cases;
}

const RowRegistration kAddN({
    .name = "add_n",
    .cases = Cases(),
    .forward =
        [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
          Values sum(in[0].shape);
          for (const Values& part : in) {
            for (index_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
          }
          return std::vector<Values>{sum};
        },
    .backward =
        [](const ParameterMap&, const std::vector<Values>& out_grad, const std::vector<Values>& in,
           const std::vector<Values>&) { return std::vector<Values>(in.size(), out_grad[0]); },
    .shapes_follow_from_output = true,
    .takes_integers = true,
    .errors = {{.name = "without_count", .words = {"required", "num_args"}},
               {.name = "none", .parameters = {{"num_args", "0"}}, .words = {"num_args", "0"}},
               {.name = "other_shape",
                .parameters = {{"num_args", "3"}},
                .inputs = {{2, 3}, {2, 3}, {3, 2}},
                .words = {"arg2", "(2,3)", "(3,2)"}}},
});

}  // namespace
}  // namespace tessera::ops_testing
