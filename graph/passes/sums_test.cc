#include "tessera/graph/passes/sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/graph/testing/evaluate.h"

namespace tessera::graph {
namespace {

using graph_testing::Apply;
using ::testing::Each;

constexpr int kNone = PlacedSums::kNone;

NodeEntry Sum(const std::string& name, const std::vector<NodeEntry>& parts) {
  return Apply("add_n", name, parts, {{"num_args", std::to_string(parts.size())}});
}

/// A graph with its sums placed. All nodes but those in `forward` belong to the gradient.
struct Placed {
  explicit Placed(const std::vector<NodeEntry>& heads, const std::vector<NodeEntry>& forward = {})
      : graph(heads) {
    std::vector<bool> is_gradient(static_cast<size_t>(graph.num_nodes()), true);
    for (const NodeEntry& entry : forward) {
      is_gradient[static_cast<size_t>(graph.NodeId(entry.node.get()))] = false;
    }
    sums = PlaceSums(graph, is_gradient);
  }

  int SumOf(const NodeEntry& entry) const {
    return sums.sum_of[static_cast<size_t>(graph.EntryId(entry))];
  }
  bool IsPlaced(const NodeEntry& entry) const {
    return sums.is_placed[static_cast<size_t>(graph.NodeId(entry.node.get()))];
  }

  IndexedGraph graph;
  PlacedSums sums;
};

TEST(SumsTest, PartsThatTheSumAloneReadsAreAddedUpInIt) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry a = Apply("tanh", "a", {x}), b = Apply("exp", "b", {x});
  const NodeEntry read_twice = Apply("sin", "c", {x});
  const NodeEntry sum = Sum("sum", {a, x, b, read_twice});
  const Placed placed({Apply("elemwise_mul", "out", {sum, read_twice})});
  EXPECT_TRUE(placed.IsPlaced(sum));
  EXPECT_EQ(placed.SumOf(a), placed.graph.EntryId(sum));
  EXPECT_EQ(placed.SumOf(b), placed.graph.EntryId(sum));
  EXPECT_EQ(placed.SumOf(x), kNone);
  EXPECT_EQ(placed.SumOf(read_twice), kNone);
}

TEST(SumsTest, OutputsOfTheGraphAreNoParts) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry a = Apply("tanh", "a", {x}), b = Apply("exp", "b", {x});
  const NodeEntry sum = Sum("sum", {a, b});
  const Placed placed({sum, a});
  EXPECT_EQ(placed.SumOf(a), kNone);
  EXPECT_EQ(placed.SumOf(b), placed.graph.EntryId(sum));
}

TEST(SumsTest, OneOutputOfANodeIsAPart) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry split =
      Apply("SliceChannel", "split", {x}, {{"num_outputs", "2"}, {"axis", "0"}});
  const NodeEntry other{split.node, 1};
  const NodeEntry sum = Sum("sum", {split, other});
  const Placed placed({sum});
  EXPECT_EQ(placed.SumOf(split), placed.graph.EntryId(sum));
  EXPECT_EQ(placed.SumOf(other), kNone);
}

TEST(SumsTest, APlacedSumIsNoPart) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry a = Apply("tanh", "a", {x}), b = Apply("exp", "b", {x});
  const NodeEntry inner = Sum("inner", {a, x});
  const NodeEntry outer = Sum("outer", {inner, b});
  const Placed placed({outer});
  EXPECT_TRUE(placed.IsPlaced(inner));
  EXPECT_EQ(placed.SumOf(a), placed.graph.EntryId(inner));
  EXPECT_EQ(placed.SumOf(inner), kNone);
  EXPECT_EQ(placed.SumOf(b), placed.graph.EntryId(outer));
}

TEST(SumsTest, NodesOfTheForwardGraphKeepTheirMemory) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry a = Apply("tanh", "a", {x}), b = Apply("exp", "b", {x});
  const NodeEntry sum = Sum("sum", {a, b});
  const Placed with_part({sum}, {a});
  EXPECT_EQ(with_part.SumOf(a), kNone);
  EXPECT_EQ(with_part.SumOf(b), with_part.graph.EntryId(sum));
  const Placed with_sum({sum}, {sum});
  EXPECT_FALSE(with_sum.IsPlaced(sum));
  EXPECT_THAT(with_sum.sums.sum_of, Each(kNone));
}

}  // namespace
}  // namespace tessera::graph
