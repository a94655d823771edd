#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/vision/sampling_reference.h"

namespace tessera::ops_testing {
namespace {

OperatorRow Row() {
  OperatorRow row;
  row.name = "BilinearSampler";
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    return std::vector<Values>{Sampled(in[0], in[1])};
  };
  row.backward = [](const ParameterMap&, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    return SampledGradient(out_grad[0], in[0], in[1]);
  };
  const auto add = [&row](const std::string& name, const TShape& data, const TShape& grid,
                          const Fill& fill = Fill::Uniform(-1.4, 1.4)) -> OperatorCase& {
    row.cases.push_back({.name = name,
                         .inputs = {data, grid},
                         .fills = {Fill(), fill},
                         .shapes_follow_from_first = false});
    return row.cases.back();
  };
  add("images", {2, 3, 4, 5}, {2, 2, 3, 2});
  add("enlarges", {1, 2, 3, 3}, {1, 2, 7, 9});
  add("one_pixel", {2, 1, 1, 1}, {2, 2, 2, 3}, Fill::Uniform(-0.9, 0.9));
  add("outside", {1, 2, 3, 4}, {1, 2, 2, 2}, Fill::Uniform(3, 9));
  // At the pixels themselves the gradient jumps.
  add("corners", {1, 2, 3, 3}, {1, 2, 2, 3}, Fill::Given({-1, 0, 1, 1, 0, -1})).large = true;
  add("no_samples", {0, 2, 3, 3}, {0, 2, 2, 2});
  add("no_channels", {2, 0, 3, 3}, {2, 2, 2, 2});
  add("no_pixels", {1, 2, 0, 3}, {1, 2, 2, 2});
  add("no_points", {1, 2, 3, 3}, {1, 2, 0, 2});
  OperatorCase& parallel = add("parallel", {3, 9, 30, 40}, {3, 2, 33, 37});
  parallel.dtypes = {DType::kFloat32};
  parallel.large = true;
  row.errors = {
      {.name = "grid_of_other_batch",
       .inputs = {{2, 3, 4, 5}, {3, 2, 4, 5}},
       .words = {"grid", "(3,2,4,5)"}},
      {.name = "grid_of_three", .inputs = {{2, 3, 4, 5}, {2, 3, 4, 5}}, .words = {"grid"}},
      {.name = "vector", .inputs = {{4}}, .words = {"data", "(4,)"}},
  };
  row.forward_tolerance = {.float32 = 1e-5, .float16 = 2e-3, .bfloat16 = 1.6e-2};
  row.backward_tolerance = {
      .float64 = 1e-14, .float32 = 1e-5, .float16 = 1e-2, .bfloat16 = 6e-2, .of_largest = true};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
