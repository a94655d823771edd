#include <cstdint>

#include "tessera/tensor/reduce/reductions_cases.h"

namespace tessera {
namespace {

using OtherTypes = TestedTypes<int32_t, uint8_t>;
INSTANTIATE_TYPED_TEST_SUITE_P(Other, ReductionsTest, OtherTypes);

}  // namespace
}  // namespace tessera
