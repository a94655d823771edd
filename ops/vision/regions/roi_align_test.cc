#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// The output's shape for a call's parameters and inputs.
TShape OutputShape(const ParameterMap& parameters, const std::vector<Values>& in) {
  const ParameterReader p(parameters);
  const auto pooled = p.Window("pooled_size", 0, 0);
  const index_t cells = p.Bool("position_sensitive", false) ? pooled[0] * pooled[1] : 1;
  return {in[1].shape[0], in[0].shape[1] / cells, pooled[0], pooled[1]};
}

/// Calls visit(i_out, pixel, weight) for the pixels around each point of each cell.
template <typename Visit>
void ForEachPixel(const ParameterMap& parameters, const std::vector<Values>& in,
                  const Visit& visit) {
  const ParameterReader p(parameters);
  const double scale = p.Real("spatial_scale", 1);
  const bool aligned = p.Bool("aligned", false), sensitive = p.Bool("position_sensitive", false);
  const TShape out = OutputShape(parameters, in), &data = in[0].shape;
  const index_t cells = out[2] * out[3];
  for (index_t o = 0; o < out.Size(); ++o) {
    const index_t k = o % cells, c = o / cells % out[1], row = 5 * (o / (cells * out[1]));
    const auto sample = static_cast<index_t>(in[1][row]);
    if (sample < 0) continue;
    const index_t channel = sensitive ? c * cells + k : c;
    const index_t plane = (sample * data[1] + channel) * data[2] * data[3];
    std::vector<double> places[2];  // of the points, y and x
    for (const int axis : {0, 1}) {
      const double first = in[1][row + 2 - axis] * scale - (aligned ? 0.5 : 0);
      const double last = in[1][row + 4 - axis] * scale - (aligned ? 0.5 : 0);
      const double length = aligned ? last - first : std::max(last - first, 1.0);
      const double size = length / static_cast<double>(out[2 + axis]);
      const index_t cell = axis == 0 ? k / out[3] : k % out[3];
      const index_t ratio = p.Int("sample_ratio", -1);
      const double points = ratio > 0 ? static_cast<double>(ratio) : std::ceil(size);
      for (double i = 0; i < points && length > 0; ++i) {
        places[axis].push_back(first + size * (static_cast<double>(cell) + (i + 0.5) / points));
      }
    }
    const auto count = static_cast<double>(places[0].size() * places[1].size());
    const auto inside = [&data](double x, int axis) {
      return x >= -1 && x <= static_cast<double>(data[2 + axis]);
    };
    for (const double point_y : places[0]) {
      for (const double point_x : places[1]) {
        if (!inside(point_y, 0) || !inside(point_x, 1)) continue;
        const double y = std::clamp(point_y, 0.0, static_cast<double>(data[2] - 1));
        const double x = std::clamp(point_x, 0.0, static_cast<double>(data[3] - 1));
        for (index_t i = 0; i < data[2] * data[3]; ++i) {
          const double of_y = 1 - std::abs(y - static_cast<double>(i / data[3]));
          const double of_x = 1 - std::abs(x - static_cast<double>(i % data[3]));
          if (of_y > 0 && of_x > 0) visit(o, plane + i, of_y * of_x / count);
        }
      }
    }
  }
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_ROIAlign";
  row.batch_follows_from_output = false;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    Values out(OutputShape(parameters, in));
    ForEachPixel(parameters, in,
                 [&](index_t o, index_t i, double weight) { out[o] += weight * in[0][i]; });
    return std::vector<Values>{out};
  };
  row.backward = [](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
    ForEachPixel(parameters, in, [&](index_t o, index_t i, double weight) {
      grad[0][i] += weight * out_grad[0][o];
    });
    return grad;
  };
  const auto add = [&row](const std::string& name, ParameterMap parameters, const TShape& data,
                          const std::vector<double>& rois) -> OperatorCase& {
    parameters.insert({{"pooled_size", "(2, 3)"}, {"spatial_scale", "1"}});
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {data, {static_cast<index_t>(rois.size()) / 5, 5}},
                         .fills = {Fill(), Fill::Given(rois)},
                         .shapes_follow_from_first = false});
    return row.cases.back();
  };
  const std::vector<double> rois = {0, 0.5, 1, 3.25, 4, 1, 1, 1, 4, 5.5, 0, 2, 2, 2, 2};
  add("regions", {}, {2, 3, 6, 5}, rois);
  add("scaled", {{"spatial_scale", "0.5"}, {"sample_ratio", "2"}}, {2, 2, 6, 5}, rois);
  add("aligned", {{"aligned", "True"}, {"sample_ratio", "3"}}, {1, 2, 5, 6},
      {0, 1, 0.5, 3.25, 4, 0, 0, 0, 5, 5});
  add("aligned_without_size", {{"aligned", "True"}, {"sample_ratio", "2"}}, {1, 2, 4, 4},
      {0, 3, 3, 1, 1, 0, 2, 1, 2, 3, 0, 0, 0, 2, 2});
  add("position_sensitive", {{"position_sensitive", "True"}}, {2, 12, 5, 5}, rois);
  add("outside", {}, {1, 2, 4, 4}, {0, -5.5, -5.5, 2, 1, 0, 9, 9, 12, 12, 0, 2.5, 2, 7, 6.5});
  add("of_no_sample", {}, {2, 1, 4, 4}, {-1, 0, 0, 3, 3, 1, 0, 0, 3, 3});
  add("no_pixels", {}, {1, 2, 0, 4}, {0, 0, 0, 3, 3});
  OperatorCase& parallel = add("parallel", {{"pooled_size", "(7, 7)"}, {"spatial_scale", "0.25"}},
                               {2, 4, 30, 40}, {0, 4, 9, 90, 100, 1, 30, 2, 150, 99});
  parallel.dtypes = {DType::kFloat32};
  parallel.large = true;
  const ParameterMap valid = {{"pooled_size", "(2, 2)"}, {"spatial_scale", "1"}};
  row.errors = {
      {.name = "size_of_one",
       .parameters = {{"pooled_size", "(2,)"}, {"spatial_scale", "1"}},
       .words = {"pooled_size", "(2,)"}},
      {.name = "rois_of_four",
       .parameters = valid,
       .inputs = {{1, 2, 4, 4}, {3, 4}},
       .words = {"rois", "(3,4)"}},
      {.name = "cells_without_channels",
       .parameters = {{"pooled_size", "(2, 2)"},
                      {"spatial_scale", "1"},
                      {"position_sensitive", "True"}},
       .inputs = {{1, 6, 4, 4}, {3, 5}},
       .words = {"(1,6,4,4)", "4 cells"}},
  };
  row.forward_tolerance = {.float64 = 1e-14, .float32 = 4e-6, .float16 = 3e-3, .bfloat16 = 2e-2};
  row.backward_tolerance = {
      .float64 = 1e-14, .float32 = 4e-6, .float16 = 3e-3, .bfloat16 = 2e-2, .of_largest = true};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
