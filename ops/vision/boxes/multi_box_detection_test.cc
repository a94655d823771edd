#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/vision/box_reference.h"

namespace tessera::ops_testing {
namespace {

using Line = std::array<double, 6>;

struct Options {
  explicit Options(const ParameterMap& parameters) {
    const ParameterReader p(parameters);
    clip = p.Bool("clip", true);
    threshold = static_cast<float>(p.Real("threshold", 0.01));
    nms_threshold = static_cast<float>(p.Real("nms_threshold", 0.5));
    force = p.Bool("force_suppress", false);
    topk = p.Int("nms_topk", -1);
    const auto given = parameters.find("variances");
    if (given != parameters.end()) {
      variances = ops_internal::ParameterText<std::vector<float>>::Parse(given->second);
    }
  }
  bool clip, force;
  double threshold, nms_threshold;
  index_t topk;
  std::vector<float> variances = {0.1f, 0.1f, 0.2f, 0.2f};
};

/// Returns the lines of a sample's anchors, those without an object with class -1 and score -1.
std::vector<Line> Detect(const Options& o, const double* scores, index_t classes,
                         const double* offsets, const Values& anchors) {
  const index_t count = anchors.shape[1];
  std::vector<Line> lines;
  for (index_t i = 0; i < count; ++i) {
    Line line = {-1, -1, -1, -1, -1, -1};
    for (index_t c = 1; c < classes; ++c) {
      if (scores[c * count + i] <= line[1]) continue;
      line[0] = static_cast<double>(c - 1);
      line[1] = scores[c * count + i];
    }
    if (line[0] < 0 || line[1] < o.threshold) continue;
    for (const index_t axis : {0, 1}) {
      const double a = anchors[4 * i + axis], b = anchors[4 * i + axis + 2];
      const auto scaled = [&](index_t k) {
        return offsets[4 * i + k] * double{o.variances[static_cast<size_t>(k)]};
      };
      const double middle = (a + b) / 2 + scaled(axis) * (b - a);
      const double half = std::exp(scaled(axis + 2)) * (b - a) / 2;
      const auto at = static_cast<size_t>(axis) + 2;
      line[at] = middle - half;
      line[at + 2] = middle + half;
      if (!o.clip) continue;
      for (const size_t k : {at, at + 2}) line[k] = std::clamp(line[k], 0.0, 1.0);
    }
    lines.push_back(line);
  }
  return lines;
}

std::vector<Line> Suppressed(const Options& o, std::vector<Line> lines) {
  std::vector<Line> rest = lines, done;
  const auto count = static_cast<index_t>(lines.size());
  const index_t most = std::min(o.topk > 0 ? o.topk : count, count);
  // The best of the rest is kept or left out, one by one.
  while (static_cast<index_t>(done.size()) < most) {
    const auto best = std::max_element(rest.begin(), rest.end(),
                                       [](const Line& a, const Line& b) { return a[1] < b[1]; });
    Line line = *best;
    rest.erase(best);
    for (const Line& other : done) {
      if (other[0] < 0 || !(o.force || other[0] == line[0])) continue;
      if (OverlapOfCorners(&other[2], &line[2]) < o.nms_threshold) continue;
      line[0] = -1;
      break;
    }
    done.push_back(line);
  }
  for (Line& line : lines) line[0] = -1;
  std::copy(done.begin(), done.end(), lines.begin());
  return lines;
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const Options o(parameters);
  const index_t batch = in[0].shape[0], classes = in[0].shape[1], count = in[0].shape[2];
  Values out({batch, count, 6}, -1);
  for (index_t b = 0; b < batch && count > 0; ++b) {
    std::vector<Line> lines = Detect(o, in[0].data.data() + b * classes * count, classes,
                                     in[1].data.data() + b * 4 * count, in[2]);
    if (o.nms_threshold > 0 && o.nms_threshold <= 1) lines = Suppressed(o, std::move(lines));
    for (size_t i = 0; i < lines.size(); ++i) {
      for (size_t k = 0; k < 6; ++k) {
        out[(b * count + static_cast<index_t>(i)) * 6 + static_cast<index_t>(k)] = lines[i][k];
      }
    }
  }
  return {out};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_MultiBoxDetection";
  row.forward = Forward;
  const Fill scores = Fill::Given({0.5, 0.25, 0.75, 0.125, 0.5, 0.375, 0, 0.625, 0.875, 0.125,
                                   0.6875, 0.25, 0.25, 0.75, 0.25, 0.5, 0.875});
  const Fill anchors =
      Fill::Given({0.125, 0.125, 0.5, 0.5,   0.25, 0.25, 0.75, 0.75, 0.125, 0.125, 0.5,  0.75,
                   0.5,   0.5,   1,   0.875, 0,    0,    0.25, 0.25, 0.25,  0,     0.75, 0.75});
  const auto add = [&](const std::string& name, const ParameterMap& parameters,
                       const Fill& offsets = Fill::Given({0}), index_t batch = 2,
                       index_t classes = 3, index_t count = 6) {
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {{batch, classes, count}, {batch, 4 * count}, {1, count, 4}},
                         .fills = {scores, offsets, anchors}});
  };
  add("anchors", {});
  add("moved", {{"nms_threshold", "0"}}, Fill::Uniform(-4, 4));
  add("not_clipped",
      {{"nms_threshold", "2"}, {"clip", "False"}, {"variances", "(0.5, 1, 0.25, 0.125)"}},
      Fill::Uniform(-2, 2));
  add("threshold", {{"threshold", "0.5"}});
  add("high_threshold", {{"threshold", "1"}});
  add("equal_boxes_only", {{"nms_threshold", "1"}});
  add("forced", {{"force_suppress", "True"}, {"nms_threshold", "0.125"}});
  add("classes", {{"nms_threshold", "0.125"}, {"background_id", "1"}});
  add("topk", {{"nms_topk", "2"}, {"nms_threshold", "0.25"}});
  add("topk_0", {{"nms_topk", "0"}, {"nms_threshold", "0.25"}});
  add("topk_unsorted", {{"nms_topk", "2"}, {"nms_threshold", "-1"}});
  add("background_alone", {}, Fill::Given({0}), 1, 1, 3);
  add("no_anchors", {}, Fill::Given({0}), 2, 3, 0);
  add("parallel", {{"nms_threshold", "0.125"}}, Fill::Given({0}), 20, 4, 50);
  row.errors = {
      {.name = "three_variances",
       .parameters = {{"variances", "(1, 1, 1)"}},
       .words = {"variances has 3 numbers", "expected 4"}},
      {.name = "offsets_of_other_anchors",
       .inputs = {{2, 3, 5}, {2, 16}},
       .words = {"loc_pred", "(2,16)", "(2,20)"}},
      {.name = "three_offsets", .inputs = {{2, 3, 5}, {2, 15}}, .words = {"loc_pred", "(2,15)"}},
      {.name = "anchors_of_samples",
       .inputs = {{2, 3, 5}, {2, 20}, {2, 5, 4}},
       .words = {"anchor", "(2,5,4)"}},
  };
  row.forward_tolerance = {.float64 = 1e-14, .float32 = 1e-5, .float16 = 4e-3, .bfloat16 = 3e-2};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
