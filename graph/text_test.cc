#include "tessera/graph/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tessera/graph/backward_property.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/testing/evaluate.h"

namespace tessera::graph {
namespace {

using graph_testing::Apply;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(TextTest, EachNodeIsALine) {
  const NodeEntry data = MakeVariable("data");
  const NodeEntry fc =
      Apply("FullyConnected", "fc", {data}, {{"num_hidden", "4"}, {"no_bias", "True"}});
  fc.node->attributes.Set("ctx_group", "dev1");
  const NodeEntry parts = Apply("SliceChannel", "parts", {fc}, {{"num_outputs", "2"}});
  const NodeEntry out = Apply("exp", "out", {{parts.node, 1}});
  const std::vector<NodeEntry> heads = {out, {parts.node, 1}};
  EXPECT_EQ(ToText(heads),
            "%0 = variable data\n"
            "%1 = variable fc_weight\n"
            "%2 = FullyConnected(no_bias=True, num_hidden=4) fc (%0, %1) [ctx_group=dev1]\n"
            "%3 = SliceChannel(num_outputs=2) parts (%2)\n"
            "%4 = exp() out (%3.1)\n"
            "return %4, %3.1\n");
  const IndexedGraph graph(heads);
  const GraphShapes shapes = InferShapes(graph, {{"data", {2, 3}}});
  const GraphTypes types = InferTypes(graph, {});
  const std::unordered_map<const Node*, Device> devices = {{out.node.get(), Device::Cpu(1)}};
  const std::string text = ToText(heads, {.shapes = &shapes, .types = &types, .devices = &devices});
  EXPECT_THAT(text, AllOf(HasSubstr("%0 = variable data: float32(2,3)\n"),
                          HasSubstr("parts (%2): float32(2,2), float32(2,2)\n"),
                          HasSubstr("%4 = exp() out (%3.1): float32(2,2) on cpu(1)\n")));
}

TEST(TextTest, AnOperatorWithSeveralImplementationsHasTheChosenOne) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry chosen = Apply("test_two", "chosen", {x});
  const NodeEntry named = Apply("test_two", "named", {x});
  named.node->attributes.Set("implementation", "native");
  NodeEntry gradient = Apply("exp", "gradient", {x});
  gradient.node->property = std::make_shared<BackwardProperty>(named.node->property);
  gradient.node->forward = named.node;
  const std::vector<NodeEntry> heads = {chosen, named, gradient};
  EXPECT_THAT(ToText(heads), HasSubstr("%1 = test_two() chosen (%0)\n"));
  const auto text = [&heads](const TShape& shape) {
    const IndexedGraph graph(heads);
    const GraphShapes shapes = InferShapes(graph, {{"x", shape}});
    const GraphTypes types = InferTypes(graph, {});
    EXPECT_THAT(ToGraphviz(heads, {.shapes = &shapes, .types = &types}),
                HasSubstr("named\\ntest_two[native]"));
    return ToText(heads, {.shapes = &shapes, .types = &types});
  };
  EXPECT_THAT(text({2}),
              AllOf(HasSubstr("%1 = test_two[fast]() chosen (%0): float32(2,)\n"),
                    HasSubstr("%2 = test_two[native]() named (%0) [implementation=native]"),
                    HasSubstr("%3 = _backward_test_two[native]() gradient (%0)")));
  EXPECT_THAT(text({3}), HasSubstr("%1 = test_two[native]() chosen"));
  // The graph cannot run, but can be looked at.
  named.node->attributes.Set("implementation", "missing");
  const IndexedGraph graph(heads);
  const GraphShapes shapes = InferShapes(graph, {{"x", {2}}});
  const GraphTypes types = InferTypes(graph, {});
  EXPECT_THAT(ToText(heads, {.shapes = &shapes, .types = &types}),
              HasSubstr("%2 = test_two() named (%0) [implementation=missing]"));
}

TEST(TextTest, GraphvizHasNodesAndEdges) {
  const NodeEntry x = MakeVariable("a \"quoted\" \\ name");
  const NodeEntry parts = Apply("SliceChannel", "parts", {x}, {{"num_outputs", "2"}});
  const std::vector<NodeEntry> heads = {{parts.node, 1}};
  const GraphShapes shapes = InferShapes(IndexedGraph(heads), {{x.node->name, {2, 4}}});
  const std::unordered_map<const Node*, Device> devices = {{parts.node.get(), Device::Cpu(1)}};
  const std::string text = ToGraphviz(heads, {.shapes = &shapes, .devices = &devices});
  EXPECT_THAT(text, AllOf(HasSubstr(R"x(n0 [label="a \"quoted\" \\ name", shape=ellipse];)x"),
                          HasSubstr(R"x(n1 [label="parts\nSliceChannel\nnum_outputs=2\ncpu(1)")x"),
                          HasSubstr(R"x(n0 -> n1 [label="(2,4)"];)x"),
                          HasSubstr(R"x(n1 -> out0 [label="1: (2,2)"];)x")));
}

}  // namespace
}  // namespace tessera::graph
