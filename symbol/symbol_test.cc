#include "tessera/symbol/symbol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

using base_testing::ExpectError;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

Symbol Perceptron() {
  Symbol x = Symbol::Variable("data");
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", "8"}}, "fc1");
  x = Symbol::Apply("Activation", {x}, {{"act_type", "relu"}}, "relu1");
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", "3"}, {"no_bias", "True"}}, "fc2");
  return Symbol::Apply("SoftmaxOutput", {x}, {}, "softmax");
}

TEST(SymbolTest, NamesMissingArgumentsAfterTheNode) {
  EXPECT_THAT(Perceptron().ListArguments(),
              ElementsAre("data", "fc1_weight", "fc1_bias", "fc2_weight", "softmax_label"));
  EXPECT_THAT(Perceptron().ListOutputs(), ElementsAre("softmax_output"));
  EXPECT_THAT(Perceptron().ListAuxiliaryStates(), ElementsAre());
}

TEST(SymbolTest, AutomaticNamesDiffer) {
  const Symbol x = Symbol::Variable("x");
  const Symbol a = Symbol::Apply("Flatten", {x});
  const Symbol b = Symbol::Apply("Flatten", {x});
  EXPECT_THAT(a.name(), HasSubstr("flatten"));
  EXPECT_NE(a.name(), b.name());
}

TEST(SymbolTest, ComposesByKeyword) {
  const Symbol w = Symbol::Variable("my_weight");
  const Symbol y = Symbol::Compose("FullyConnected", {{"weight", w}}, {{"num_hidden", "2"}}, "fc");
  EXPECT_THAT(y.ListArguments(), ElementsAre("fc_data", "my_weight", "fc_bias"));
  ExpectError(Error::kInvalidArgument, "did you mean \"weight\"", [&] {
    Symbol::Compose("FullyConnected", {{"wieght", w}}, {{"num_hidden", "2"}});
  });
}

TEST(SymbolTest, GroupsAndInternalsExposeOutputs) {
  const Symbol net = Perceptron();
  const Symbol internals = net.GetInternals();
  EXPECT_THAT(internals.ListOutputs(),
              ElementsAre("data", "fc1_weight", "fc1_bias", "fc1_output", "relu1_output",
                          "fc2_weight", "fc2_output", "softmax_label", "softmax_output"));
  const Symbol group = Symbol::CreateGroup({net, internals["relu1_output"]});
  EXPECT_EQ(group.num_outputs(), 2);
  EXPECT_EQ(group[1].name(), "relu1");
  ExpectError(Error::kOutOfRange, "output 2", [&] { group[2]; });
  ExpectError(Error::kNotFound, "did you mean \"relu1_output\"", [&] { internals["relu_output"]; });
  ExpectError(Error::kInvalidArgument, "2 outputs", [&] { Symbol::Apply("Flatten", {group}); });
}

TEST(SymbolTest, InfersForwardAndBackward) {
  const InferredShapes shapes = Perceptron().InferShape({{"data", {32, 4, 5}}});
  EXPECT_TRUE(shapes.complete);
  EXPECT_THAT(shapes.arguments,
              ElementsAre(TShape{32, 4, 5}, TShape{8, 20}, TShape{8}, TShape{3, 8}, TShape{32}));
  EXPECT_THAT(shapes.outputs, ElementsAre(TShape{32, 3}));

  const Symbol sum = Symbol::Variable("a") + Symbol::Variable("b");
  const InferredShapes both = sum.InferShape({{"b", {2, 3}}});
  EXPECT_THAT(both.arguments, ElementsAre(TShape{2, 3}, TShape{2, 3}));

  const InferredShapes partial = Perceptron().InferShape({});
  EXPECT_FALSE(partial.complete);
  EXPECT_EQ(partial.arguments[2], (TShape{8}));
}

TEST(SymbolTest, ContradictionNamesNodeArgumentAndShapes) {
  ExpectError(Error::kInvalidArgument, "node \"fc1\"", [] {
    Perceptron().InferShape({{"data", {32, 20}}, {"fc1_weight", {8, 19}}});
  });
  ExpectError(Error::kInvalidArgument, "(8,19)", [] {
    Perceptron().InferShape({{"data", {32, 20}}, {"fc1_weight", {8, 19}}});
  });
  ExpectError(Error::kInvalidArgument, "did you mean \"data\"", [] {
    Perceptron().InferShape({{"dta", {32, 20}}});
  });
  ExpectError(Error::kInvalidArgument, "\"image\"; expected one of data, fc1_weight, ", [] {
    Perceptron().InferType({{"image", DType::kFloat32}});
  });
  ExpectError(Error::kInvalidArgument, "\"image\"; there are no arguments", [] {
    Symbol::Apply("_zeros", {}, {{"shape", "(2,)"}}).InferShape({{"image", {2}}});
  });
  // All in one line: the node, the rule, and what it was applied to.
  ExpectError(Error::kInvalidArgument,
              "; inputs: data \"data\" (32,20), weight \"fc1_weight\" (8,19), bias \"fc1_bias\" ",
              [] {
                Perceptron().InferShape({{"data", {32, 20}}, {"fc1_weight", {8, 19}}});
              });
}

TEST(SymbolTest, TypesSpreadAndDefaultToFloat32) {
  const InferredTypes types = Perceptron().InferType({{"data", DType::kFloat64}});
  EXPECT_TRUE(types.complete);
  EXPECT_EQ(types.arguments[1], DType::kFloat64);
  EXPECT_EQ(types.outputs[0], DType::kFloat64);
  EXPECT_EQ(Perceptron().InferType({}).outputs[0], DType::kFloat32);
  ExpectError(Error::kInvalidArgument, "float16", [] {
    Perceptron().InferType({{"data", DType::kFloat64}, {"fc2_weight", DType::kFloat16}});
  });
}

TEST(SymbolTest, UnknownOperatorsAndParametersNameTheNearest) {
  const Symbol x = Symbol::Variable("x");
  ExpectError(Error::kNotFound, "did you mean \"FullyConnected\"", [&] {
    Symbol::Apply("FullyConected", {x}, {{"num_hidden", "2"}});
  });
  ExpectError(Error::kInvalidArgument, "did you mean \"num_hidden\"", [&] {
    Symbol::Apply("FullyConnected", {x}, {{"num_hiden", "2"}});
  });
  ExpectError(Error::kInvalidArgument, "at most 3", [&] {
    Symbol::Apply("FullyConnected", {x, x, x, x}, {{"num_hidden", "2"}});
  });
}

// As in MXNet 1.9.1, which refuses them in bind alone.
TEST(SymbolTest, TwoVariablesMayHaveOneName) {
  const Symbol sum = Symbol::Variable("a") + Symbol::Variable("a");
  EXPECT_THAT(sum.ListArguments(), ElementsAre("a", "a"));
  const Symbol both = Symbol::CreateGroup({Symbol::Variable("a"), Symbol::Variable("a")});
  EXPECT_THAT(both.InferShape({{"a", {2, 3}}}).arguments, ElementsAre(TShape{2, 3}, TShape{2, 3}));
  ExpectError(Error::kInvalidArgument, "\"a\"", [&] { both.Grad({"a"}); });
  const Symbol a = Symbol::Variable("a");
  EXPECT_THAT((a + a).ListArguments(), ElementsAre("a"));
}

TEST(SymbolTest, AttributesStayWithTheNode) {
  Symbol x = Symbol::Variable("x");
  EXPECT_FALSE(x.GetAttribute("lr_mult").has_value());
  x.SetAttribute("lr_mult", "2");
  EXPECT_EQ(x.GetAttribute("lr_mult"), "2");
  EXPECT_EQ(x.GetAttribute("__lr_mult__"), "2");
  x.SetAttribute("__lr_mult__", "3");
  EXPECT_EQ(x.GetAttribute("lr_mult"), "3");
}

/// FullyConnected of data and w, whose attributes are set where the text is not empty.
Symbol Stating(const std::string& key, const std::string& of_data, const std::string& of_weight) {
  Symbol data = Symbol::Variable("data");
  Symbol weight = Symbol::Variable("w");
  if (!of_data.empty()) data.SetAttribute(key, of_data);
  if (!of_weight.empty()) weight.SetAttribute(key, of_weight);
  return Symbol::Apply("FullyConnected", {data, weight}, {{"num_hidden", "4"}}, "fc");
}

// Cases as MXNet 1.9.1 answers them.
TEST(SymbolTest, ShapesThatVariablesStateTakePartInInference) {
  const auto shapes = [](const Symbol& symbol, const std::map<std::string, TShape>& known) {
    return symbol.InferShape(known).arguments;
  };
  const std::string key = "__shape__";
  EXPECT_THAT(shapes(Stating(key, "(2, 3)", ""), {}),
              ElementsAre(TShape{2, 3}, TShape{4, 3}, TShape{4}));
  EXPECT_THAT(shapes(Stating(key, "(2, 3)", ""), {{"data", {5, 7}}}),
              ElementsAre(TShape{5, 7}, TShape{4, 7}, TShape{4}));
  EXPECT_EQ(shapes(Stating(key, "(0, 3)", ""), {})[1], (TShape{4, 3}));
  EXPECT_EQ(shapes(Stating(key, "(8, 3)", ""), {{"data", {TShape::kUnknown, 3}}})[0],
            (TShape{8, 3}));
  EXPECT_TRUE(Stating(key, "(2, 3)", "(4, 0)").InferShape({}).complete);
  EXPECT_EQ(shapes(Stating(key, "()", "(4, 0)"), {{"data", {5, 7}}})[1], (TShape{4, 7}));
  EXPECT_EQ(shapes(Stating(key, "", "(4, 9)"), {{"data", {5, 7}}, {"w", {4, 7}}})[1],
            (TShape{4, 7}));
  for (const std::string contradiction : {"(4, 9)", "(5, 0)", "(4,)"}) {
    ExpectError(Error::kInvalidArgument, "node \"fc\": FullyConnected: weight has shape ", [&] {
      shapes(Stating(key, "", contradiction), {{"data", {5, 7}}});
    });
  }
  ExpectError(Error::kInvalidArgument, "weight has shape (4,9), expected (4,7)", [&] {
    shapes(Stating(key, "", "(4, 9)"), {{"data", {5, 7}}});
  });
  ExpectError(Error::kInvalidArgument, "weight has shape (4,9), expected (4,3)",
              [&] { shapes(Stating(key, "(2, 3)", "(4, 9)"), {}); });
  ExpectError(Error::kInvalidArgument,
              "variable \"data\": attribute __shape__: (2,3) was stated, but (4,None) was given",
              [&] {
                shapes(Stating(key, "(2, 3)", ""), {{"data", {4, TShape::kUnknown}}});
              });
  ExpectError(Error::kInvalidArgument, "variable \"w\": attribute __shape__: shape \"(4, x)\"",
              [&] { shapes(Stating(key, "", "(4, x)"), {}); });
}

TEST(SymbolTest, ZeroIsUnknownWhereMxnetWroteItAndEmptyInside) {
  // The first state of a recurrent network takes the batch size from its use.
  const Symbol state = Symbol::Apply("_zeros", {}, {{"shape", "(0, 4)"}});
  Symbol data = Symbol::Variable("data");
  const Symbol sum = data + state;
  EXPECT_EQ(sum.InferShape({{"data", {3, 4}}}).outputs[0], (TShape{3, 4}));
  EXPECT_FALSE(sum.InferShape({{"data", {TShape::kUnknown, 4}}}).complete);
  // An extent of 0 that the caller gives is an empty one.
  EXPECT_EQ(sum.InferShape({{"data", {0, 4}}}).outputs[0], (TShape{0, 4}));
  data.SetAttribute("__shape__", "(0, 4)");
  EXPECT_FALSE(sum.InferShape({}).complete);
  EXPECT_EQ(sum.InferShape({{"data", {5, 4}}}).outputs[0], (TShape{5, 4}));
}

TEST(SymbolTest, TypesThatVariablesStateTakePartInInference) {
  const auto types = [](const Symbol& symbol, const std::map<std::string, DType>& known) {
    return symbol.InferType(known).arguments;
  };
  const std::string key = "__dtype__";
  EXPECT_THAT(types(Stating(key, "2", ""), {}), Each(DType::kFloat16));
  EXPECT_THAT(types(Stating(key, "", "2"), {}), Each(DType::kFloat16));
  EXPECT_THAT(types(Stating(key, "", "-1"), {}), Each(DType::kFloat32));
  EXPECT_THAT(types(Stating(key, "2", ""), {{"data", DType::kFloat64}}), Each(DType::kFloat64));
  EXPECT_THAT(types(Stating(key, "", "2"), {{"w", DType::kFloat32}}), Each(DType::kFloat32));
  ExpectError(Error::kInvalidArgument,
              "node \"fc\": FullyConnected: weight has element type float32, expected that of the "
              "other arguments, float16",
              [&] {
                types(Stating(key, "", "0"), {{"data", DType::kFloat16}});
              });
  ExpectError(Error::kInvalidArgument, "float32, expected that of the other arguments, float16",
              [&] { types(Stating(key, "2", "0"), {}); });
  for (const std::string text : {"99", "-2", "x", ""}) {
    Symbol weight = Symbol::Variable("w");
    weight.SetAttribute(key, text);
    ExpectError(Error::kInvalidArgument, "variable \"w\": attribute __dtype__: \"" + text + "\"",
                [&] { types(weight, {}); });
  }
}

/// An operator that counts how often a graph asks it for shapes and types.
class CountingProperty final : public OperatorProperty {
 public:
  static inline int64_t calls = 0;

  static void Register() {
    OperatorRegistry::Get().Register(
        {.name = "test_counting",
         .file = __FILE__,
         .line = __LINE__,
         .create_property = [] { return std::make_unique<CountingProperty>(); },
         .implementation = {.device = DeviceType::kCpu, .name = "native"}});
  }

  void Init(const ParameterMap&) override {}
  ParameterMap GetParams() const override { return {}; }
  std::vector<std::string> ListArguments() const override { return {"lhs", "rhs"}; }
  bool InferShape(std::vector<TShape>* in, std::vector<TShape>* out) const override {
    ++calls;
    for (TShape* shape : {&(*in)[0], &(*in)[1], &(*out)[0]}) (*out)[0].Merge(*shape);
    (*in)[0] = (*in)[1] = (*out)[0];
    return (*out)[0].known();
  }
  bool InferType(std::vector<DType>* in, std::vector<DType>* out) const override {
    ++calls;
    return OperatorProperty::InferType(in, out);
  }
};

// The times of these graphs would be minutes and more if they grew with the square.
TEST(SymbolTest, InferenceIsLinearInTheGraph) {
  CountingProperty::Register();
  constexpr int kNodes = 5000;
  const auto apply = [](const Symbol& a, const Symbol& b) {
    return Symbol::Apply("test_counting", {a, b}, {}, "n");
  };
  std::vector<Symbol> independent, halves;
  std::map<std::string, TShape> known;
  Symbol chain = Symbol::Variable("chain");
  for (int i = 0; i < kNodes; ++i) {
    const std::string number = std::to_string(i);
    const Symbol own = Symbol::Variable("x" + number);
    known["x" + number] = {2};
    independent.push_back(apply(own, Symbol::Variable("y" + number)));
    chain = apply(chain, Symbol::Variable("z" + number));
    halves.push_back(apply(own, i == 0 ? own : Symbol::Variable("w" + number)));
  }
  independent.push_back(chain);
  independent.insert(independent.end(), halves.begin(), halves.end());
  const Symbol graph = Symbol::CreateGroup(independent);
  CountingProperty::calls = 0;
  EXPECT_TRUE(graph.InferType({}).complete);
  EXPECT_LT(CountingProperty::calls, 4 * 3 * kNodes);
  CountingProperty::calls = 0;
  EXPECT_FALSE(graph.InferShape(known).complete);
  known["z" + std::to_string(kNodes - 1)] = {2};  // from the chain's end to its beginning
  EXPECT_TRUE(graph.InferShape(known).complete);
  EXPECT_LT(CountingProperty::calls, 8 * 3 * kNodes);
}

TEST(SymbolTest, UnknownRankStatesNothing) {
  EXPECT_EQ(Stating("__shape__", "None", "").InferShape({{"data", {5, 7}}}).arguments[0],
            (TShape{5, 7}));
  Symbol data = Symbol::Variable("data");
  data.SetAttribute("__shape__", "None");
  EXPECT_FALSE(data.InferShape({}).outputs[0].rank_known());
}

TEST(SymbolTest, ErrorsQuoteLongNamesInPart) {
  const std::string text(1000000, 'n');
  Symbol variable = Symbol::Variable(text);
  variable.SetAttribute("__dtype__", text);
  const Symbol node = Symbol::Apply("FullyConnected", {variable}, {{"num_hidden", "2"}}, text);
  const Symbol twice = Symbol::Variable(text) + Symbol::Variable(text);
  const Symbol state = Symbol::Apply("BatchNorm", {variable}, {}, text);
  for (const std::function<void()>& call : std::initializer_list<std::function<void()>>{
           [&] { node[text + "x"]; },
           [&] {
             node.InferShape({{"x" + text, {2}}});
           },
           [&] {
             node.InferShape({{text, {2}}, {text + "_weight", {2}}});
           },
           [&] { node.InferType({}); }, [&] { twice.Grad({text}); },
           [&] { Symbol(node).SetAttribute("num_hidden", text); },
           [&] {
             node.Compose({{"x" + text, node}});
           },
           [&] {
             state.Compose({{text + "_moving_var", node}});
           },
           [&] { node.Grad({"x" + text}); }, [&] { Symbol::Apply(text, {variable}); },
           [&] {
             Symbol::Compose("Flatten", {{text, variable}});
           },
           [&] {
             Symbol::Compose("Flatten", {{"data", Symbol::CreateGroup({node, node})}});
           }}) {
    try {
      call();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_LT(std::string(error.what()).size(), 2000u);
    }
  }
}

TEST(SymbolTest, GraphsDeeperThanTheStackWork) {
  Symbol x = Symbol::Variable("x");
  for (int i = 0; i < 100000; ++i) x = Symbol::Apply("_plus_scalar", {x}, {{"scalar", "1"}}, "n");
  EXPECT_THAT(x.ListArguments(), ElementsAre("x"));
  x = Symbol();
}

}  // namespace
}  // namespace tessera
