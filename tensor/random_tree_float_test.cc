// Half of the random trees: float. TESSERA_TEST_TREES sets how many both halves together try.
#include "tessera/tensor/random_tree.h"

namespace tessera {
namespace {

TEST(RandomTreeTest, FloatTreesAgreeWithTheInterpreter) {
  ExpectTrees<float, 6, 100>(TreeCount() / 2, std::make_integer_sequence<uint64_t, 14>());
}

}  // namespace
}  // namespace tessera
