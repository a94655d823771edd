#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/window_reference.h"

namespace tessera::ops_testing {
namespace {

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ParameterReader p(parameters);
  const index_t scale = p.Int("scale", 1);
  if (p.Text("sample_type", "") == "bilinear") {
    const TShape& shape = in[0].shape;
    const index_t kernel = 2 * scale - scale % 2;
    const index_t pad = static_cast<index_t>(std::ceil((static_cast<double>(scale) - 1) / 2));
    const ConvolutionReference c = {.batch = shape[0],
                                    .groups = shape[1],
                                    .channels = shape[1],
                                    .filters = shape[1],
                                    .in = {1, shape[2] * scale, shape[3] * scale},
                                    .out = {1, shape[2], shape[3]},
                                    .kernel = {1, kernel, kernel},
                                    .stride = {1, scale, scale},
                                    .dilate = {1, 1, 1},
                                    .pad = {0, pad, pad}};
    Values out(ImageOf(shape[0], shape[1], c.in, 4));
    c.ForEachProduct([&](index_t d, index_t w, index_t o) { out[o] += in[1][w] * in[0][d]; });
    return {out};
  }
  const bool sum = p.Text("multi_input_mode", "concat") == "sum";
  TShape shape = in[0].shape;
  for (const int d : {2, 3}) shape[d] *= scale;
  for (size_t i = 1; i < in.size() && !sum; ++i) shape[1] += in[i].shape[1];
  Values out(shape);
  index_t first = 0;
  for (const Values& image : in) {
    const TShape& s = image.shape;
    const index_t factor = s[3] > 0 ? shape[3] / s[3] : 1;
    for (index_t n = 0; n < s[0]; ++n) {
      for (index_t c = 0; c < s[1]; ++c) {
        for (index_t y = 0; y < shape[2]; ++y) {
          for (index_t x = 0; x < shape[3]; ++x) {
            out[((n * shape[1] + first + c) * shape[2] + y) * shape[3] + x] +=
                image[((n * s[1] + c) * s[2] + y / factor) * s[3] + x / factor];
          }
        }
      }
    }
    if (!sum) first += s[1];
  }
  return {out};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "UpSampling";
  row.forward = Forward;
  const auto parameters = [](const std::string& scale, const std::string& count,
                             const std::string& mode) {
    return ParameterMap{{"scale", scale},
                        {"num_args", count},
                        {"sample_type", "nearest"},
                        {"multi_input_mode", mode}};
  };
  row.cases = {
      {.name = "one", .parameters = parameters("2", "1", "concat"), .inputs = {{2, 3, 4, 5}}},
      {.name = "by_three", .parameters = parameters("3", "1", "concat"), .inputs = {{1, 2, 2, 3}}},
      {.name = "by_one", .parameters = parameters("1", "1", "sum"), .inputs = {{2, 2, 3, 3}}},
      {.name = "concat",
       .parameters = parameters("2", "3", "concat"),
       .inputs = {{2, 3, 4, 4}, {2, 1, 2, 2}, {2, 2, 8, 8}},
       .shapes_follow_from_first = false},
      {.name = "sum",
       .parameters = parameters("2", "2", "sum"),
       .inputs = {{2, 3, 4, 6}, {2, 3, 2, 3}},
       .shapes_follow_from_first = false},
      {.name = "of_nothing",
       .parameters = parameters("2", "1", "concat"),
       .inputs = {{0, 3, 4, 5}}},
  };
  for (const index_t scale : {1, 2, 3}) {
    const index_t kernel = 2 * scale - scale % 2;
    row.cases.push_back({.name = "bilinear_by_" + std::to_string(scale),
                         .parameters = {{"scale", std::to_string(scale)},
                                        {"num_args", scale == 1 ? "1" : "2"},
                                        {"sample_type", "bilinear"},
                                        {"num_filter", scale == 1 ? "0" : "2"}},
                         .inputs = {{2, 2, 3, 4}, {2, 1, kernel, kernel}}});
  }
  row.errors = {
      {.name = "no_images", .parameters = parameters("2", "0", "sum"), .words = {"num_args"}},
      {.name = "scale_0", .parameters = parameters("0", "1", "sum"), .words = {"scale"}},
      {.name = "huge_scale", .parameters = parameters("1e18", "1", "sum"), .words = {"scale"}},
      {.name = "matrix",
       .parameters = parameters("2", "1", "sum"),
       .inputs = {{4, 5}},
       .words = {"arg0", "(4,5)"}},
      {.name = "image_of_other_proportions",
       .parameters = parameters("2", "2", "sum"),
       .inputs = {{2, 3, 4, 4}, {2, 3, 2, 4}},
       .words = {"arg1", "(2,3,2,4)", "factor"}},
      {.name = "bilinear_of_other_channels",
       .parameters =
           {{"scale", "2"}, {"num_args", "1"}, {"sample_type", "bilinear"}, {"num_filter", "4"}},
       .inputs = {{2, 3, 4, 4}},
       .words = {"data", "(2,3,4,4)", "4"}},
  };
  row.backward_tolerance = {.float64 = 1e-7, .float32 = 1e-5, .float16 = 1e-2, .bfloat16 = 6e-2};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
