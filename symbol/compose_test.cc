// Composition, copies, scopes, attributes and gradients of symbols. Cases have the results of
// MXNet 1.9.1 unless a comment says otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/symbol/scope.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using base_testing::ExpectError;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

Symbol Dense(const Symbol& x, const std::string& name, const ParameterMap& more = {}) {
  ParameterMap parameters = {{"num_hidden", "4"}};
  parameters.insert(more.begin(), more.end());
  return Symbol::Apply("FullyConnected", {x}, parameters, name);
}

Symbol Var(const std::string& name) { return Symbol::Variable(name); }

TEST(ComposeTest, ReplacesVariablesByNameInACopy) {
  const Symbol first =
      Symbol::Apply("Activation", {Dense(Var("data"), "fc1")}, {{"act_type", "relu"}}, "r");
  const Symbol second = Dense(Var("data2"), "fc3");
  const Symbol both = second.Compose({{"data2", first}}, "composed");
  EXPECT_THAT(both.ListArguments(),
              ElementsAre("data", "fc1_weight", "fc1_bias", "fc3_weight", "fc3_bias"));
  EXPECT_THAT(both.ListOutputs(), ElementsAre("composed_output"));
  EXPECT_THAT(second.ListArguments(), ElementsAre("data2", "fc3_weight", "fc3_bias"));
  EXPECT_EQ(second.name(), "fc3");
  EXPECT_EQ(second.Compose({{"data2", first}}).name(), "fc3");
  EXPECT_EQ(both.InferShape({{"data", {2, 3}}}).outputs[0], (TShape{2, 4}));
  // The parts of one network that is used twice have variables of one name.
  const Symbol twice = Symbol::CreateGroup(
      {second.Compose({{"data2", Var("a")}}), second.Compose({{"data2", Var("b")}})});
  EXPECT_THAT(twice.ListArguments(),
              ElementsAre("a", "fc3_weight", "fc3_bias", "b", "fc3_weight", "fc3_bias"));
  EXPECT_TRUE(twice.InferShape({{"a", {2, 3}}, {"b", {2, 3}}}).complete);
}

TEST(ComposeTest, ReplacesVariablesByPosition) {
  const Symbol net = Dense(Var("data"), "fc");
  EXPECT_THAT(net.ComposeInOrder({Var("x"), Var("w")}, "n").ListArguments(),
              ElementsAre("x", "w", "fc_bias"));
  ExpectError(Error::kInvalidArgument, "at most 3", [&] {
    net.ComposeInOrder({net, net, net, net});
  });
}

TEST(ComposeTest, ReplacesEveryVariableOfAName) {
  const Symbol sum = Var("x") + Var("x");
  EXPECT_THAT(sum.Compose({{"x", Var("y")}}).ListArguments(), ElementsAre("y"));
  // A symbol that is a variable becomes the other symbol, where MXNet knows no variable.
  EXPECT_THAT(Var("x").Compose({{"x", Dense(Var("d"), "fc")}}, "n").ListOutputs(),
              ElementsAre("fc_output"));
  const Symbol group = Symbol::CreateGroup({Dense(Var("d"), "a"), Dense(Var("d"), "b")});
  EXPECT_THAT(group.Compose({{"d", Var("q")}}, "z").ListOutputs(),
              ElementsAre("z_output", "b_output"));
}

TEST(ComposeTest, RefusesWhatCannotBeReplaced) {
  const Symbol net = Symbol::Apply("BatchNorm", {Dense(Var("data"), "fc")}, {}, "bn");
  ExpectError(Error::kInvalidArgument, "there is no variable \"dta\"; did you mean \"data\"?", [&] {
    net.Compose({{"dta", net}});
  });
  ExpectError(Error::kInvalidArgument, "data has 2 outputs", [&] {
    net.Compose({{"data", Symbol::CreateGroup({net, net})}});
  });
  ExpectError(Error::kInvalidArgument, "\"bn_moving_mean\" is an auxiliary state", [&] {
    net.Compose({{"bn_moving_mean", net}});
  });
  EXPECT_THAT(net.Compose({{"bn_moving_mean", Var("mean")}}).ListAuxiliaryStates(),
              ElementsAre("mean", "bn_moving_var"));
}

TEST(ComposeTest, CopiesShareNoNode) {
  Symbol net = Dense(Var("data"), "fc");
  const Symbol copy = net.Copy();
  net.SetAttribute("ctx_group", "a");
  net.GetInternals()["data"].SetAttribute("lr_mult", "2");
  EXPECT_FALSE(copy.GetAttribute("ctx_group").has_value());
  EXPECT_FALSE(copy.GetInternals()["data"].GetAttribute("lr_mult").has_value());
  EXPECT_EQ(copy.GetAttribute("num_hidden"), "4");
}

TEST(ComposeTest, ListsChildrenAndInputs) {
  const Symbol fc = Dense(Var("data"), "fc");
  const Symbol bn = Symbol::Apply("BatchNorm", {fc}, {}, "bn");
  EXPECT_THAT(bn.ListInputs(), ElementsAre("data", "fc_weight", "fc_bias", "bn_gamma", "bn_beta",
                                           "bn_moving_mean", "bn_moving_var"));
  EXPECT_EQ(bn.GetInputs().ListOutputs(), bn.ListInputs());
  EXPECT_THAT(bn.GetChildren().ListOutputs(),
              ElementsAre("fc_output", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"));
  EXPECT_THAT(Symbol::CreateGroup({fc, fc}).GetChildren().ListOutputs(),
              ElementsAre("data", "fc_weight", "fc_bias"));
  EXPECT_TRUE(Var("data").GetChildren().is_none());
}

TEST(ScopeTest, AttributesNestAndExplicitOnesWin) {
  const AttrScope outer(ParameterMap{{"ctx_group", "a"}, {"__lr_mult__", "2"}});
  const AttrScope inner(ParameterMap{{"__ctx_group__", "b"}, {"__x__", "3"}});
  const Symbol variable = Symbol::Variable("av", {{"lr_mult", "5"}});
  const Symbol fc = Dense(variable, "f", {{"__x__", "7"}, {"__mood__", "y"}});
  EXPECT_THAT(
      variable.ListAttributes(),
      UnorderedElementsAre(Pair("ctx_group", "b"), Pair("__ctx_group__", "b"), Pair("lr_mult", "5"),
                           Pair("__lr_mult__", "5"), Pair("__x__", "3")));
  EXPECT_THAT(
      fc.ListAttributes(),
      UnorderedElementsAre(Pair("num_hidden", "4"), Pair("ctx_group", "b"),
                           Pair("__ctx_group__", "b"), Pair("lr_mult", "2"),
                           Pair("__lr_mult__", "2"), Pair("__x__", "7"), Pair("__mood__", "y")));
  // The variables that an operator makes have its attributes. MXNet gives them parameters too.
  EXPECT_EQ(fc.GetInternals()["f_weight"].GetAttribute("__mood__"), "y");
  EXPECT_EQ(fc.GetInternals()["f_weight"].GetAttribute("ctx_group"), "b");
  EXPECT_FALSE(fc.GetInternals()["f_weight"].GetAttribute("num_hidden").has_value());
}

TEST(ScopeTest, EndsWithItsBlockAndStaysOnItsThread) {
  const AttrScope scope("ctx_group", "a");
  { const AttrScope inner("ctx_group", "b"); }
  const NamePrefix prefix("p_");
  EXPECT_EQ(Var("x").GetAttribute("ctx_group"), "a");
  std::thread([] {
    const Symbol y = Symbol::Apply("Flatten", {Var("x")});
    EXPECT_FALSE(y.GetAttribute("ctx_group").has_value());
    EXPECT_EQ(y.name(), "flatten0");
  }).join();
}

TEST(ScopeTest, NamesAreThoseOfMxnet) {
  const NameManager names;
  const Symbol data = Var("data");
  const auto dense = [&](const std::string& name) { return Dense(data, name); };
  EXPECT_EQ(dense("").name(), "fullyconnected0");
  EXPECT_EQ(dense("").name(), "fullyconnected1");
  {
    const NamePrefix prefix("pre_");
    const Symbol made = dense("");
    EXPECT_THAT(made.ListArguments(),
                ElementsAre("data", "pre_fullyconnected0_weight", "pre_fullyconnected0_bias"));
    EXPECT_EQ(dense("own").name(), "pre_own");
    EXPECT_EQ(Var("v").name(), "v");
    {
      const NamePrefix inner("in_");
      EXPECT_EQ(dense("").name(), "in_fullyconnected0");
    }
    {
      const NameManager plain;
      EXPECT_EQ(dense("").name(), "fullyconnected0");
    }
    EXPECT_EQ(dense("").name(), "pre_fullyconnected1");
    EXPECT_EQ((data + data).name(), "pre__plus0");
  }
  EXPECT_EQ(dense("").name(), "fullyconnected2");
}

/// The operator of a symbol, its scalar, and its name.
std::string Describe(const Symbol& symbol) {
  return symbol.outputs()[0].node->property->TypeString() + " " +
         symbol.GetAttribute("scalar").value_or("-") + " " + symbol.name();
}

TEST(ArithmeticTest, OperatorsAndNamesAreThoseOfMxnet) {
  const NameManager names;
  const Symbol a = Var("a"), b = Var("b");
  EXPECT_EQ(Describe(a + b), "elemwise_add - _plus0");
  EXPECT_EQ(Describe(a - b), "elemwise_sub - _minus0");
  EXPECT_EQ(Describe(a * b), "elemwise_mul - _mul0");
  EXPECT_EQ(Describe(a / b), "elemwise_div - _div0");
  EXPECT_EQ(Describe(a % b), "_mod - _mod0");
  EXPECT_EQ(Describe(Power(a, b)), "_power - _power0");
  EXPECT_EQ(Describe(a > b), "_greater - _greater0");
  EXPECT_EQ(Describe(a >= b), "_greater_equal - _greater_equal0");
  EXPECT_EQ(Describe(a < b), "_lesser - _lesser0");
  EXPECT_EQ(Describe(a <= b), "_lesser_equal - _lesser_equal0");
  EXPECT_EQ(Describe(a == b), "_equal - _equal0");
  EXPECT_EQ(Describe(a != b), "_not_equal - _not_equal0");
  EXPECT_EQ(Describe(a + 2), "_plus_scalar 2 _plusscalar0");
  EXPECT_EQ(Describe(2 + a), "_plus_scalar 2 _plusscalar1");
  EXPECT_EQ(Describe(a - 2), "_minus_scalar 2 _minusscalar0");
  EXPECT_EQ(Describe(1 - a), "_rminus_scalar 1 _rminusscalar0");
  EXPECT_EQ(Describe(a * 2), "_mul_scalar 2 _mulscalar0");
  EXPECT_EQ(Describe(-a), "_mul_scalar -1 _mulscalar1");
  EXPECT_EQ(Describe(a / 2), "_div_scalar 2 _divscalar0");
  EXPECT_EQ(Describe(2 / a), "_rdiv_scalar 2 _rdivscalar0");
  EXPECT_EQ(Describe(a % 2), "_mod_scalar 2 _modscalar0");
  EXPECT_EQ(Describe(2 % a), "_rmod_scalar 2 _rmodscalar0");
  EXPECT_EQ(Describe(Power(a, 2)), "_power_scalar 2 _powerscalar0");
  EXPECT_EQ(Describe(Power(2, a)), "_rpower_scalar 2 _rpower_scalar0");
  EXPECT_EQ(Describe(a > 2), "_greater_scalar 2 _greater_scalar0");
  EXPECT_EQ(Describe(2 > a), "_lesser_scalar 2 _lesser_scalar0");
  EXPECT_EQ(Describe(2 >= a), "_lesser_equal_scalar 2 _lesser_equal_scalar0");
  EXPECT_EQ(Describe(2 < a), "_greater_scalar 2 _greater_scalar1");
  EXPECT_EQ(Describe(2 <= a), "_greater_equal_scalar 2 _greater_equal_scalar0");
  EXPECT_EQ(Describe(2 == a), "_equal_scalar 2 _equal_scalar0");
  EXPECT_EQ(Describe(a != 2), "_not_equal_scalar 2 _not_equal_scalar0");
  EXPECT_EQ(Describe(Maximum(2, a)), "_maximum_scalar 2 _maximumscalar0");
  EXPECT_EQ(Describe(Minimum(a, b)), "_minimum - _minimum0");
}

TEST(AttributeTest, ParametersAreAsTheyWereGiven) {
  const Symbol conv = Symbol::Apply(
      "Convolution", {Var("data")},
      {{"kernel", "[3, 3]"}, {"num_filter", "08"}, {"weight_lr_mult", "3"}, {"wd_mult", "0"}},
      "conv");
  EXPECT_EQ(conv.GetAttribute("kernel"), "[3, 3]");
  EXPECT_FALSE(conv.GetAttribute("stride").has_value());
  EXPECT_THAT(
      conv.ListAttributesRecursive(),
      UnorderedElementsAre(Pair("conv$kernel", "[3, 3]"), Pair("conv$num_filter", "08"),
                           Pair("conv$wd_mult", "0"), Pair("conv$__wd_mult__", "0"),
                           Pair("conv_weight$lr_mult", "3"), Pair("conv_weight$__lr_mult__", "3"),
                           Pair("conv_weight$wd_mult", "0"), Pair("conv_weight$__wd_mult__", "0"),
                           Pair("conv_bias$wd_mult", "0"), Pair("conv_bias$__wd_mult__", "0")));
  const std::string json = conv.ToJson();
  EXPECT_THAT(json, HasSubstr("\"kernel\": \"[3, 3]\""));
  EXPECT_THAT(json, testing::Not(HasSubstr("stride")));
  EXPECT_EQ(Symbol::FromJson(json).ListAttributesRecursive(), conv.ListAttributesRecursive());
}

TEST(AttributeTest, AnotherPropertyHasItsOwnParameters) {
  const Symbol fc = Dense(Var("x"), "fc");
  graph::Node node = *fc.outputs()[0].node;
  EXPECT_EQ(node.Parameters().at("num_hidden"), "4");
  node.property = Dense(Var("x"), "other", {{"flatten", "False"}}).outputs()[0].node->property;
  EXPECT_EQ(node.Parameters().at("flatten"), "False");
  EXPECT_EQ(node.num_outputs(), 1);
}

TEST(AttributeTest, ParametersAreNotSetLater) {
  Symbol fc = Dense(Var("x"), "fc");
  ExpectError(Error::kInvalidArgument,
              "\"num_hidden\" is a parameter of FullyConnected (node \"fc\")",
              [&] { fc.SetAttribute("num_hidden", "5"); });
  EXPECT_THAT(Symbol().ListAttributes(), IsEmpty());
}

TEST(AttributeTest, VariablesStateTheirInitializers) {
  const Symbol bn = Symbol::Apply(
      "BatchNorm", {Var("x"), Var("g"), Var("b"), Symbol::Variable("own", {{"__init__", "mine"}})},
      {}, "bn");
  EXPECT_THAT(bn.ListAttributesRecursive(),
              UnorderedElementsAre(Pair("own$__init__", "mine"),
                                   Pair("bn_moving_var$__init__", R"(["one", {}])")));
  const Symbol prelu = Symbol::Apply("LeakyReLU", {Var("x")}, {{"act_type", "prelu"}}, "p");
  EXPECT_EQ(prelu.GetInputs()["p_gamma"].GetAttribute("__init__"),
            R"(["Constant", {"value": 0.25}])");
}

TEST(AttributeTest, InputsAreCounted) {
  const Symbol joined = Symbol::Apply("Concat", {Var("a"), Var("b"), Var("c")}, {}, "c");
  EXPECT_EQ(joined.GetAttribute("num_args"), "3");
  EXPECT_THAT(joined.ListArguments(), ElementsAre("a", "b", "c"));
}

/// A network of x -> FullyConnected -> an operator that nobody has -> FullyConnected.
Symbol WithUnknownOperator() {
  return Symbol::FromJson(R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
      {"op": "null", "name": "w", "inputs": []}, {"op": "null", "name": "v", "inputs": []},
      {"op": "FullyConnected", "name": "fc", "attrs": {"num_hidden": "3", "no_bias": "True"},
       "inputs": [[0, 0, 0], [1, 0, 0]]},
      {"op": "NobodyHasThis", "name": "new", "inputs": [[3, 0, 0]]},
      {"op": "FullyConnected", "name": "fc2", "attrs": {"num_hidden": "5", "no_bias": "True"},
       "inputs": [[4, 0, 0], [2, 0, 0]]}], "heads": [[5, 0, 0], [3, 0, 0]]})");
}

TEST(PartialInferenceTest, LeavesUnknownWhatNothingDetermines) {
  const Symbol net = WithUnknownOperator();
  EXPECT_THROW(net.InferShape({{"x", {2, 4}}}), Error);
  const InferredShapes shapes = net.InferShapePartial({{"x", {2, 4}}});
  EXPECT_FALSE(shapes.complete);
  EXPECT_EQ(shapes.arguments[1], (TShape{3, 4}));
  EXPECT_EQ(shapes.arguments[2], TShape());
  EXPECT_EQ(shapes.outputs[1], (TShape{2, 3}));
  EXPECT_FALSE(shapes.outputs[0].known());
  const InferredTypes types = net.InferTypePartial({{"x", DType::kFloat16}});
  EXPECT_EQ(types.outputs[1], DType::kFloat16);
  EXPECT_EQ(types.outputs[0], DType::kUnknown);
  EXPECT_EQ(Dense(Var("x"), "fc").InferTypePartial({}).arguments[0], DType::kUnknown);
  // A contradiction is none of what is unknown.
  ExpectError(Error::kInvalidArgument, "node \"fc\"", [&] {
    net.InferShapePartial({{"x", {2, 4}}, {"w", {3, 5}}});
  });
  ExpectError(Error::kInvalidArgument, "did you mean \"x\"", [&] {
    net.InferShapePartial({{"xx", {2, 4}}});
  });
}

TEST(GradTest, ReturnsAGraphOfGradients) {
  const Symbol x = Var("x");
  const Symbol net = Symbol::Apply("FullyConnected", {x, Var("w")},
                                   {{"num_hidden", "3"}, {"no_bias", "True"}}, "fc");
  const Symbol grad = Symbol::CreateGroup({net, Symbol::Apply("BlockGrad", {Var("unused")})})
                          .Grad({"w", "unused", "x"});
  EXPECT_EQ(grad.num_outputs(), 3);
  EXPECT_THAT(grad.ListArguments(), testing::IsSupersetOf({"x", "w", "fc_output_head_grad"}));
  const InferredShapes shapes = grad.InferShape({{"x", {2, 4}}, {"unused", {7}}});
  EXPECT_THAT(shapes.outputs, ElementsAre(TShape{3, 4}, TShape{7}, TShape{2, 4}));
  EXPECT_THAT(net.Grad({"x"}).Copy().InferShape({{"x", {2, 4}}}).outputs,
              ElementsAre(TShape{2, 4}));
  // The gradient of Flatten needs the shape of its input, although it reads no value but the
  // head's.
  const Symbol flattened = Symbol::Apply("Flatten", {x}, {}, "flat").Grad({"x"});
  EXPECT_EQ(flattened.InferShape({{"x", {2, 3, 4}}}).outputs[0], (TShape{2, 3, 4}));
  ExpectError(Error::kInvalidArgument, "there is no variable \"ww\"; did you mean \"w\"?",
              [&] { net.Grad({"ww"}); });
  // A gradient of operators can be differentiated and saved; an operator's Backward cannot.
  const Symbol flat = Symbol::Apply("transpose", {x}, {}, "t");
  const Symbol first = flat.Grad({"x"}, graph::GradientForm::kDifferentiable);
  EXPECT_THAT(first.ListArguments(), ElementsAre("t_output_head_grad"));
  const Symbol second = first.Grad({"t_output_head_grad"}, graph::GradientForm::kDifferentiable);
  EXPECT_EQ(second.num_outputs(), 1);
  EXPECT_EQ(Symbol::FromJson(second.ToJson()).ListArguments(), second.ListArguments());
  try {
    net.Grad({"x"}).ToJson();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kUnimplemented);
    EXPECT_THAT(error.what(), HasSubstr("_backward_FullyConnected cannot be saved"));
  }
}

}  // namespace
}  // namespace tessera
