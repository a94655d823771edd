// The other half of the random trees: double, and other kinds of trees.
#include "tessera/tensor/random_tree.h"

namespace tessera {
namespace {

TEST(RandomTreeTest, DoubleTreesAgreeWithTheInterpreter) {
  ExpectTrees<double, 6, 500>(TreeCount() / 2, std::make_integer_sequence<uint64_t, 14>());
}

}  // namespace
}  // namespace tessera
