#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

index_t OutputExtent(const ParameterReader& p, const std::vector<Values>& in, int d) {
  const std::string mode = p.Text("mode", "size");
  const index_t extent = in[0].shape[d];
  const std::string name = d == 2 ? "height" : "width";
  if (mode == "like") return in[1].shape[d];
  const bool odd = extent % 2 == 1;
  const double scale = p.Real("scale_" + name, 0);
  if (mode == "size") {
    if (p.Real("scale_height", 0) == 0) return p.Int(name, 1);
    return static_cast<index_t>(scale * static_cast<double>(extent));
  }
  if (mode == "odd_scale") {
    return static_cast<index_t>(scale * static_cast<double>(odd ? extent - 1 : extent)) + odd;
  }
  const bool wants_odd = mode.substr(0, 6) == "to_odd";
  if (odd == wants_odd) return extent;
  return mode.substr(mode.size() - 2) == "up" ? extent + 1 : extent - 1;
}

/// Calls visit(i_out, i_in, weight) for each pair of an output's element and one that it takes.
template <typename Visit>
TShape ForEachWeight(const ParameterMap& parameters, const std::vector<Values>& in,
                     const Visit& visit) {
  const ParameterReader p(parameters);
  const bool corners = p.Bool("align_corners", true);
  const TShape& shape = in[0].shape;
  TShape out = shape;
  for (const int d : {2, 3}) out[d] = OutputExtent(p, in, d);
  // The weight of element i of an axis for position o.
  const auto weight = [&](int d, index_t o, index_t i) {
    const double extent = static_cast<double>(shape[d]), size = static_cast<double>(out[d]);
    double source = 0;
    if (out[d] > 1) {
      source = corners ? static_cast<double>(o) * (extent - 1) / (size - 1)
                       : (static_cast<double>(o) + 0.5) * extent / size - 0.5;
    }
    source = std::clamp(source, 0.0, extent - 1);
    return std::max(0.0, 1 - std::abs(source - static_cast<double>(i)));
  };
  for (index_t k = 0; k < out.Size(); ++k) {
    const index_t plane = k / (out[2] * out[3]);
    for (index_t y = 0; y < shape[2]; ++y) {
      const double of_row = weight(2, k / out[3] % out[2], y);
      for (index_t x = 0; x < shape[3] && of_row > 0; ++x) {
        visit(k, (plane * shape[2] + y) * shape[3] + x, of_row * weight(3, k % out[3], x));
      }
    }
  }
  return out;
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  Values out(ForEachWeight(parameters, in, [](index_t, index_t, double) {}));
  ForEachWeight(parameters, in,
                [&](index_t o, index_t i, double weight) { out[o] += in[0][i] * weight; });
  return {out};
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>&) {
  std::vector<Values> grad;
  for (const Values& x : in) grad.emplace_back(x.shape);
  ForEachWeight(parameters, in, [&](index_t o, index_t i, double weight) {
    grad[0][i] += out_grad[0][o] * weight;
  });
  return grad;
}

OperatorRow Row() {
  using P = ParameterMap;
  OperatorRow row;
  row.name = "_contrib_BilinearResize2D";
  row.forward = Forward;
  row.backward = Backward;
  const TShape odd = {2, 2, 5, 3}, even = {1, 2, 4, 6};
  row.cases = {
      {.name = "larger", .parameters = P{{"height", "9"}, {"width", "5"}}, .inputs = {odd}},
      {.name = "smaller", .parameters = P{{"height", "2"}, {"width", "4"}}, .inputs = {even}},
      {.name = "of_one_size", .parameters = P{{"height", "5"}, {"width", "3"}}, .inputs = {odd}},
      {.name = "to_one_pixel", .parameters = P{}, .inputs = {odd}},
      {.name = "from_one_pixel",
       .parameters = P{{"height", "3"}, {"width", "2"}},
       .inputs = {{1, 2, 1, 1}}},
      {.name = "between_corners",
       .parameters = P{{"height", "7"}, {"width", "2"}, {"align_corners", "False"}},
       .inputs = {odd}},
      {.name = "to_one_pixel_between_corners",
       .parameters = P{{"align_corners", "0"}},
       .inputs = {odd}},
      {.name = "scales",
       .parameters = P{{"scale_height", "1.5"}, {"scale_width", "0.75"}},
       .inputs = {even}},
      {.name = "scale_of_width_alone",
       .parameters = P{{"height", "3"}, {"scale_width", "2"}},
       .inputs = {even}},
      {.name = "odd_scale",
       .parameters = P{{"mode", "odd_scale"}, {"scale_height", "2"}, {"scale_width", "3"}},
       .inputs = {{1, 2, 5, 4}}},
      {.name = "like",
       .parameters = P{{"mode", "like"}},
       .inputs = {odd, {1, 4, 3, 7}},
       .shapes_follow_from_first = false},
      {.name = "like_in_parallel",
       .parameters = P{{"mode", "like"}, {"align_corners", "0"}},
       .inputs = {{3, 5, 20, 31}, {1, 1, 37, 40}},
       .dtypes = {DType::kFloat32},
       .shapes_follow_from_first = false,
       .large = true},
      {.name = "of_nothing",
       .parameters = P{{"height", "3"}, {"width", "2"}},
       .inputs = {{0, 2, 4, 4}}},
  };
  for (const std::string mode : {"to_even_down", "to_even_up", "to_odd_down", "to_odd_up"}) {
    row.cases.push_back({.name = mode, .parameters = P{{"mode", mode}}, .inputs = {{1, 2, 5, 4}}});
  }
  row.errors = {
      {.name = "height_0", .parameters = P{{"height", "0"}}, .words = {"height"}},
      {.name = "unknown_mode", .parameters = P{{"mode", "same"}}, .words = {"mode", "to_odd_up"}},
      {.name = "one_scale",
       .parameters = P{{"scale_height", "2"}},
       .words = {"scale_width", "missing"}},
      {.name = "negative_scale",
       .parameters = P{{"scale_height", "-2"}, {"scale_width", "2"}},
       .words = {"scale_height", "-2"}},
      {.name = "nan_scale",
       .parameters = P{{"scale_height", "nan"}, {"scale_width", "2"}},
       .words = {"scale_height"}},
      {.name = "odd_scale_without_scale",
       .parameters = P{{"mode", "odd_scale"}},
       .words = {"scale_height", "missing"}},
      {.name = "to_nothing",
       .parameters = P{{"mode", "to_even_down"}},
       .inputs = {{1, 1, 1, 4}},
       .words = {"(1,1,1,4)", "no pixels"}},
      {.name = "of_no_pixels",
       .parameters = P{{"height", "3"}, {"width", "2"}},
       .inputs = {{1, 1, 0, 4}},
       .words = {"(1,1,0,4)", "no pixels"}},
      {.name = "matrix", .inputs = {{3, 4}}, .words = {"data", "(3,4)"}},
  };
  row.forward_tolerance = {.float64 = 4e-15};
  row.backward_tolerance = {.float64 = 4e-15, .float32 = 2e-6};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
