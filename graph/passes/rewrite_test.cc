#include "tessera/graph/passes/rewrite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tessera/graph/passes/gradient.h"
#include "tessera/graph/testing/evaluate.h"

namespace tessera::graph {
namespace {

using graph_testing::Apply;
using graph_testing::Operators;
using ::testing::ElementsAre;
using ::testing::Pair;

std::vector<std::string> Names(const std::vector<std::shared_ptr<Node>>& order) {
  std::vector<std::string> names;
  for (const auto& node : order) names.push_back(node->name);
  return names;
}

TEST(RewriteTest, NodesThatDoNotChangeAreShared) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry a = Apply("exp", "a", {x});
  const NodeEntry b = Apply("log", "b", {x});
  const NodeEntry sum = Apply("elemwise_add", "sum", {a, b});
  const auto heads = RewriteGraph({sum, b}, [](const Node& node, const auto& rebuilt) {
    return node.name == "a" ? Replacement{Apply("sin", "new", rebuilt->inputs).node}
                            : Replacement{rebuilt};
  });
  EXPECT_THAT(Operators(heads), ElementsAre("sin new", "log b", "elemwise_add sum"));
  EXPECT_NE(heads[0], sum);
  EXPECT_EQ(heads[1], b);
  EXPECT_EQ(sum.node->inputs[0], a) << "the old graph was written";
}

TEST(RewriteTest, ANodeLikeAnotherHasItsImplementationOnlyIfItsOperatorIsTheSame) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry like = Apply("exp", "like", {x});
  like.node->attributes.Set("implementation", "native");
  like.node->attributes.Set("ctx_group", "dev1");
  const auto attributes = [&](const char* op) {
    return MakeOperatorLike(*like.node, op, "made", {x}).node->attributes.All();
  };
  EXPECT_THAT(attributes("log"), ElementsAre(Pair("ctx_group", "dev1")));
  EXPECT_THAT(attributes("exp"),
              ElementsAre(Pair("ctx_group", "dev1"), Pair("implementation", "native")));
}

TEST(RewriteTest, ANodeCanBeReplacedOutputByOutput) {
  const NodeEntry x = MakeVariable("x"), y = MakeVariable("y");
  const NodeEntry parts = Apply("SliceChannel", "parts", {x}, {{"num_outputs", "2"}});
  const NodeEntry sum = Apply("elemwise_add", "sum", {{parts.node, 1}, parts});
  const auto heads = RewriteGraph({sum}, [&](const Node& node, const auto& rebuilt) {
    return node.name == "parts" ? Replacement{rebuilt, {y, {rebuilt, 1}}} : Replacement{rebuilt};
  });
  EXPECT_EQ(heads[0].node->inputs[0], (NodeEntry{parts.node, 1}));
  EXPECT_EQ(heads[0].node->inputs[1], y);
}

TEST(RewriteTest, AGradientComesAfterItsNodeAndBelongsToTheNewOne) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry y = Apply("_mul_scalar", "y", {Apply("exp", "e", {x})}, {{"scalar", "3"}});
  const NodeEntry gradient = BuildGradients({y}, {x}).gradients[0];
  // The backward node of y reads the head gradient alone, and comes first without its own node.
  const std::vector<NodeEntry> heads = {gradient, y};
  EXPECT_THAT(Names(TopologicalOrder(heads)),
              ElementsAre("_head_grad_0", "x", "e", "y", "y_backward", "e_backward"));
  const auto rewritten = RewriteGraph(heads, [](const Node& node, const auto& rebuilt) {
    return node.name == "e" ? Replacement{Apply("exp", "other", rebuilt->inputs).node}
                            : Replacement{rebuilt};
  });
  const Node& of_exp = *rewritten[0].node;
  EXPECT_EQ(of_exp.forward->name, "other");
  EXPECT_EQ(of_exp.inputs[0].node->forward, rewritten[1].node);
}

TEST(RewriteTest, AForwardNodeOutsideTheGraphIsRebuiltToo) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry e = Apply("exp", "e", {x});
  const NodeEntry y = Apply("_mul_scalar", "y", {e}, {{"scalar", "3"}});
  const std::vector<NodeEntry> heads = {BuildGradients({y}, {e}).gradients[0], e};
  const auto rewritten = RewriteGraph(heads, [](const Node& node, const auto& rebuilt) {
    return node.name == "e" ? Replacement{Apply("exp", "other", rebuilt->inputs).node}
                            : Replacement{rebuilt};
  });
  EXPECT_EQ(rewritten[0].node->forward->inputs[0], rewritten[1]);
}

TEST(RewriteTest, AGraphMayBeDeeperThanTheStack) {
  NodeEntry x = MakeVariable("x");
  for (int i = 0; i < 100'000; ++i) x = Apply("exp", "e", {x});
  const auto heads = RewriteGraph({x}, [](const Node& node, const auto& rebuilt) {
    if (!node.is_variable()) return Replacement{rebuilt};
    return Replacement{MakeVariable("y").node};
  });
  EXPECT_EQ(TopologicalOrder(heads).size(), 100'001u);
}

TEST(RewriteTest, AFunctionReadsAndWritesNothingThatANodeChanges) {
  const NodeEntry state = MakeVariable("state"), x = MakeVariable("x");
  const NodeEntry before = Apply("exp", "before", {state});
  const NodeEntry step = Apply("sgd_mom_update", "step", {x, x, state}, {{"lr", "1"}});
  const NodeEntry other = Apply("exp", "other", {x});
  const std::vector<NodeEntry> heads = {before, step, other};
  const GraphFacts facts(heads, TopologicalOrder(heads));
  EXPECT_FALSE(facts.IsFunction(*before.node));
  EXPECT_FALSE(facts.IsFunction(*step.node));
  EXPECT_FALSE(facts.IsFunction(*x.node));
  EXPECT_TRUE(facts.IsFunction(*other.node));
  EXPECT_TRUE(facts.TouchesMutated(*state.node));
}

}  // namespace
}  // namespace tessera::graph
