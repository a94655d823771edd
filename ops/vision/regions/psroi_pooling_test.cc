#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

TShape OutputShape(const ParameterReader& p, const Values& rois) {
  const index_t size = p.Int("pooled_size", 0);
  return {rois.shape[0], p.Int("output_dim", 0), size, size};
}

/// Calls visit(i_out, i_data, share) for each pixel of each cell.
template <typename Visit>
void ForEachPixel(const ParameterMap& parameters, const std::vector<Values>& in,
                  const Visit& visit) {
  const ParameterReader p(parameters);
  const TShape out = OutputShape(p, in[1]), &data = in[0].shape;
  const index_t size = out[2];
  const index_t groups = p.Int("group_size", 0) > 0 ? p.Int("group_size", 0) : size;
  const double scale = p.Real("spatial_scale", 1);
  for (index_t o = 0; o < out.Size(); ++o) {
    const index_t cell[] = {o / size % size, o % size}, c = o / (size * size) % out[1];
    const index_t row = 5 * (o / (size * size * out[1]));
    const auto sample = static_cast<index_t>(in[1][row]);
    if (sample < 0) continue;
    const index_t channel =
        (c * groups + cell[0] * groups / size) * groups + cell[1] * groups / size;
    std::vector<index_t> pixels[2];  // y, x
    for (const int axis : {0, 1}) {
      const double first = std::round(in[1][row + 2 - axis]) * scale;
      const double last = (std::round(in[1][row + 4 - axis]) + 1) * scale;
      const double step = std::max(last - first, 0.1) / static_cast<double>(size);
      const auto k = static_cast<double>(cell[axis]);
      for (index_t i = 0; i < data[2 + axis]; ++i) {
        const auto x = static_cast<double>(i);
        if (x >= std::floor(k * step + first) && x < std::ceil((k + 1) * step + first)) {
          pixels[axis].push_back(i);
        }
      }
    }
    const auto count = static_cast<double>(pixels[0].size() * pixels[1].size());
    for (const index_t y : pixels[0]) {
      for (const index_t x : pixels[1]) {
        visit(o, ((sample * data[1] + channel) * data[2] + y) * data[3] + x, 1 / count);
      }
    }
  }
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_PSROIPooling";
  row.batch_follows_from_output = false;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    Values out(OutputShape(ParameterReader(parameters), in[1]));
    ForEachPixel(parameters, in,
                 [&](index_t o, index_t i, double share) { out[o] += share * in[0][i]; });
    return std::vector<Values>{out};
  };
  row.backward = [](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
    ForEachPixel(parameters, in,
                 [&](index_t o, index_t i, double share) { grad[0][i] += share * out_grad[0][o]; });
    return grad;
  };
  const auto add = [&row](const std::string& name, ParameterMap parameters, const TShape& data,
                          const std::vector<double>& rois) {
    parameters.insert({{"pooled_size", "3"}, {"spatial_scale", "0.5"}, {"output_dim", "2"}});
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {data, {static_cast<index_t>(rois.size()) / 5, 5}},
                         .fills = {Fill(), Fill::Given(rois)},
                         .shapes_follow_from_first = false});
  };
  const std::vector<double> rois = {0, 1, 2, 8, 9, 1, 2.5, 0, 7, 11, 0, 4, 4, 4, 4};
  add("regions", {}, {2, 18, 6, 5}, rois);
  add("grouped", {{"group_size", "2"}}, {2, 8, 6, 5}, rois);
  add("spare_channels", {{"pooled_size", "1"}, {"spatial_scale", "1"}}, {2, 5, 4, 4}, rois);
  add("outside", {}, {1, 18, 4, 4}, {0, -9, -9, 2, 5, 0, 20, 20, 29, 29});
  add("of_no_sample", {}, {1, 18, 4, 4}, {-1, 0, 0, 5, 5});
  add("no_pixels", {}, {1, 18, 0, 4}, {0, 0, 0, 5, 5});
  const ParameterMap valid = {{"pooled_size", "3"}, {"spatial_scale", "1"}, {"output_dim", "2"}};
  row.errors = {
      {.name = "no_cells",
       .parameters = {{"pooled_size", "0"}, {"spatial_scale", "1"}, {"output_dim", "2"}},
       .words = {"pooled_size"}},
      {.name = "few_channels",
       .parameters = valid,
       .inputs = {{1, 17, 4, 4}, {3, 5}},
       .words = {"(1,17,4,4)", "at least 18"}},
      {.name = "rois_of_four",
       .parameters = valid,
       .inputs = {{1, 18, 4, 4}, {3, 4}},
       .words = {"rois", "(3,4)"}},
  };
  row.backward_tolerance = {.float64 = 1e-14, .float32 = 2e-6, .of_largest = true};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
