#include <algorithm>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/shape_reference.h"

namespace tessera::ops_testing {
namespace {

std::vector<index_t> Widths(const ParameterMap& parameters) {
  std::vector<index_t> widths;
  std::string number;
  for (const char c : ParameterReader(parameters).Text("pad_width", "") + ",") {
    if (c == ',' || c == ')') {
      if (!number.empty()) widths.push_back(std::stoll(number));
      number.clear();
    } else if (c != '(') {
      number += c;
    }
  }
  return widths;
}

std::vector<Values> Pad(const ParameterMap& parameters, const std::vector<Values>& in,
                        std::vector<Values>*) {
  const ParameterReader read(parameters);
  const std::string mode = read.Text("mode", "");
  const std::vector<index_t> widths = Widths(parameters);
  TShape shape = in[0].shape;
  for (int d = 0; d < shape.ndim(); ++d) {
    const auto k = static_cast<size_t>(2 * d);
    shape[d] += widths[k] + widths[k + 1];
  }
  Values out(shape, read.Real("constant_value", 0));
  for (index_t i = 0; i < out.size(); ++i) {
    Position at = PositionOf(shape, i);
    bool inside = true;
    for (int d = 0; d < shape.ndim(); ++d) {
      const index_t extent = in[0].shape[d];
      index_t& x = at[static_cast<size_t>(d)];
      x -= widths[static_cast<size_t>(2 * d)];
      inside = inside && x >= 0 && x < extent;
      if (mode == "edge") x = std::clamp<index_t>(x, 0, extent - 1);
      if (mode == "reflect") x = x < 0 ? -x : x >= extent ? 2 * (extent - 1) - x : x;
    }
    if (inside || mode != "constant") out[i] = in[0][IndexOf(in[0].shape, at)];
  }
  return {out};
}

ParameterMap Padding(const std::string& mode, const std::string& widths) {
  return {{"mode", mode}, {"pad_width", widths}, {"constant_value", "2"}};
}

const RowRegistration kPad({
    .name = "Pad",
    .cases =
        {
            {.name = "constant",
             .parameters = Padding("constant", "(0,0,0,0,1,2,2,1)"),
             .inputs = {{2, 2, 3, 2}},
             .dtypes = MovedDTypes()},
            {.name = "edge",
             .parameters = Padding("edge", "(0,0,0,0,1,2,3,1)"),
             .inputs = {{2, 1, 3, 4}},
             .dtypes = MovedDTypes()},
            {.name = "reflect",
             .parameters = Padding("reflect", "(0,0,0,0,2,1,3,3)"),
             .inputs = {{1, 2, 3, 4}},
             .dtypes = MovedDTypes()},
            {.name = "edge_of_volumes",
             .parameters = Padding("edge", "(0,0,0,0,1,0,0,1,1,1)"),
             .inputs = {{1, 1, 2, 2, 2}}},
            {.name = "reflect_all_dimensions",
             .parameters = Padding("reflect", "(1,1,1,0)"),
             .inputs = {{2, 3}}},
            {.name = "edge_of_one_element",
             .parameters = Padding("edge", "(2,3)"),
             .inputs = {{1}}},
            {.name = "constant_around_nothing",
             .parameters = Padding("constant", "(0,0,1,2)"),
             .inputs = {{2, 0}}},
            {.name = "nothing_to_do",
             .parameters = Padding("edge", "(0,0,0,0)"),
             .inputs = {{2, 3}}},
        },
    .forward = Pad,
    .shapes_follow_from_output = true,
    .takes_integers = true,
    .errors =
        {
            {.name = "mirror_too_far",
             .parameters = {{"mode", "reflect"}, {"pad_width", "(0,0,0,0,3,2,3,3)"}},
             .inputs = {{1, 2, 3, 4}},
             .words = {"(1,2,3,4)", "at most 2"}},
            {.name = "edge_of_nothing",
             .parameters = {{"mode", "edge"}, {"pad_width", "(0,1)"}},
             .inputs = {{0}},
             .words = {"pad_width"}},
            {.name = "negative",
             .parameters = {{"mode", "constant"}, {"pad_width", "(0,0,-1,-1)"}},
             .words = {"pad_width"}},
            {.name = "odd",
             .parameters = {{"mode", "constant"}, {"pad_width", "(0,0,1)"}},
             .words = {"pad_width"}},
            {.name = "ranks_differ",
             .parameters = {{"mode", "constant"}, {"pad_width", "(0,0,1,1)"}},
             .inputs = {{1, 2, 3}},
             .words = {"(1,2,3)"}},
            {.name = "no_such_mode",
             .parameters = {{"mode", "wrap"}, {"pad_width", "(0,0)"}},
             .words = {"mode"}},
        },
});

}  // namespace
}  // namespace tessera::ops_testing
