#include "tessera/graph/passes/join_relu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/graph/passes/gradient.h"
#include "tessera/graph/testing/evaluate.h"

namespace tessera::graph {
namespace {

using graph_testing::Apply;
using graph_testing::Array;
using graph_testing::Arrays;
using graph_testing::Evaluate;
using graph_testing::ExpectNear;
using graph_testing::Operators;
using graph_testing::RandomArray;
using ::testing::ElementsAre;

NodeEntry Norm(const NodeEntry& x, const ParameterMap& parameters = {{"fix_gamma", "False"}}) {
  return Apply("BatchNorm", "norm", {x}, parameters);
}

NodeEntry Relu(const NodeEntry& x) {
  return Apply("Activation", "out", {x}, {{"act_type", "relu"}});
}

/// Arrays for the variables of a BatchNorm of 3 channels and for a head gradient of 1.
Arrays MakeArrays() {
  Arrays arrays = {{"x", RandomArray({4, 3, 5}, 1)}, {"g", RandomArray({4, 3, 5}, 2)}};
  unsigned seed = 3;
  for (const char* name : {"norm_gamma", "norm_beta", "norm_moving_mean"}) {
    arrays[name] = RandomArray({3}, seed++);
  }
  arrays["norm_moving_var"] = Array::Of({3}, std::vector<float>{0.5f, 1, 2});
  return arrays;
}

TEST(JoinReluTest, OneNodeGivesTheResultsAveragesAndGradientsOfTwo) {
  for (const bool is_train : {false, true}) {
    std::vector<std::vector<Array>> results;
    Arrays after[2];
    for (const bool joins : {false, true}) {
      const NodeEntry x = MakeVariable("x");
      std::vector<NodeEntry> heads = {Relu(Norm(x))};
      if (joins) {
        heads = JoinRelu(heads);
        EXPECT_THAT(Operators(heads), ElementsAre("_contrib_BatchNormWithReLU out"));
      }
      const Node& norm = joins ? *heads[0].node : *heads[0].node->inputs[0].node;
      // A gradient that differs from element to element.
      heads = {Apply("elemwise_mul", "weighted", {heads[0], MakeVariable("g")})};
      const Gradients gradients = BuildGradients(heads, {x, norm.inputs[1], norm.inputs[2]});
      for (const NodeEntry& gradient : gradients.gradients) heads.push_back(gradient);
      after[joins] = MakeArrays();
      after[joins][gradients.head_gradients[0].node->name] =
          Array::Of({4, 3, 5}, std::vector<float>(60, 1));
      results.push_back(Evaluate(heads, &after[joins], is_train));
    }
    ExpectNear(results[1], results[0], 0);
    for (const char* name : {"norm_moving_mean", "norm_moving_var"}) {
      EXPECT_EQ(after[1].at(name), after[0].at(name)) << name;
    }
  }
}

TEST(JoinReluTest, OtherReadersKeepTheNodes) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry norm = Norm(x);
  const std::vector<std::vector<NodeEntry>> graphs = {
      {Relu(norm), norm},                                                // a head
      {Relu(norm), Apply("tanh", "other", {norm})},                      // another reader
      {Relu(norm), norm.node->inputs[3]},                                // of the moving mean
      {Apply("Activation", "out", {norm}, {{"act_type", "tanh"}})},      // no relu
      {Relu(Apply("BatchNorm_v1", "v1", {x}))},                          // another kind
      {Relu(NodeEntry{Norm(x, {{"output_mean_var", "True"}}).node, 1})}  // the mean
  };
  for (const std::vector<NodeEntry>& heads : graphs) {
    EXPECT_EQ(JoinRelu(heads), heads) << Operators(heads).back();
  }
  const NodeEntry relu = Relu(Norm(x));
  relu.node->attributes.Set("ctx_group", "other");
  EXPECT_EQ(JoinRelu({relu}), std::vector<NodeEntry>{relu});
}

}  // namespace
}  // namespace tessera::graph
