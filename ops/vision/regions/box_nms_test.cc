#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

struct Options {
  explicit Options(const ParameterMap& parameters) {
    const ParameterReader p(parameters);
    overlap = p.Real("overlap_thresh", 0.5);
    valid = p.Real("valid_thresh", 0);
    topk = p.Int("topk", -1);
    box = p.Int("coord_start", 2);
    score = p.Int("score_index", 1);
    id = p.Int("id_index", -1);
    background = p.Int("background_id", -1);
    force = p.Bool("force_suppress", false);
    from_center = p.Text("in_format", "corner") == "center";
    to_center = p.Text("out_format", "corner") == "center";
  }
  /// Returns the first and the last coordinate of a row's box along an axis.
  std::array<double, 2> Side(const double* row, index_t axis) const {
    const double a = row[box + axis], b = row[box + axis + 2];
    if (from_center) return {a - b / 2, a + b / 2};
    return {a, b};
  }
  double Overlap(const double* a, const double* b) const {
    double both = 1, of_a = 1, of_b = 1;
    for (const index_t axis : {0, 1}) {
      const auto x = Side(a, axis), y = Side(b, axis);
      both *= std::max(0.0, std::min(x[1], y[1]) - std::max(x[0], y[0]));
      of_a *= std::max(0.0, x[1] - x[0]);
      of_b *= std::max(0.0, y[1] - y[0]);
    }
    return both > 0 ? both / (of_a + of_b - both) : 0;
  }

  double overlap, valid;
  index_t topk, box, score, id, background;
  bool force, from_center, to_center;
};

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const Options o(parameters);
  const TShape& shape = in[0].shape;
  const int last = shape.ndim() - 1;
  const index_t width = shape[last], count = shape[last - 1];
  TShape rows = shape;
  rows[last] = 1;
  std::vector<Values> out = {Values(shape, -1), Values(rows, -1)};
  for (index_t first = 0; first < out[1].size(); first += count) {
    const double* const data = in[0].data.data() + first * width;
    // The best of the rest is kept or left out, one by one.
    std::vector<bool> done(static_cast<size_t>(count), false);
    std::vector<index_t> kept;
    for (index_t step = 0; step < (o.topk > 0 ? o.topk : count); ++step) {
      index_t best = -1;
      for (index_t i = 0; i < count; ++i) {
        const double* const row = data + i * width;
        if (done[static_cast<size_t>(i)] || row[o.score] <= o.valid) continue;
        if (o.id >= 0 && row[o.id] == static_cast<double>(o.background)) continue;
        if (best < 0 || row[o.score] > data[best * width + o.score]) best = i;
      }
      if (best < 0) break;
      done[static_cast<size_t>(best)] = true;
      const double* const row = data + best * width;
      const bool keeps = std::none_of(kept.begin(), kept.end(), [&](index_t k) {
        const double* const other = data + k * width;
        return (o.force || o.id < 0 || std::trunc(other[o.id]) == std::trunc(row[o.id])) &&
               o.Overlap(other, row) > o.overlap;
      });
      if (keeps) kept.push_back(best);
    }
    for (size_t k = 0; k < kept.size(); ++k) {
      const index_t to = first + static_cast<index_t>(k);
      out[1][to] = static_cast<double>(kept[k]);
      for (index_t i = 0; i < width; ++i) out[0][to * width + i] = data[kept[k] * width + i];
      for (index_t axis : {0, 1}) {
        const auto side = o.Side(data + kept[k] * width, axis);
        double* const box = out[0].data.data() + to * width + o.box + axis;
        box[0] = o.to_center ? (side[0] + side[1]) / 2 : side[0];
        box[2] = o.to_center ? side[1] - side[0] : side[1];
      }
    }
  }
  return out;
}

std::vector<Values> Backward(const ParameterMap&, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>& out) {
  Values grad(in[0].shape);
  const int last = grad.shape.ndim() - 1;
  const index_t width = grad.shape[last], count = grad.shape[last - 1];
  for (index_t i = 0; i < grad.size(); ++i) {
    const index_t row = i / width, kept = static_cast<index_t>(out[1][row]);
    if (kept >= 0) grad[(row / count * count + kept) * width + i % width] = out_grad[0][i];
  }
  return {grad};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_box_nms";
  row.forward = Forward;
  row.backward = Backward;
  row.gradient_is_derivative = false;  // nor does MXNet's regard the formats
  row.batch_follows_from_output = false;
  // Classes, scores, corners, and another number: exact in every type.
  const Fill boxes = Fill::Given({0, 0.5,  0, 0, 4, 4,    7, 1, 0.75,  0.5, 0.5, 4, 4,   8,
                                  0, 0.25, 0, 0, 4, 3,    9, 2, 0.5,   8,   8,   9, 12,  6,
                                  1, -0.5, 1, 1, 2, 2,    5, 0, 1,     7.5, 8,   9, 12,  4,
                                  2, 0.5,  8, 8, 9, 11.5, 3, 1, 0.125, 0.5, 1,   4, 4.5, 2});
  // The classes -1, 0.5, 0 and 1 for equal boxes.
  const Fill classes = Fill::Given({-1, 0.75, 0, 0, 4, 4, 5, 0.5, 0.5,   0, 0, 4, 4, 6,
                                    0,  0.25, 0, 0, 4, 4, 7, 1,   0.125, 0, 0, 4, 4, 8});
  const auto add = [&](const std::string& name, const ParameterMap& parameters,
                       const TShape& data = {8, 7}, const Fill* fill = nullptr) {
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {data},
                         .fills = {fill == nullptr ? boxes : *fill},
                         .fixed_types = {DType::kUnknown}});
  };
  add("all", {});
  add("classes", {{"id_index", "0"}});
  add("forced", {{"id_index", "0"}, {"force_suppress", "True"}, {"overlap_thresh", "0.25"}});
  add("background", {{"id_index", "0"}, {"background_id", "1"}});
  add("background_by_default", {{"id_index", "0"}}, {4, 7}, &classes);
  add("background_is_no_fraction", {{"id_index", "0"}, {"background_id", "0"}}, {4, 7}, &classes);
  add("no_background", {{"id_index", "0"}, {"background_id", "-2"}}, {4, 7}, &classes);
  add("topk", {{"topk", "3"}}, {2, 4, 7});
  add("valid", {{"valid_thresh", "0.375"}, {"overlap_thresh", "0.875"}}, {2, 1, 4, 7});
  add("to_center", {{"out_format", "center"}});
  add("from_center", {{"in_format", "center"}, {"overlap_thresh", "0.125"}});
  add("moved", {{"coord_start", "3"}, {"score_index", "2"}, {"id_index", "0"}});
  add("none_valid", {{"valid_thresh", "9"}}, {4, 7});
  add("no_boxes", {}, {2, 0, 7});
  row.errors = {
      {.name = "narrow", .inputs = {{3, 5}}, .words = {"coord_start=2", "(3,5)", "5 numbers"}},
      {.name = "vector", .inputs = {{6}}, .words = {"(6,)"}},
      {.name = "score_in_box", .parameters = {{"score_index", "3"}}, .words = {"score_index=3"}},
      {.name = "class_is_score", .parameters = {{"id_index", "1"}}, .words = {"id_index=1"}},
      {.name = "class_beyond",
       .parameters = {{"id_index", "9"}},
       .inputs = {{3, 7}},
       .words = {"id_index=9", "7 numbers"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
