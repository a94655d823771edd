#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/quantization/quantized_reference.h"
#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

const ParameterMap kCalibrated = {{"min_calib_range", "-2"}, {"max_calib_range", "4"}};

/// Returns the magnitude of the calibrated range, or 0 if there is none.
double CalibratedRange(const ParameterMap& parameters) {
  return std::abs(ParameterReader(parameters).Real("max_calib_range", 0));
}

std::vector<Values> Add(const ParameterMap& parameters, const std::vector<Values>& in,
                        std::vector<Values>*) {
  const double calibrated = CalibratedRange(parameters);
  const double sum = MagnitudeOf(in[2], in[3]) + MagnitudeOf(in[4], in[5]);
  const bool is_uint8 = IsUint8(in[0]) && IsUint8(in[1]);
  const double one = calibrated > 0 ? (is_uint8 ? 255.5 : 127.5) / calibrated : 2147483647 / sum;
  Values out(in[0].shape);
  for (size_t side : {0, 1}) {
    const double factor = one / CodeOfOneIn(in[side], in[2 + 2 * side], in[3 + 2 * side]);
    const bool rounds = calibrated > 0 && IsUint8(in[side]) && !is_uint8;
    for (index_t i = 0; i < out.size(); ++i) {
      const double term = in[side][i] * factor;
      out[i] += rounds ? NearestCode(term) : term;
    }
  }
  for (double& x : out.data) x = calibrated > 0 ? NearestCode(x, is_uint8) : std::nearbyint(x);
  if (calibrated > 0) return {out, Number(-2), Number(4)};
  return {out, Number(-sum), Number(sum)};
}

std::vector<Values> Multiply(const ParameterMap& parameters, const std::vector<Values>& in,
                             std::vector<Values>*) {
  const double calibrated = CalibratedRange(parameters);
  const double left = MagnitudeOf(in[2], in[3]), right = MagnitudeOf(in[4], in[5]);
  const double unit = left / 127.5 * right / 127.5;
  const bool is_float = ParameterReader(parameters).Bool("enable_float_output", false);
  Values out(in[0].shape);
  for (index_t i = 0; i < out.size(); ++i) {
    out[i] = in[0][i] * in[1][i];
    if (is_float) {
      out[i] *= unit;
    } else if (calibrated > 0) {
      out[i] = NearestCode(std::trunc(out[i] * unit * 127.5 / calibrated));
    }
  }
  if (is_float) return {out};
  if (calibrated > 0) return {out, Number(-2), Number(4)};
  return WithRangeOfInt32(out, left / 127 * right / 127);
}

OperatorRow SumRow() {
  OperatorRow row = RowOfCodes("_contrib_quantized_elemwise_add");
  row.shapes_follow_from_output = true;
  row.forward = Add;
  row.forward_tolerance.of_largest = true;  // int32 sums are those of float32 terms
  constexpr DType kInt8 = DType::kInt8, kUint8 = DType::kUint8;
  const auto add = [&row](const std::string& name, DType lhs, DType rhs,
                          const ParameterMap& parameters = {}, const TShape& shape = {3, 100}) {
    row.cases.push_back(Arguments()
                            .AddCodes(lhs, shape)
                            .AddCodes(rhs, shape)
                            .AddRange(-1, 2)
                            .AddRange(-4, 3)
                            .Case(name, parameters));
  };
  add("of_int8", kInt8, kInt8);
  add("of_uint8", kUint8, kUint8);
  add("of_int8_and_uint8", kInt8, kUint8);
  add("calibrated_int8", kInt8, kInt8, kCalibrated);
  add("calibrated_uint8", kUint8, kUint8, kCalibrated);
  add("calibrated_int8_and_uint8", kInt8, kUint8, kCalibrated);
  add("calibrated_uint8_and_int8", kUint8, kInt8, kCalibrated);
  add("one_end", kInt8, kInt8, {{"min_calib_range", "-2"}}, {5});
  add("number", kInt8, kInt8, {}, TShape::OfRank(0));
  add("none", kInt8, kInt8, kCalibrated, {0, 2});
  row.errors = {
      {.name = "other_shape", .inputs = {{2, 3}, {3, 2}}, .words = {"(2,3)", "(3,2)"}},
      {.name = "vector_of_ranges", .inputs = {{2}, {2}, {2}}, .words = {"lhs_min", "(2,)", "(1,)"}},
  };
  return row;
}

OperatorRow ProductRow() {
  OperatorRow row = RowOfCodes("_contrib_quantized_elemwise_mul");
  row.shapes_follow_from_output = true;
  row.forward = Multiply;
  const auto add = [&row](const std::string& name, const ParameterMap& parameters,
                          const TShape& shape = {2, 7}) {
    // No calibrated product is an integer before it is cut off, except 0.
    row.cases.push_back(
        Arguments()
            .Add(shape, DType::kInt8, Fill::Given({1, -7, 64, -128, 127, 11, -97, 0, -29}))
            .Add(shape, DType::kInt8, Fill::Given({-128, 127, 2, 13, -1, 77, 41}))
            .AddRange(-1, 2)
            .AddRange(-4, 3)
            .Case(name, parameters));
  };
  add("exact", {});
  add("calibrated", kCalibrated);
  add("numbers", {{"enable_float_output", "True"}});
  add("number", {}, TShape::OfRank(0));
  add("none", {}, {0, 2});
  row.errors = {
      {.name = "other_shape", .inputs = {{2, 3}, {3, 2}}, .words = {"(2,3)", "(3,2)"}},
      {.name = "vector_of_ranges", .inputs = {{2}, {2}, {2}}, .words = {"lhs_min", "(2,)", "(1,)"}},
  };
  return row;
}

const RowRegistration kSum(SumRow());
const RowRegistration kProduct(ProductRow());

}  // namespace
}  // namespace tessera::ops_testing
