#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

// Draws from distributions with one class; random_test has the others.
namespace tessera::ops_testing {
namespace {

/// Returns the class of each row, and its weight's position in data.
std::vector<index_t> Positions(const Values& data) {
  const index_t classes = data.shape[data.shape.ndim() - 1];
  std::vector<index_t> positions;
  for (index_t row = 0; row * classes < data.size(); ++row) {
    const auto begin = data.data.begin() + row * classes;
    positions.push_back(std::max_element(begin, begin + classes) - data.data.begin());
  }
  return positions;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_sample_multinomial";
  row.batch_follows_from_output = false;  // nor do the classes of a single distribution
  row.forward = [](const ParameterMap& given, const std::vector<Values>& in, std::vector<Values>*) {
    const ParameterReader p(given);
    const TShape& shape = in[0].shape;
    const index_t classes = shape[shape.ndim() - 1];
    std::vector<index_t> extents(shape.begin(), shape.end() - 1);
    for (const index_t extent : TShape::Parse(p.Text("shape", "()"))) extents.push_back(extent);
    if (extents.empty()) extents = {1};
    Values index{TShape(std::span<const index_t>(extents))}, log = index;
    const std::vector<index_t> positions = Positions(in[0]);
    const index_t draws =
        positions.empty() ? 1 : index.size() / static_cast<index_t>(positions.size());
    for (index_t i = 0; i < index.size(); ++i) {
      const index_t position = positions[static_cast<size_t>(i / draws)];
      index[i] = static_cast<double>(position % classes);
      log[i] = std::log(in[0][position]);
    }
    if (p.Bool("get_prob", false)) return std::vector<Values>{index, log};
    return std::vector<Values>{index};
  };
  row.backward = [](const ParameterMap& given, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    Values grad(in[0].shape);
    if (!ParameterReader(given).Bool("get_prob", false)) return std::vector<Values>{grad};
    const std::vector<index_t> positions = Positions(in[0]);
    const auto rows = static_cast<index_t>(positions.size());
    for (index_t i = 0; i < out_grad[1].size(); ++i) {
      const index_t position = positions[static_cast<size_t>(i * rows / out_grad[1].size())];
      grad[position] += out_grad[1][i] / in[0][position];
    }
    return std::vector<Values>{grad};
  };
  const auto add = [&](const std::string& name, const ParameterMap& parameters, const TShape& shape,
                       const std::vector<double>& weights) {
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {shape},
                         .fills = {Fill::Given(weights)},
                         .fixed_types = {DType::kUnknown}});
  };
  const std::vector<double> rows = {0, 0, 1, 0.75, 0, 0, 0, 0.5, 0};
  add("single", {}, {4}, {0, 0, 1, 0});
  add("single_with_shape", {{"shape", "(2,3)"}}, {4}, {0, 0.25, 0, 0});
  add("rows", {{"dtype", "float32"}}, {3, 3}, rows);
  add("logarithms", {{"shape", "(5,)"}, {"get_prob", "True"}}, {3, 3}, rows);
  add("single_logarithm", {{"get_prob", "True"}}, {4}, {0, 0.5, 0, 0});
  add("three_axes", {{"get_prob", "True"}, {"dtype", "float64"}, {"shape", "(2,1)"}}, {3, 2, 3},
      rows);
  add("small_indices", {{"dtype", "uint8"}}, {3, 3}, rows);
  add("16_bit_indices", {{"dtype", "float16"}, {"get_prob", "True"}}, {3, 3}, rows);
  add("wide_indices", {{"dtype", "int64"}}, {3, 3}, rows);
  add("one_class", {}, {5, 1}, {0.25});
  add("no_rows", {{"get_prob", "True"}}, {0, 3}, {1});
  add("no_draws", {{"shape", "(0,)"}, {"get_prob", "True"}}, {2, 3}, {1, 0, 0});
  add("parallel", {{"shape", "(50,)"}, {"get_prob", "True"}}, {900, 3}, rows);
  row.cases.back().dtypes = {DType::kFloat32};
  row.cases.back().large = true;
  row.errors = {
      {.name = "no_axis", .inputs = {TShape::OfRank(0)}, .words = {"data", "classes"}},
      {.name = "no_classes", .inputs = {{3, 0}}, .words = {"data", "(3,0)", "classes"}},
      {.name = "negative_extent", .parameters = {{"shape", "(-1,)"}}, .words = {"shape", "-1"}},
      {.name = "too_many_classes",
       .parameters = {{"dtype", "uint8"}},
       .inputs = {{2, 257}},
       .words = {"(2,257)", "uint8", "256"}},
      {.name = "other_type", .parameters = {{"dtype", "bool"}}, .words = {"dtype", "bool"}},
      {.name = "nine_dimensions",
       .parameters = {{"shape", "(1,1,1)"}},
       .inputs = {{1, 1, 1, 1, 1, 1, 2}},
       .words = {"shape"}},
  };
  row.backward_tolerance = {.float64 = 1e-14, .float32 = 1e-5, .float16 = 2e-3, .bfloat16 = 2e-2};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
