#include "tessera/graph/passes/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/error.h"
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
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

const PlacementOptions kOptions = {.groups = {{"g1", Device::Cpu(1)}, {"g2", Device::Cpu(2)}}};

NodeEntry InGroup(const char* group, const NodeEntry& entry) {
  entry.node->attributes.Set("ctx_group", group);
  return entry;
}

/// Returns the device number of every node, by name.
std::map<std::string, int> Places(const PlacedGraph& placed) {
  std::map<std::string, int> places;
  const IndexedGraph graph(placed.heads);
  for (const Node* node : graph.nodes()) places[node->name] = placed.devices.at(node).id;
  return places;
}

std::string ErrorOf(const std::vector<NodeEntry>& heads, const PlacementOptions& options) {
  try {
    PlaceDevices(heads, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    return error.what();
  }
  return "";
}

// The devices are those of MXNet 1.9.1 for the same network.
TEST(PlacementTest, NodesFollowTheirGroupAndThenTheirFirstInput) {
  const NodeEntry x = Apply("_mul_scalar", "x", {InGroup("g1", MakeVariable("a"))});
  const NodeEntry y = Apply("_plus_scalar", "y", {InGroup("g1", x)});
  const NodeEntry z = InGroup("g2", Apply("_mul_scalar", "z", {y}, {{"scalar", "3"}}));
  const NodeEntry out = Apply("elemwise_mul", "out", {MakeVariable("w"), z});
  const PlacedGraph placed = PlaceDevices({out}, kOptions);
  EXPECT_THAT(Operators(placed.heads),
              ElementsAre("_mul_scalar x", "_plus_scalar y", "_CrossDeviceCopy y_0_copy",
                          "_mul_scalar z", "_CrossDeviceCopy z_0_copy", "elemwise_mul out"));
  EXPECT_THAT(Places(placed), UnorderedElementsAre(Pair("a", 1), Pair("x", 1), Pair("y", 1),
                                                   Pair("y_0_copy", 2), Pair("z", 2), Pair("w", 0),
                                                   Pair("z_0_copy", 0), Pair("out", 0)));
  const Arrays arrays = {{"a", RandomArray({3}, 1)}, {"w", RandomArray({3}, 2)}};
  EXPECT_EQ(Evaluate(placed.heads, arrays), Evaluate({out}, arrays));
}

TEST(PlacementTest, WithoutInputsTheReadersTellTheDevice) {
  const NodeEntry zeros = Apply("_zeros", "zeros", {}, {{"shape", "(2,)"}});
  const NodeEntry twice = Apply("_mul_scalar", "twice", {zeros}, {{"scalar", "2"}});
  const NodeEntry z = InGroup("g1", Apply("_mul_scalar", "z", {twice}, {{"scalar", "3"}}));
  const NodeEntry alone = Apply("_ones", "alone", {}, {{"shape", "(2,)"}});
  EXPECT_THAT(Places(PlaceDevices({Apply("_plus_scalar", "out", {z}), alone}, kOptions)),
              UnorderedElementsAre(Pair("zeros", 1), Pair("twice", 1), Pair("z", 1), Pair("out", 1),
                                   Pair("alone", 0)));
}

TEST(PlacementTest, AValueIsCopiedOnceToEachDevice) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry a = InGroup("g1", Apply("exp", "a", {x}));
  const NodeEntry b = InGroup("g1", Apply("log", "b", {x}));
  const NodeEntry c = InGroup("g2", Apply("sin", "c", {x}));
  EXPECT_THAT(Operators(PlaceDevices({a, b, c}, kOptions).heads),
              ElementsAre("_CrossDeviceCopy x_0_copy", "exp a", "log b",
                          "_CrossDeviceCopy x_0_copy", "sin c"));
}

TEST(PlacementTest, ArraysThatExistTellTheirDevice) {
  const NodeEntry out = Apply("exp", "out", {InGroup("g1", MakeVariable("x"))});
  PlacementOptions options = kOptions;
  options.variables = {{"x", Device::Cpu(2)}};
  EXPECT_THAT(Places(PlaceDevices({out}, options)),
              UnorderedElementsAre(Pair("x", 2), Pair("out", 2)));
  options.heads = {Device::Cpu(0)};
  EXPECT_THAT(Places(PlaceDevices({out}, options)),
              UnorderedElementsAre(Pair("x", 2), Pair("out", 2), Pair("out_0_copy", 0)));
}

TEST(PlacementTest, StatesLieWhereTheyChange) {
  const NodeEntry x = InGroup("g1", Apply("exp", "x", {MakeVariable("a")}));
  const NodeEntry norm = Apply("BatchNorm", "bn", {x});
  const auto places = Places(PlaceDevices({norm}, kOptions));
  EXPECT_EQ(places.at("bn"), 1);
  EXPECT_EQ(places.at("bn_moving_mean"), 1);
  EXPECT_EQ(places.at("bn_gamma"), 0);
  PlacementOptions options = kOptions;
  options.variables = {{"bn_moving_mean", Device::Cpu(0)}};
  EXPECT_THAT(ErrorOf({norm}, options), AllOf(HasSubstr("\"bn\""), HasSubstr("moving_mean"),
                                              HasSubstr("cpu(0)"), HasSubstr("cpu(1)")));
}

TEST(PlacementTest, GradientsAreComputedWhereTheirNodesAre) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry a = InGroup("g1", Apply("exp", "a", {x}));
  const NodeEntry b = InGroup("g2", Apply("square", "b", {a}));
  for (const auto form : {GradientForm::kBackward, GradientForm::kDifferentiable}) {
    const NodeEntry gradient = BuildGradients({b}, {x}, form).gradients[0];
    PlacementOptions options = kOptions;
    options.heads = {std::nullopt, Device::Cpu(0)};
    const PlacedGraph placed = PlaceDevices({b, gradient}, options);
    EXPECT_EQ(placed.devices.at(placed.heads[1].node.get()), Device::Cpu(0));
    for (const auto& [name, id] : Places(placed)) {
      if (name.ends_with("_copy")) continue;
      const bool of_a = name.starts_with("a_back") || name.starts_with("a_grad");
      const bool of_b = name.starts_with("b_back") || name.starts_with("b_grad");
      if (of_a || of_b) {
        EXPECT_EQ(id, of_a ? 1 : 2) << name;
      }
    }
    const Arrays arrays = {{"x", RandomArray({3}, 1)}, {"_head_grad_0", RandomArray({3}, 2)}};
    EXPECT_EQ(Evaluate(placed.heads, arrays, true), Evaluate({b, gradient}, arrays, true));
  }
}

TEST(PlacementTest, AGroupWithoutADeviceIsNamed) {
  const NodeEntry out = InGroup("g7", Apply("exp", "out", {MakeVariable("x")}));
  EXPECT_THAT(ErrorOf({out}, kOptions),
              AllOf(HasSubstr("\"out\""), HasSubstr("\"g7\""), HasSubstr("g1, g2")));
  // Without groups, the attribute means nothing.
  EXPECT_THAT(Places(PlaceDevices({out}, {})), UnorderedElementsAre(Pair("x", 0), Pair("out", 0)));
}

}  // namespace
}  // namespace tessera::graph
