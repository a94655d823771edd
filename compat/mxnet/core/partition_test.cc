#include "tessera/compat/mxnet/core/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/tshape.h"
#include "tessera/graph/node.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera::mxnet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Returns the operators of a graph, in order.
std::vector<std::string> Operators(const Symbol& symbol) {
  std::vector<std::string> names;
  const Symbol internals = symbol.GetInternals();
  for (const graph::NodeEntry& entry : internals.outputs()) {
    const graph::Node& node = *entry.node;
    if (!node.is_variable() && entry.index == 0) names.push_back(node.property->TypeString());
  }
  return names;
}

Symbol Unary(const std::string& op, const Symbol& input, const std::string& name) {
  return Symbol::Apply(op, {input}, {}, name);
}

/// exp(a) + sin(exp(a)) and a product of b, whose exp(a) and sum are apart if sin is left out.
Symbol Network() {
  const Symbol a = Symbol::Variable("a"), b = Symbol::Variable("b");
  const Symbol exp = Unary("exp", a, "exp"), sine = Unary("sin", exp, "sine");
  const Symbol sum = Symbol::Apply("elemwise_add", {exp, sine}, {}, "sum");
  return Symbol::CreateGroup({sum, Symbol::Apply("elemwise_mul", {sum, b}, {}, "product")});
}

/// The outputs of a graph and the gradients of its arguments.
std::vector<std::vector<float>> Computed(const Symbol& symbol) {
  BindArguments bound;
  for (size_t i = 0; i < symbol.ListArguments().size(); ++i) {
    const float first = 0.25f * static_cast<float>(i + 1);
    bound.arguments.push_back(NDArray::FromVector(std::vector<float>{first, -1, 0.75f}, {3}));
    bound.gradients.push_back(NDArray(TShape{3}));
  }
  const auto executor = Bind(symbol, Device::Cpu(), bound);
  executor->Forward(true);
  const NDArray head = NDArray::FromVector(std::vector<float>{1, 2, -1}, {3});
  executor->Backward({head, head});
  std::vector<std::vector<float>> results;
  for (const NDArray& output : executor->outputs()) results.push_back(output.ToVector());
  for (const NDArray& gradient : bound.gradients) results.push_back(gradient.ToVector());
  return results;
}

TEST(PartitionTest, ConnectedOperatorsAreOneSubgraph) {
  const Symbol net = Network();
  const Symbol all = PartitionByOperators(net, {"exp", "sin", "_plus", "elemwise_mul"});
  EXPECT_THAT(Operators(all), ElementsAre("_CachedOp"));
  EXPECT_EQ(all.ListArguments(), net.ListArguments());
  EXPECT_EQ(all.num_outputs(), 2);
  EXPECT_EQ(Computed(all), Computed(net));
  // The graph that was given is as it was.
  EXPECT_THAT(Operators(net), ElementsAre("exp", "sin", "elemwise_add", "elemwise_mul"));
}

TEST(PartitionTest, NoValueLeavesASubgraphAndComesBack) {
  const Symbol net = Network();
  const Symbol apart = PartitionByOperators(net, {"exp", "elemwise_add", "elemwise_mul"});
  EXPECT_THAT(Operators(apart), ElementsAre("_CachedOp", "sin", "_CachedOp"));
  EXPECT_EQ(apart.ListArguments(), net.ListArguments());
  EXPECT_EQ(Computed(apart), Computed(net));
}

TEST(PartitionTest, TwoSubgraphsDoNotNeedEachOther) {
  // Either of two chains could take a node of the other's values.
  const Symbol a = Unary("exp", Symbol::Variable("a"), "a1");
  const Symbol b = Unary("exp", Symbol::Variable("b"), "b1");
  const Symbol first = Symbol::Apply("elemwise_add", {a, b}, {}, "first");
  const Symbol second = Symbol::Apply("elemwise_add", {b, a}, {}, "second");
  const Symbol net = Symbol::CreateGroup({first, second});
  const Symbol parts = PartitionByOperators(net, {"exp", "elemwise_add"});
  EXPECT_EQ(parts.ListArguments(), net.ListArguments());
  EXPECT_EQ(Computed(parts), Computed(net));
}

TEST(PartitionTest, AGraphWithoutTheOperatorsStaysAsItIs) {
  const Symbol net = Network();
  EXPECT_EQ(Operators(PartitionByOperators(net, {"tanh"})), Operators(net));
  EXPECT_EQ(Operators(PartitionByOperators(net, {})), Operators(net));
}

TEST(PartitionTest, FilesHaveSubgraphs) {
  const Symbol parts = PartitionByOperators(Network(), {"exp", "sin", "elemwise_add"});
  const Symbol loaded = Symbol::FromJson(parts.ToJson());
  EXPECT_THAT(Operators(loaded), ElementsAre("_CachedOp", "elemwise_mul"));
  EXPECT_EQ(Computed(loaded), Computed(Network()));
}

TEST(PartitionTest, BackendsHaveOperators) {
  const auto names = [](BackendInterface interface) {
    return BackendOperators(interface, "backend of a test");
  };
  EXPECT_THAT(names(BackendInterface::kOfOptimizeFor), IsEmpty());
  SetBackendOperators(BackendInterface::kOfOptimizeFor, "backend of a test", {"exp"});
  EXPECT_THAT(names(BackendInterface::kOfOptimizeFor), ElementsAre("exp"));
  EXPECT_THAT(names(BackendInterface::kOfExecutors), IsEmpty());
  RemoveBackendOperators(BackendInterface::kOfOptimizeFor, "backend of a test");
  EXPECT_THAT(names(BackendInterface::kOfOptimizeFor), IsEmpty());
}

}  // namespace
}  // namespace tessera::mxnet
