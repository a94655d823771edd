#include <limits>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Returns the element of the condition for element i of an array.
double ConditionAt(const Values& condition, const Values& array, index_t i) {
  const bool rows = condition.shape.ndim() == 1;
  return condition[rows ? i / (array.size() / condition.size()) : i];
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "where";
  row.takes_integers = true;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    Values out(in[1].shape);
    for (index_t i = 0; i < out.size(); ++i) {
      out[i] = ConditionAt(in[0], out, i) != 0 ? in[1][i] : in[2][i];
    }
    return std::vector<Values>{out};
  };
  row.backward = [](const ParameterMap&, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape), Values(in[2].shape)};
    for (index_t i = 0; i < out_grad[0].size(); ++i) {
      grad[ConditionAt(in[0], out_grad[0], i) != 0 ? 1 : 2][i] = out_grad[0][i];
    }
    return grad;
  };
  const auto add = [&row](const std::string& name, const TShape& condition, const TShape& x,
                          const Fill& fill, DType type = DType::kFloat32) -> OperatorCase& {
    row.cases.push_back({.name = name,
                         .inputs = {condition, x, x},
                         .fills = {fill},
                         .fixed_types = {type},
                         .shapes_follow_from_first = condition.ndim() != 1});
    return row.cases.back();
  };
  add("elements", {3, 4}, {3, 4}, Fill::Integers(0, 1));
  for (const DType type : {DType::kFloat64, DType::kFloat16, DType::kInt32, DType::kInt64,
                           DType::kInt8, DType::kUint8, DType::kBool}) {
    add("of_" + std::string(DTypeName(type)), {3, 4}, {3, 4}, Fill::Integers(0, 1), type);
  }
  add("fractions", {6}, {6},
      Fill::Given({0.25, -0.0, -1e-30, 0, 3, std::numeric_limits<double>::quiet_NaN()}));
  add("rows", {3}, {3, 4}, Fill::Given({0, 1, -2}), DType::kInt32);
  add("rows_of_one", {3}, {3, 1}, Fill::Given({0, 1, -2}));
  add("scalars", TShape::OfRank(0), TShape::OfRank(0), Fill::Given({1}));
  add("no_rows", {0}, {0, 4}, Fill());
  add("no_columns", {3}, {3, 0}, Fill::Integers(0, 1));
  add("parallel", {90, 800}, {90, 800}, Fill::Integers(0, 1), DType::kUint8).large = true;
  add("parallel_rows", {300}, {300, 250}, Fill::Integers(0, 1)).large = true;
  for (const TShape& condition : {TShape{3, 4}, TShape{3}}) {
    OperatorCase& integers = add("of_integers_" + std::to_string(condition.ndim()), condition,
                                 {3, 4}, Fill::Integers(0, 1));
    integers.fills.resize(3, Fill::Integers(0, 9));
    integers.dtypes = {DType::kInt64, DType::kInt32, DType::kInt8, DType::kUint8};
  }
  row.batch_follows_from_output = false;
  row.errors = {
      {.name = "other_shapes",
       .inputs = {{2, 3}, {2, 3}, {3, 2}},
       .words = {"y", "(3,2)", "(2,3)"}},
      {.name = "other_rows", .inputs = {{3}, {2, 3}}, .words = {"condition", "(3,)", "(2,)"}},
      {.name = "condition_of_other_shape",
       .inputs = {{2, 1}, {2, 3}},
       .words = {"x", "(2,3)", "(2,1)"}},
      {.name = "rows_of_scalars",
       .inputs = {{3}, TShape::OfRank(0)},
       .words = {"condition", "(3,)", "scalar"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
