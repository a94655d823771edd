#include "tessera/graph/passes/dead_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/graph/passes/gradient.h"
#include "tessera/graph/testing/evaluate.h"

namespace tessera::graph {
namespace {

using graph_testing::Apply;
using graph_testing::Arrays;
using graph_testing::Evaluate;
using graph_testing::Operators;
using graph_testing::RandomArray;
using ::testing::ElementsAre;

std::vector<NodeEntry> Remove(const std::vector<NodeEntry>& heads, const Arrays& arrays) {
  const IndexedGraph graph(heads);
  std::map<std::string, TShape> shapes;
  std::map<std::string, DType> types;
  for (const int id : graph.arguments()) {
    const std::string& name = graph.node(id).name;
    shapes[name] = arrays.at(name).shape;
    types[name] = arrays.at(name).dtype;
  }
  return RemoveDeadNodes(heads, InferShapes(graph, shapes), InferTypes(graph, types));
}

TEST(DeadNodesTest, ValuesThatAreReadForTheirShapeAloneAreNotComputed) {
  const NodeEntry a = MakeVariable("a"), b = MakeVariable("b");
  const NodeEntry dead = Apply("dot", "dead", {a, b});  // (2,3)
  struct Case {
    std::string_view op;
    TShape data;  // of the other input, if there is one
    ParameterMap parameters;
    std::string left;
  };
  for (const Case& c : std::vector<Case>{{"zeros_like", {}, {}, "_zeros op"},
                                         {"ones_like", {}, {}, "_ones op"},
                                         {"reshape_like", {6}, {}, "Reshape op"},
                                         {"broadcast_like", {1, 3}, {}, "broadcast_to op"},
                                         {"slice_like", {4, 5}, {}, "slice op"},
                                         {"slice_like", {4, 5}, {{"axes", "1"}}, "slice op"}}) {
    Arrays arrays = {{"a", RandomArray({2, 4}, 1)}, {"b", RandomArray({4, 3}, 2)}};
    std::vector<NodeEntry> inputs = {dead};
    if (c.data.rank_known()) {
      arrays["data"] = RandomArray(c.data, 3);
      inputs.insert(inputs.begin(), MakeVariable("data"));
    }
    const std::vector<NodeEntry> heads = {Apply(c.op, "op", inputs, c.parameters)};
    EXPECT_TRUE(ReadsShapesAlone(heads));
    const auto removed = Remove(heads, arrays);
    EXPECT_THAT(Operators(removed), ElementsAre(c.left));
    EXPECT_EQ(Evaluate(removed, arrays), Evaluate(heads, arrays)) << c.op;
  }
}

TEST(DeadNodesTest, TypesAreKept) {
  const NodeEntry x = Apply("Cast", "c", {MakeVariable("x")}, {{"dtype", "int8"}});
  const Arrays arrays = {{"x", RandomArray({2, 3}, 1)}};
  const auto removed = Remove({Apply("ones_like", "op", {x})}, arrays);
  EXPECT_THAT(Operators(removed), ElementsAre("_ones op"));
  EXPECT_EQ(Evaluate(removed, arrays)[0].dtype, DType::kInt8);
}

TEST(DeadNodesTest, ShapesOfVariablesAndShapesThatNoParameterStatesStay) {
  const NodeEntry x = MakeVariable("x");
  const std::vector<NodeEntry> of_variable = {Apply("zeros_like", "z", {x})};
  EXPECT_FALSE(ReadsShapesAlone(of_variable));
  const std::vector<NodeEntry> heads = {Apply("zeros_like", "z", {Apply("exp", "e", {x})})};
  EXPECT_EQ(Remove(heads, {{"x", RandomArray({2, 0}, 1)}}), heads);
  EXPECT_EQ(Remove(heads, {{"x", RandomArray(TShape::OfRank(0), 1)}}), heads);
}

TEST(DeadNodesTest, AnOperatorOfWhichOneOutputIsUsedStays) {
  const NodeEntry parts =
      Apply("SliceChannel", "parts", {MakeVariable("x")}, {{"num_outputs", "2"}});
  const std::vector<NodeEntry> heads = {{parts.node, 1}};
  EXPECT_EQ(Remove(heads, {{"x", RandomArray({2, 4}, 1)}}), heads);
}

TEST(DeadNodesTest, AGradientDoesNotKeepTheValuesOfTheForwardGraph) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry e = Apply("exp", "e", {x});
  // The gradient of Reshape, as a graph, reads e for its shape.
  const NodeEntry y = Apply("Reshape", "y", {e}, {{"shape", "(-1,)"}});
  const std::vector<NodeEntry> heads =
      BuildGradients({y}, {e}, GradientForm::kDifferentiable).gradients;
  const Arrays arrays = {{"x", RandomArray({2, 3}, 1)}, {"_head_grad_0", RandomArray({6}, 2)}};
  const auto removed = Remove(heads, arrays);
  EXPECT_EQ(Operators(removed).size(), 1u);
  EXPECT_EQ(Evaluate(removed, arrays), Evaluate(heads, arrays));
}

TEST(DeadNodesTest, AValueThatTellsTheShapeOfAGradientStays) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry e = Apply("exp", "e", {x});
  const NodeEntry y = Apply("Flatten", "y", {e});
  const std::vector<NodeEntry> heads = {BuildGradients({y}, {e}).gradients[0],
                                        Apply("zeros_like", "z", {e})};
  const Arrays arrays = {{"x", RandomArray({2, 3, 4}, 1)},
                         {"_head_grad_0", RandomArray({2, 12}, 2)}};
  EXPECT_EQ(Remove(heads, arrays), heads);
}

}  // namespace
}  // namespace tessera::graph
