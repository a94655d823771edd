#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Returns the weight of element i of an axis in element o of the resized one.
double Weight(bool nearest, index_t o, index_t out, index_t i, index_t in) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  if (nearest) return i == static_cast<index_t>(static_cast<double>(o) * scale) ? 1 : 0;
  const double source = (static_cast<double>(o) + 0.5) * scale - 0.5;
  const double inside = std::clamp(source, 0.0, static_cast<double>(in - 1));
  return std::max(0.0, 1 - std::abs(inside - static_cast<double>(i)));
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ParameterReader p(parameters);
  const bool nearest = p.Int("interp", 1) == 0;
  const TShape& shape = in[0].shape;
  const int rows = shape.ndim() - 3, columns = rows + 1;
  const auto size = ops_internal::ParameterText<std::vector<int64_t>>::Parse(p.Text("size", ""));
  TShape resized = shape;
  resized[columns] = size.front();
  resized[rows] = size.back();
  if (size.size() == 1 && p.Bool("keep_ratio", false)) {
    const index_t shorter = std::min(shape[rows], shape[columns]);
    for (const int d : {rows, columns}) resized[d] = size[0] * shape[d] / shorter;
  }
  Values out(resized);
  const index_t channels = shape[columns + 1], width = resized[columns], height = resized[rows];
  for (index_t k = 0; k < out.size(); ++k) {
    const index_t x = k / channels % width, y = k / channels / width % height;
    const index_t image = k / channels / width / height;
    for (index_t i = 0; i < shape[rows]; ++i) {
      const double of_row = Weight(nearest, y, height, i, shape[rows]);
      for (index_t j = 0; j < shape[columns] && of_row > 0; ++j) {
        const index_t pixel = (image * shape[rows] + i) * shape[columns] + j;
        out[k] += of_row * Weight(nearest, x, width, j, shape[columns]) *
                  in[0][pixel * channels + k % channels];
      }
    }
  }
  return {out};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_image_resize";
  row.forward = Forward;
  row.batch_follows_from_output = false;
  row.takes_integers = true;
  row.forward_tolerance.float64 = row.forward_tolerance.float32 = 4e-6;  // weights are float
  const auto add = [&row](const std::string& name, const ParameterMap& parameters,
                          const TShape& shape) {
    row.cases.push_back({.name = name, .parameters = parameters, .inputs = {shape}});
  };
  add("smaller", {{"size", "(3, 2)"}}, {5, 7, 3});
  add("larger", {{"size", "(11, 9)"}}, {4, 5, 3});
  add("wider", {{"size", "(8, 2)"}}, {5, 3, 1});
  add("square", {{"size", "4"}}, {3, 6, 2});
  add("same", {{"size", "(4, 3)"}}, {3, 4, 3});
  add("of_one_pixel", {{"size", "(3, 2)"}}, {1, 1, 3});
  add("to_one_pixel", {{"size", "1"}}, {6, 5, 1});
  add("batch", {{"size", "(3, 5)"}}, {2, 4, 4, 3});
  add("shorter_height", {{"size", "5"}, {"keep_ratio", "True"}}, {3, 8, 1});
  add("shorter_width", {{"size", "(2,)"}, {"keep_ratio", "True"}}, {2, 7, 3, 1});
  add("ratio_of_two_numbers", {{"size", "(2, 4)"}, {"keep_ratio", "True"}}, {3, 3, 1});
  add("no_images", {{"size", "(3, 2)"}}, {0, 5, 7, 3});
  add("no_channels", {{"size", "(3, 2)"}}, {5, 7, 0});
  // These weights have integer sums over integers.
  for (const DType dtype : {DType::kUint8, DType::kFloat16}) {
    row.cases.push_back({.name = "of_" + std::string(DTypeName(dtype)),
                         .parameters = {{"size", "(8, 6)"}},
                         .inputs = {{3, 4, 3}},
                         .fills = {Fill::Given({16, 240, 0, 128, 32, 64, 224, 48, 208, 96})},
                         .dtypes = {dtype}});
  }
  std::vector<DType> types = RealDTypes();
  types.push_back(DType::kUint8);
  for (const char* const size : {"(3, 5)", "(10, 2)", "(4, 4)", "1"}) {
    row.cases.push_back({.name = "nearest_" + std::to_string(row.cases.size()),
                         .parameters = {{"size", size}, {"interp", "0"}},
                         .inputs = {{4, 5, 3}},
                         .fills = {Fill::Integers(0, 255)},
                         .dtypes = types});
  }
  row.errors = {
      {.name = "no_size", .words = {"size", "0 elements"}},
      {.name = "three_numbers", .parameters = {{"size", "(1, 2, 3)"}}, .words = {"3 elements"}},
      {.name = "zero", .parameters = {{"size", "(3, 0)"}}, .words = {"size", "0"}},
      {.name = "negative", .parameters = {{"size", "-1"}}, .words = {"size", "-1"}},
      {.name = "too_large", .parameters = {{"size", "16777217"}}, .words = {"16777217"}},
      {.name = "bicubic",
       .parameters = {{"size", "3"}, {"interp", "2"}},
       .code = Error::kUnimplemented,
       .words = {"interp=2 (bicubic)", "not implemented", "1 (bilinear)"}},
      {.name = "no_interpolation",
       .parameters = {{"size", "3"}, {"interp", "-1"}},
       .words = {"interp=-1"}},
      {.name = "no_pixels",
       .parameters = {{"size", "3"}, {"keep_ratio", "True"}},
       .inputs = {{4, 0, 3}},
       .words = {"(4,0,3)", "no pixels"}},
      {.name = "too_long",
       .parameters = {{"size", "1000"}, {"keep_ratio", "True"}},
       .inputs = {{100000, 1, 3}},
       .words = {"(100000,1,3)", "1000"}},
      {.name = "matrix", .parameters = {{"size", "3"}}, .inputs = {{4, 5}}, .words = {"(4,5)"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
