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
  const bool no_bias = p.Bool("no_bias", false);
  const Values* const ranges = in.data() + (no_bias ? 2 : 3);
  const index_t hidden = in[1].shape[0], columns = in[1].shape[1];
  TShape shape = {in[0].shape[0], hidden};
  if (!p.Bool("flatten", true)) {
    shape = in[0].shape;
    shape[shape.ndim() - 1] = hidden;
  }
  double bias_unit = 0;
  if (!no_bias) {
    bias_unit = CodeOfOneIn(in[0], ranges[0], ranges[1]) *
                CodeOfOneIn(in[1], ranges[2], ranges[3]) / CodeOfOneIn(in[2], ranges[4], ranges[5]);
  }
  Values out(shape);
  for (index_t i = 0; i < out.size(); ++i) {
    for (index_t k = 0; k < columns; ++k) {
      out[i] += in[0][i / hidden * columns + k] * in[1][i % hidden * columns + k];
    }
    if (!no_bias) out[i] += std::trunc(in[2][i % hidden] * bias_unit);
  }
  const double data = MagnitudeOf(ranges[0], ranges[1]), weight = MagnitudeOf(ranges[2], ranges[3]);
  return WithRangeOfInt32(out, data * weight / (LargestCodeOf(in[0]) * 127));
}

OperatorRow Row() {
  OperatorRow row = RowOfCodes("_contrib_quantized_fully_connected");
  row.forward = Forward;
  const auto add = [&row](const std::string& name, ParameterMap parameters, DType type,
                          const TShape& data, const TShape& weight, bool bias = true) {
    Arguments arguments;
    arguments.AddCodes(type, data).AddInt8(weight);
    if (bias) arguments.AddInt8({weight[0]});
    arguments.AddRange(-1, 2).AddRange(-0.5, 0.25);
    if (bias) arguments.AddRange(-3, 1);
    parameters["num_hidden"] = std::to_string(weight[0]);
    if (!bias) parameters["no_bias"] = "True";
    row.cases.push_back(arguments.Case(name, parameters));
  };
  constexpr DType kInt8 = DType::kInt8, kUint8 = DType::kUint8;
  add("of_int8", {}, kInt8, {3, 5}, {4, 5});
  add("of_uint8", {}, kUint8, {3, 5}, {4, 5});
  add("no_bias", {}, kUint8, {2, 17}, {3, 17}, false);
  add("flattened", {}, kInt8, {2, 3, 2}, {3, 6});
  add("not_flattened", {{"flatten", "False"}}, kUint8, {2, 2, 3}, {4, 3});
  add("no_rows", {}, kInt8, {0, 3}, {2, 3});
  row.errors = {
      {.name = "other_columns",
       .parameters = {{"num_hidden", "2"}},
       .inputs = {{3, 4}, {2, 5}},
       .words = {"weight", "(2,5)"}},
      {.name = "vector_of_ranges",
       .parameters = {{"num_hidden", "2"}},
       .inputs = {{3, 4}, {2, 4}, {2}, {1}, {2}},
       .words = {"max_data", "(2,)", "(1,)"}},
      {.name = "no_outputs", .parameters = {{"num_hidden", "0"}}, .words = {"num_hidden", "0"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
