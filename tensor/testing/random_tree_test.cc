// Some kinds of random trees, in turn: TESSERA_TREES_FIRST is the first kind's number,
// TESSERA_TREES_KINDS how many there are, and TESSERA_TREES_TYPE the elements' type, as the BUILD
// file says for each of its tests.
#include "tessera/tensor/testing/random_tree.h"

#include <cstdint>
#include <utility>

#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr int kDepth = 6;
constexpr uint64_t kKinds = TESSERA_TREES_KINDS;

template <uint64_t... i>
constexpr uint32_t NodesOf(std::integer_sequence<uint64_t, i...>) {
  return (KindOfTree(TESSERA_TREES_FIRST, i, kDepth).Nodes() | ...);
}
// The tests that run only when asked for have the kinds from 1,000 to 1,503.
static_assert((TESSERA_TREES_FIRST >= 1000 && TESSERA_TREES_FIRST < 1504) ||
                  NodesOf(std::make_integer_sequence<uint64_t, kKinds>()) == kEveryNode,
              "every kind of node stands in some tree of the tests that are always run");

TEST(RandomTreeTest, AgreeWithTheInterpreter) {
  ExpectTrees<TESSERA_TREES_TYPE, kDepth, TESSERA_TREES_FIRST>(
      TreeCount() / 2, std::make_integer_sequence<uint64_t, kKinds>());
}

}  // namespace
}  // namespace tessera
