// Inference from shapes that are known in part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using testing::ElementsAre;

TShape Shape(const char* text) { return TShape::Parse(text); }

Symbol WithShape(const std::string& name, const std::string& shape) {
  return Symbol::Variable(name, {{"__shape__", shape}});
}

TEST(PartialShapesTest, NothingIsToldOfADenseLayersWeightBeforeItsDataIsKnown) {
  const Symbol fc =
      Symbol::Apply("FullyConnected", {Symbol::Variable("data")}, {{"num_hidden", "8"}}, "fc");
  const Symbol sum = fc + Symbol::Variable("other");
  EXPECT_THAT(sum.InferShapePartial({{"other", {4, 8}}}).arguments,
              ElementsAre(TShape(), TShape(), TShape{8}, TShape{4, 8}));
  EXPECT_THAT(sum.InferShapePartial({{"other", {4, 8}}, {"data", Shape("(None,None)")}}).arguments,
              ElementsAre(Shape("(4,None)"), Shape("(8,None)"), TShape{8}, TShape{4, 8}));
}

TEST(PartialShapesTest, AConvolutionOfStride1KnowsItsImagesByItsOutput) {
  const ParameterMap parameters = {{"num_filter", "21"},
                                   {"kernel", "(3,5)"},
                                   {"pad", "(1,0)"},
                                   {"dilate", "(1,2)"},
                                   {"no_bias", "1"}};
  const auto infer = [&](ParameterMap more) {
    more.insert(parameters.begin(), parameters.end());
    const Symbol out = Symbol::Apply("Convolution", {WithShape("data", "(0,10,0,0)")}, more);
    return (out + WithShape("other", "(5,21,32,32)")).InferShapePartial({}).arguments[0];
  };
  EXPECT_EQ(infer({}), (TShape{5, 10, 32, 40}));
  EXPECT_EQ(infer({{"stride", "(1,2)"}}), Shape("(5,10,32,None)"));
  EXPECT_THROW(infer({{"pad", "(1,40)"}}), Error);
}

TEST(PartialShapesTest, PoolingKnowsThePositionsAlongEachKnownAxis) {
  const auto infer = [](const char* data, ParameterMap parameters) {
    parameters["kernel"] = "(2,3)";
    const Symbol pool = Symbol::Apply("Pooling", {Symbol::Variable("data")}, parameters);
    return pool.InferShapePartial({{"data", Shape(data)}}).outputs[0];
  };
  EXPECT_EQ(infer("(None,3,8,9)", {}), Shape("(None,3,7,7)"));
  EXPECT_EQ(infer("(2,None,8,None)", {{"stride", "(2,1)"}}), Shape("(2,None,4,None)"));
  EXPECT_EQ(infer("(2,3,None,9)", {{"pooling_convention", "full"}, {"stride", "(1,4)"}}),
            Shape("(2,3,None,3)"));
  EXPECT_EQ(infer("(2,None,None,None)", {{"global_pool", "1"}}), Shape("(2,None,1,1)"));
  EXPECT_THROW(infer("(None,3,None,2)", {}), Error);
}

TEST(PartialShapesTest, PicksIndexHasTheDatasOtherAxes) {
  const Symbol pick =
      Symbol::Apply("pick", {Symbol::Variable("data"), Symbol::Variable("index")}, {{"axis", "1"}});
  const auto infer = [&](const std::map<std::string, TShape>& known) {
    return pick.InferShapePartial(known).arguments[1];
  };
  EXPECT_EQ(infer({{"data", {2, 3, 4}}}), (TShape{2, 4}));
  EXPECT_EQ(infer({{"data", Shape("(None,3,4)")}}), Shape("(None,4)"));
  EXPECT_EQ(infer({{"data", {2, 3, 4}}, {"index", Shape("(None,1,None)")}}), (TShape{2, 1, 4}));
}

TEST(PartialShapesTest, AStatedShapeIsUsedBeforeTheNetworkWouldChooseOne) {
  const Symbol dense =
      Symbol::Apply("FullyConnected", {Symbol::Variable("data")}, {{"num_hidden", "4"}}, "fc");
  const Symbol prelu =
      Symbol::Apply("LeakyReLU", {dense, WithShape("slope", "(1,)")}, {{"act_type", "prelu"}});
  const InferredShapes shapes = prelu.InferShape({{"data", {2, 3}}});
  EXPECT_TRUE(shapes.complete);
  EXPECT_THAT(shapes.arguments, ElementsAre(TShape{2, 3}, TShape{4, 3}, TShape{4}, TShape{1}));
}

TEST(PartialShapesTest, ALabelOfProbabilitiesMayBeKnownInPartBeforeTheData) {
  const Symbol softmax =
      Symbol::Apply("SoftmaxOutput", {Symbol::Variable("data"), WithShape("label", "(0,4)")});
  EXPECT_THAT((softmax + WithShape("other", "(3,0)")).InferShape({}).arguments,
              ElementsAre(TShape{3, 4}, TShape{3, 4}, TShape{3, 4}));
}

// MXNet 1.9.1 counts unknown extents as 0 here, and tells outputs that are wrong.
TEST(PartialShapesTest, UnknownExtentsDoNotCountAsZero) {
  const auto infer = [](const char* op, const std::vector<const char*>& shapes,
                        const ParameterMap& parameters) {
    std::vector<Symbol> inputs;
    std::map<std::string, TShape> known;
    for (const char* shape : shapes) {
      const std::string name = "x" + std::to_string(inputs.size());
      inputs.push_back(Symbol::Variable(name));
      known[name] = Shape(shape);
    }
    return Symbol::Apply(op, inputs, parameters).InferShapePartial(known).outputs[0];
  };
  EXPECT_EQ(infer("Concat", {"(2,3)", "None"}, {{"num_args", "2"}}), Shape("(2,None)"));
  EXPECT_EQ(
      infer("Pad", {"(1,2,None,4)"}, {{"mode", "constant"}, {"pad_width", "(0,0,0,0,1,2,2,1)"}}),
      Shape("(1,2,None,7)"));
  EXPECT_EQ(infer("diag", {"(None,)"}, {{"k", "-2"}}), Shape("(None,None)"));
  EXPECT_EQ(infer("broadcast_like", {"(1,3)", "(None,3)"}, {}), Shape("(None,3)"));
}

TEST(PartialShapesTest, MatricesWithoutAnInnerExtentTellNothingOfTheirProduct) {
  const Symbol product = Symbol::Apply("batch_dot", {Symbol::Variable("a"), Symbol::Variable("b")});
  const auto infer = [&](const char* a, const char* b) {
    return product.InferShapePartial({{"a", Shape(a)}, {"b", Shape(b)}}).outputs[0];
  };
  EXPECT_EQ(infer("(None,3,4)", "(None,4,5)"), Shape("(None,3,5)"));
  EXPECT_EQ(infer("(None,3,4)", "(None,None,5)"), TShape());
}

TEST(PartialShapesTest, AnRnnTellsTheFirstLayersWeightsOfBothDirections) {
  constexpr int kSize = 2, kGates = 4;
  std::vector<Symbol> parts;
  for (const char* direction : {"l", "r"}) {
    for (const char* of : {"i2h_weight", "h2h_weight"}) {
      const bool of_input = std::string(of) == "i2h_weight";
      parts.push_back(Symbol::Apply(
          "Reshape", {WithShape(std::string(direction) + of, of_input ? "(8,0)" : "(8,2)")},
          {{"shape", "(-1,)"}}));
    }
  }
  for (const char* bias : {"li2h", "lh2h", "ri2h", "rh2h"})
    parts.push_back(WithShape(bias, "(8,)"));
  const Symbol rnn = Symbol::Apply(
      "RNN",
      {Symbol::Variable("data"),
       Symbol::Apply("_rnn_param_concat", parts,
                     {{"dim", "0"}, {"num_args", std::to_string(parts.size())}}),
       Symbol::Variable("h"), Symbol::Variable("c")},
      {{"mode", "lstm"}, {"state_size", "2"}, {"num_layers", "1"}, {"bidirectional", "True"}});
  const std::vector<TShape> arguments = rnn.InferShape({{"data", {7, 3, 5}}}).arguments;
  const TShape of_input{kGates * kSize, 5}, of_state{kGates * kSize, kSize};
  EXPECT_THAT(std::vector<TShape>(arguments.begin() + 1, arguments.begin() + 5),
              ElementsAre(of_input, of_state, of_input, of_state));
}

TEST(PartialShapesTest, WhereNeedsItsCondition) {
  const Symbol chosen =
      Symbol::Apply("where", {Symbol::Variable("c"), Symbol::Variable("x"), Symbol::Variable("y")});
  const auto infer = [&](const char* condition, const char* x) {
    return chosen.InferShapePartial({{"c", Shape(condition)}, {"x", Shape(x)}}).outputs[0];
  };
  EXPECT_EQ(infer("(None,2)", "(None,2)"), TShape());
  EXPECT_EQ(infer("(None,)", "(2,2)"), TShape());
  EXPECT_EQ(infer("(3,)", "(None,2)"), (TShape{3, 2}));
}

}  // namespace
}  // namespace tessera
