#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/shape_reference.h"

namespace tessera::ops_testing {
namespace {

const RowRegistration kCrossDeviceCopy(
    {.name = "_CrossDeviceCopy",
     .cases = {{.name = "rank_2", .inputs = {{3, 4}}, .dtypes = MovedDTypes()},
               {.name = "rank_0", .inputs = {TShape::OfRank(0)}},
               {.name = "empty", .inputs = {{2, 0}}}},
     .forward = [](const ParameterMap&, const std::vector<Values>& in,
                   std::vector<Values>*) { return std::vector<Values>{in[0]}; },
     .shapes_follow_from_output = true,
     .takes_integers = true});

}  // namespace
}  // namespace tessera::ops_testing
