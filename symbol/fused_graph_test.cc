// Graphs that MXNet's pass for oneDNN saved: nodes that hold their operators in a subgraph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using ndarray_testing::Read;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string Variable(const std::string& name) {
  return R"({"op": "null", "name": ")" + name + R"(", "inputs": []})";
}

/// Returns a node. `fields` follow its inputs, such as `, "attrs": {…}`.
std::string Operator(const std::string& op, const std::string& name, const std::string& inputs,
                     const std::string& fields = "") {
  return R"({"op": ")" + op + R"(", "name": ")" + name + R"(", "inputs": )" + inputs + fields + "}";
}

std::string Attributes(const std::string& attributes) {
  return R"(, "attrs": {)" + attributes + "}";
}

std::string Graph(const std::string& nodes, const std::string& heads) {
  return R"({"nodes": [)" + nodes + R"(], "heads": )" + heads +
         R"(, "attrs": {"mxnet_version": ["int", 10901]}})";
}

/// Returns the field of a fused node that holds its operators.
std::string Subgraph(const std::string& nodes, const std::string& heads) {
  return R"(, "subgraphs": [{"nodes": [)" + nodes + R"(], "heads": )" + heads + "}]";
}

const std::string kRelu = Attributes(R"("act_type": "relu")");

/// Returns the attributes of a convolution of single pixels.
std::string OfPixels(int filters, bool no_bias) {
  return Attributes(R"json("kernel": "(1, 1)", "num_filter": ")json" + std::to_string(filters) +
                    R"json(", "no_bias": ")json" + (no_bias ? "True\"" : "False\""));
}

/// Returns the graph's outputs for arrays of these elements, by name; shapes are inferred from that
/// of data.
std::vector<std::vector<double>> Outputs(const Symbol& symbol, const TShape& data,
                                         const std::map<std::string, std::vector<float>>& values) {
  const auto executor =
      SimpleBind(symbol, Device::Cpu(), {.shapes = {{"data", data}}, .grad_req = kNullOp});
  auto arrays = executor->arg_dict();
  for (const auto& [name, array] : executor->aux_dict()) arrays[name] = array;
  EXPECT_EQ(arrays.size(), values.size());
  for (const auto& [name, elements] : values) {
    NDArray::FromVector(elements, arrays.at(name).shape()).CopyTo(arrays.at(name));
  }
  executor->Forward(false);
  std::vector<std::vector<double>> outputs;
  for (const NDArray& output : executor->outputs()) outputs.push_back(Read(output));
  return outputs;
}

/// Returns a graph of y = relu(convolution(data)) and out = relu(convolution(y) + y) + y, which
/// reads y three times. MXNet's fused sum overwrites its operand.
std::string ResidualBlock() {
  const std::string first =
      Subgraph(Variable("data0") + "," + Variable("w10") + "," +
                   Operator("Convolution", "c1", "[[0, 0, 0], [1, 0, 0]]", OfPixels(2, true)) +
                   "," + Operator("Activation", "r1", "[[2, 0, 0]]", kRelu),
               "[[3, 0, 0]]");
  const std::string second = Subgraph(
      Variable("fused10") + "," + Variable("w20") + "," +
          Operator("Convolution", "c2", "[[0, 0, 0], [1, 0, 0]]", OfPixels(2, true)) + "," +
          Variable("fused11") + "," + Operator("elemwise_add", "add", "[[2, 0, 0], [3, 0, 0]]") +
          "," + Operator("Activation", "r2", "[[4, 0, 0]]", kRelu),
      "[[5, 0, 0]]");
  return Graph(
      Variable("data") + "," + Variable("w1") + "," +
          Operator("_sg_mkldnn_conv", "fused1", "[[0, 0, 0], [1, 0, 0]]",
                   Attributes(R"("with_relu": "true")") + first) +
          "," + Variable("w2") + "," +
          Operator("_sg_mkldnn_conv", "fused2", "[[2, 0, 0], [3, 0, 0], [2, 0, 0]]",
                   Attributes(R"("with_sum": "true", "with_postsum_act": "true")") + second) +
          "," + Operator("elemwise_add", "out", "[[4, 0, 0], [2, 0, 0]]"),
      "[[5, 0, 0], [4, 0, 0]]");
}

TEST(FusedGraphTest, AResidualBlockEqualsItsOperators) {
  const Symbol symbol = Symbol::FromJson(ResidualBlock());
  EXPECT_THAT(symbol.ListArguments(), ElementsAre("data", "w1", "w2"));
  EXPECT_THAT(symbol.ListOutputs(), ElementsAre("out_output", "fused2_output"));
  const std::map<std::string, std::vector<float>> values = {
      {"data", {1, -2, 3, 1}}, {"w1", {1, 1, -1, 2}}, {"w2", {1, -1, -2, 0.5f}}};
  // y = (4, 0; 5, 4), and the convolution of y is (-1, -4; -5.5, 2).
  const std::vector<std::vector<double>> expected = {{7, 0, 5, 10}, {3, 0, 0, 6}};
  EXPECT_EQ(Outputs(symbol, {1, 2, 1, 2}, values), expected);
  const std::string saved = symbol.ToJson();
  EXPECT_THAT(saved, Not(HasSubstr("_sg_mkldnn")));
  EXPECT_EQ(Outputs(Symbol::FromJson(saved), {1, 2, 1, 2}, values), expected);
}

TEST(FusedGraphTest, MovingStatisticsStayAuxiliaryStates) {
  const std::string subgraph = Subgraph(
      Variable("a") + "," + Variable("b") + "," +
          Operator("Convolution", "c", "[[0, 0, 0], [1, 0, 0]]", OfPixels(1, true)) + "," +
          Variable("g") + "," + Variable("h") + "," + Variable("i") + "," + Variable("j") + "," +
          Operator("BatchNorm", "bn", "[[2, 0, 0], [3, 0, 0], [4, 0, 0], [5, 0, 0], [6, 0, 0]]",
                   Attributes(R"("eps": "0", "fix_gamma": "False")")),
      "[[7, 0, 0]]");
  const auto graph = [&](const std::string& variance) {
    return Graph(Variable("data") + "," + Variable("w") + "," + Variable("gamma") + "," +
                     Variable("beta") + "," + Variable("mean") + "," + variance + "," +
                     Operator("_sg_mkldnn_conv", "fused",
                              "[[0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0], [4, 0, 0], [5, 0, 0]]",
                              Attributes(R"("with_bn": "true")") + subgraph),
                 "[[6, 0, 0]]");
  };
  const Symbol symbol = Symbol::FromJson(graph(Variable("var")));
  EXPECT_THAT(symbol.ListAuxiliaryStates(), ElementsAre("mean", "var"));
  EXPECT_THAT(symbol.ListOutputs(), ElementsAre("fused_output"));
  EXPECT_THAT(Outputs(symbol, {1, 1, 1, 2},
                      {{"data", {1, 3}},
                       {"w", {2}},
                       {"gamma", {6}},
                       {"beta", {1}},
                       {"mean", {4}},
                       {"var", {4}}}),
              ElementsAre(ElementsAre(-5, 7)));
  try {
    Symbol::FromJson(graph(Operator("Flatten", "flat", "[[4, 0, 0]]")));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kDataLoss);
    EXPECT_THAT(error.what(), HasSubstr("node \"fused\": _sg_mkldnn_conv changes an input that is "
                                        "not a variable"));
  }
}

/// Returns a graph that quantizes data with 100 codes for 1, and convolves them with a weight and a
/// bias by a fused node of these attributes. `after` are two further nodes, 5 and 6, of which the
/// last is the output.
std::string QuantizedConvolution(const std::string& attributes, const std::string& inputs,
                                 const std::string& operators, const std::string& heads,
                                 const std::string& after = "") {
  const std::string subgraph = Subgraph(
      Variable("a") + "," + Variable("b") + "," + Variable("c") + "," +
          Operator("Convolution", "conv", "[[0, 0, 0], [1, 0, 0], [2, 0, 0]]", OfPixels(1, false)) +
          operators,
      heads);
  return Graph(Variable("data") + "," +
                   Operator("_contrib_quantize_v2", "codes", "[[0, 0, 0]]",
                            Attributes(R"("out_type": "int8", "min_calib_range": "-1.275",
                                 "max_calib_range": "1.275")")) +
                   "," + Variable("w") + "," + Variable("bias") + "," +
                   Operator("_sg_mkldnn_conv", "fused", inputs,
                            Attributes(R"("quantized": "true")" + attributes) + subgraph) +
                   after,
               after.empty() ? "[[4, 0, 0], [4, 1, 0], [4, 2, 0]]" : "[[6, 0, 0]]");
}

const std::string kOneRange = "[[1, 0, 0], [2, 0, 0], [3, 0, 0], [1, 1, 0], [1, 2, 0]]";

// The convolution is 2 x + 0.1 = (1.1, -1.9, 0.6, 2.5).
const std::map<std::string, std::vector<float>> kValues = {
    {"data", {0.5f, -1, 0.25f, 1.2f}}, {"w", {2}}, {"bias", {0.1f}}};

TEST(FusedGraphTest, AQuantizedConvolutionGivesCodesOfItsCalibratedRange) {
  const auto run = [](const std::string& json) {
    const Symbol symbol = Symbol::FromJson(json);
    EXPECT_THAT(symbol.ListArguments(), ElementsAre("data", "w", "bias"));
    return Outputs(symbol, {1, 1, 1, 4}, kValues);
  };
  // Without a sign after relu, 100 codes for 1.
  const auto positive = run(QuantizedConvolution(
      R"(, "with_act": "true", "min_calib_range": "-0.000000", "max_calib_range": "2.555")",
      kOneRange, "," + Operator("Activation", "relu", "[[3, 0, 0]]", kRelu), "[[4, 0, 0]]"));
  EXPECT_THAT(positive, ElementsAre(ElementsAre(110, 0, 60, 250), ElementsAre(0),
                                    ElementsAre(static_cast<double>(2.555f))));
  // 50 codes for 1.
  const auto plain = run(QuantizedConvolution(
      R"(, "min_calib_range": "-2.55", "max_calib_range": "1")", kOneRange, "", "[[3, 0, 0]]"));
  EXPECT_THAT(plain,
              ElementsAre(ElementsAre(55, -95, 30, 125), ElementsAre(-static_cast<double>(2.55f)),
                          ElementsAre(static_cast<double>(2.55f))));
  // The sum 3 x + 0.1 with 20 codes for 1, whose operand's range comes last.
  const auto sum = run(QuantizedConvolution(
      R"(, "with_sum": "true", "min_calib_range": "-6.375", "max_calib_range": "6.375")",
      "[[1, 0, 0], [2, 0, 0], [3, 0, 0], [1, 0, 0], [1, 1, 0], [1, 2, 0], [1, 1, 0], [1, 2, 0]]",
      "," + Variable("d") + "," + Operator("elemwise_add", "add", "[[3, 0, 0], [4, 0, 0]]"),
      "[[5, 0, 0]]"));
  EXPECT_THAT(sum[0], ElementsAre(32, -58, 17, 74));
}

TEST(FusedGraphTest, AConvolutionWithoutCalibrationIsRequantized) {
  const Symbol symbol = Symbol::FromJson(QuantizedConvolution(
      "", kOneRange, "", "[[3, 0, 0]]",
      "," + Operator("_contrib_requantize", "codes8", "[[4, 0, 0], [4, 1, 0], [4, 2, 0]]") + "," +
          Operator("_contrib_dequantize", "numbers", "[[5, 0, 0], [5, 1, 0], [5, 2, 0]]")));
  const auto numbers = Outputs(symbol, {1, 1, 1, 4}, kValues);
  const std::vector<double> expected = {1.1, -1.9, 0.6, 2.5};
  // Each of two roundings to 8 bits moves a number by at most one code of the range 2.5.
  const double tolerance = 2 * 2.5 / 127;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(numbers[0][i], expected[i], tolerance) << i;
  }
}

TEST(FusedGraphTest, AQuantizedDenseLayerReadsCodesOrNumbersAsWeights) {
  const std::string subgraph =
      Subgraph(Variable("a") + "," + Variable("b") + "," + Variable("c") + "," +
                   Operator("FullyConnected", "dense", "[[0, 0, 0], [1, 0, 0], [2, 0, 0]]",
                            Attributes(R"("num_hidden": "1")")),
               "[[3, 0, 0]]");
  const auto graph = [&](const std::string& ranges, const std::string& inputs) {
    return Graph(Variable("data") + "," +
                     Operator("_contrib_quantize_v2", "codes", "[[0, 0, 0]]",
                              Attributes(R"("out_type": "int8", "min_calib_range": "-1.275",
                                            "max_calib_range": "1.275")")) +
                     "," + Variable("w") + "," + Variable("bias") + ranges + "," +
                     Operator("_sg_mkldnn_fully_connected", "fused", inputs,
                              Attributes(R"("quantized": "True", "enable_float_output": "True")") +
                                  subgraph),
                 ranges.empty() ? "[[4, 0, 0]]" : "[[8, 0, 0]]");
  };
  // x = (1, 0.5), weight (0.5, -0.2), bias 0.3.
  const Symbol of_numbers =
      Symbol::FromJson(graph("", "[[1, 0, 0], [2, 0, 0], [3, 0, 0], [1, 1, 0], [1, 2, 0]]"));
  EXPECT_THAT(of_numbers.ListOutputs(), ElementsAre("fused_output"));
  EXPECT_NEAR(Outputs(of_numbers, {1, 2},
                      {{"data", {1, 0.5f}}, {"w", {0.5f, -0.2f}}, {"bias", {0.3f}}})[0][0],
              0.7, 1e-6);
  const Symbol of_codes = Symbol::FromJson(
      graph("," + Variable("w_min") + "," + Variable("w_max") + "," + Variable("bias_min") + "," +
                Variable("bias_max"),
            "[[1, 0, 0], [2, 0, 0], [3, 0, 0], [1, 1, 0], [1, 2, 0], [4, 0, 0], [5, 0, 0], "
            "[6, 0, 0], [7, 0, 0]]"));
  const auto executor =
      SimpleBind(of_codes, Device::Cpu(), {.shapes = {{"data", {1, 2}}}, .grad_req = kNullOp});
  EXPECT_EQ(executor->arg_dict().at("w").dtype(), DType::kInt8);
  EXPECT_EQ(executor->arg_dict().at("bias").dtype(), DType::kInt8);
  EXPECT_NEAR(Outputs(of_codes, {1, 2},
                      {{"data", {1, 0.5f}},
                       {"w", {50, -20}},
                       {"bias", {30}},
                       {"w_min", {-1.275f}},
                       {"w_max", {1.275f}},
                       {"bias_min", {-1.275f}},
                       {"bias_max", {1.275f}}})[0][0],
              0.7, 1e-6);
}

TEST(FusedGraphTest, DamagedNodesAreNamed) {
  const std::string operators = Variable("a") + "," + Operator("Flatten", "f", "[[0, 0, 0]]");
  const std::string subgraph = Subgraph(operators, "[[1, 0, 0]]");
  for (const auto& [inputs, fields, words] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"[[0, 0, 0]]", "", "_sg_mkldnn_conv needs one subgraph of operators with one output"},
           {"[[0, 0, 0]]", Subgraph(operators, "[[0, 0, 0]]"), "needs one subgraph of operators"},
           {"[[0, 0, 0]]", Subgraph(operators, "[[1, 0, 0], [1, 0, 0]]"), "needs one subgraph"},
           {"[]", subgraph, "has 0 inputs, but its subgraph has 1 variables"},
           {"[[0, 0, 0], [0, 0, 0]]", subgraph, "has 2 inputs, but its subgraph has 1 variables"},
           {"[[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]", subgraph,
            "has 5 inputs, but its subgraph has 1 variables"}}) {
    try {
      Symbol::FromJson(
          Graph(Variable("data") + "," + Operator("_sg_mkldnn_conv", "fused", inputs, fields),
                "[[1, 0, 0]]"));
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kDataLoss) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("node \"fused\": "));
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  }
  // A node has one output unless it is quantized.
  EXPECT_THROW(
      Symbol::FromJson(Graph(
          Variable("data") + "," + Operator("_sg_mkldnn_conv", "fused", "[[0, 0, 0]]", subgraph),
          "[[1, 1, 0]]")),
      Error);
}

}  // namespace
}  // namespace tessera
