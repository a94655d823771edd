#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/quantization/quantized_reference.h"
#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/window_reference.h"

namespace tessera::ops_testing {
namespace {

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const bool no_bias = ParameterReader(parameters).Bool("no_bias", false);
  const ConvolutionReference c = ReadConvolution(parameters, in[0].shape);
  std::vector<Values> terms(in.begin(), in.begin() + (no_bias ? 2 : 3));
  const Values* const ranges = in.data() + terms.size();
  if (!no_bias && !IsUint8(in[0])) {
    const double unit = CodeOfOneIn(in[0], ranges[0], ranges[1]) *
                        CodeOfOneIn(in[1], ranges[2], ranges[3]) /
                        CodeOfOneIn(in[2], ranges[4], ranges[5]);
    for (double& b : terms[2].data) b = std::trunc(b * unit);
  }
  const Values out(ImageOf(c.batch, c.filters, c.out, in[0].shape.ndim()));
  const auto sums = SumProducts(terms, out, [&](const auto& visit) { c.ForEachProduct(visit); });
  const double data = MagnitudeOf(ranges[0], ranges[1]), weight = MagnitudeOf(ranges[2], ranges[3]);
  return WithRangeOfInt32(sums[0], data * weight / (127.0 * 127));
}

OperatorRow Row() {
  OperatorRow row = RowOfCodes("_contrib_quantized_conv");
  row.forward = Forward;
  const auto add = [&row](const std::string& name, ParameterMap parameters, DType type,
                          const TShape& data, const TShape& weight, bool bias = true) {
    Arguments arguments;
    arguments.AddCodes(type, data).AddInt8(weight);
    if (bias) arguments.AddInt8({weight[0]});
    arguments.AddRange(-1, 2).AddRange(-0.5, 0.25);
    if (bias) arguments.AddRange(-3, 1);
    parameters["num_filter"] = std::to_string(weight[0]);
    if (!bias) parameters["no_bias"] = "True";
    row.cases.push_back(arguments.Case(name, parameters));
  };
  constexpr DType kInt8 = DType::kInt8, kUint8 = DType::kUint8;
  const ParameterMap plain = {{"kernel", "(3, 3)"}};
  add("of_int8", plain, kInt8, {2, 3, 5, 6}, {4, 3, 3, 3});
  add("of_uint8", plain, kUint8, {2, 3, 5, 6}, {4, 3, 3, 3});
  add("no_bias", plain, kUint8, {1, 2, 4, 4}, {2, 2, 3, 3}, false);
  add("strided_dilated_padded",
      {{"kernel", "(3,2)"}, {"stride", "(2,3)"}, {"dilate", "(2,1)"}, {"pad", "(3,1)"}}, kInt8,
      {1, 2, 6, 7}, {3, 2, 3, 2});
  add("padding_wider_than_the_kernel", {{"kernel", "(1,1)"}, {"pad", "(2,3)"}}, kUint8,
      {1, 2, 2, 2}, {2, 2, 1, 1});
  add("groups", {{"kernel", "(2,2)"}, {"num_group", "2"}}, kInt8, {2, 4, 3, 3}, {6, 2, 2, 2});
  add("one_dimension", {{"kernel", "(3,)"}, {"pad", "(1,)"}}, kInt8, {2, 2, 5}, {3, 2, 3}, false);
  add("three_dimensions", {{"kernel", "(2,2,2)"}, {"stride", "(1,2,1)"}}, kUint8, {1, 2, 3, 4, 3},
      {2, 2, 2, 2, 2});
  add("no_images", plain, kInt8, {0, 2, 4, 4}, {2, 2, 3, 3});
  row.errors = {
      {.name = "kernel_does_not_fit",
       .parameters = {{"kernel", "(3,3)"}, {"num_filter", "2"}},
       .inputs = {{1, 2, 2, 5}},
       .words = {"kernel", "(1,2,2,5)"}},
      {.name = "vector_of_ranges",
       .parameters = {{"kernel", "(3,3)"}, {"num_filter", "2"}, {"no_bias", "True"}},
       .inputs = {{1, 2, 5, 5}, {2, 2, 3, 3}, {2}},
       .words = {"min_data", "(2,)", "(1,)"}},
      {.name = "no_kernel", .parameters = {{"num_filter", "2"}}, .words = {"kernel"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
