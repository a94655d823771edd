#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

OperatorRow Row() {
  OperatorRow row;
  row.name = "_linalg_syrk";
  row.batch_follows_from_output = false;
  row.forward_tolerance = row.backward_tolerance = {.of_largest = true};
  row.backward_tolerance.float64 = 1e-8;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    const ParameterReader read(parameters);
    const bool transpose = read.Bool("transpose", false);
    TShape shape = in[0].shape;
    const int last = shape.ndim() - 1;
    const index_t m = shape[last - 1], n = shape[last], extent = transpose ? n : m;
    shape[last - 1] = shape[last] = extent;
    Values out(shape);
    for (index_t b = 0; b * extent * extent < out.size(); ++b) {
      const auto a = [&](index_t i, index_t k) {
        return in[0][b * m * n + (transpose ? k * n + i : i * n + k)];
      };
      for (index_t i = 0; i < extent; ++i) {
        for (index_t j = 0; j < extent; ++j) {
          for (index_t k = 0; k < (transpose ? m : n); ++k) {
            out[(b * extent + i) * extent + j] += read.Real("alpha", 1) * a(i, k) * a(j, k);
          }
        }
      }
    }
    return std::vector<Values>{out};
  };
  const ParameterMap transposed = {{"transpose", "True"}, {"alpha", "-2"}};
  row.cases = {
      {.name = "matrix", .inputs = {{3, 4}}},
      {.name = "transposed", .parameters = transposed, .inputs = {{3, 4}}},
      {.name = "batch", .parameters = {{"alpha", "0.5"}}, .inputs = {{2, 1, 4, 2}}},
      {.name = "batch_transposed", .parameters = transposed, .inputs = {{3, 2, 3}}},
      {.name = "no_batch", .inputs = {{0, 2, 3}}},
      {.name = "nothing_to_sum", .inputs = {{2, 0}}},
  };
  row.errors = {{.name = "vector", .inputs = {{3}}, .words = {"A", "(3,)", "at least 2"}}};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
