#include "tessera/graph/passes/common_subexpressions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/graph/passes/gradient.h"
#include "tessera/graph/testing/evaluate.h"
#include "tessera/ops/kernel.h"

namespace tessera::graph {
namespace {

using graph_testing::Apply;
using graph_testing::Array;
using graph_testing::Evaluate;
using graph_testing::Operators;
using graph_testing::RandomArray;
using ::testing::ElementsAre;

/// data plus the number of calls so far, as if it were random.
class CountedProperty final : public ParameterizedProperty<NoParameters> {
 public:
  Purity purity() const override { return Purity::kRandom; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], (*in_shape)[0]);
    return (*in_shape)[0].known();
  }
};
int calls = 0;
template <typename Device, typename T>
class CountedOp final : public Operator {
 public:
  explicit CountedOp(const NoParameters&) {}
  void Forward(const OpContext&, std::span<const TBlob> in, std::span<const OpReqType>,
               std::span<const TBlob> out) override {
    const float number = static_cast<float>(++calls);
    for (index_t i = 0; i < in[0].Size(); ++i) {
      static_cast<float*>(out[0].dptr_)[i] = static_cast<const float*>(in[0].dptr_)[i] + number;
    }
  }
};
TESSERA_REGISTER_OPERATOR(test_counted, CountedProperty, CountedOp);

/// Expects equal results, bit for bit.
void ExpectEqualResults(const std::vector<NodeEntry>& before, const std::vector<NodeEntry>& after,
                        const graph_testing::Arrays& arrays, bool is_train = false) {
  calls = 0;
  const std::vector<Array> expected = Evaluate(before, arrays, is_train);
  calls = 0;
  EXPECT_EQ(Evaluate(after, arrays, is_train), expected);
}

NodeEntry Tanh(const std::string& name, const NodeEntry& x) {
  return Apply("Activation", name, {x}, {{"act_type", "tanh"}});
}

TEST(CommonSubexpressionsTest, ChainsOfEqualNodesBecomeOneChain) {
  const NodeEntry x = MakeVariable("x");
  std::vector<NodeEntry> ends;
  for (const std::string name : {"a", "b", "c"}) {
    const NodeEntry middle = Tanh(name + "1", x);
    ends.push_back(Apply("_mul_scalar", name + "2", {middle}, {{"scalar", "2"}}));
  }
  const NodeEntry out = Apply("add_n", "out", ends, {{"num_args", "3"}});
  const auto merged = MergeCommonSubexpressions({out});
  EXPECT_THAT(Operators(merged), ElementsAre("Activation a1", "_mul_scalar a2", "add_n out"));
  ExpectEqualResults({out}, merged, {{"x", RandomArray({2, 3}, 1)}});
}

TEST(CommonSubexpressionsTest, ParametersInputsGroupsAndOutputsDistinguishNodes) {
  const NodeEntry x = MakeVariable("x"), y = MakeVariable("y");
  const NodeEntry grouped = Tanh("grouped", x);
  grouped.node->attributes.Set("ctx_group", "dev1");
  const NodeEntry parts = Apply("SliceChannel", "parts", {x}, {{"num_outputs", "3"}});
  const std::vector<NodeEntry> sum = {
      Apply("sum", "a", {Tanh("first", x)}),
      Apply("sum", "b", {Tanh("other_input", y)}),
      Apply("sum", "c", {grouped}),
      Apply("sum", "d", {Apply("Activation", "relu", {x}, {{"act_type", "relu"}})}),
      Apply("sum", "e", {{parts.node, 0}}),
      Apply("sum", "f", {{parts.node, 1}}),
      Apply("sum", "g", {Apply("SliceChannel", "two", {x}, {{"num_outputs", "2"}})}),
  };
  const NodeEntry out = Apply("add_n", "out", sum, {{"num_args", "7"}});
  EXPECT_EQ(MergeCommonSubexpressions({out}), std::vector<NodeEntry>{out});
}

TEST(CommonSubexpressionsTest, AnOutputKeepsItsName) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry inner = Tanh("inner", x);
  const NodeEntry use = Apply("_mul_scalar", "use", {inner}, {{"scalar", "2"}});
  const NodeEntry head = Tanh("head", x), other = Tanh("other", x), late = Tanh("late", x);
  const NodeEntry last = Apply("exp", "last", {late});
  const auto merged = MergeCommonSubexpressions({use, head, other, last});
  EXPECT_EQ(merged[1].node->name, "head");
  EXPECT_EQ(merged[0].node->inputs[0], merged[1]);
  // Two outputs stay two nodes.
  EXPECT_EQ(merged[2], other);
  EXPECT_EQ(merged[3].node->inputs[0], merged[1]);
  EXPECT_EQ(inner.node->name, "inner") << "the old graph was written";
  ExpectEqualResults({use, head, other, last}, merged, {{"x", RandomArray({5}, 1)}});
}

TEST(CommonSubexpressionsTest, RandomNodesStayInTheirOrder) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry a = Apply("test_counted", "a", {Tanh("t1", x)});
  const NodeEntry b = Apply("test_counted", "b", {Tanh("t2", x)});
  const NodeEntry c = Apply("test_counted", "c", {x});
  const NodeEntry square = Apply("elemwise_mul", "s1", {b, b});
  const NodeEntry again = Apply("elemwise_mul", "s2", {b, b});
  const NodeEntry out = Apply("add_n", "out", {a, square, c, again}, {{"num_args", "4"}});
  const auto merged = MergeCommonSubexpressions({out});
  EXPECT_THAT(Operators(merged), ElementsAre("Activation t1", "test_counted a", "test_counted b",
                                             "elemwise_mul s1", "test_counted c", "add_n out"));
  ExpectEqualResults({out}, merged, {{"x", RandomArray({4}, 1)}});
}

TEST(CommonSubexpressionsTest, ReadersOfAStateThatChangesStay) {
  const NodeEntry w = MakeVariable("w"), g = MakeVariable("g"), state = MakeVariable("state");
  const NodeEntry before = Apply("_copy", "before", {state});
  const NodeEntry step = Apply("sgd_mom_update", "step", {w, g, state}, {{"lr", "1"}});
  const NodeEntry after = Apply("_copy", "after", {state});
  const NodeEntry out = Apply("add_n", "out", {before, step, after}, {{"num_args", "3"}});
  const auto merged = MergeCommonSubexpressions({out});
  EXPECT_EQ(merged, std::vector<NodeEntry>{out});
}

TEST(CommonSubexpressionsTest, EachLossStartsAGradient) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry out =
      Apply("elemwise_add", "out", {Apply("make_loss", "a", {x}), Apply("make_loss", "b", {x})});
  EXPECT_EQ(MergeCommonSubexpressions({out}), std::vector<NodeEntry>{out});
}

TEST(CommonSubexpressionsTest, ConstantsOfOneShapeAreMerged) {
  const auto sum_of = [](const char* shape) {
    const NodeEntry a = Apply("_zeros", "a", {}, {{"shape", shape}});
    const NodeEntry b = Apply("_zeros", "b", {}, {{"shape", shape}});
    return std::vector<NodeEntry>{Apply("elemwise_add", "p", {a, MakeVariable("x")}),
                                  Apply("elemwise_add", "q", {b, MakeVariable("y")})};
  };
  const auto merged = MergeCommonSubexpressions(sum_of("(2,3)"));
  EXPECT_EQ(merged[0].node->inputs[0], merged[1].node->inputs[0]);
  // The readers determine the first extent, each another one.
  const std::vector<NodeEntry> open = sum_of("(0,3)");
  EXPECT_EQ(MergeCommonSubexpressions(open), open);
}

TEST(CommonSubexpressionsTest, GradientsOfMergedNodesStayRight) {
  const NodeEntry x = MakeVariable("x"), w = MakeVariable("w");
  const NodeEntry a = Tanh("a", x), b = Tanh("b", x);
  const NodeEntry out = Apply("elemwise_mul", "out", {a, Apply("elemwise_mul", "p", {b, w})});
  std::vector<NodeEntry> heads = {out};
  for (int i = 0; i < 2; ++i) {
    const Gradients gradients = BuildGradients({out}, {x, w});
    heads.push_back(Apply("exp", "e", {gradients.gradients[0]}));
    heads.push_back(Apply("exp", "f", {gradients.gradients[1]}));
    gradients.head_gradients[0].node->name = "g" + std::to_string(i);
  }
  const auto merged = MergeCommonSubexpressions(heads);
  ExpectEqualResults(heads, merged,
                     {{"x", RandomArray({4}, 1)},
                      {"w", RandomArray({4}, 2)},
                      {"g0", RandomArray({4}, 3)},
                      {"g1", RandomArray({4}, 3)}},
                     /*is_train=*/true);
}

TEST(CommonSubexpressionsTest, TimeIsLinear) {
  // Quadratic time would take minutes.
  const NodeEntry x = MakeVariable("x");
  std::vector<NodeEntry> parts;
  for (int i = 0; i < 50'000; ++i) {
    parts.push_back(Apply("_mul_scalar", "m", {x}, {{"scalar", std::to_string(i / 2)}}));
  }
  NodeEntry chain = x, twin = x;
  for (int i = 0; i < 25'000; ++i) chain = Apply("exp", "e", {chain});
  for (int i = 0; i < 25'000; ++i) twin = Apply("exp", "f", {twin});
  parts.push_back(chain);
  parts.push_back(twin);
  const std::string num_args = std::to_string(parts.size());
  const NodeEntry out = Apply("add_n", "out", parts, {{"num_args", num_args}});
  EXPECT_EQ(IndexedGraph(MergeCommonSubexpressions({out})).num_nodes(), 25'000 + 25'000 + 2);
}

}  // namespace
}  // namespace tessera::graph
