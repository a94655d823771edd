#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/vision/box_reference.h"

namespace tessera::ops_testing {
namespace {

struct Options {
  explicit Options(const ParameterMap& parameters) {
    const ParameterReader p(parameters);
    overlap = p.Real("overlap_threshold", 0.5);
    ignored = p.Real("ignore_label", -1);
    ratio = p.Real("negative_mining_ratio", -1);
    mining = p.Real("negative_mining_thresh", 0.5);
    const auto given = parameters.find("variances");
    if (given != parameters.end()) {
      variances = ops_internal::ParameterText<std::vector<float>>::Parse(given->second);
    }
  }
  double overlap, ignored, ratio, mining;
  std::vector<float> variances = {0.1f, 0.1f, 0.2f, 0.2f};
};

/// The overlaps of a sample's anchors and objects.
struct Overlaps {
  Overlaps(const Values& anchors, const double* label, index_t objects, index_t width)
      : anchors_(anchors.shape[1]), objects_(objects) {
    for (index_t i = 0; i < anchors_; ++i) {
      for (index_t k = 0; k < objects; ++k) {
        values.push_back(OverlapOfCorners(anchors.data.data() + 4 * i, label + k * width + 1));
      }
    }
  }
  double Of(index_t anchor, index_t object) const {
    return values[static_cast<size_t>(anchor * objects_ + object)];
  }
  index_t Nearest(index_t anchor) const {
    index_t best = 0;
    for (index_t k = 1; k < objects_; ++k) {
      if (Of(anchor, k) > Of(anchor, best)) best = k;
    }
    return best;
  }
  /// Returns the object of each anchor, or -1.
  std::vector<index_t> Match(double threshold) const {
    std::vector<index_t> objects(static_cast<size_t>(anchors_), -1);
    std::vector<bool> has_anchor(static_cast<size_t>(objects_), false);
    for (;;) {
      double best = 1e-6;
      index_t anchor = -1, object = -1;
      for (index_t i = 0; i < anchors_; ++i) {
        for (index_t k = 0; k < objects_; ++k) {
          if (objects[static_cast<size_t>(i)] >= 0 || has_anchor[static_cast<size_t>(k)]) continue;
          if (Of(i, k) <= best) continue;
          best = Of(i, k);
          anchor = i;
          object = k;
        }
      }
      if (anchor < 0) break;
      objects[static_cast<size_t>(anchor)] = object;
      has_anchor[static_cast<size_t>(object)] = true;
    }
    for (index_t i = 0; i < anchors_ && threshold > 0; ++i) {
      index_t& object = objects[static_cast<size_t>(i)];
      if (object < 0 && Of(i, Nearest(i)) > threshold) object = Nearest(i);
    }
    return objects;
  }

  const index_t anchors_, objects_;
  std::vector<double> values;
};

/// Returns the anchors without an object that are background.
std::vector<index_t> Background(const Options& o, const std::vector<index_t>& objects,
                                const Overlaps& overlaps, const double* scores, index_t classes) {
  const auto count = static_cast<index_t>(objects.size());
  std::vector<std::pair<double, index_t>> candidates;  // by the background's probability
  for (index_t i = 0; i < count; ++i) {
    if (objects[static_cast<size_t>(i)] >= 0) continue;
    if (o.ratio > 0 && overlaps.Of(i, overlaps.Nearest(i)) >= o.mining) continue;
    double sum = 0;
    for (index_t c = 0; c < classes; ++c) sum += std::exp(scores[c * count + i]);
    candidates.emplace_back(std::exp(scores[i]) / sum, i);
  }
  if (o.ratio > 0) {
    std::sort(candidates.begin(), candidates.end());
    const auto free = std::count(objects.begin(), objects.end(), -1);
    const double wanted = o.ratio * static_cast<double>(count - free);
    if (wanted < static_cast<double>(candidates.size()))
      candidates.resize(static_cast<size_t>(wanted));
  }
  std::vector<index_t> chosen;
  for (const auto& candidate : candidates) chosen.push_back(candidate.second);
  return chosen;
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const Options o(parameters);
  const index_t batch = in[2].shape[0], classes = in[2].shape[1], count = in[2].shape[2];
  const index_t lines = in[1].shape[1], width = in[1].shape[2];
  std::vector<Values> out = {Values({batch, 4 * count}), Values({batch, 4 * count}),
                             Values({batch, count}, o.ignored)};
  for (index_t b = 0; b < batch; ++b) {
    const double* const label = in[1].data.data() + b * lines * width;
    index_t objects = 0;
    while (objects < lines && label[objects * width] != -1) ++objects;
    if (objects == 0) continue;
    const Overlaps overlaps(in[0], label, objects, width);
    const std::vector<index_t> matched = overlaps.Match(o.overlap);
    for (const index_t i :
         Background(o, matched, overlaps, in[2].data.data() + b * classes * count, classes)) {
      out[2][b * count + i] = 0;
    }
    for (index_t i = 0; i < count; ++i) {
      const index_t object = matched[static_cast<size_t>(i)];
      if (object < 0) continue;
      const double* const box = label + object * width + 1;
      const double* const anchor = in[0].data.data() + 4 * i;
      out[2][b * count + i] = box[-1] + 1;
      for (const index_t axis : {0, 1}) {
        const double extent = anchor[axis + 2] - anchor[axis];
        const double distance = (box[axis] + box[axis + 2] - anchor[axis] - anchor[axis + 2]) / 2;
        const double offsets[] = {distance / extent,
                                  std::log((box[axis + 2] - box[axis]) / extent)};
        for (const index_t k : {0, 1}) {
          const index_t number = 2 * k + axis, to = 4 * (b * count + i) + number;
          out[0][to] = offsets[k] / double{o.variances[static_cast<size_t>(number)]};
          out[1][to] = 1;
        }
      }
    }
  }
  return out;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_MultiBoxTarget";
  row.forward = Forward;
  // Anchors and objects with overlaps that are equal, 0, and 1.
  const Fill anchors = Fill::Given({0.125, 0.125, 0.5,  0.5,  0.25, 0.25, 0.75, 0.75, 0.5,  0.5,
                                    1,     0.875, 0,    0,    0.25, 0.25, 0.25, 0.25, 0.75, 0.75,
                                    0.25,  0,     0.75, 0.75, 0.75, 0,    1,    0.25});
  const Fill labels =
      Fill::Given({0,    0.125, 0.125, 0.5, 0.625, 2,    0.5, 0.5,  1, 1,    1,    0.25, 0.25, 0.75,
                   0.75, -1,    0,     0,   0.25,  0.25, 3,   0.25, 0, 0.75, 0.75, 0,    0.25, 0,
                   0.75, 0.75,  -1,    -1,  -1,    -1,   -1,  2,    0, 0,    1,    1});
  const auto add = [&](const std::string& name, const ParameterMap& parameters,
                       const TShape& label = {2, 4, 5}, const Fill& objects = Fill::Given({}),
                       index_t count = 7) {
    row.cases.push_back(
        {.name = name,
         .parameters = parameters,
         .inputs = {{1, count, 4}, label, {label[0], 4, count}},
         .fills = {anchors, objects.values.empty() ? labels : objects, Fill::Distinct(-4, 4)},
         .shapes_follow_from_first = false});
  };
  add("default", {});
  add("best_pairs_only", {{"overlap_threshold", "0"}, {"variances", "(1, 1, 1, 1)"}});
  add("low_threshold", {{"overlap_threshold", "0.125"}, {"variances", "(0.5, 1, 0.25, 2)"}});
  add("mined", {{"negative_mining_ratio", "1"}, {"ignore_label", "-5"}});
  add("mined_few", {{"negative_mining_ratio", "0.5"}, {"minimum_negative_samples", "3"}});
  add("mined_all", {{"negative_mining_ratio", "100"}, {"negative_mining_thresh", "1"}});
  add("mined_far", {{"negative_mining_ratio", "3"}, {"negative_mining_thresh", "0.125"}});
  add("wide_labels", {}, {2, 2, 6},
      Fill::Given({1, 0.25, 0.25, 0.75, 0.75, 9, -1, 0, 0, 1,    1,   9,
                   0, 0,    0,    0.25, 0.5,  9, 2,  0, 0, 0.25, 0.5, 9}));
  add("no_objects", {{"negative_mining_ratio", "3"}}, {2, 3, 5}, Fill::Given({-1}));
  add("no_labels", {}, {2, 0, 5});
  add("far_objects", {}, {1, 2, 5}, Fill::Given({1, 5, 5, 6, 6}));
  add("one_anchor", {}, {2, 4, 5}, Fill::Given({}), 1);
  add("no_anchors", {}, {2, 4, 5}, Fill::Given({}), 0);
  add("parallel", {{"overlap_threshold", "0.25"}}, {30, 4, 5}, Fill::Given({}), 300);
  row.errors = {
      {.name = "three_variances",
       .parameters = {{"variances", "(1, 1, 1)"}},
       .words = {"variances has 3 numbers", "expected 4"}},
      {.name = "narrow_labels",
       .inputs = {{1, 3, 4}, {2, 3, 4}},
       .words = {"label", "(2,3,4)", "at least 5"}},
      {.name = "no_classes",
       .inputs = {{1, 3, 4}, {2, 3, 5}, {2, 0, 3}},
       .words = {"cls_pred", "(2,0,3)", "background"}},
      {.name = "scores_of_other_anchors",
       .inputs = {{1, 3, 4}, {2, 3, 5}, {2, 2, 4}},
       .words = {"cls_pred", "(2,2,4)"}},
      {.name = "anchors_of_samples",
       .inputs = {{2, 3, 4}, {2, 3, 5}},
       .words = {"anchor", "(2,3,4)"}},
  };
  row.forward_tolerance = {.float64 = 1e-13, .float32 = 1e-5, .float16 = 4e-3, .bfloat16 = 3e-2};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
