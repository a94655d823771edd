#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/quantization/quantized_reference.h"
#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

const ParameterMap kFromNegative = {{"min_calib_range", "-1"}, {"max_calib_range", "2.5"}};
const ParameterMap kFromZero = {{"min_calib_range", "0"}, {"max_calib_range", "1.5"}};

ParameterMap With(ParameterMap parameters, const std::string& type) {
  parameters["out_type"] = type;
  return parameters;
}

/// The parameters of a case.
struct Calibration {
  explicit Calibration(const ParameterMap& parameters) {
    const ParameterReader p(parameters);
    given =
        p.Text("min_calib_range", "None") != "None" && p.Text("max_calib_range", "None") != "None";
    if (given) {
      low = p.Real("min_calib_range", 0);
      high = p.Real("max_calib_range", 0);
    }
    const std::string type = p.Text("out_type", "int8");
    is_uint8 = type == "uint8" || (type == "auto" && given && low >= 0);
  }
  double Range() const { return std::max(std::abs(low), std::abs(high)); }

  bool given, is_uint8;
  double low = 0, high = 0;
};

/// Returns whether data are codes, which are copied. The cases' codes begin with 100.
bool IsCodes(const Values& data) { return data.size() > 0 && data[0] == 100; }

std::vector<Values> Quantize(const ParameterMap& parameters, const std::vector<Values>& in,
                             std::vector<Values>*) {
  Calibration c(parameters);
  if (IsCodes(in[0])) return {in[0], Number(c.low), Number(c.high)};
  if (!c.given && in[0].size() > 0) {
    const auto [low, high] = std::minmax_element(in[0].data.begin(), in[0].data.end());
    c.low = *low;
    c.high = *high;
  }
  Values out = in[0];
  for (double& x : out.data) {
    x = NearestCode(x * (c.is_uint8 ? 255.5 : 127.5) / c.Range(), c.is_uint8);
  }
  if (c.is_uint8) return {out, Number(c.low), Number(c.high)};
  return {out, Number(-c.Range()), Number(c.Range())};
}

OperatorRow QuantizeV2Row() {
  OperatorRow row;
  row.name = "_contrib_quantize_v2";
  row.shapes_follow_from_output = true;
  row.takes_integers = true;
  row.forward = Quantize;
  const auto add = [&row](const std::string& name, const ParameterMap& parameters,
                          const TShape& shape = {2, 4}) {
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {shape},
                         // No product is near the middle of two integers.
                         .fills = {Fill::Given({0.3, -0.8, 1.25, 0, -2, 3.5, 0.001})},
                         .dtypes = {DType::kFloat32, DType::kFloat64},
                         .fixed_types = {DType::kUnknown}});
  };
  add("of_data", {});
  add("of_data_uint8", {{"out_type", "uint8"}});
  add("of_data_auto", {{"out_type", "auto"}});
  add("calibrated", kFromNegative);
  add("calibrated_uint8", With(kFromNegative, "uint8"));
  add("auto_from_negative", With(kFromNegative, "auto"), {3});
  add("auto_from_zero", With(kFromZero, "auto"), {3});
  add("one_end", {{"max_calib_range", "1"}});
  add("number", kFromZero, TShape::OfRank(0));
  add("none", {}, {0, 2});
  const auto copy = [&row](const std::string& name, DType type, const ParameterMap& parameters) {
    row.cases.push_back(
        Arguments().Add({5}, type, Fill::Given({100, 3, 0, 127})).Case(name, parameters));
  };
  copy("int8_codes", DType::kInt8, kFromNegative);
  copy("uint8_codes", DType::kUint8, With(kFromZero, "auto"));
  copy("uint8_codes_to_int8", DType::kUint8, kFromNegative);
  row.errors = {
      {.name = "other_type", .parameters = {{"out_type", "int32"}}, .words = {"out_type", "int32"}},
  };
  return row;
}

std::vector<Values> Requantize(const ParameterMap& parameters, const std::vector<Values>& in,
                               std::vector<Values>*) {
  Calibration c(parameters);
  const double unit = MagnitudeOf(in[1], in[2]) / 2147483647;
  if (!c.given) {
    for (const double x : in[0].data) c.high = std::max(c.high, std::abs(x) * unit);
  }
  Values out = in[0];
  for (double& x : out.data) {
    x = NearestCode(x * unit * (c.is_uint8 ? 255 : 127) / c.Range(), c.is_uint8);
  }
  return {out, Number(c.is_uint8 ? 0 : -c.Range()), Number(c.Range())};
}

OperatorRow RequantizeRow() {
  OperatorRow row = RowOfCodes("_contrib_requantize");
  row.shapes_follow_from_output = true;
  row.forward = Requantize;
  const auto add = [&row](const std::string& name, const ParameterMap& parameters,
                          const TShape& shape = {2, 4}) {
    const Fill codes = Fill::Given({0, 1, -200000000, 123456789, 2147483647, -2147483648.0, 5e7});
    row.cases.push_back(
        Arguments().Add(shape, DType::kInt32, codes).AddRange(-3, 20).Case(name, parameters));
  };
  add("of_data", {});
  add("of_data_uint8", {{"out_type", "uint8"}});
  add("calibrated", kFromNegative);
  add("calibrated_uint8", With(kFromNegative, "uint8"));
  add("auto_from_negative", With(kFromNegative, "auto"), {3});
  add("auto_from_zero", With(kFromZero, "auto"), {3});
  add("none", {}, {0, 2});
  row.errors = {
      {.name = "other_type", .parameters = {{"out_type", "int32"}}, .words = {"out_type", "int32"}},
      {.name = "vector_of_ranges",
       .inputs = {{2}, {2}, {1}},
       .words = {"min_range", "(2,)", "(1,)"}},
  };
  return row;
}

const RowRegistration kQuantizeV2(QuantizeV2Row());
const RowRegistration kRequantize(RequantizeRow());

}  // namespace
}  // namespace tessera::ops_testing
