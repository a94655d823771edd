#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// A pixel of a point of the output's element `out`: share * pixel is one of its summands. The
/// shares' derivatives by the offsets are given too; these are at offset_y and offset_x, or -1.
struct Product {
  index_t out, pixel, offset_y, offset_x;
  double share, slope_y, slope_x;
};

/// A pixel of a point along an axis, with its weight and the weight's derivative by the offset.
struct Neighbour {
  index_t pixel;
  double weight, slope;
};

/// Returns the pixels of the points of a cell along an axis of `extent` pixels, and adds the number
/// of points inside to `count`. The region is [begin, begin + length).
std::vector<Neighbour> PixelsOf(double begin, double length, double offset, index_t cell,
                                index_t cells, index_t points, index_t extent, double* count) {
  std::vector<Neighbour> pixels;
  const auto last = static_cast<double>(extent - 1);
  for (index_t i = 0; i < points; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(points);
    const double place = begin + offset * length +
                         (static_cast<double>(cell) + part) * length / static_cast<double>(cells);
    if (place < -0.5 || place > last + 0.5 || extent == 0) continue;
    ++*count;
    for (index_t pixel = 0; pixel < extent; ++pixel) {
      const double distance = std::clamp(place, 0.0, last) - static_cast<double>(pixel);
      if (std::abs(distance) >= 1) continue;
      const double slope = place <= 0 || place >= last || distance == 0 ? 0 : distance > 0 ? -1 : 1;
      pixels.push_back({pixel, 1 - std::abs(distance), slope * length});
    }
  }
  return pixels;
}

TShape OutputShape(const ParameterReader& p, const Values& rois) {
  const index_t size = p.Int("pooled_size", 0);
  return {rois.shape[0], p.Int("output_dim", 0), size, size};
}

/// Calls visit(product) for each pixel of each point of each cell.
template <typename Visit>
void ForEachProduct(const ParameterMap& parameters, const std::vector<Values>& in,
                    const Visit& visit) {
  const ParameterReader p(parameters);
  const TShape out = OutputShape(p, in[1]), &data = in[0].shape;
  const index_t size = out[2], groups = p.Int("group_size", 0);
  const index_t points = p.Int("sample_per_part", 1);
  const index_t parts = p.Int("part_size", 0) > 0 ? p.Int("part_size", 0) : size;
  const double scale = p.Real("spatial_scale", 1), factor = p.Real("trans_std", 0);
  const bool moves = in.size() > 2;
  for (index_t o = 0; o < out.Size(); ++o) {
    const index_t cell[] = {o / size % size, o % size};
    const index_t c = o / (size * size) % out[1], r = o / (size * size * out[1]);
    const auto sample = static_cast<index_t>(in[1][5 * r]);
    if (sample < 0) continue;
    const index_t channel =
        (c * groups + cell[0] * groups / size) * groups + cell[1] * groups / size;
    std::vector<Neighbour> pixels[2];  // y, x
    index_t offsets[] = {-1, -1};
    double counts[] = {0, 0};
    for (const int axis : {0, 1}) {
      const double begin = std::round(in[1][5 * r + 2 - axis]) * scale - 0.5;
      const double end = (std::round(in[1][5 * r + 4 - axis]) + 1) * scale - 0.5;
      double offset = 0;
      if (moves) {
        const index_t classes = in[2].shape[1] / 2, k = c / (out[1] / classes);
        const index_t plane = (r * classes + k) * 2 + 1 - axis;
        offsets[axis] = (plane * parts + cell[0] * parts / size) * parts + cell[1] * parts / size;
        offset = in[2][offsets[axis]] * factor;
      }
      pixels[axis] = PixelsOf(begin, std::max(end - begin, 0.1), offset, cell[axis], size, points,
                              data[2 + axis], &counts[axis]);
    }
    const double count = counts[0] * counts[1];
    for (const Neighbour& y : pixels[0]) {
      for (const Neighbour& x : pixels[1]) {
        const index_t pixel =
            ((sample * data[1] + channel) * data[2] + y.pixel) * data[3] + x.pixel;
        visit(Product{o, pixel, offsets[0], offsets[1], y.weight * x.weight / count,
                      factor * y.slope * x.weight / count, factor * y.weight * x.slope / count});
      }
    }
  }
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_DeformablePSROIPooling";
  row.batch_follows_from_output = false;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    Values out(OutputShape(ParameterReader(parameters), in[1]));
    ForEachProduct(parameters, in,
                   [&](const Product& p) { out[p.out] += p.share * in[0][p.pixel]; });
    return std::vector<Values>{out};
  };
  row.backward = [](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad;
    for (const Values& x : in) grad.emplace_back(x.shape);
    ForEachProduct(parameters, in, [&](const Product& p) {
      const double g = out_grad[0][p.out];
      grad[0][p.pixel] += g * p.share;
      if (p.offset_y < 0) return;
      grad[2][p.offset_y] += g * p.slope_y * in[0][p.pixel];
      grad[2][p.offset_x] += g * p.slope_x * in[0][p.pixel];
    });
    return grad;
  };
  const auto add = [&row](const std::string& name, ParameterMap parameters, const TShape& data,
                          const std::vector<double>& rois, const TShape& offsets = {}) {
    parameters.insert({{"pooled_size", "3"},
                       {"spatial_scale", "0.5"},
                       {"output_dim", "2"},
                       {"group_size", "3"},
                       {"trans_std", "0.25"}});
    const index_t regions = static_cast<index_t>(rois.size()) / 5;
    std::vector<TShape> inputs = {data, {regions, 5}};
    if (offsets.ndim() > 0) {
      inputs.push_back({regions, offsets[0], offsets[1], offsets[1]});
    } else {
      parameters["no_trans"] = "True";
    }
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = inputs,
                         .fills = {Fill(), Fill::Given(rois)},
                         .shapes_follow_from_first = false});
  };
  const std::vector<double> rois = {0, 1, 2, 8, 9, 1, 2.5, 0, 7, 11, 0, 4, 4, 4, 4};
  add("regions", {}, {2, 18, 6, 5}, rois);
  add("moved", {}, {2, 18, 6, 5}, rois, {2, 3});
  add("classes", {{"group_size", "2"}, {"part_size", "2"}, {"sample_per_part", "2"}}, {2, 8, 6, 5},
      rois, {4, 2});
  add("more_parts", {{"pooled_size", "2"}, {"part_size", "4"}, {"sample_per_part", "3"}},
      {2, 18, 7, 7}, rois, {2, 4});
  add("spare_channels", {{"group_size", "1"}, {"sample_per_part", "2"}}, {2, 5, 4, 4}, rois,
      {2, 3});
  add("outside", {{"sample_per_part", "2"}}, {1, 18, 4, 4},
      {0, -9, -9, 2, 5, 0, 20, 20, 29, 29, 0, 6, 3, 1, 9}, {2, 3});
  add("of_no_sample", {}, {1, 18, 4, 4}, {-1, 0, 0, 5, 5}, {2, 3});
  add("no_pixels", {}, {1, 18, 0, 4}, {0, 0, 0, 5, 5}, {2, 3});
  const ParameterMap valid = {
      {"pooled_size", "3"}, {"spatial_scale", "1"}, {"output_dim", "2"}, {"group_size", "3"}};
  ParameterMap no_points = valid;
  no_points["sample_per_part"] = "0";
  row.errors = {
      {.name = "no_points", .parameters = no_points, .words = {"sample_per_part"}},
      {.name = "few_channels",
       .parameters = valid,
       .inputs = {{1, 17, 4, 4}, {3, 5}, {3, 2, 3, 3}},
       .words = {"(1,17,4,4)", "at least 18"}},
      {.name = "rois_of_four",
       .parameters = valid,
       .inputs = {{1, 18, 4, 4}, {3, 4}, {3, 2, 3, 3}},
       .words = {"rois", "(3,4)"}},
      {.name = "offsets_of_other_cells",
       .parameters = valid,
       .inputs = {{1, 18, 4, 4}, {3, 5}, {3, 2, 4, 4}},
       .words = {"trans", "(3,2,4,4)"}},
      {.name = "offsets_of_other_regions",
       .parameters = valid,
       .inputs = {{1, 18, 4, 4}, {3, 5}, {4, 2, 3, 3}},
       .words = {"rois", "(3,5)"}},
      {.name = "classes_do_not_divide",
       .parameters = valid,
       .inputs = {{1, 18, 4, 4}, {3, 5}, {3, 6, 3, 3}},
       .words = {"trans", "(3,6,3,3)", "output_dim=2"}},
      {.name = "half_an_offset",
       .parameters = valid,
       .inputs = {{1, 18, 4, 4}, {3, 5}, {3, 3, 3, 3}},
       .words = {"trans", "(3,3,3,3)"}},
  };
  row.forward_tolerance = {.float64 = 1e-14, .float32 = 4e-6, .float16 = 3e-3, .bfloat16 = 2e-2};
  row.backward_tolerance = {
      .float64 = 1e-14, .float32 = 4e-6, .float16 = 3e-3, .bfloat16 = 2e-2, .of_largest = true};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
