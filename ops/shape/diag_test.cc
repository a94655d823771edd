#include <algorithm>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/shape_reference.h"

namespace tessera::ops_testing {
namespace {

std::vector<Values> Diag(const ParameterMap& parameters, const std::vector<Values>& in,
                         std::vector<Values>*) {
  const ParameterReader read(parameters);
  const TShape& shape = in[0].shape;
  const index_t k = read.Int("k", 0), rank = shape.ndim();
  const index_t row = k < 0 ? -k : 0, column = k > 0 ? k : 0;
  if (rank == 1) {
    const index_t n = shape[0] + row + column;
    Values out({n, n});
    for (index_t i = 0; i < shape[0]; ++i) out[(i + row) * n + i + column] = in[0][i];
    return {out};
  }
  const index_t axis1 = (read.Int("axis1", 0) + rank) % rank;
  const index_t axis2 = (read.Int("axis2", 1) + rank) % rank;
  std::vector<index_t> extents;
  for (index_t d = 0; d < rank; ++d) {
    if (d != axis1 && d != axis2) extents.push_back(shape[static_cast<int>(d)]);
  }
  extents.push_back(
      std::min(shape[static_cast<int>(axis1)] - row, shape[static_cast<int>(axis2)] - column));
  return {Gather(in[0], TShape(std::span<const index_t>(extents)), [&](const Position& at) {
    Position from;
    size_t next = 0;
    for (index_t d = 0; d < rank; ++d) {
      from.push_back(d == axis1 ? at.back() + row : d == axis2 ? at.back() + column : at[next++]);
    }
    return from;
  })};
}

const RowRegistration kDiag({
    .name = "diag",
    .cases =
        {
            {.name = "of_a_vector", .inputs = {{3}}, .dtypes = MovedDTypes()},
            {.name = "of_a_vector_above", .parameters = {{"k", "1"}}, .inputs = {{3}}},
            {.name = "of_a_vector_below", .parameters = {{"k", "-2"}}, .inputs = {{3}}},
            {.name = "of_a_matrix", .inputs = {{3, 4}}, .dtypes = MovedDTypes()},
            {.name = "of_an_empty_matrix", .inputs = {{0, 3}}},
            {.name = "of_matrices",
             .parameters = {{"axis1", "1"}, {"axis2", "2"}, {"k", "1"}},
             .inputs = {{2, 3, 4}}},
            {.name = "axes_exchanged",
             .parameters = {{"axis1", "2"}, {"axis2", "0"}, {"k", "-1"}},
             .inputs = {{2, 3, 4}}},
            {.name = "axes_from_the_end",
             .parameters = {{"axis1", "-1"}, {"axis2", "0"}},
             .inputs = {{2, 3, 4}}},
            {.name = "of_nothing", .parameters = {{"k", "1"}}, .inputs = {{0}}},
        },
    .forward = Diag,
    .batch_follows_from_output = false,
    .takes_integers = true,
    .errors =
        {
            {.name = "axes_are_one",
             .parameters = {{"axis1", "1"}, {"axis2", "-2"}},
             .inputs = {{2, 3, 4}},
             .words = {"axis1", "axis2"}},
            {.name = "no_such_diagonal",
             .parameters = {{"k", "7"}},
             .inputs = {{3, 4}},
             .words = {"(3,4)", "7"}},
            {.name = "scalar", .inputs = {TShape::OfRank(0)}, .words = {"scalar"}},
        },
});

}  // namespace
}  // namespace tessera::ops_testing
