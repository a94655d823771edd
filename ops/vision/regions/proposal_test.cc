#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// A box with both corners, and its score.
struct Scored {
  std::array<double, 4> box{};
  double score = -1;

  double Size(size_t axis) const { return box[axis + 2] - box[axis] + 1; }
};

double Overlap(const Scored& a, const Scored& b) {
  double both = 1;
  for (const size_t axis : {0, 1}) {
    const double last = std::min(a.box[axis + 2], b.box[axis + 2]);
    both *= std::max(0.0, last - std::max(a.box[axis], b.box[axis]) + 1);
  }
  return both / (a.Size(0) * a.Size(1) + b.Size(0) * b.Size(1) - both);
}

/// Calls visit(the anchor's width, its height) in order.
template <typename Visit>
void ForEachAnchor(const std::vector<double>& scales, const std::vector<double>& ratios,
                   double stride, const Visit& visit) {
  for (const double ratio : ratios) {
    const double width = std::floor(std::sqrt(std::floor(stride * stride / ratio)) + 0.5);
    const double height = std::floor(width * ratio + 0.5);
    for (const double scale : scales) visit(width * scale, height * scale);
  }
}

/// The parameters of a case, whose anchors are given apart.
struct Options {
  Options(const ParameterMap& parameters, std::vector<double> s, std::vector<double> r)
      : scales(std::move(s)), ratios(std::move(r)) {
    const ParameterReader p(parameters);
    before = p.Int("rpn_pre_nms_top_n", 6000);
    after = p.Int("rpn_post_nms_top_n", 300);
    threshold = p.Real("threshold", 0.7);
    least = static_cast<double>(p.Int("rpn_min_size", 16));
    stride = static_cast<double>(p.Int("feature_stride", 16));
    corners = p.Bool("iou_loss", false);
  }

  std::vector<double> scales, ratios;
  index_t before, after;
  double threshold, least, stride;
  bool corners;
};

/// Returns all boxes of image n.
std::vector<Scored> BoxesOf(const Options& o, const std::vector<Values>& in, index_t n) {
  const TShape& map = in[0].shape;
  const index_t anchors = map[1] / 2, plane = map[2] * map[3];
  const double limits[] = {in[2][3 * n + 1], in[2][3 * n]}, scale = in[2][3 * n + 2];
  std::vector<Scored> boxes;
  for (index_t at = 0; at < plane; ++at) {
    const double position[] = {static_cast<double>(at % map[3]), static_cast<double>(at / map[3])};
    index_t a = 0;
    ForEachAnchor(o.scales, o.ratios, o.stride, [&](double width, double height) {
      const double sizes[] = {width, height};
      const index_t move = (4 * anchors * n + 4 * a) * plane + at;
      Scored scored;
      scored.score = in[0][(map[1] * n + anchors + a) * plane + at];
      for (const size_t axis : {0, 1}) {
        const auto i = static_cast<index_t>(axis);
        const double centre = position[axis] * o.stride + (o.stride - 1) / 2;
        double& first = scored.box[axis];
        double& last = scored.box[axis + 2];
        const double shift = in[1][move + i * plane], growth = in[1][move + (i + 2) * plane];
        if (o.corners) {
          first = centre - (sizes[axis] - 1) / 2 + shift;
          last = centre + (sizes[axis] - 1) / 2 + growth;
        } else {
          const double size = sizes[axis] * std::exp(growth);
          first = centre + shift * sizes[axis] - (size - 1) / 2;
          last = first + size - 1;
        }
        first = std::max(std::min(first, limits[axis] - 1), 0.0);
        last = std::max(std::min(last, limits[axis] - 1), 0.0);
        if (position[axis] >= std::floor(limits[axis] / o.stride)) scored.score = -1;
      }
      if (std::min(scored.Size(0), scored.Size(1)) < o.least * scale) {
        for (size_t i = 0; i < 4; ++i) scored.box[i] += (i < 2 ? -0.5 : 0.5) * o.least * scale;
        scored.score = -1;
      }
      boxes.push_back(scored);
      ++a;
    });
  }
  return boxes;
}

std::vector<Values> Propose(const Options& o, const std::vector<Values>& in) {
  const index_t images = in[0].shape[0];
  std::vector<Values> out = {Values({images * o.after, 5}), Values({images * o.after, 1})};
  for (index_t n = 0; n < images; ++n) {
    std::vector<Scored> boxes = BoxesOf(o, in, n), kept;
    // The best of the rest is kept or left out, one by one.
    for (index_t step = 0; !boxes.empty() && (o.before <= 0 || step < o.before); ++step) {
      const auto best =
          std::max_element(boxes.begin(), boxes.end(),
                           [](const Scored& a, const Scored& b) { return a.score < b.score; });
      const Scored next = *best;
      boxes.erase(best);
      const auto overlaps = [&](const Scored& k) { return Overlap(k, next) > o.threshold; };
      if (std::none_of(kept.begin(), kept.end(), overlaps)) kept.push_back(next);
    }
    if (static_cast<index_t>(kept.size()) > o.after) kept.resize(static_cast<size_t>(o.after));
    if (kept.empty()) kept.emplace_back();
    for (index_t i = 0; i < o.after; ++i) {
      const Scored& scored = kept[static_cast<size_t>(i) % kept.size()];
      const index_t row = n * o.after + i;
      out[0][5 * row] = static_cast<double>(n);
      for (index_t k = 0; k < 4; ++k) out[0][5 * row + 1 + k] = scored.box[static_cast<size_t>(k)];
      out[1][row] = scored.score;
    }
  }
  return out;
}

/// Reads "(a, b)".
std::vector<double> Numbers(const std::string& text) {
  std::vector<double> numbers;
  std::string digits;
  for (const char c : text) {
    if ((c >= '0' && c <= '9') || c == '.') {
      digits += c;
    } else if (!digits.empty()) {
      numbers.push_back(std::stod(digits));
      digits.clear();
    }
  }
  return numbers;
}

OperatorRow Row(const std::string& name, bool many) {
  OperatorRow row;
  row.name = name;
  row.batch_follows_from_output = !many;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    const ParameterReader p(parameters);
    return Propose(Options(parameters, Numbers(p.Text("scales", "(4, 8, 16, 32)")),
                           Numbers(p.Text("ratios", "(0.5, 1, 2)"))),
                   in);
  };
  const auto add = [&](const std::string& case_name, ParameterMap parameters, index_t anchors,
                       index_t height, index_t width, const std::vector<double>& info,
                       double moves = 0.4) {
    const index_t images = many ? static_cast<index_t>(info.size()) / 3 : 1;
    parameters.insert({{"rpn_post_nms_top_n", "9"}});
    row.cases.push_back(
        {.name = case_name,
         .parameters = parameters,
         .inputs = {{images, 2 * anchors, height, width},
                    {images, 4 * anchors, height, width},
                    {images, 3}},
         .fills = {Fill::Uniform(0, 1), Fill::Uniform(-moves, moves), Fill::Given(info)}});
  };
  const ParameterMap one = {{"scales", "(2,)"}, {"ratios", "(1,)"}};
  const auto with = [](ParameterMap all, const ParameterMap& more) {
    all.insert(more.begin(), more.end());
    return all;
  };
  add("one_anchor", one, 1, 3, 4, {48, 64, 1, 40, 60, 1});
  add("defaults", {{"output_score", "True"}}, 12, 2, 3, {32, 48, 1});
  add("anchors", {{"scales", "(1, 2.5)"}, {"ratios", "(0.5, 1, 2)"}, {"rpn_min_size", "4"}}, 6, 4,
      3, {64, 48, 1, 50, 30, 0.5});
  add("corners", with(one, {{"iou_loss", "True"}}), 1, 3, 3, {48, 48, 1}, 6);
  add("few_are_repeated", with(one, {{"threshold", "0.05"}, {"rpn_post_nms_top_n", "12"}}), 1, 3, 3,
      {48, 48, 1, 32, 48, 1});
  add("best_only", with(one, {{"rpn_pre_nms_top_n", "5"}, {"feature_stride", "8"}}), 1, 4, 4,
      {32, 32, 0.25});
  add("all_small", with(one, {{"rpn_min_size", "40"}, {"rpn_pre_nms_top_n", "0"}}), 1, 3, 3,
      {48, 48, 1});
  add("no_positions", one, 1, 0, 3, {0, 48, 1});
  add("no_rows", with(one, {{"rpn_post_nms_top_n", "0"}}), 1, 3, 3, {48, 48, 1});
  row.errors = {
      {.name = "no_scales", .parameters = {{"scales", "()"}}, .words = {"scales", "()"}},
      {.name = "ratio_of_0", .parameters = {{"ratios", "(1, 0)"}}, .words = {"ratios", "0"}},
      {.name = "no_stride", .parameters = {{"feature_stride", "0"}}, .words = {"feature_stride"}},
      {.name = "negative_rows",
       .parameters = {{"rpn_post_nms_top_n", "-1"}},
       .words = {"rpn_post_nms_top_n", "-1"}},
      {.name = "other_anchors",
       .parameters = one,
       .inputs = {{1, 24, 3, 3}},
       .words = {"cls_prob", "(1,24,3,3)"}},
      {.name = "moves_of_other_map",
       .parameters = one,
       .inputs = {{1, 2, 3, 3}, {1, 4, 3, 4}},
       .words = {"bbox_pred", "(1,4,3,4)"}},
      {.name = "info_of_four",
       .parameters = one,
       .inputs = {{1, 2, 3, 3}, {1, 4, 3, 3}, {1, 4}},
       .words = {"im_info", "(1,4)"}},
  };
  if (!many) {
    row.errors.push_back({.name = "two_images",
                          .parameters = one,
                          .inputs = {{2, 2, 3, 3}},
                          .words = {"cls_prob", "(2,2,3,3)"}});
  }
  row.forward_tolerance = {.float32 = 4e-6, .of_largest = true};
  return row;
}

const RowRegistration kRow(Row("_contrib_Proposal", /*many=*/false));
const RowRegistration kRowOfMany(Row("_contrib_MultiProposal", /*many=*/true));

}  // namespace
}  // namespace tessera::ops_testing
