#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

const RowRegistration kTrainingMode({
    .name = "_training_mode",
    .cases = {{.name = "matrix", .inputs = {{2, 3}}},
              {.name = "empty", .inputs = {{0, 3}}},
              {.name = "rank_0", .inputs = {TShape::OfRank(0)}}},
    .forward = [](const ParameterMap&, const std::vector<Values>& in,
                  std::vector<Values>*) { return std::vector<Values>{Values(in[0].shape, 1)}; },
    .shapes_follow_from_output = true,
});

}  // namespace
}  // namespace tessera::ops_testing
