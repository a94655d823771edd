#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Returns a parameter's numbers.
std::vector<double> Numbers(const ParameterMap& parameters, const std::string& name,
                            std::vector<double> absent) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return absent;
  const std::vector<float> given =
      ops_internal::ParameterText<std::vector<float>>::Parse(found->second);
  return {given.begin(), given.end()};
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const std::vector<double> sizes = Numbers(parameters, "sizes", {1});
  const std::vector<double> ratios = Numbers(parameters, "ratios", {1});
  const std::vector<double> steps = Numbers(parameters, "steps", {-1, -1});
  const std::vector<double> offsets = Numbers(parameters, "offsets", {0.5, 0.5});
  const bool clip = ParameterReader(parameters).Bool("clip", false);
  const index_t extents[] = {in[0].shape[2], in[0].shape[3]};
  const auto anchors = static_cast<index_t>(sizes.size() + ratios.size()) - 1;
  Values out({1, extents[0] * extents[1] * anchors, 4});
  for (index_t o = 0; o < out.size(); ++o) {
    const index_t corner = o % 4, anchor = o / 4 % anchors, place = o / 4 / anchors;
    const size_t axis = corner % 2 == 0 ? 1 : 0;  // x or y
    const index_t position = axis == 1 ? place % extents[1] : place / extents[1];
    const double step = steps[axis] > 0 ? steps[axis] : 1 / static_cast<double>(extents[axis]);
    const auto further = static_cast<size_t>(anchor) - sizes.size() + 1;
    const bool of_size = anchor < static_cast<index_t>(sizes.size());
    const double size = of_size ? sizes[static_cast<size_t>(anchor)] : sizes[0];
    const double root = std::sqrt(of_size ? ratios[0] : ratios[further]);
    const double width =
        size * root * static_cast<double>(extents[0]) / static_cast<double>(extents[1]);
    const double half = axis == 1 ? width / 2 : size / root / 2;
    out[o] = (static_cast<double>(position) + offsets[axis]) * step + (corner < 2 ? -half : half);
    if (clip) out[o] = std::clamp(out[o], 0.0, 1.0);
  }
  return {out};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_MultiBoxPrior";
  row.forward = Forward;
  row.batch_follows_from_output = false;
  const auto add = [&row](const std::string& name, const ParameterMap& parameters,
                          const TShape& data) {
    row.cases.push_back({.name = name, .parameters = parameters, .inputs = {data}});
  };
  add("default", {}, {2, 3, 4, 5});
  add("sizes", {{"sizes", "(0.5, 0.25, 0.1)"}}, {1, 1, 3, 2});
  add("ratios", {{"ratios", "(1, 2, 0.5)"}, {"sizes", "(0.3,)"}}, {1, 2, 2, 3});
  add("both", {{"ratios", "(3, 2, 0.5)"}, {"sizes", "[0.2, 0.272]"}}, {1, 2, 3, 3});
  add("clipped", {{"clip", "True"}, {"sizes", "(0.5, 1.5)"}}, {1, 1, 2, 3});
  add("steps", {{"steps", "(0.3, 0.4)"}, {"offsets", "(0.1, 0.2)"}}, {1, 1, 3, 2});
  add("one", {{"steps", "(0, 0)"}}, {5, 3, 1, 1});
  add("nothing", {}, {1, 3, 0, 4});
  add("parallel", {{"sizes", "(0.1, 0.2)"}, {"ratios", "(1, 2, 0.5)"}}, {1, 1, 40, 50});
  row.errors = {
      {.name = "no_sizes", .parameters = {{"sizes", "()"}}, .words = {"sizes=()"}},
      {.name = "no_ratios", .parameters = {{"ratios", "()"}}, .words = {"ratios=()"}},
      {.name = "one_step", .parameters = {{"steps", "(0.5,)"}}, .words = {"steps=", "two"}},
      {.name = "step_of_one_axis",
       .parameters = {{"steps", "(0.5, -1)"}},
       .words = {"steps=", "positive"}},
      {.name = "three_offsets",
       .parameters = {{"offsets", "(0.5, 0.5, 0.5)"}},
       .words = {"offsets=", "two"}},
      {.name = "no_batch", .inputs = {{3, 4, 5}}, .words = {"data", "(3,4,5)"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
