#include "tessera/graph/passes/constants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/graph/testing/evaluate.h"

namespace tessera::graph {
namespace {

using graph_testing::Apply;
using graph_testing::Array;
using graph_testing::Arrays;
using graph_testing::Evaluate;
using graph_testing::Operators;
using graph_testing::RandomArray;
using graph_testing::Variables;
using ::testing::ElementsAre;

/// Runs both parts, one after the other.
std::vector<Array> EvaluateSplit(const SplitGraph& split, Arrays arrays) {
  std::vector<NodeEntry> values;
  for (const FixedValue& fixed : split.fixed) values.push_back(fixed.value);
  const std::vector<Array> computed = Evaluate(values, arrays);
  for (size_t i = 0; i < values.size(); ++i) {
    arrays[split.fixed[i].variable.node->name] = computed[i];
  }
  return Evaluate(split.heads, arrays);
}

NodeEntry Arange(const std::string& name) {
  return Apply("_arange", name, {}, {{"start", "0"}, {"stop", "4"}});
}

TEST(ConstantsTest, FunctionsOfConstantsBecomeVariables) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry table = Apply("exp", "table", {Arange("range")});
  const NodeEntry parts =
      Apply("SliceChannel", "parts", {table}, {{"num_outputs", "2"}, {"axis", "0"}});
  const NodeEntry a = Apply("broadcast_mul", "a", {x, {parts.node, 1}});
  const NodeEntry b = Apply("broadcast_add", "b", {a, {parts.node, 1}});
  const NodeEntry out = Apply("Concat", "out", {b, table, x}, {{"num_args", "3"}, {"dim", "0"}});
  const SplitGraph split = SplitOffConstants({out});
  EXPECT_THAT(Operators(split.heads),
              ElementsAre("broadcast_mul a", "broadcast_add b", "Concat out"));
  EXPECT_THAT(Variables(split.heads),
              ElementsAre("x", "_constant0_parts_output1", "_constant1_table_output"));
  ASSERT_EQ(split.fixed.size(), 2u);
  EXPECT_EQ(split.fixed[0].value, (NodeEntry{parts.node, 1}));
  EXPECT_EQ(split.fixed[1].value, table);
  const Arrays arrays = {{"x", RandomArray({2}, 1)}};
  EXPECT_EQ(EvaluateSplit(split, arrays), Evaluate({out}, arrays));
}

TEST(ConstantsTest, OutputsRandomNumbersAndUnknownShapesStay) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry random = Apply("_random_uniform", "random", {}, {{"shape", "(4,)"}});
  const NodeEntry open = Apply("_zeros", "open", {}, {{"shape", "(0,)"}});
  const NodeEntry sum = Apply("add_n", "sum", {x, random, open}, {{"num_args", "3"}});
  const NodeEntry head = Arange("head");
  const std::vector<NodeEntry> heads = {sum, head, Apply("elemwise_mul", "product", {x, head})};
  const SplitGraph split = SplitOffConstants(heads);
  EXPECT_EQ(split.heads, heads);
  EXPECT_TRUE(split.fixed.empty());
}

TEST(ConstantsTest, FunctionsOfFixedVariablesAreSplitOff) {
  const NodeEntry x = MakeVariable("x"), w = MakeVariable("w"), state = MakeVariable("state");
  const NodeEntry weight = Apply("broadcast_mul", "weight", {w, Arange("range")});
  const NodeEntry direct = Apply("elemwise_add", "direct", {x, w});
  const NodeEntry used = Apply("elemwise_mul", "used", {direct, weight});
  const NodeEntry read = Apply("exp", "read", {state});
  const NodeEntry step = Apply("sgd_mom_update", "step", {used, read, state}, {{"lr", "1"}});
  const SplitGraph split = SplitOff(
      {step}, [](const Node& variable) { return variable.name != "x"; }, "_parameter");
  // exp of a state that the step changes is no function.
  EXPECT_THAT(Operators(split.heads), ElementsAre("elemwise_add direct", "elemwise_mul used",
                                                  "exp read", "sgd_mom_update step"));
  EXPECT_THAT(Variables(split.heads), ElementsAre("x", "w", "_parameter0_weight_output", "state"));
  const Arrays arrays = {
      {"x", RandomArray({4}, 1)}, {"w", RandomArray({4}, 2)}, {"state", RandomArray({4}, 3)}};
  EXPECT_EQ(EvaluateSplit(split, arrays), Evaluate({step}, arrays));
}

}  // namespace
}  // namespace tessera::graph
