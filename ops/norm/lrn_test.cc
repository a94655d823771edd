#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ParameterReader p(parameters);
  const index_t size = p.Int("nsize", 1), half = (size - 1) / 2;
  const double factor =
      static_cast<double>(static_cast<float>(p.Real("alpha", 1e-4))) / static_cast<double>(size);
  const TShape& shape = in[0].shape;
  const index_t channels = shape[1], positions = shape.ProdShape(2, shape.ndim());
  std::vector<Values> out = {Values(shape)};
  for (index_t i = 0; i < in[0].size(); ++i) {
    const index_t c = i / positions % channels;
    double sum = 0;
    for (index_t d = 0; d < channels; ++d) {
      const double x = in[0][i + (d - c) * positions];
      if (std::abs(d - c) <= half) sum += x * x;
    }
    const double scale = p.Real("knorm", 2) + factor * sum;
    out[0][i] = in[0][i] * std::pow(scale, -p.Real("beta", 0.75));
  }
  return out;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "LRN";
  row.forward = Forward;
  row.shapes_follow_from_output = true;
  const ParameterMap strong = {{"nsize", "5"}, {"alpha", "0.5"}, {"knorm", "1"}};
  row.cases = {
      {.name = "image", .parameters = strong, .inputs = {{2, 7, 3, 3}}},
      {.name = "defaults", .parameters = {{"nsize", "3"}}, .inputs = {{2, 4, 5}}},
      {.name = "matrix", .parameters = strong, .inputs = {{3, 6}}},
      {.name = "other_exponent",
       .parameters = {{"nsize", "3"}, {"alpha", "0.5"}, {"beta", "0.5"}},
       .inputs = {{2, 5, 4}}},
      {.name = "window_of_one",
       .parameters = {{"nsize", "1"}, {"alpha", "2"}},
       .inputs = {{2, 3, 2}}},
      {.name = "even_window",
       .parameters = {{"nsize", "4"}, {"alpha", "2"}},
       .inputs = {{2, 6, 2}}},
      {.name = "window_over_all",
       .parameters = {{"nsize", "99"}, {"alpha", "9"}},
       .inputs = {{2, 3, 2}}},
      {.name = "of_nothing", .parameters = strong, .inputs = {{0, 3, 2}}},
  };
  row.errors = {
      {.name = "without_nsize", .words = {"required", "nsize"}},
      {.name = "empty_window", .parameters = {{"nsize", "0"}}, .words = {"nsize", "range"}},
      {.name = "vector",
       .parameters = {{"nsize", "3"}},
       .inputs = {{4}},
       .words = {"data", "(4,)"}},
  };
  row.forward_tolerance = {.float64 = 4e-15, .float32 = 2e-6};
  row.backward_tolerance = {.float64 = 1e-7, .float32 = 1e-5, .float16 = 1e-2, .bfloat16 = 6e-2};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
