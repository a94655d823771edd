#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

double RangeOf(const std::vector<Values>& in) {
  return std::max(std::abs(in[1][0]), std::abs(in[2][0]));
}

OperatorRow QuantizeRow() {
  OperatorRow row;
  row.name = "_contrib_quantize";
  row.shapes_follow_from_output = true;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    const bool is_signed = ParameterReader(parameters).Text("out_type", "uint8") == "int8";
    const double range = RangeOf(in), low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
    std::vector<Values> out = {in[0], in[1], in[2]};
    for (double& x : out[0].data) x = std::clamp(std::round(x * high / range), low, high);
    if (is_signed) {
      out[1][0] = -range;
      out[2][0] = range;
    }
    return out;
  };
  const auto add = [&row](const std::string& name, const std::string& type, const TShape& shape,
                          double low, double high) {
    // No product is near the middle of two integers.
    row.cases.push_back({.name = name,
                         .parameters = {{"out_type", type}},
                         .inputs = {shape, {1}, {1}},
                         .fills = {Fill::Given({0.3, -0.7, 1.25, 0, -2, 5, 0.001}),
                                   Fill::Given({low}), Fill::Given({high})},
                         .dtypes = {DType::kFloat32},
                         .fixed_types = {DType::kUnknown, DType::kFloat32, DType::kFloat32}});
  };
  add("of_int8", "int8", {2, 5}, -1, 1.5);
  add("of_uint8", "uint8", {7}, 0, 2);
  add("negative_range", "int8", {7}, -3, 1);
  add("number", "uint8", TShape::OfRank(0), 0, 2);
  add("none", "int8", {0, 2}, -1, 1);
  row.errors = {
      {.name = "other_type", .parameters = {{"out_type", "int32"}}, .words = {"out_type", "int32"}},
      {.name = "vector_of_ranges",
       .inputs = {{2}, {2}, {1}},
       .words = {"min_range", "(2,)", "(1,)"}},
  };
  return row;
}

OperatorRow DequantizeRow() {
  OperatorRow row;
  row.name = "_contrib_dequantize";
  row.shapes_follow_from_output = true;
  row.takes_integers = true;
  for (const DType type : {DType::kInt8, DType::kUint8}) {
    row.cases.push_back({.name = std::string("of_") + std::string(DTypeName(type)),
                         .inputs = {{9}, {1}, {1}},
                         .fills = {Fill::Integers(0, 127), Fill::Given({-1}), Fill::Given({2})},
                         .dtypes = {type},
                         .fixed_types = {DType::kUnknown, DType::kFloat32, DType::kFloat32}});
  }
  // A reference does not see types: int8 and uint8 differ by the values' sign in the first case.
  row.cases[0].fills[0] = Fill::Integers(-128, -1);
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    Values out = in[0];
    const bool is_signed = in[0].size() > 0 && in[0][0] < 0;
    for (double& x : out.data) x *= RangeOf(in) / (is_signed ? 127.5 : 255.5);
    return std::vector<Values>{out};
  };
  row.forward_tolerance.float32 = 1e-6;
  row.errors = {{.name = "other_type",
                 .parameters = {{"out_type", "float16"}},
                 .words = {"out_type", "float16"}}};
  return row;
}

const RowRegistration kQuantize(QuantizeRow());
const RowRegistration kDequantize(DequantizeRow());

}  // namespace
}  // namespace tessera::ops_testing
