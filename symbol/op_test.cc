#include "tessera/symbol/op.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/op.h"
#include "tessera/ops/registry.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using Names = std::vector<std::string>;

TEST(OpTest, EveryOperatorHasAFunction) {
  std::ifstream file("symbol/op.h");
  std::stringstream header;
  header << file.rdbuf();
  for (const std::string& name : OperatorRegistry::Get().ListNames()) {
    if (name == "_adjoint") continue;  // which graphs alone call
    EXPECT_NE(header.str().find("\n/// Operator " + name + ": "), std::string::npos) << name;
  }
}

TEST(OpTest, MissingInputsBecomeVariables) {
  Symbol net = Symbol::Variable("data");
  net = ops::FullyConnected(net, {}, {}, {.num_hidden = 8}, "fc1");
  net = ops::Activation(net, {.act_type = ops::ActivationActType::kTanh}, "act");
  net = ops::FullyConnected(net, {}, {}, {.num_hidden = 2, .no_bias = true}, "fc2");
  net = ops::SoftmaxOutput(net, {}, {}, "softmax");
  EXPECT_EQ(net.ListArguments(),
            (Names{"data", "fc1_weight", "fc1_bias", "fc2_weight", "softmax_label"}));
  EXPECT_EQ(net.ListOutputs(), Names{"softmax_output"});
  EXPECT_EQ(net.InferShape({{"data", {4, 3}}}).outputs, std::vector<TShape>{TShape({4, 2})});
}

TEST(OpTest, AnInputMayBeGivenBehindAMissingOne) {
  const Symbol bias = Symbol::Variable("shared_bias");
  const Symbol net = ops::FullyConnected(Symbol::Variable("x"), {}, bias, {.num_hidden = 2}, "fc");
  EXPECT_EQ(net.ListArguments(), (Names{"x", "fc_weight", "shared_bias"}));
}

TEST(OpTest, StatesBecomeAuxiliaryVariables) {
  const Symbol net = ops::BatchNorm(Symbol::Variable("x"), {}, {}, {}, {}, {.axis = 1}, "bn");
  EXPECT_EQ(net.ListAuxiliaryStates(), (Names{"bn_moving_mean", "bn_moving_var"}));
  EXPECT_EQ(net.num_outputs(), 1);
}

TEST(OpTest, TakesAnyNumberOfInputs) {
  const Symbol a = Symbol::Variable("a"), b = Symbol::Variable("b");
  EXPECT_EQ(ops::Concat({a, b}, {.dim = 0}, "c").ListOutputs(), Names{"c_output"});
  EXPECT_EQ(ops::add_n({a, b, a}).ListArguments(), (Names{"a", "b"}));
}

TEST(OpTest, MakesNamesAndSeveralOutputs) {
  const Symbol parts = ops::SliceChannel(Symbol::Variable("x"), {.num_outputs = 3});
  EXPECT_EQ(parts.num_outputs(), 3);
  EXPECT_EQ(parts.ListOutputs()[0].find("slicechannel"), 0u);
}

TEST(OpTest, OneSourceServesArraysAndSymbols) {
  const auto double_and_sum = []<typename Value>(const Value& x) {
    return ops::sum(ops::mul_scalar(x, {.scalar = 2}), {.keepdims = true});
  };
  const NDArray array = NDArray::FromVector(std::vector<float>{1, 2}, {2});
  EXPECT_EQ(double_and_sum(array).ToVector(), std::vector<float>{6});
  EXPECT_EQ(double_and_sum(Symbol::Variable("x")).ListArguments(), Names{"x"});
}

TEST(OpTest, OperatorsWithoutInputsNeedAName) {
  const Symbol ones = ops::ones({.shape = {2, 3}}, "o");
  EXPECT_EQ(ones.InferShape({}).outputs, std::vector<TShape>{TShape({2, 3})});
  EXPECT_EQ(ops::ones({.shape = {2}}).ToVector(), (std::vector<float>{1, 1}));
}

TEST(OpTest, WrongArgumentsThrowTheErrorsOfSymbol) {
  const Symbol x = Symbol::Variable("x");
  try {
    ops::FullyConnected(x, {}, x, {.num_hidden = 2, .no_bias = true});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "FullyConnected: there is no argument \"bias\"");
  }
  try {
    ops::Dropout(x, {.p = 2});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("parameter p"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
