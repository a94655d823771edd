#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<Values> Search(const TShape& shape, int axis, bool keepdims, bool is_flat, bool largest,
                           const Values& in) {
  const index_t n = is_flat ? in.size() : shape[axis];
  const index_t inner = is_flat ? 1 : shape.ProdShape(axis + 1, shape.ndim());
  std::vector<index_t> extents;
  for (int d = 0; d < shape.ndim(); ++d) {
    if (!is_flat && d != axis) {
      extents.push_back(shape[d]);
    } else if (keepdims) {
      extents.push_back(1);
    }
  }
  if (extents.empty()) extents.push_back(1);
  Values out{TShape(std::span<const index_t>(extents))};
  for (index_t r = 0; r < out.size(); ++r) {
    const auto element = [&](index_t k) { return in[(r / inner * n + k) * inner + r % inner]; };
    index_t best = 0;
    for (index_t k = 1; k < n && !std::isnan(element(best)); ++k) {
      const bool better = largest ? element(k) > element(best) : element(k) < element(best);
      if (better || std::isnan(element(k))) best = k;
    }
    out[r] = static_cast<double>(best);
  }
  return {out};
}

std::vector<Values> ZeroGradient(const ParameterMap&, const std::vector<Values>&,
                                 const std::vector<Values>& in, const std::vector<Values>&) {
  return {Values(in[0].shape)};
}

OperatorRow Row(const std::string& name, bool largest) {
  OperatorRow row;
  row.name = name;
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.backward = ZeroGradient;
  row.gradient_is_derivative = false;
  row.forward = [largest](const ParameterMap& parameters, const std::vector<Values>& in,
                          std::vector<Values>*) {
    const ParameterReader reader(parameters);
    const bool is_flat = reader.Text("axis", "None") == "None";
    int axis = is_flat ? 0 : static_cast<int>(reader.Int("axis", 0));
    if (axis < 0) axis += in[0].shape.ndim();
    return Search(in[0].shape, axis, reader.Bool("keepdims", false), is_flat, largest, in[0]);
  };
  const auto add = [&](const std::string& case_name, const ParameterMap& parameters,
                       const TShape& shape, const Fill& fill) -> OperatorCase& {
    return row.cases.emplace_back(OperatorCase{
        .name = case_name, .parameters = parameters, .inputs = {shape}, .fills = {fill}});
  };
  add("flat", {}, {3, 4}, Fill());
  add("flat_kept", {{"keepdims", "True"}}, {3, 4}, Fill());
  add("scalar", {}, TShape::OfRank(0), Fill());
  add("rows", {{"axis", "1"}}, {3, 7}, Fill());
  add("rows_kept", {{"axis", "-1"}, {"keepdims", "True"}}, {2, 3, 5}, Fill());
  add("columns", {{"axis", "0"}}, {6, 5}, Fill());
  add("middle", {{"axis", "-2"}}, {2, 5, 3}, Fill());
  add("ties", {{"axis", "1"}}, {5, 9}, Fill::Integers(0, 2));
  add("ties_of_columns", {{"axis", "0"}}, {9, 5}, Fill::Integers(0, 2));
  const std::vector<double> special = {
      1, kNan, 3, 2, kNan, -kInfinity, -kInfinity, -kInfinity, kInfinity, kInfinity, 5};
  add("of_special", {{"axis", "1"}}, {11, 3}, Fill::Given(special));
  add("of_special_columns", {{"axis", "0"}}, {3, 11}, Fill::Given(special));
  add("of_nothing", {{"axis", "1"}}, {0, 3}, Fill());
  add("of_integers", {{"axis", "1"}}, {4, 9}, Fill::Integers(0, 20)).dtypes = {
      DType::kInt32, DType::kInt64, DType::kInt8, DType::kUint8};
  add("of_extreme_integers", {{"axis", "0"}}, {3}, Fill::Given({-2147483648.0, -2147483648.0}))
      .dtypes = {DType::kInt32};
  for (const std::string axis : {"0", "1", "None"}) {
    OperatorCase& parallel = add("parallel_" + axis, {{"axis", axis}}, {2, 140001}, Fill());
    if (axis == "0") parallel.inputs = {{70, 1100}};
    parallel.dtypes = {DType::kFloat32, DType::kFloat64};
    parallel.large = true;
  }
  row.errors = {{.name = "axis_outside",
                 .parameters = {{"axis", "2"}},
                 .inputs = {{2, 3}},
                 .words = {"axis 2", "rank 2"}},
                {.name = "empty_axis",
                 .parameters = {{"axis", "1"}},
                 .inputs = {{3, 0}},
                 .words = {"data", "(3,0)"}}};
  return row;
}

const RowRegistration kArgmax(Row("argmax", true));
const RowRegistration kArgmin(Row("argmin", false));

const RowRegistration kArgmaxChannel({
    .name = "argmax_channel",
    .cases = {{.name = "matrix", .inputs = {{4, 7}}},
              {.name = "images", .inputs = {{2, 5, 3, 2}}},
              {.name = "of_integers",
               .inputs = {{3, 6}},
               .fills = {Fill::Integers(0, 9)},
               .dtypes = {DType::kInt32, DType::kUint8}}},
    .forward =
        [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
          return Search(in[0].shape, 1, false, false, true, in[0]);
        },
    .backward = ZeroGradient,
    .gradient_is_derivative = false,
    .batch_follows_from_output = false,
    .takes_integers = true,
    .errors = {{.name = "vector", .inputs = {{4}}, .words = {"axis 1", "rank 1"}}},
});

}  // namespace
}  // namespace tessera::ops_testing
