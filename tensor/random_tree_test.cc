// Fourteen kinds of random trees, in turn: TESSERA_TREES_FIRST is the first kind's number and
// TESSERA_TREES_TYPE the elements' type, as the BUILD file says for each of its tests.
#include "tessera/tensor/random_tree.h"

#include <cstdint>
#include <utility>

#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(RandomTreeTest, AgreeWithTheInterpreter) {
  ExpectTrees<TESSERA_TREES_TYPE, 6, TESSERA_TREES_FIRST>(
      TreeCount() / 2, std::make_integer_sequence<uint64_t, 14>());
}

}  // namespace
}  // namespace tessera
