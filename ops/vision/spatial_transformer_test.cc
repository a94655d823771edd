#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/vision/sampling_reference.h"

namespace tessera::ops_testing {
namespace {

Values Grid(const ParameterMap& parameters, const Values& loc) {
  const auto [height, width] = ParameterReader(parameters).Window("target_shape", 0, 0);
  return AffinePoints(loc, height, width);
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "SpatialTransformer";
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    return std::vector<Values>{Sampled(in[0], Grid(parameters, in[1]))};
  };
  row.backward = [](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad = SampledGradient(out_grad[0], in[0], Grid(parameters, in[1]));
    grad[1] = AffinePointsGradient(grad[1]);
    return grad;
  };
  const auto to = [](const std::string& target) {
    return ParameterMap{
        {"target_shape", target}, {"transform_type", "affine"}, {"sampler_type", "bilinear"}};
  };
  // The points of 16-bit matrices may lie on pixels, where the gradient jumps.
  const std::vector<DType> dtypes = {DType::kFloat64, DType::kFloat32};
  row.cases = {
      {.name = "images", .parameters = to("(3, 4)"), .inputs = {{2, 3, 4, 5}, {2, 6}}},
      {.name = "shrinks",
       .parameters = to("(2, 2)"),
       .inputs = {{1, 2, 9, 7}, {1, 6}},
       .fills = {Fill(), Fill::Uniform(-0.5, 0.5)},
       .dtypes = dtypes},
      {.name = "partly_outside",
       .parameters = to("(5, 4)"),
       .inputs = {{2, 1, 3, 4}, {2, 6}},
       .fills = {Fill(), Fill::Uniform(-3, 3)},
       .dtypes = dtypes},
      {.name = "no_samples", .parameters = to("(3, 4)"), .inputs = {{0, 3, 4, 5}, {0, 6}}},
      {.name = "no_channels", .parameters = to("(3, 4)"), .inputs = {{2, 0, 4, 5}, {2, 6}}},
      {.name = "parallel",
       .parameters = to("(33, 37)"),
       .inputs = {{3, 8, 30, 40}, {3, 6}},
       .dtypes = {DType::kFloat32},
       .large = true},
  };
  row.errors = {
      {.name = "no_target",
       .parameters = {{"transform_type", "affine"}, {"sampler_type", "bilinear"}},
       .words = {"target_shape", "(0,0)"}},
      {.name = "no_sampler",
       .parameters = {{"transform_type", "affine"}, {"target_shape", "(2, 2)"}},
       .words = {"sampler_type"}},
      {.name = "loc_of_other_batch",
       .parameters = to("(3, 4)"),
       .inputs = {{2, 3, 4, 5}, {3, 6}},
       .words = {"loc", "(3,6)"}},
      {.name = "loc_of_five",
       .parameters = to("(3, 4)"),
       .inputs = {{2, 3, 4, 5}, {2, 5}},
       .words = {"loc", "(2,5)"}},
  };
  row.forward_tolerance = {.float64 = 4e-15, .float32 = 6e-6, .float16 = 4e-3, .bfloat16 = 3e-2};
  row.backward_tolerance = {
      .float64 = 2e-14, .float32 = 2e-5, .float16 = 1e-2, .bfloat16 = 6e-2, .of_largest = true};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
