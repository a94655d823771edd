#include <algorithm>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Returns the first and the last coordinate of a box along an axis, 0 for x and 1 for y.
std::array<double, 2> Side(const Values& boxes, index_t i, index_t axis, bool center) {
  const double a = boxes[4 * i + axis], b = boxes[4 * i + 2 + axis];
  if (center) return {a - b / 2, a + b / 2};
  return {a, b};
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const bool center = ParameterReader(parameters).Text("format", "corner") == "center";
  std::vector<index_t> extents;
  for (const Values& boxes : in) {
    extents.insert(extents.end(), boxes.shape.begin(), boxes.shape.end() - 1);
  }
  Values out{TShape(std::span<const index_t>(extents))};
  const index_t n = in[1].size() / 4;
  for (index_t o = 0; o < out.size(); ++o) {
    double both = 1, areas[2] = {1, 1};
    for (const index_t axis : {0, 1}) {
      const auto a = Side(in[0], o / n, axis, center), b = Side(in[1], o % n, axis, center);
      both *= std::max(0.0, std::min(a[1], b[1]) - std::max(a[0], b[0]));
      areas[0] *= std::max(0.0, a[1] - a[0]);
      areas[1] *= std::max(0.0, b[1] - b[0]);
    }
    out[o] = both > 0 ? both / (areas[0] + areas[1] - both) : 0;
  }
  return {out};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_box_iou";
  row.forward = Forward;
  const auto add = [&row](const std::string& name, const std::string& format, const TShape& lhs,
                          const TShape& rhs) {
    // Boxes around (0, 0), which overlap, and around other places.
    const Fill some = Fill::Given({-1, -2, 2, 1, 0.5, 0, 3, 2.5, 5, 5, 6, 8, 2, 2, 1, 1});
    row.cases.push_back({.name = name,
                         .parameters = {{"format", format}},
                         .inputs = {lhs, rhs},
                         .fills = {some, Fill::Uniform(-2, 3)},
                         .shapes_follow_from_first = false});
  };
  for (const char* const format : {"corner", "center"}) {
    add(std::string("matrices_") + format, format, {4, 4}, {7, 4});
    add(std::string("batches_") + format, format, {2, 3, 4}, {2, 2, 4});
  }
  add("nothing", "corner", {0, 4}, {3, 4});
  add("parallel", "corner", {40, 4}, {300, 4});
  row.errors = {
      {.name = "box_of_five", .inputs = {{2, 5}, {3, 4}}, .words = {"lhs", "(2,5)"}},
      {.name = "one_box", .inputs = {{2, 4}, {4}}, .words = {"rhs", "(4,)"}},
      {.name = "too_many_axes",
       .inputs = {{1, 1, 1, 1, 1, 4}, {1, 1, 1, 1, 4}},
       .words = {"9 axes", "at most 8"}},
      {.name = "unknown_format", .parameters = {{"format", "middle"}}, .words = {"middle"}},
  };
  row.forward_tolerance = {.float64 = 1e-14, .float32 = 1e-5, .float16 = 4e-3, .bfloat16 = 3e-2};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
