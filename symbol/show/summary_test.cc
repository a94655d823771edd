#include "tessera/symbol/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/symbol/graphviz.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Symbol Var(const std::string& name) { return Symbol::Variable(name); }

/// The network of MXNet's answer below.
Symbol Network() {
  Symbol x = Symbol::Apply("Convolution", {Var("data")},
                           {{"kernel", "(3, 3)"}, {"num_filter", "4"}}, "conv");
  x = Symbol::Apply("BatchNorm", {x}, {}, "bn");
  x = Symbol::Apply("Activation", {x}, {{"act_type", "relu"}}, "relu");
  x = Symbol::Apply("Flatten", {x}, {}, "flatten");
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", "3"}}, "fc1");
  return Symbol::Apply("SoftmaxOutput", {x}, {}, "softmax");
}

/// Parameters and operations of the only operator of a graph.
std::vector<int64_t> CostOf(const Symbol& symbol, const std::map<std::string, TShape>& shapes) {
  const NetworkSummary summary = Summarize(symbol, shapes);
  return {summary.parameters, summary.flops};
}

TEST(SummaryTest, CountsParametersAsMxnetDoes) {
  const NetworkSummary summary = Summarize(Network(), {{"data", {2, 3, 8, 8}}});
  std::vector<std::string> names;
  std::vector<int64_t> parameters, flops;
  for (const LayerSummary& layer : summary.layers) {
    names.push_back(layer.name);
    parameters.push_back(layer.parameters);
    flops.push_back(layer.flops);
  }
  EXPECT_THAT(names, ElementsAre("data", "conv", "bn", "relu", "flatten", "fc1", "softmax"));
  EXPECT_THAT(parameters, ElementsAre(0, 112, 8, 0, 0, 435, 0));
  EXPECT_EQ(summary.parameters, 555);
  EXPECT_EQ(summary.aux_states, 8);
  constexpr int64_t kMap = 2 * 4 * 6 * 6;
  EXPECT_THAT(flops, ElementsAre(0, kMap * (2 * 27 + 1), kMap * 2, kMap, 0, 6 * (2 * 144 + 1), 6));
  EXPECT_THAT(summary.layers[2].output_shapes, ElementsAre(TShape{2, 4, 6, 6}));
  EXPECT_THAT(summary.layers[2].previous, ElementsAre("conv"));
  // Inputs, weight, bias and output of the convolution, 4 bytes each.
  EXPECT_EQ(summary.layers[1].bytes, 4 * (2 * 3 * 8 * 8 + 112 + kMap));
}

TEST(SummaryTest, CountsOperations) {
  const Symbol x = Var("x"), y = Var("y");
  EXPECT_THAT(
      CostOf(
          Symbol::Apply(
              "Convolution", {x},
              {{"kernel", "(3,3)"}, {"num_filter", "4"}, {"num_group", "2"}, {"no_bias", "True"}}),
          {{"x", {1, 6, 5, 5}}}),
      ElementsAre(4 * 3 * 9, 2 * 4 * 9 * (3 * 9)));
  EXPECT_THAT(
      CostOf(Symbol::Apply("Deconvolution", {x}, {{"kernel", "(2,2)"}, {"num_filter", "5"}}),
             {{"x", {1, 3, 4, 4}}}),
      ElementsAre(3 * 5 * 4, 2 * (3 * 16) * (5 * 4)));
  const std::map<std::string, TShape> matrices = {{"x", {2, 3}}, {"y", {3, 5}}};
  EXPECT_THAT(CostOf(Symbol::Apply("dot", {x, y}), matrices), ElementsAre(0, 2 * 2 * 3 * 5));
  EXPECT_THAT(CostOf(Symbol::Apply("dot", {x, y}, {{"transpose_a", "True"}}),
                     {{"x", {3, 2}}, {"y", {3, 5}}}),
              ElementsAre(0, 2 * 2 * 3 * 5));
  EXPECT_THAT(CostOf(Symbol::Apply("batch_dot", {x, y}, {{"transpose_a", "1"}}),
                     {{"x", {7, 3, 2}}, {"y", {7, 3, 5}}}),
              ElementsAre(0, 7 * 2 * 2 * 3 * 5));
  EXPECT_THAT(CostOf(Symbol::Apply("Embedding", {x}, {{"input_dim", "10"}, {"output_dim", "4"}}),
                     {{"x", {6}}}),
              ElementsAre(40, 0));
  EXPECT_THAT(CostOf(Symbol::Apply("Pooling", {x}, {{"kernel", "(2,2)"}, {"stride", "(2,2)"}}),
                     {{"x", {1, 3, 4, 4}}}),
              ElementsAre(0, 12 * 4));
  // Two layers, of 3 and 5 inputs, with 4 gates of 5 and two biases.
  constexpr int64_t kWeights = 4 * 5 * (3 + 5) + 4 * 5 * (5 + 5), kBiases = 2 * 2 * 4 * 5;
  EXPECT_THAT(CostOf(Symbol::Apply("RNN", {x},
                                   {{"mode", "lstm"}, {"state_size", "5"}, {"num_layers", "2"}}),
                     {{"x", {7, 2, 3}}}),
              ElementsAre(kWeights + kBiases, 7 * 2 * (2 * kWeights + kBiases)));
}

TEST(SummaryTest, CountsSharedParametersOnce) {
  const Symbol w = Var("w");
  const auto dense = [&](const Symbol& x) {
    return Symbol::Apply("FullyConnected", {x, w}, {{"num_hidden", "4"}, {"no_bias", "True"}});
  };
  EXPECT_THAT(CostOf(dense(dense(Var("x"))), {{"x", {2, 4}}}), ElementsAre(16, 2 * 2 * 2 * 16));
}

TEST(SummaryTest, PrintsATable) {
  const Symbol net = Symbol::Apply("FullyConnected", {Var("data")}, {{"num_hidden", "3"}}, "fc1");
  EXPECT_EQ(PrintSummary(net, {{"data", {2, 4}}}),
            "Layer (type)          Output shape  Parameters  FLOPs  Bytes  Previous layer\n"
            "----------------------------------------------------------------------------\n"
            "data (null)           (2,4)                  0      0      0\n"
            "fc1 (FullyConnected)  (2,3)                 15     54    116  data\n"
            "----------------------------------------------------------------------------\n"
            "Total                                       15     54    116\n"
            "Auxiliary states: 0\n");
  EXPECT_THAT(PrintSummary(Symbol(), {}), HasSubstr("Total"));
  try {
    Summarize(net, {});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("the shape of \"data\" is None"));
  }
}

TEST(GraphvizTest, DrawsOperatorsAndEdges) {
  const Symbol net = Symbol::Apply(
      "FullyConnected", {Symbol::Apply("Activation", {Var("da\"ta")}, {{"act_type", "relu"}}, "r")},
      {{"num_hidden", "3"}}, "fc1");
  EXPECT_EQ(ToGraphviz(net, {.title = "t", .shapes = {{"da\"ta", {2, 4}}}}),
            R"dot(digraph "t" {
  rankdir=BT;
  node [shape=box, style="filled,rounded"];
  n0 [label="da\"ta", fillcolor="#d9d9d9", shape=ellipse];
  n1 [label="r\nActivation\nact_type relu", fillcolor="#f3dd8e"];
  n0 -> n1 [label="(2,4)"];
  n4 [label="fc1\nFullyConnected\nnum_hidden 3", fillcolor="#e8998d"];
  n1 -> n4 [label="(2,4)"];
}
)dot");
  const std::string all = ToGraphviz(net, {.hide_weights = false});
  EXPECT_THAT(all, HasSubstr("n2 [label=\"fc1_weight\""));
  EXPECT_THAT(all, HasSubstr("n2 -> n4;"));
  EXPECT_THAT(ToGraphviz(net), Not(HasSubstr("fc1_weight")));
}

}  // namespace
}  // namespace tessera
