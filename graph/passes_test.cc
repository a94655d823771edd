#include "tessera/graph/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
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
using graph_testing::Variables;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

/// Returns options with the shapes and types that the graph has for one input's shape.
PassOptions OptionsFor(const std::vector<NodeEntry>& heads, const TShape& data) {
  const IndexedGraph graph(heads);
  const GraphShapes shapes = InferShapes(graph, {{"data", data}});
  const GraphTypes types = InferTypes(graph, {});
  PassOptions options;
  for (const auto* list : {&graph.arguments(), &graph.aux_states()}) {
    for (const int id : *list) {
      const auto entry = static_cast<size_t>(graph.EntryId(id, 0));
      options.shapes[graph.node(id).name] = shapes.entries[entry];
      options.types[graph.node(id).name] = types.entries[entry];
    }
  }
  return options;
}

Arrays ArraysFor(const PassOptions& options) {
  Arrays arrays;
  unsigned seed = 0;
  for (const auto& [name, shape] : options.shapes) {
    arrays[name] = RandomArray(shape, ++seed);
    if (!name.ends_with("_moving_var")) continue;
    std::vector<float> values = arrays[name].Values();
    for (float& value : values) value *= value;
    arrays[name] = Array::Of(shape, values);
  }
  return arrays;
}

/// Computes fixed values and adds them to the arrays.
void Compute(const std::vector<FixedValue>& fixed, Arrays* arrays) {
  std::vector<NodeEntry> values;
  for (const FixedValue& one : fixed) values.push_back(one.value);
  const std::vector<Array> computed = Evaluate(values, *arrays);
  for (size_t i = 0; i < fixed.size(); ++i) {
    EXPECT_EQ(fixed[i].shape, computed[i].shape);
    EXPECT_EQ(fixed[i].dtype, computed[i].dtype);
    (*arrays)[fixed[i].variable.node->name] = computed[i];
  }
}

/// A small network: convolution, BatchNorm, dropout, and a sum with a table of constants.
std::vector<NodeEntry> Network() {
  const NodeEntry conv = Apply("Convolution", "conv", {MakeVariable("data")},
                               {{"kernel", "(3,3)"}, {"num_filter", "4"}});
  const NodeEntry norm = Apply("BatchNorm", "bn", {conv}, {{"fix_gamma", "False"}});
  const NodeEntry drop = Apply("Dropout", "drop", {norm});
  const NodeEntry range = Apply("_arange", "range", {}, {{"start", "0"}, {"stop", "4"}});
  const NodeEntry table = Apply("Reshape", "table", {range}, {{"shape", "(4,1,1)"}});
  const NodeEntry a = Apply("tanh", "a", {Apply("broadcast_mul", "scaled", {drop, table})});
  const NodeEntry b = Apply("tanh", "b", {Apply("broadcast_mul", "again", {drop, table})});
  return {Apply("elemwise_add", "out", {a, b})};
}

TEST(PassesTest, InferenceComputesWeightsAndConstantsApart) {
  const std::vector<NodeEntry> heads = Network();
  PassOptions options = OptionsFor(heads, {2, 3, 6, 6});
  const PreparedGraph prepared = RunPasses(heads, options);
  EXPECT_THAT(Operators(prepared.heads),
              ElementsAre("Convolution bn", "broadcast_mul scaled", "tanh a", "elemwise_add out"));
  EXPECT_EQ(prepared.constants.size(), 1u);
  EXPECT_EQ(prepared.parameters.size(), 2u);
  EXPECT_THAT(prepared.devices, IsEmpty());
  Arrays arrays = ArraysFor(options);
  const std::vector<Array> expected = Evaluate(heads, arrays);
  Compute(prepared.constants, &arrays);
  Compute(prepared.parameters, &arrays);
  ExpectNear(Evaluate(prepared.heads, arrays), expected, 1e-4);

  options.splits = false;
  const PreparedGraph whole = RunPasses(heads, options);
  EXPECT_THAT(Operators(whole.heads), Contains("BatchNorm bn"));
  EXPECT_THAT(whole.constants, IsEmpty());
}

TEST(PassesTest, TrainingKeepsWhatActsInTraining) {
  const std::vector<NodeEntry> heads = Network();
  PassOptions options = OptionsFor(heads, {2, 3, 6, 6});
  options.training = true;
  const PreparedGraph prepared = RunPasses(heads, options);
  EXPECT_THAT(Operators(prepared.heads),
              ElementsAre("Convolution conv", "BatchNorm bn", "Dropout drop",
                          "broadcast_mul scaled", "tanh a", "elemwise_add out"));
  EXPECT_EQ(prepared.constants.size(), 1u);
  EXPECT_THAT(prepared.parameters, IsEmpty());
}

/// Two equal branches and a value that the gradient reads for its shape alone.
NodeEntry Branches(const NodeEntry& data, const NodeEntry& weight) {
  const NodeEntry a = Apply("tanh", "a", {Apply("elemwise_mul", "p", {data, weight})});
  const NodeEntry b = Apply("tanh", "b", {Apply("elemwise_mul", "q", {data, weight})});
  const NodeEntry both = Apply("elemwise_mul", "both", {a, b});
  return Apply("Reshape", "flat", {both}, {{"shape", "(-1,)"}});
}

TEST(PassesTest, GradientsOfTheMergedGraphAreThoseOfTheGivenGraph) {
  const NodeEntry data = MakeVariable("data"), weight = MakeVariable("weight");
  const NodeEntry unused = MakeVariable("unused");
  const NodeEntry out = Branches(data, weight);
  for (const auto form : {GradientForm::kBackward, GradientForm::kDifferentiable}) {
    PassOptions options = OptionsFor({out}, {2, 3});
    options.wanted = {weight, unused, data};
    options.form = form;
    const PreparedGraph prepared = RunPasses({out}, options);
    EXPECT_EQ(prepared.gradients[1].node, nullptr);
    EXPECT_THAT(Operators(prepared.heads), Not(Contains("tanh b")));
    const Gradients expected = BuildGradients({out}, options.wanted);
    Arrays arrays = ArraysFor(options);
    arrays["_head_grad_0"] = RandomArray({6}, 9);
    const auto actual =
        Evaluate({prepared.heads[0], prepared.gradients[0], prepared.gradients[2]}, arrays, true);
    ExpectNear(actual, Evaluate({out, expected.gradients[0], expected.gradients[2]}, arrays, true),
               1e-6);
    // reshape_like has become Reshape.
    for (const std::string& op : Operators({prepared.gradients[0]})) {
      EXPECT_EQ(op.find("reshape_like"), std::string::npos) << op;
    }
  }
}

TEST(PassesTest, HeadGradientsHaveTheShapesOfTheOutputs) {
  const NodeEntry data = MakeVariable("data");
  const NodeEntry copy = Apply("_copy", "copy", {data});
  const NodeEntry out = Apply("Reshape", "out", {copy}, {{"shape", "(-1,)"}});
  PassOptions options = OptionsFor({out}, {2, 3});
  options.wanted = {data};
  options.form = GradientForm::kDifferentiable;
  // Nothing else tells the shape that reshape_like gives to the gradient.
  const PreparedGraph prepared = RunPasses({out}, options);
  EXPECT_THAT(Variables(prepared.gradients), ElementsAre("_head_grad_0"));
}

TEST(PassesTest, GradientsLieOnTheDevicesOfTheirVariables) {
  const NodeEntry data = MakeVariable("data"), weight = MakeVariable("weight");
  const NodeEntry out = Branches(data, weight);
  for (const auto& input : out.node->inputs[0].node->inputs) {
    input.node->attributes.Set("ctx_group", "g1");
  }
  weight.node->attributes.Set("ctx_group", "g2");
  PassOptions options = OptionsFor({out}, {2, 3});
  options.wanted = {weight, data};
  options.placement.groups = {{"g1", Device::Cpu(1)}, {"g2", Device::Cpu(2)}};
  const PreparedGraph prepared = RunPasses({out}, options);
  const auto on = [&](const NodeEntry& entry) { return prepared.devices.at(entry.node.get()); };
  EXPECT_EQ(on(prepared.gradients[0]), Device::Cpu(2));
  EXPECT_EQ(on(prepared.gradients[1]), Device::Cpu(0));
  EXPECT_EQ(on(prepared.head_gradients[0]), on(prepared.heads[0]));
  const Gradients expected = BuildGradients({out}, options.wanted);
  Arrays arrays = ArraysFor(options);
  arrays["_head_grad_0"] = RandomArray({6}, 9);
  ExpectNear(
      Evaluate({prepared.heads[0], prepared.gradients[0], prepared.gradients[1]}, arrays, true),
      Evaluate({out, expected.gradients[0], expected.gradients[1]}, arrays, true), 1e-6);
}

TEST(PassesTest, TheGraphIsDumpedAfterEachPass) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "passes";
  setenv("TESSERA_DUMP_GRAPH", folder.c_str(), /*overwrite=*/1);
  const std::vector<NodeEntry> heads = Network();
  RunPasses(heads, OptionsFor(heads, {2, 3, 6, 6}));
  unsetenv("TESSERA_DUMP_GRAPH");
  std::set<std::string> files;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().extension() == ".txt") files.insert(file.path().filename().string());
  }
  EXPECT_THAT(files,
              ElementsAre("00_simplify.txt", "01_common_subexpressions.txt",
                          "02_fold_batch_norm.txt", "03_constants.txt", "04_parameters.txt"));
}

TEST(PassesTest, TimeIsLinear) {
  // 80,000 nodes, with those of the gradient.
  NodeEntry x = MakeVariable("data");
  const NodeEntry first = x;
  for (int i = 0; i < 16'000; ++i) {
    const NodeEntry twin = Apply("_mul_scalar", "m", {x}, {{"scalar", "0.5"}});
    x = Apply("elemwise_add", "a", {twin, Apply("_mul_scalar", "n", {x}, {{"scalar", "0.5"}})});
  }
  PassOptions options = OptionsFor({x}, {2});
  options.wanted = {first};
  const PreparedGraph prepared = RunPasses({x}, options);
  EXPECT_EQ(IndexedGraph(prepared.heads).num_nodes(), 32'001);
}

}  // namespace
}  // namespace tessera::graph
