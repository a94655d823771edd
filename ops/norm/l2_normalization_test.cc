#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ParameterReader p(parameters);
  const std::string mode = p.Text("mode", "instance");
  const TShape& shape = in[0].shape;
  const index_t channels = shape.ndim() > 1 ? shape[1] : 1;
  const index_t positions = shape.ndim() > 2 ? shape.ProdShape(2, shape.ndim()) : 1;
  std::vector<Values> out = {Values(shape)};
  // The number of the vector that an element belongs to.
  const auto vector_of = [&](index_t i) {
    if (mode == "instance") return i / (channels * positions);
    if (mode == "channel") return i / (channels * positions) * positions + i % positions;
    return i / positions;
  };
  std::vector<double> sums(static_cast<size_t>(in[0].size() + 1), p.Real("eps", 1e-10f));
  for (index_t i = 0; i < in[0].size(); ++i) {
    sums[static_cast<size_t>(vector_of(i))] += in[0][i] * in[0][i];
  }
  for (index_t i = 0; i < in[0].size(); ++i) {
    out[0][i] = in[0][i] / std::sqrt(sums[static_cast<size_t>(vector_of(i))]);
  }
  return out;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "L2Normalization";
  row.forward = Forward;
  row.shapes_follow_from_output = true;
  for (const std::string mode : {"instance", "channel", "spatial"}) {
    const ParameterMap parameters = {{"mode", mode}};
    row.cases.push_back({.name = mode, .parameters = parameters, .inputs = {{2, 3, 5}}});
    row.cases.push_back(
        {.name = mode + "_image", .parameters = parameters, .inputs = {{2, 3, 4, 5}}});
    row.cases.push_back(
        {.name = mode + "_of_nothing", .parameters = parameters, .inputs = {{0, 3, 2}}});
    row.cases.push_back({.name = mode + "_eps",
                         .parameters = {{"mode", mode}, {"eps", "0.5"}},
                         .inputs = {{2, 3, 20}}});
  }
  row.cases.push_back({.name = "matrix", .inputs = {{3, 19}}});
  row.errors = {
      {.name = "channel_of_a_matrix",
       .parameters = {{"mode", "channel"}},
       .inputs = {{3, 4}},
       .words = {"data", "(3,4)", "3 dimensions"}},
      {.name = "unknown_mode", .parameters = {{"mode", "batch"}}, .words = {"mode", "batch"}},
  };
  row.forward_tolerance = {.float64 = 4e-15, .float32 = 2e-6};
  row.backward_tolerance = {.float64 = 1e-7, .float32 = 1e-5, .float16 = 1e-2, .bfloat16 = 6e-2};
  row.backward_tolerance.of_largest = true;
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
