#include "tessera/graph/passes/fold_batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using ::testing::IsSupersetOf;
using ::testing::Not;

/// Returns arrays for all variables, with variances that are positive, small and large.
Arrays MakeArrays(const std::vector<NodeEntry>& heads, const TShape& data) {
  const IndexedGraph graph(heads);
  const GraphShapes shapes = InferShapes(graph, {{"data", data}});
  Arrays arrays;
  unsigned seed = 0;
  for (const auto* list : {&graph.arguments(), &graph.aux_states()}) {
    for (const int id : *list) {
      const std::string& name = graph.node(id).name;
      Array array = RandomArray(shapes.entries[static_cast<size_t>(graph.EntryId(id, 0))], ++seed);
      if (name.ends_with("moving_var")) {
        std::vector<float> values = array.Values();
        for (size_t i = 0; i < values.size(); ++i)
          values[i] = i == 0 ? 0.0f : values[i] * values[i];
        array = Array::Of(array.shape, values);
      }
      arrays[name] = array;
    }
  }
  return arrays;
}

/// One layer, its input, and the BatchNorm behind it.
struct Case {
  std::string name;
  std::string layer;
  ParameterMap parameters;
  TShape data;
  ParameterMap norm = {};
};

std::vector<NodeEntry> Build(const Case& c, std::string_view norm = "BatchNorm") {
  const NodeEntry layer = Apply(c.layer, "layer", {MakeVariable("data")}, c.parameters);
  return {Apply(
      "exp", "out",
      {Apply("_mul_scalar", "s", {Apply(norm, "bn", {layer}, c.norm)}, {{"scalar", "0.03125"}})})};
}

const Case kConvolution = {
    "convolution", "Convolution", {{"kernel", "(3,3)"}, {"num_filter", "6"}}, {2, 4, 5, 6}};

class FoldBatchNormTest : public testing::TestWithParam<Case> {};

TEST_P(FoldBatchNormTest, TheLayerComputesTheBatchNorm) {
  const std::vector<NodeEntry> heads = Build(GetParam());
  const FoldedGraph folded = FoldBatchNorms(heads, {{"no such variable", DType::kInt8}});
  const std::string layer = GetParam().layer + " bn";
  EXPECT_THAT(Operators(folded.heads), Contains(layer));
  EXPECT_THAT(Operators(folded.heads), Not(Contains("BatchNorm bn")));
  const Arrays arrays = MakeArrays(heads, GetParam().data);
  // The results are of the order of 1; the sums in the layer have some hundred parts.
  ExpectNear(Evaluate(folded.heads, arrays), Evaluate(heads, arrays), 2e-5);
  std::vector<std::string> parameters;
  for (const Node* node : folded.parameters) parameters.push_back(node->name);
  EXPECT_THAT(parameters, IsSupersetOf({"layer_weight", "bn_beta", "bn_moving_var"}));
  EXPECT_THAT(parameters, Not(Contains("data")));
}

ParameterMap With(ParameterMap parameters, const ParameterMap& more) {
  parameters.insert(more.begin(), more.end());
  return parameters;
}

const ParameterMap kGamma = {{"fix_gamma", "False"}};
const ParameterMap kKernel = {{"kernel", "(3,3)"}, {"num_filter", "6"}};

INSTANTIATE_TEST_SUITE_P(
    Layers, FoldBatchNormTest,
    testing::Values(
        kConvolution, Case{"gamma", "Convolution", kKernel, {2, 4, 5, 6}, kGamma},
        Case{"no_bias", "Convolution", With(kKernel, {{"no_bias", "True"}}), {2, 4, 5, 6}, kGamma},
        Case{"groups", "Convolution", With(kKernel, {{"num_group", "2"}}), {2, 4, 5, 6}, kGamma},
        Case{"eps", "Convolution", kKernel, {2, 4, 5, 6}, {{"eps", "0.25"}}},
        Case{"global", "Convolution", kKernel, {2, 4, 5, 6}, {{"use_global_stats", "True"}}},
        Case{"last_axis_but_two", "Convolution", kKernel, {2, 4, 5, 6}, {{"axis", "-3"}}},
        Case{"width", "Convolution", {{"kernel", "(3,)"}, {"num_filter", "5"}}, {2, 4, 7}, kGamma},
        Case{"depth",
             "Convolution",
             {{"kernel", "(2,2,2)"}, {"num_filter", "5"}},
             {2, 4, 3, 4, 5},
             kGamma},
        Case{"channels_last",
             "Convolution",
             With(kKernel, {{"layout", "NHWC"}, {"num_group", "2"}}),
             {2, 5, 6, 4},
             With(kGamma, {{"axis", "3"}})},
        Case{"deconvolution", "Deconvolution", kKernel, {2, 4, 5, 6}, kGamma},
        Case{"deconvolution_bias",
             "Deconvolution",
             With(kKernel, {{"no_bias", "False"}}),
             {2, 4, 5, 6},
             kGamma},
        Case{"deconvolution_groups",
             "Deconvolution",
             With(kKernel, {{"num_group", "2"}}),
             {2, 4, 5, 6},
             kGamma},
        Case{"deconvolution_depth",
             "Deconvolution",
             {{"kernel", "(2,2,2)"}, {"num_filter", "6"}, {"num_group", "3"}},
             {2, 3, 3, 4, 5},
             kGamma},
        Case{"dense", "FullyConnected", {{"num_hidden", "6"}}, {2, 4, 3}, kGamma},
        Case{"dense_no_bias",
             "FullyConnected",
             {{"num_hidden", "6"}, {"no_bias", "True"}},
             {2, 4, 3},
             {{"axis", "-1"}}},
        Case{"dense_rows",
             "FullyConnected",
             {{"num_hidden", "6"}, {"flatten", "False"}},
             {2, 4, 3},
             {{"axis", "-1"}}}),
    [](const auto& info) { return info.param.name; });

TEST(FoldBatchNormsTest, TheOldBatchNormIsFoldedToo) {
  const std::vector<NodeEntry> heads = Build(kConvolution, "BatchNorm_v1");
  const Arrays arrays = MakeArrays(heads, kConvolution.data);
  const FoldedGraph folded = FoldBatchNorms(heads, {});
  EXPECT_THAT(Operators(folded.heads), Contains("Convolution bn"));
  ExpectNear(Evaluate(folded.heads, arrays), Evaluate(heads, arrays), 2e-5);
}

TEST(FoldBatchNormsTest, AFixedGammaIsNeededNoMore) {
  const auto heads = FoldBatchNorms(Build(kConvolution), {}).heads;
  EXPECT_THAT(Variables(heads), Not(Contains("bn_gamma")));
  // Nothing changes the averages any more.
  EXPECT_TRUE(IndexedGraph(heads).aux_states().empty());
}

TEST(FoldBatchNormsTest, DoubleElementsAreFolded) {
  const auto heads = FoldBatchNorms(Build(kConvolution), {{"data", DType::kFloat64}}).heads;
  EXPECT_THAT(Operators(heads), Contains("Convolution bn"));
  const IndexedGraph graph(heads);
  EXPECT_TRUE(InferTypes(graph, {{"data", DType::kFloat64}}).complete);
}

TEST(FoldBatchNormsTest, OtherBatchNormsStay) {
  const auto stays = [](const std::vector<NodeEntry>& heads,
                        const std::map<std::string, DType>& types = {}) {
    const FoldedGraph folded = FoldBatchNorms(heads, types);
    return folded.heads == heads && folded.parameters.empty();
  };
  const auto with = [](const ParameterMap& norm) {
    return Build({"", "Convolution", kKernel, {2, 4, 5, 6}, norm});
  };
  EXPECT_TRUE(stays(with({{"axis", "3"}})));
  EXPECT_TRUE(stays(with({{"output_mean_var", "True"}})));
  EXPECT_TRUE(stays(with({}), {{"data", DType::kFloat16}}));
  EXPECT_TRUE(
      stays(Build({"", "FullyConnected", {{"num_hidden", "6"}, {"flatten", "False"}}, {}})));
  EXPECT_TRUE(stays(Build({"", "Pooling", {{"kernel", "(2,2)"}}, {}})));

  const NodeEntry data = MakeVariable("data");
  const NodeEntry layer = Apply("Convolution", "layer", {data}, kKernel);
  const NodeEntry norm = Apply("BatchNorm", "bn", {layer});
  EXPECT_TRUE(stays({norm, layer})) << "the layer is an output";
  EXPECT_TRUE(stays({Apply("elemwise_add", "sum", {norm, layer})})) << "the layer has two readers";
  EXPECT_TRUE(stays({norm, {norm.node, 1}})) << "the mean is an output";
  EXPECT_TRUE(stays({Apply("BatchNorm", "bn", {data})}));

  const NodeEntry computed = Apply("exp", "computed", {MakeVariable("w")});
  EXPECT_TRUE(stays(
      {Apply("BatchNorm", "bn", {Apply("Convolution", "layer", {data, computed}, kKernel)})}));
  const NodeEntry state = MakeVariable("state");
  const NodeEntry grouped = Apply("Convolution", "layer", {data, state}, kKernel);
  const NodeEntry step = Apply("sgd_mom_update", "step", {data, data, state}, {{"lr", "1"}});
  EXPECT_TRUE(stays({Apply("BatchNorm", "bn", {grouped}), step})) << "the weight changes";
  norm.node->attributes.Set("ctx_group", "dev1");
  EXPECT_TRUE(stays({norm}));
}

TEST(FoldBatchNormsTest, ANetworkIsFoldedLayerByLayer) {
  NodeEntry x = MakeVariable("data");
  for (const std::string name : {"a", "b", "c"}) {
    x = Apply("Convolution", name + "_conv", {x},
              {{"kernel", "(3,3)"}, {"pad", "(1,1)"}, {"num_filter", "4"}, {"no_bias", "True"}});
    x = Apply("BatchNorm", name, {x}, kGamma);
    x = Apply("Activation", name + "_act", {x}, {{"act_type", "tanh"}});
  }
  const FoldedGraph folded = FoldBatchNorms({x}, {});
  EXPECT_THAT(Operators(folded.heads),
              IsSupersetOf({"Convolution a", "Convolution b", "Convolution c"}));
  const Arrays arrays = MakeArrays({x}, {2, 3, 6, 6});
  ExpectNear(Evaluate(folded.heads, arrays), Evaluate({x}, arrays), 2e-5);
}

}  // namespace
}  // namespace tessera::graph
