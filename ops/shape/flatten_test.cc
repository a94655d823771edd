#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

std::vector<Values> Forward(const ParameterMap&, const std::vector<Values>& in,
                            std::vector<Values>*) {
  index_t columns = 1;
  for (int i = 1; i < in[0].shape.ndim(); ++i) columns *= in[0].shape[i];
  Values out = in[0];
  out.shape = {in[0].shape[0], columns};
  return {out};
}

const RowRegistration kRow({
    .name = "Flatten",
    .cases =
        {
            {.name = "rank_1", .inputs = {{5}}},
            {.name = "rank_2", .inputs = {{3, 4}}},
            {.name = "rank_4", .inputs = {{2, 3, 4, 5}}},
            {.name = "rank_8", .inputs = {{2, 1, 2, 1, 3, 1, 2, 1}}},
            {.name = "batch_0", .inputs = {{0, 3, 4}}},
            {.name = "no_columns", .inputs = {{3, 0, 4}}},
        },
    .forward = Forward,
    .errors =
        {
            {.name = "scalar", .inputs = {TShape::OfRank(0)}, .words = {"data", "scalar"}},
            {.name = "overflowing_extents",
             .inputs = {{1, index_t{1} << 40, index_t{1} << 40}},
             .words = {"data", "63 bits"}},
        },
});

}  // namespace
}  // namespace tessera::ops_testing
