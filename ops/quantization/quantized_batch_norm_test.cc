#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/quantization/quantized_reference.h"
#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ParameterReader p(parameters);
  const double eps = p.Real("eps", 0.0010000000474974513);
  const double low = p.Real("min_calib_range", 0), high = p.Real("max_calib_range", 0);
  const double range = std::max(std::abs(low), std::abs(high));
  const TShape& shape = in[0].shape;
  const index_t axis = p.Int("axis", 1);
  const int channel_axis = static_cast<int>(axis < 0 ? axis + shape.ndim() : axis);
  const index_t width = shape.ProdShape(channel_axis + 1, shape.ndim());
  Values out = in[0];
  for (index_t i = 0; i < out.size(); ++i) {
    const index_t c = i / width % shape[channel_axis];
    const double code = IsUint8(in[0]) ? std::floor(in[0][i] / 2) : in[0][i];
    const double scale = in[1][c] / std::sqrt(in[4][c] + eps);
    const double x = code * MagnitudeOf(in[5], in[6]) / range * scale / std::sqrt(1 + eps);
    out[i] = NearestCode(x + (in[2][c] - in[3][c] * scale) * 127.5 / range);
  }
  return {out, Number(low), Number(high)};
}

OperatorRow Row() {
  OperatorRow row = RowOfCodes("_contrib_quantized_batch_norm");
  row.forward = Forward;
  const ParameterMap calibrated = {{"min_calib_range", "-2"}, {"max_calib_range", "3"}};
  const auto add = [&](const std::string& name, ParameterMap parameters, const TShape& shape,
                       index_t channels, DType type = DType::kInt8) {
    parameters.insert(calibrated.begin(), calibrated.end());
    Arguments arguments;
    arguments.AddCodes(type, shape);
    for (const Fill& fill : {Fill::Uniform(0.5, 2), Fill::Uniform(-1, 1), Fill::Uniform(-1, 1),
                             Fill::Uniform(0.5, 2)}) {
      arguments.Add({channels}, DType::kFloat32, fill);
    }
    row.cases.push_back(arguments.AddRange(-1.5, 1).Case(name, parameters));
  };
  add("of_int8", {}, {2, 3, 5, 6}, 3);
  add("of_uint8", {}, {2, 3, 5, 6}, 3, DType::kUint8);
  add("eps", {{"eps", "0.5"}, {"fix_gamma", "False"}}, {4, 3}, 3);
  add("last_axis", {{"axis", "-1"}}, {2, 3, 4}, 4);
  add("none", {}, {0, 3, 2}, 3);
  row.errors = {
      {.name = "not_calibrated",
       .parameters = {{"max_calib_range", "3"}},
       .inputs = {{2, 3}},
       .words = {"min_calib_range", "None"}},
      {.name = "other_channels",
       .parameters = calibrated,
       .inputs = {{2, 3}, {4}},
       .words = {"gamma", "(4,)"}},
      {.name = "no_such_axis",
       .parameters = {{"axis", "2"}, {"min_calib_range", "-2"}, {"max_calib_range", "3"}},
       .inputs = {{2, 3}},
       .words = {"axis", "2"}},
      {.name = "vector_of_ranges",
       .parameters = calibrated,
       .inputs = {{2, 3}, {3}, {3}, {3}, {3}, {2}},
       .words = {"min_data", "(2,)", "(1,)"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
