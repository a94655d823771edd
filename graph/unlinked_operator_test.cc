// Graphs with operators of families that the program does not link.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/json.h"

namespace tessera::graph {
namespace {

constexpr std::string_view kConvolution = R"json({
  "nodes": [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "null", "name": "conv_weight", "inputs": []},
    {"op": "Convolution", "name": "conv", "inputs": [[0, 0, 0], [1, 0, 0]],
     "attrs": {"kernel": "(3, 3)", "no_bias": "True", "num_filter": "8"}},
    {"op": "Flatten", "name": "flat", "inputs": [[2, 0, 0]]},
    {"op": "_contrib_box_iou", "name": "overlap", "inputs": [[3, 0, 0], [3, 0, 0]]}
  ],
  "heads": [[4, 0, 0]]})json";

TEST(UnlinkedOperatorTest, AGraphIsLoadedAndSaved) {
  const std::vector<NodeEntry> heads = ReadJson(kConvolution);
  const std::string json = WriteJson(heads);
  EXPECT_THAT(json, ::testing::HasSubstr("\"kernel\": \"(3, 3)\""));
  EXPECT_EQ(WriteJson(ReadJson(json)), json);
}

TEST(UnlinkedOperatorTest, AFusedGraphIsLoadedAndSaved) {
  const std::vector<NodeEntry> heads = ReadJson(R"json({
    "nodes": [
      {"op": "null", "name": "data", "inputs": []},
      {"op": "null", "name": "low", "inputs": []},
      {"op": "null", "name": "high", "inputs": []},
      {"op": "null", "name": "weight", "inputs": []},
      {"op": "_sg_mkldnn_conv", "name": "fused",
       "inputs": [[0, 0, 0], [3, 0, 0], [1, 0, 0], [2, 0, 0]],
       "attrs": {"quantized": "true", "min_calib_range": "-1", "max_calib_range": "2"},
       "subgraphs": [{
         "nodes": [
           {"op": "null", "name": "x", "inputs": []},
           {"op": "null", "name": "w", "inputs": []},
           {"op": "Convolution", "name": "conv", "inputs": [[0, 0, 0], [1, 0, 0]],
            "attrs": {"kernel": "(1, 1)", "no_bias": "True", "num_filter": "1"}}],
         "heads": [[2, 0, 0]]}]}
    ],
    "heads": [[4, 0, 0], [4, 1, 0], [4, 2, 0]]})json");
  const std::string json = WriteJson(heads);
  for (const char* const op : {"_contrib_dequantize", "Convolution", "_contrib_quantize_v2"}) {
    EXPECT_THAT(json, ::testing::HasSubstr(op));
  }
  EXPECT_EQ(WriteJson(ReadJson(json)), json);
}

TEST(UnlinkedOperatorTest, InferenceNamesTheTargetsToAdd) {
  const IndexedGraph graph(ReadJson(kConvolution));
  const auto expect_error = [](const auto& infer) {
    try {
      infer();
      ADD_FAILURE() << "inferred";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kNotFound);
      EXPECT_STREQ(error.what(),
                   "node \"conv\": operator \"Convolution\" is not linked into this program; add "
                   "@tessera//:operators_nn to its deps; "
                   "node \"overlap\": operator \"_contrib_box_iou\" is not linked into this "
                   "program; add @tessera//:operators_vision to its deps");
    }
  };
  expect_error([&] { InferShapes(graph, {{"data", {1, 3, 8, 8}}}); });
  expect_error([&] { InferTypes(graph, {}); });
}

}  // namespace
}  // namespace tessera::graph
