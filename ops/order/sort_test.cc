#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The parameters of a case of one of the three operators.
struct Asked {
  bool is_flat;
  int axis;
  index_t n, inner, k;
  bool is_ascend;
  std::string returns;

  Asked(const std::string& op, const ParameterMap& parameters, const TShape& data) {
    const ParameterReader reader(parameters);
    is_flat = reader.Text("axis", "-1") == "None";
    axis = is_flat ? 0 : static_cast<int>(reader.Int("axis", -1));
    if (axis < 0) axis += data.ndim();
    n = is_flat ? data.Size() : data[axis];
    inner = is_flat ? 1 : data.ProdShape(axis + 1, data.ndim());
    k = op == "topk" ? reader.Int("k", 1) : 0;
    if (k < 1) k = n;
    is_ascend = reader.Bool("is_ascend", op != "topk");
    returns = op == "sort"      ? "value"
              : op == "argsort" ? "indices"
                                : reader.Text("ret_typ", "indices");
  }
  index_t NumRows(const TShape& data) const { return n == 0 ? 0 : data.Size() / n; }
  /// The place of element j of row r, where rows have `length` elements.
  index_t At(index_t r, index_t j, index_t length) const {
    return (r / inner * length + j) * inner + r % inner;
  }
  TShape OutShape(const TShape& data) const {
    if (is_flat) return {k};
    TShape shape = data;
    shape[axis] = k;
    return shape;
  }
};

std::vector<Values> Forward(const std::string& op, const ParameterMap& parameters,
                            const Values& in) {
  const Asked a(op, parameters, in.shape);
  Values values(a.OutShape(in.shape)), positions(values.shape), mask(in.shape);
  for (index_t r = 0; r < a.NumRows(in.shape); ++r) {
    const auto element = [&](index_t i) { return in[a.At(r, i, a.n)]; };
    const auto less = [&](index_t i, index_t j) {
      if (std::isnan(element(i))) return false;
      return std::isnan(element(j)) || element(i) < element(j);
    };
    std::vector<index_t> order(static_cast<size_t>(a.n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](index_t i, index_t j) { return a.is_ascend ? less(i, j) : less(j, i); });
    for (index_t j = 0; j < a.k; ++j) {
      const index_t i = order[static_cast<size_t>(j)];
      values[a.At(r, j, a.k)] = element(i);
      positions[a.At(r, j, a.k)] = static_cast<double>(i);
      mask[a.At(r, i, a.n)] = 1;
    }
  }
  if (a.returns == "indices") return {positions};
  if (a.returns == "mask") return {mask};
  if (a.returns == "both") return {values, positions, positions};
  return {values, positions};
}

std::vector<Values> Backward(const std::string& op, const ParameterMap& parameters, const Values& g,
                             const Values& in, const Values& positions) {
  const Asked a(op, parameters, in.shape);
  Values grad(in.shape);
  for (index_t r = 0; r < a.NumRows(in.shape); ++r) {
    for (index_t j = 0; j < a.k; ++j) {
      const index_t at = a.At(r, j, a.k);
      grad[a.At(r, static_cast<index_t>(positions[at]), a.n)] = g[at];
    }
  }
  return {grad};
}

OperatorRow Row(const std::string& op) {
  OperatorRow row;
  row.name = op;
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.forward = [op](const ParameterMap& parameters, const std::vector<Values>& in,
                     std::vector<Values>*) { return Forward(op, parameters, in[0]); };
  row.backward = [op](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                      const std::vector<Values>& in, const std::vector<Values>& out) {
    return Backward(op, parameters, out_grad[0], in[0], out.back());
  };
  const auto add = [&](const std::string& name, const ParameterMap& parameters, const TShape& shape,
                       const Fill& fill = Fill::Distinct()) -> OperatorCase& {
    return row.cases.emplace_back(OperatorCase{.name = name,
                                               .parameters = parameters,
                                               .inputs = {shape},
                                               .fills = {fill},
                                               .fixed_types = {DType::kUnknown}});
  };
  add("rows", {}, {3, 7});
  add("columns", {{"axis", "0"}}, {6, 4});
  add("middle", {{"axis", "-2"}}, {2, 5, 3});
  add("flat", {{"axis", "None"}}, {2, 3, 4});
  add("ascending", {{"is_ascend", "True"}}, {2, 9});
  add("descending", {{"axis", "1"}, {"is_ascend", "False"}}, {2, 9, 2});
  add("flat_scalar", {{"axis", "None"}}, TShape::OfRank(0));
  add("empty", {}, {0, 3});
  OperatorCase& of_nan = add("of_nan", {}, {3, 6}, Fill::Given({3, kNan, 1, 2, kNan, 0, -1}));
  of_nan.large = true;
  OperatorCase& of_nan_reversed =
      add("of_nan_reversed", {{"is_ascend", op == "topk" ? "True" : "False"}}, {3, 6},
          Fill::Given({3, kNan, 1, 2, kNan, 0, -1}));
  of_nan_reversed.large = true;
  OperatorCase& integers = add("of_integers", {}, {4, 9}, Fill::Integers(0, 6));
  integers.dtypes = {DType::kInt32, DType::kInt64, DType::kInt8, DType::kUint8};
  integers.large = true;
  for (const std::string axis : {"1", "0"}) {
    OperatorCase& parallel = add("parallel_" + axis, {{"axis", axis}}, {90, 130});
    parallel.dtypes = {DType::kFloat32, DType::kFloat64};
    parallel.large = true;
  }
  OperatorCase& long_row = add("long_row", {{"axis", "None"}}, {5, 8000});
  long_row.dtypes = {DType::kFloat32};
  long_row.large = true;
  row.errors = {{.name = "axis_outside",
                 .parameters = {{"axis", "2"}},
                 .inputs = {{2, 3}},
                 .words = {"axis", "2", "(2,3)"}},
                {.name = "axis_of_scalar", .inputs = {TShape::OfRank(0)}, .words = {"axis"}}};
  if (op != "sort") {
    for (const std::string dtype : {"int32", "int64", "float16", "float64", "uint8"}) {
      add("positions_of_" + dtype, {{"dtype", dtype}}, {3, 5}).dtypes = {DType::kFloat32};
    }
    row.errors.push_back(
        {.name = "no_such_type", .parameters = {{"dtype", "int1"}}, .words = {"dtype", "int1"}});
  }
  if (op == "topk") {
    for (const std::string returns : {"value", "indices", "mask", "both"}) {
      const auto with = [&](ParameterMap parameters) {
        parameters["ret_typ"] = returns;
        return parameters;
      };
      add("rows_" + returns, with({{"k", "3"}}), {3, 7});
      add("columns_" + returns, with({{"k", "2"}, {"axis", "0"}}), {6, 4});
      add("flat_" + returns, with({{"k", "5"}, {"axis", "None"}}), {2, 3, 4});
      add("smallest_" + returns, with({{"k", "2"}, {"is_ascend", "True"}}), {2, 30});
      add("all_" + returns, with({{"k", "0"}, {"dtype", "int32"}}), {2, 5});
      OperatorCase& of_type = add("of_integers_" + returns, with({{"k", "4"}, {"dtype", "uint8"}}),
                                  {4, 9}, Fill::Integers(0, 6));
      of_type.dtypes = {DType::kInt32, DType::kInt64, DType::kInt8, DType::kUint8};
      of_type.large = true;
      OperatorCase& nan = add("nan_" + returns, with({{"k", "3"}}), {3, 6},
                              Fill::Given({3, kNan, 1, 2, kNan, 0, -1}));
      nan.large = true;
      OperatorCase& few = add("few_of_many_" + returns, with({{"k", "4"}}), {70, 300});
      few.dtypes = {DType::kFloat32};
      few.large = true;
    }
    row.errors.push_back({.name = "too_many",
                          .parameters = {{"k", "4"}},
                          .inputs = {{2, 3}},
                          .words = {"k is 4", "(2,3)"}});
    row.errors.push_back({.name = "too_many_of_all",
                          .parameters = {{"k", "7"}, {"axis", "None"}},
                          .inputs = {{2, 3}},
                          .words = {"k is 7", "(2,3)"}});
    row.errors.push_back({.name = "no_such_output",
                          .parameters = {{"ret_typ", "values"}},
                          .words = {"ret_typ", "values", "value"}});
  }
  return row;
}

const RowRegistration kRows[] = {
    RowRegistration(Row("sort")),
    RowRegistration(Row("argsort")),
    RowRegistration(Row("topk")),
};

}  // namespace
}  // namespace tessera::ops_testing
