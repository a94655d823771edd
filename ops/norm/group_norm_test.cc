#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Data seen as (samples * groups) rows of n elements.
struct Layout {
  index_t groups, rows, n;
  Layout(bool instance, const ParameterMap& parameters, const TShape& data) {
    groups = instance ? data[1] : ParameterReader(parameters).Int("num_groups", 1);
    rows = data[0] * groups;
    n = data.ProdShape(1, data.ndim()) / groups;
  }
};

OperatorRow Row(const std::string& name, bool instance) {
  OperatorRow row;
  row.name = name;
  row.forward = [instance](const ParameterMap& parameters, const std::vector<Values>& in,
                           std::vector<Values>*) {
    const Layout l(instance, parameters, in[0].shape);
    const double eps = ParameterReader(parameters).Real("eps", instance ? 1e-3f : 1e-5f);
    const TShape statistics = {in[0].shape[0], l.groups};
    std::vector<Values> out = {Values(in[0].shape), Values(statistics), Values(statistics)};
    for (index_t r = 0; r < l.rows; ++r) {
      double mean = 0, var = 0;
      const double n = static_cast<double>(l.n);
      for (index_t k = 0; k < l.n; ++k) mean += in[0][r * l.n + k] / n;
      for (index_t k = 0; k < l.n; ++k) var += std::pow(in[0][r * l.n + k] - mean, 2) / n;
      out[1][r] = mean;
      out[2][r] = std::sqrt(var + eps);
      for (index_t k = 0; k < l.n; ++k) {
        const index_t i = r * l.n + k;
        out[0][i] = (in[0][i] - mean) / out[2][r] * in[1][r % l.groups] + in[2][r % l.groups];
      }
    }
    if (instance) out.resize(1);
    return out;
  };
  const auto add = [&](const std::string& case_name, ParameterMap parameters, const TShape& data,
                       index_t groups) -> OperatorCase& {
    OperatorCase& made = row.cases.emplace_back(
        OperatorCase{.name = case_name,
                     .parameters = std::move(parameters),
                     .inputs = {data, {groups}, {groups}},
                     .fills = {Fill::Uniform(-1, 3), Fill::Uniform(0.5, 2)}});
    return made;
  };
  if (instance) {
    add("image", {}, {2, 3, 4, 5}, 3);
    add("matrix", {}, {3, 4}, 4);
    add("batch_0", {}, {0, 4, 2}, 4);
    add("eps", {{"eps", "0.5"}}, {2, 3, 4}, 3);
    add("planes", {}, {2, 2, 5, 13}, 2);
  } else {
    add("one_group", {}, {2, 4, 5}, 1);
    add("groups", {{"num_groups", "3"}}, {2, 6, 3, 2}, 3);
    add("matrix", {{"num_groups", "2"}}, {3, 4}, 2);
    add("batch_0", {{"num_groups", "2"}}, {0, 4, 2}, 2);
    add("with_eps", {{"eps", "0.5"}}, {2, 3, 4}, 1);
  }
  row.errors = {
      {.name = "vector", .inputs = {{4}}, .words = {"data", "(4,)"}},
      {.name = "negative_eps", .parameters = {{"eps", "-1"}}, .words = {"eps", "-1"}},
  };
  if (!instance) {
    row.errors.push_back({.name = "channels_in_no_groups",
                          .parameters = {{"num_groups", "3"}},
                          .inputs = {{2, 4, 5}},
                          .words = {"num_groups", "3", "(2,4,5)"}});
    row.errors.push_back(
        {.name = "no_groups", .parameters = {{"num_groups", "0"}}, .words = {"num_groups"}});
  }
  row.forward_tolerance = {.float64 = 1e-14, .float32 = 4e-6, .float16 = 4e-3, .bfloat16 = 3e-2};
  row.backward_tolerance = {.float64 = 1e-7, .float32 = 2e-5, .float16 = 1e-2, .bfloat16 = 6e-2};
  row.backward_tolerance.of_largest = true;
  return row;
}

const RowRegistration kRows[] = {
    RowRegistration(Row("GroupNorm", false)),
    RowRegistration(Row("InstanceNorm", true)),
};

}  // namespace
}  // namespace tessera::ops_testing
