#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Returns the centre and the extent of box i along an axis, 0 for x and 1 for y.
std::array<double, 2> Side(const Values& boxes, index_t i, index_t axis, bool center = false) {
  const double a = boxes[4 * i + axis], b = boxes[4 * i + 2 + axis];
  if (center) return {a, b};
  return {(a + b) / 2, b - a};
}

std::vector<Values> Encode(const ParameterMap&, const std::vector<Values>& in,
                           std::vector<Values>*) {
  std::vector<Values> out(2, Values(in[2].shape));
  const index_t count = in[2].shape[1], refs = in[3].shape[1];
  for (index_t i = 0; i < in[0].size(); ++i) {
    if (in[0][i] <= 0.5) continue;
    const index_t ref = i / count * refs + static_cast<index_t>(std::trunc(in[1][i]));
    for (const index_t axis : {0, 1}) {
      const auto anchor = Side(in[2], i, axis), box = Side(in[3], ref, axis);
      const double offsets[] = {(box[0] - anchor[0]) / anchor[1], std::log(box[1] / anchor[1])};
      for (const index_t k : {0, 1}) {
        const index_t number = 2 * k + axis;
        out[0][4 * i + number] = (offsets[k] - in[4][number]) / in[5][number];
        out[1][4 * i + number] = 1;
      }
    }
  }
  return out;
}

OperatorRow EncodeRow() {
  OperatorRow row;
  row.name = "_contrib_box_encode";
  row.forward = Encode;
  const auto add = [&row](const std::string& name, index_t batch, index_t count, index_t refs,
                          Fill samples, Fill matches) {
    const Fill boxes = Fill::Given({0, 0, 2, 4, 1, 1, 2, 2, 0.5, 0, 3, 1, -2, -1, 1, 3});
    const Fill others = Fill::Given({1, 1, 2, 3, 0, 0, 4, 4, -1, 0.5, 2, 2});
    row.cases.push_back(
        {.name = name,
         .inputs = {{batch, count}, {batch, count}, {batch, count, 4}, {batch, refs, 4}, {4}, {4}},
         .fills = {std::move(samples), std::move(matches), boxes, others,
                   Fill::Given({0, 0.125, -0.25, 0.5}), Fill::Given({0.125, 0.25, 0.5, 1})},
         .shapes_follow_from_first = false});
  };
  const Fill samples = Fill::Given({1, 0, -1, 0.5, 0.75, 2, 1});
  add("matched", 2, 6, 3, samples, Fill::Given({0, 1, 2, 1, 1.75, 0, 2}));
  // Only samples above 0.5 need a match.
  add("no_match", 1, 7, 2, samples, Fill::Given({0, -1, 7, -1, 1, 0, -0.5}));
  add("no_sample", 1, 3, 1, Fill::Given({0, -1}), Fill::Given({0}));
  add("no_refs", 1, 3, 0, Fill::Given({0, -1}), Fill::Given({0}));
  add("nothing", 2, 0, 3, samples, samples);
  add("parallel", 30, 50, 3, samples, Fill::Integers(0, 2));
  row.errors = {
      {.name = "boxes_of_five",
       .inputs = {{2, 3}, {2, 3}, {2, 3, 5}},
       .words = {"anchors", "(2,3,5)"}},
      {.name = "samples_of_other_count", .inputs = {{2, 3}, {2, 4}}, .words = {"matches", "(2,4)"}},
      {.name = "three_means",
       .inputs = {{2, 3}, {2, 3}, {2, 3, 4}, {2, 5, 4}, {3}},
       .words = {"means", "(3,)"}},
      {.name = "refs_of_other_batch",
       .inputs = {{2, 3}, {2, 3}, {2, 3, 4}, {1, 5, 4}},
       .words = {"refs", "(1,5,4)"}},
  };
  row.forward_tolerance = {.float64 = 1e-14, .float32 = 1e-5, .float16 = 4e-3, .bfloat16 = 3e-2};
  return row;
}

std::vector<Values> Decode(const ParameterMap& parameters, const std::vector<Values>& in,
                           std::vector<Values>*) {
  const ParameterReader p(parameters);
  const bool center = p.Text("format", "center") == "center";
  const double clip = p.Real("clip", -1);
  Values out(in[0].shape);
  const index_t count = in[1].shape[1];
  for (index_t i = 0; i < out.size() / 4; ++i) {
    for (const index_t axis : {0, 1}) {
      const auto anchor = Side(in[1], i % count, axis, center);
      const double shift = in[0][4 * i + axis] * p.Real("std" + std::to_string(axis), 1);
      double log = in[0][4 * i + 2 + axis] * p.Real("std" + std::to_string(axis + 2), 1);
      if (clip > 0) log = std::min(log, clip);
      const double middle = shift * anchor[1] + anchor[0];
      const double half = std::exp(log) * anchor[1] / 2;
      out[4 * i + axis] = middle - half;
      out[4 * i + 2 + axis] = middle + half;
    }
  }
  return {out};
}

OperatorRow DecodeRow() {
  OperatorRow row;
  row.name = "_contrib_box_decode";
  row.forward = Decode;
  const auto add = [&row](const std::string& name, const ParameterMap& parameters,
                          const TShape& data) {
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {data, {1, data[1], 4}},
                         .fills = {Fill::Uniform(-1, 1), Fill::Uniform(0, 2)}});
  };
  add("center", {}, {2, 5, 4});
  add("corner", {{"format", "corner"}}, {2, 5, 4});
  add("stds", {{"std0", "0.125"}, {"std1", "0.25"}, {"std2", "0.5"}, {"std3", "2"}}, {1, 4, 4});
  add("clipped", {{"clip", "0.25"}, {"std3", "0.5"}}, {3, 4, 4});
  add("not_clipped", {{"clip", "0"}}, {1, 4, 4});
  add("nothing", {}, {0, 3, 4});
  add("parallel", {}, {30, 40, 4});
  row.errors = {
      {.name = "boxes_of_five", .inputs = {{2, 3, 5}}, .words = {"data", "(2,3,5)"}},
      {.name = "matrix", .inputs = {{3, 4}}, .words = {"data", "(3,4)"}},
      {.name = "anchors_of_samples",
       .inputs = {{2, 3, 4}, {2, 3, 4}},
       .words = {"anchors", "(2,3,4)"}},
      {.name = "unknown_format", .parameters = {{"format", "middle"}}, .words = {"middle"}},
  };
  row.forward_tolerance = {.float64 = 1e-14, .float32 = 1e-5, .float16 = 4e-3, .bfloat16 = 3e-2};
  return row;
}

const RowRegistration kRows[] = {RowRegistration(EncodeRow()), RowRegistration(DecodeRow())};

}  // namespace
}  // namespace tessera::ops_testing
