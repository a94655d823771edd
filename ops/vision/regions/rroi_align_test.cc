#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ParameterReader p(parameters);
  const auto pooled = p.Window("pooled_size", 0, 0);
  const double scale = p.Real("spatial_scale", 1);
  const TShape& data = in[0].shape;
  Values out({in[1].shape[0], data[1], pooled[0], pooled[1]});
  for (index_t o = 0; o < out.size(); ++o) {
    const index_t i = o / pooled[1] % pooled[0], j = o % pooled[1];
    const index_t c = o / (pooled[0] * pooled[1]) % data[1];
    const double* const roi = in[1].data.data() + 6 * (o / (data[1] * pooled[0] * pooled[1]));
    if (roi[0] < 0) continue;
    const index_t plane = (static_cast<index_t>(roi[0]) * data[1] + c) * data[2] * data[3];
    const double angle = roi[5] * std::acos(-1) / 180;
    const double width = std::max(1.0, roi[3] * scale), height = std::max(1.0, roi[4] * scale);
    const double cell_x = width / static_cast<double>(pooled[1]);
    const double cell_y = height / static_cast<double>(pooled[0]);
    const index_t ratio = p.Int("sampling_ratio", -1);
    const double points_x = ratio > 0 ? static_cast<double>(ratio) : std::ceil(cell_x);
    const double points_y = ratio > 0 ? static_cast<double>(ratio) : std::ceil(cell_y);
    for (double a = 0.5; a < points_y; ++a) {
      for (double b = 0.5; b < points_x; ++b) {
        const double u = (static_cast<double>(j) + b / points_x) * cell_x - width / 2;
        const double v = (static_cast<double>(i) + a / points_y) * cell_y - height / 2;
        double x = roi[1] * scale + u * std::cos(angle) + v * std::sin(angle);
        double y = roi[2] * scale - u * std::sin(angle) + v * std::cos(angle);
        if (x < -1 || x > static_cast<double>(data[3])) continue;
        if (y < -1 || y > static_cast<double>(data[2])) continue;
        x = std::clamp(x, 0.0, static_cast<double>(data[3] - 1));
        y = std::clamp(y, 0.0, static_cast<double>(data[2] - 1));
        for (index_t k = 0; k < data[2] * data[3]; ++k) {
          const double of_x = 1 - std::abs(x - static_cast<double>(k % data[3]));
          const double of_y = 1 - std::abs(y - static_cast<double>(k / data[3]));
          if (of_x <= 0 || of_y <= 0) continue;
          out[o] += of_x * of_y * in[0][plane + k] / (points_x * points_y);
        }
      }
    }
  }
  return {out};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_RROIAlign";
  row.batch_follows_from_output = false;
  row.forward = Forward;
  const auto add = [&row](const std::string& name, ParameterMap parameters, const TShape& data,
                          const std::vector<double>& rois) {
    parameters.insert({{"pooled_size", "(2, 3)"}, {"spatial_scale", "1"}});
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {data, {static_cast<index_t>(rois.size()) / 6, 6}},
                         .fills = {Fill(), Fill::Given(rois)},
                         .shapes_follow_from_first = false});
  };
  const std::vector<double> rois = {0, 2, 3, 3.5, 2.5, 30, 1, 2.5, 2, 5, 1, -75, 0, 3, 3, 4, 4, 0};
  add("regions", {}, {2, 3, 6, 5}, rois);
  add("scaled", {{"spatial_scale", "0.5"}, {"sampling_ratio", "2"}}, {2, 2, 4, 5}, rois);
  add("outside", {}, {1, 2, 4, 4}, {0, -2.5, 1, 4, 4, 20, 0, 20, 20, 3, 3, 45});
  add("of_no_sample", {}, {1, 2, 4, 4}, {-1, 2, 2, 3, 3, 10});
  add("no_pixels", {}, {1, 2, 0, 4}, {0, 2, 2, 3, 3, 10});
  const ParameterMap valid = {{"pooled_size", "(2, 2)"}, {"spatial_scale", "1"}};
  row.errors = {
      {.name = "size_0",
       .parameters = {{"pooled_size", "(0, 2)"}, {"spatial_scale", "1"}},
       .words = {"pooled_size", "(0,2)"}},
      {.name = "rois_of_five",
       .parameters = valid,
       .inputs = {{1, 2, 4, 4}, {3, 5}},
       .words = {"rois", "(3,5)"}},
  };
  row.forward_tolerance = {.float64 = 1e-14, .float32 = 1e-5, .float16 = 3e-3, .bfloat16 = 2e-2};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
