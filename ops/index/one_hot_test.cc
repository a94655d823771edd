#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Rows of `depth` elements, as `out` is shaped, of the numbers that indices mark.
Values Marked(const Values& indices, index_t depth, double on, double off, const TShape& shape) {
  Values out(shape, off);
  for (index_t i = 0; i < indices.size(); ++i) {
    const auto index = static_cast<index_t>(indices[i]);
    if (index >= 0 && index < depth) out[i * depth + index] = on;
  }
  return out;
}

OperatorRow OneHotRow() {
  OperatorRow row;
  row.name = "one_hot";
  row.takes_integers = true;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    const ParameterReader read(parameters);
    const index_t depth = read.Int("depth", 0);
    std::vector<index_t> extents(in[0].shape.begin(), in[0].shape.end());
    extents.push_back(depth);
    double on = read.Real("on_value", 1), off = read.Real("off_value", 0);
    if (read.Text("dtype", "float32").find("int") != std::string::npos) {
      on = std::trunc(on);
      off = std::trunc(off);
    }
    return std::vector<Values>{
        Marked(in[0], depth, on, off, TShape(std::span<const index_t>(extents)))};
  };
  row.backward = [](const ParameterMap&, const std::vector<Values>&, const std::vector<Values>& in,
                    const std::vector<Values>&) {
    return std::vector<Values>{Values(in[0].shape)};
  };
  const auto add = [&row](const std::string& name, const ParameterMap& parameters,
                          const TShape& indices, const Fill& fill, DType type) {
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {indices},
                         .fills = {fill},
                         .dtypes = {type},
                         .fixed_types = {DType::kUnknown}});
  };
  for (const DType type : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt32,
                           DType::kInt64, DType::kInt8}) {
    add("of_" + std::string(DTypeName(type)), {{"depth", "4"}}, {2, 3}, Fill::Integers(-1, 5),
        type);
  }
  for (const char* const type :
       {"bfloat16", "float16", "float64", "int32", "int64", "int8", "uint8"}) {
    add("to_" + std::string(type),
        {{"depth", "3"}, {"dtype", type}, {"on_value", "5.5"}, {"off_value", "2.5"}}, {5},
        Fill::Integers(0, 2), DType::kInt32);
  }
  add("truncates", {{"depth", "3"}}, {5}, Fill::Given({1.9, -0.5, -1, 3, 2.5}), DType::kFloat32);
  add("scalar", {{"depth", "3"}}, TShape::OfRank(0), Fill::Given({2}), DType::kInt32);
  add("no_indices", {{"depth", "3"}}, {0, 2}, Fill(), DType::kInt32);
  add("no_depth", {{"depth", "0"}}, {4}, Fill::Integers(0, 3), DType::kInt32);
  add("long_rows", {{"depth", "5000"}, {"off_value", "-1"}}, {20}, Fill::Integers(0, 4999),
      DType::kInt64);
  add("many_rows", {{"depth", "7"}}, {9000}, Fill::Integers(0, 6), DType::kFloat32);
  row.cases.back().large = true;
  row.errors = {
      {.name = "without_depth", .words = {"required", "depth"}},
      {.name = "negative_depth", .parameters = {{"depth", "-1"}}, .words = {"depth", "-1"}},
      {.name = "bool",
       .parameters = {{"depth", "3"}, {"dtype", "bool"}},
       .words = {"dtype", "bool"}},
      {.name = "too_many_dimensions",
       .parameters = {{"depth", "3"}},
       .inputs = {{1, 1, 1, 1, 1, 1, 1, 1}},
       .words = {"indices", "at most 7"}},
  };
  return row;
}

OperatorRow OneHotEncodeRow() {
  OperatorRow row;
  row.name = "_onehot_encode";
  row.takes_integers = true;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    return std::vector<Values>{Marked(in[0], in[1].shape[1], 1, 0, in[1].shape)};
  };
  const auto add = [&row](const std::string& name, const TShape& rhs, const Fill& fill,
                          DType type = DType::kFloat32) {
    row.cases.push_back({.name = name,
                         .inputs = {{rhs[0]}, rhs},
                         .fills = {fill},
                         .fixed_types = {type},
                         .shapes_follow_from_first = false});
  };
  add("matrix", {4, 5}, Fill::Integers(0, 4));
  add("of_int64", {4, 5}, Fill::Integers(0, 4), DType::kInt64);
  add("outside", {4, 3}, Fill::Given({-1, 3, 1.5, 2}));
  add("no_rows", {0, 3}, Fill());
  row.errors = {
      {.name = "other_rows", .inputs = {{2}, {3, 4}}, .words = {"lhs", "(2,)", "(3,)"}},
      {.name = "vector", .inputs = {{2}, {3}}, .words = {"rhs", "(3,)"}},
  };
  return row;
}

const RowRegistration kOneHot(OneHotRow());
const RowRegistration kOneHotEncode(OneHotEncodeRow());

}  // namespace
}  // namespace tessera::ops_testing
