#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Calls visit(i_out, the first largest pixel of its cell, or -1).
template <typename Visit>
TShape ForEachMaximum(const ParameterMap& parameters, const std::vector<Values>& in,
                      const Visit& visit) {
  const ParameterReader p(parameters);
  const auto pooled = p.Window("pooled_size", 0, 0);
  const double scale = p.Real("spatial_scale", 1);
  const Values &data = in[0], &rois = in[1];
  const TShape out = {rois.shape[0], data.shape[1], pooled[0], pooled[1]};
  for (index_t o = 0; o < out.Size(); ++o) {
    const index_t cell[] = {o / pooled[1] % pooled[0], o % pooled[1]};
    const index_t c = o / (pooled[0] * pooled[1]) % out[1],
                  row = 5 * (o / (out[1] * pooled[0] * pooled[1]));
    index_t begin[2], end[2];
    for (const size_t axis : {0, 1}) {  // y, x
      const auto at = static_cast<index_t>(axis);
      const double first = std::round(rois[row + 2 - at] * scale);
      const double last = std::round(rois[row + 4 - at] * scale);
      const double size = std::max(last - first + 1, 1.0) / static_cast<double>(pooled[axis]);
      const auto extent = static_cast<double>(data.shape[2 + static_cast<int>(axis)]);
      const auto bound = [&](double x) {
        return static_cast<index_t>(std::clamp(x + first, 0.0, extent));
      };
      begin[axis] = bound(std::floor(static_cast<double>(cell[axis]) * size));
      end[axis] = bound(std::ceil(static_cast<double>(cell[axis] + 1) * size));
    }
    index_t largest = -1;
    for (index_t y = begin[0]; y < end[0] && rois[row] >= 0; ++y) {
      for (index_t x = begin[1]; x < end[1]; ++x) {
        const index_t plane = static_cast<index_t>(rois[row]) * data.shape[1] + c;
        const index_t i = (plane * data.shape[2] + y) * data.shape[3] + x;
        if (largest < 0 || data[i] > data[largest]) largest = i;
      }
    }
    visit(o, largest);
  }
  return out;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "ROIPooling";
  row.batch_follows_from_output = false;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    Values out(ForEachMaximum(parameters, in, [](index_t, index_t) {}));
    ForEachMaximum(parameters, in, [&](index_t o, index_t i) { out[o] = i < 0 ? 0 : in[0][i]; });
    return std::vector<Values>{out};
  };
  row.backward = [](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
    ForEachMaximum(parameters, in, [&](index_t o, index_t i) {
      if (i >= 0) grad[0][i] += out_grad[0][o];
    });
    return grad;
  };
  const auto add = [&row](const std::string& name, const std::string& size,
                          const std::string& scale, const TShape& data,
                          const std::vector<double>& rois) -> OperatorCase& {
    row.cases.push_back({.name = name,
                         .parameters = {{"pooled_size", size}, {"spatial_scale", scale}},
                         .inputs = {data, {static_cast<index_t>(rois.size()) / 5, 5}},
                         .fills = {Fill::Distinct(), Fill::Given(rois)},
                         .shapes_follow_from_first = false});
    return row.cases.back();
  };
  add("regions", "(2, 3)", "1", {2, 3, 6, 5}, {0, 0, 1, 3, 4, 1, 1, 1, 4, 5, 0, 2, 2, 2, 2});
  add("scaled", "(2, 2)", "0.5", {1, 2, 6, 5}, {0, 1, 3, 8, 9, 0, 2, 2, 3, 7});
  add("outside", "(3, 2)", "1", {1, 2, 4, 4}, {0, -3, -3, 2, 1, 0, 9, 9, 12, 12, 0, 2, 2, 7, 6});
  add("reversed", "(2, 2)", "1", {1, 2, 4, 4}, {0, 3, 3, 1, 1});
  add("of_no_sample", "(2, 2)", "1", {2, 1, 4, 4}, {-1, 0, 0, 3, 3, 1, 0, 0, 3, 3});
  add("no_pixels", "(2, 2)", "1", {1, 2, 0, 4}, {0, 0, 0, 3, 3});
  OperatorCase& parallel = add("parallel", "(7, 7)", "0.25", {2, 9, 30, 40},
                               {0, 4, 9, 90, 100, 1, 30, 2, 150, 99, 1, 0, 0, 159, 119});
  parallel.dtypes = {DType::kFloat32};
  parallel.large = true;
  const ParameterMap valid = {{"pooled_size", "(2, 2)"}, {"spatial_scale", "1"}};
  row.errors = {
      {.name = "size_0",
       .parameters = {{"pooled_size", "(0, 2)"}, {"spatial_scale", "1"}},
       .words = {"pooled_size", "(0,2)"}},
      {.name = "large_scale",
       .parameters = {{"pooled_size", "(2, 2)"}, {"spatial_scale", "1.5"}},
       .words = {"spatial_scale", "1.5"}},
      {.name = "rois_of_four",
       .parameters = valid,
       .inputs = {{1, 2, 4, 4}, {3, 4}},
       .words = {"rois", "(3,4)"}},
      {.name = "vector", .parameters = valid, .inputs = {{4}}, .words = {"data", "(4,)"}},
  };
  row.backward_tolerance = {.float64 = 1e-14, .float32 = 2e-6, .of_largest = true};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
