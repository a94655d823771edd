#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/vision/sampling_reference.h"

namespace tessera::ops_testing {
namespace {

bool Warps(const ParameterMap& parameters) { return parameters.at("transform_type") == "warp"; }

/// Returns the pixels' distances along the axis of element i of (samples, 2, height, width).
double HalfExtent(const TShape& shape, index_t i) {
  const bool of_y = i / (shape[2] * shape[3]) % 2 == 1;
  return static_cast<double>(shape[of_y ? 2 : 3] - 1) / 2;
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  if (!Warps(parameters)) {
    const auto [height, width] = ParameterReader(parameters).Window("target_shape", 0, 0);
    return {AffinePoints(in[0], height, width)};
  }
  Values out(in[0].shape);
  const index_t height = out.shape[2], width = out.shape[3];
  for (index_t i = 0; i < out.size(); ++i) {
    const bool of_y = i / (height * width) % 2 == 1;
    const index_t place = of_y ? i / width % height : i % width;
    out[i] = (in[0][i] + static_cast<double>(place)) / HalfExtent(out.shape, i) - 1;
  }
  return {out};
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>&, const std::vector<Values>&) {
  if (!Warps(parameters)) return {AffinePointsGradient(out_grad[0])};
  Values grad = out_grad[0];
  for (index_t i = 0; i < grad.size(); ++i) grad[i] /= HalfExtent(grad.shape, i);
  return {grad};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "GridGenerator";
  row.forward = Forward;
  row.backward = Backward;
  const auto affine = [](const std::string& target) {
    return ParameterMap{{"transform_type", "affine"}, {"target_shape", target}};
  };
  const ParameterMap warp = {{"transform_type", "warp"}};
  row.cases = {
      {.name = "affine", .parameters = affine("(3, 4)"), .inputs = {{2, 6}}},
      {.name = "two_points", .parameters = affine("(2, 2)"), .inputs = {{1, 6}}},
      {.name = "no_maps", .parameters = affine("(3, 4)"), .inputs = {{0, 6}}},
      {.name = "warp", .parameters = warp, .inputs = {{2, 2, 3, 4}}},
      {.name = "no_flow", .parameters = warp, .inputs = {{2, 2, 0, 3}}},
      {.name = "warp_with_target",
       .parameters = {{"transform_type", "warp"}, {"target_shape", "(7, 8)"}},
       .inputs = {{1, 2, 2, 5}}},
      {.name = "parallel_affine",
       .parameters = affine("(150, 170)"),
       .inputs = {{2, 6}},
       .dtypes = {DType::kFloat32},
       .large = true},
      {.name = "parallel_warp",
       .parameters = warp,
       .inputs = {{2, 2, 150, 170}},
       .dtypes = {DType::kFloat32},
       .large = true},
  };
  row.errors = {
      {.name = "no_target",
       .parameters = {{"transform_type", "affine"}},
       .words = {"target_shape"}},
      {.name = "one_extent", .parameters = affine("(3,)"), .words = {"target_shape", "(3,)"}},
      {.name = "matrix_of_five",
       .parameters = affine("(3, 4)"),
       .inputs = {{2, 5}},
       .words = {"data", "(2,5)"}},
      {.name = "flow_of_three",
       .parameters = warp,
       .inputs = {{2, 3, 4, 4}},
       .words = {"data", "(2,3,4,4)"}},
      {.name = "unknown_type", .parameters = {{"transform_type", "flow"}}, .words = {"flow"}},
      {.name = "no_type", .parameters = {{"target_shape", "(3, 4)"}}, .words = {"transform_type"}},
  };
  row.forward_tolerance = {.float32 = 2e-6, .float16 = 2e-3, .bfloat16 = 1.6e-2};
  row.backward_tolerance = {.float64 = 1e-14, .float32 = 4e-6, .of_largest = true};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
