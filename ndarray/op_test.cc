#include "tessera/ndarray/op.h"

#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/base/testing/errors.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

using base_testing::MessageOf;
using ndarray_testing::Vector;

using Floats = std::vector<float>;

TEST(OpTest, EveryOperatorHasAFunction) {
  std::ifstream file("ndarray/op.h");
  std::stringstream header;
  header << file.rdbuf();
  const std::vector<std::string> names = OperatorRegistry::Get().ListNames();
  EXPECT_GT(names.size(), 200u);
  for (const std::string& name : names) {
    if (name == "_adjoint") continue;  // which graphs alone call
    EXPECT_NE(header.str().find("\n/// Operator " + name + ": "), std::string::npos) << name;
  }
}

TEST(OpTest, CallsAnOperatorWithoutParameters) {
  EXPECT_EQ(ops::elemwise_add(Vector({1, 2}), Vector({3, 4})).ToVector(), (Floats{4, 6}));
  EXPECT_EQ(ops::relu(Vector({-1, 2})).ToVector(), (Floats{0, 2}));
}

TEST(OpTest, RequiredParametersMustBeGiven) {
  const NDArray x = Vector({1, 2});
  EXPECT_EQ(ops::Activation(x, {.act_type = ops::ActivationActType::kSigmoid}).shape(), x.shape());
  static_assert(!std::default_initializable<ops::ActivationParameters>);
  static_assert(!std::convertible_to<double, ops::Required<int64_t>>);
  static_assert(std::default_initializable<ops::SoftmaxParameters>);
}

TEST(OpTest, DefaultsAreThoseOfTheRegistry) {
  const NDArray x = NDArray::FromVector(Floats{1, 1, 1, 1}, {2, 2});
  EXPECT_EQ(ops::softmax(x).ToVector(), (Floats{0.5f, 0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(ops::sum(x, {.axis = 0}).ToVector(), (Floats{2, 2}));
  EXPECT_EQ(ops::sum(x).ToVector(), (Floats{4}));
  EXPECT_TRUE(ops::SoftmaxParameters{}.ToMap().empty());
  EXPECT_EQ(ops::zeros({.shape = x.shape()}).shape(), x.shape());
}

TEST(OpTest, ParametersThatDifferFromDefaultsBecomeText) {
  const ops::ConvolutionParameters convolution = {
      .kernel = {3, 3}, .num_filter = 8, .pad = {1, 1}, .no_bias = true};
  EXPECT_EQ(convolution.ToMap(),
            (ParameterMap{
                {"kernel", "(3,3)"}, {"no_bias", "True"}, {"num_filter", "8"}, {"pad", "(1,1)"}}));
  EXPECT_EQ((ops::SliceParameters{.begin = {0, std::nullopt}, .end = {-1, 5}}.ToMap()),
            (ParameterMap{{"begin", "(0,None)"}, {"end", "(-1,5)"}}));
  EXPECT_EQ((ops::SumParameters{.axis = {0, -1}}.ToMap()), (ParameterMap{{"axis", "(0,-1)"}}));
  EXPECT_EQ((ops::SumParameters{.axis = {}}.ToMap()), (ParameterMap{{"axis", "()"}}));
  EXPECT_EQ((ops::CastParameters{.dtype = DType::kFloat16}.ToMap()),
            (ParameterMap{{"dtype", "float16"}}));
  EXPECT_EQ((ops::ClipParameters{.a_min = 0.1, .a_max = 1e300}.ToMap()),
            (ParameterMap{{"a_max", "1e+300"}, {"a_min", "0.1"}}));
  EXPECT_EQ((ops::PickParameters{.axis = std::nullopt, .mode = ops::PickMode::kWrap}.ToMap()),
            (ParameterMap{{"axis", "None"}, {"mode", "wrap"}}));
}

TEST(OpTest, LeavesOutInputsThatAreNone) {
  const NDArray x = NDArray::FromVector(Floats{1, 2}, {1, 2});
  const NDArray weight = NDArray::FromVector(Floats{3, 4}, {1, 2});
  EXPECT_EQ(ops::FullyConnected(x, weight, Vector({5}), {.num_hidden = 1}).ToVector(),
            (Floats{16}));
  EXPECT_EQ(ops::FullyConnected(x, weight, {}, {.num_hidden = 1, .no_bias = true}).ToVector(),
            (Floats{11}));
  EXPECT_EQ(MessageOf([&] { ops::FullyConnected(x, weight, {}, {.num_hidden = 1}); }),
            "FullyConnected: 2 inputs given, expected 3 (data, weight, bias)");
}

TEST(OpTest, TakesAnyNumberOfInputs) {
  const NDArray a = Vector({1}), b = Vector({2}), c = Vector({3});
  EXPECT_EQ(ops::Concat({a, b, c}, {.dim = 0}).ToVector(), (Floats{1, 2, 3}));
  EXPECT_EQ(ops::add_n({a, b, c}).ToVector(), (Floats{6}));
  EXPECT_EQ(ops::multi_sgd_update({a, b, c, b}, {.lrs = {1, 2}, .wds = {0, 0}}).size(), 2u);
}

TEST(OpTest, ReturnsSeveralOutputs) {
  const NDArray x = NDArray::FromVector(Floats{3, 1, 2, 4}, {2, 2});
  const ops::Outputs halves = ops::SliceChannel(x, {.num_outputs = 2});
  ASSERT_EQ(halves.size(), 2u);
  EXPECT_EQ(halves[1].ToVector(), (Floats{1, 4}));
  const ops::Outputs both = ops::topk(x, {.ret_typ = ops::TopkRetTyp::kBoth});
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].ToVector(), (Floats{3, 4}));
  EXPECT_EQ(ops::topk(x).size(), 1u);
}

TEST(OpTest, ASingleOutputOfSeveralIsAnArray) {
  const NDArray x = NDArray::FromVector(Floats{3, 1}, {1, 2});
  const NDArray largest = ops::topk(x, {.ret_typ = ops::TopkRetTyp::kValue});
  EXPECT_EQ(ops::relu(ops::topk(x, {.ret_typ = ops::TopkRetTyp::kValue})).ToVector(), (Floats{3}));
  EXPECT_EQ(largest.ToVector(), (Floats{3}));
  EXPECT_EQ(ops::Concat(ops::SliceChannel(x, {.num_outputs = 2})).ToVector(), (Floats{3, 1}));
  EXPECT_EQ(MessageOf([&] { NDArray both = ops::SliceChannel(x, {.num_outputs = 2}); }),
            "ops::Outputs: 2 outputs as one array, expected one; choose one with operator[]");
}

TEST(OpTest, WritesGivenOutputs) {
  const NDArray a = Vector({1, 2}), out = Vector({0, 0});
  const NDArray result = ops::elemwise_mul(a, a, out);
  EXPECT_EQ(out.ToVector(), (Floats{1, 4}));
  EXPECT_EQ(result.var(), out.var());
  ops::plus_scalar(out, {.scalar = 1}, out);
  EXPECT_EQ(out.ToVector(), (Floats{2, 5}));
  const NDArray x = NDArray::FromVector(Floats{3, 1}, {1, 2});
  const NDArray first({1, 1}), second({1, 1});
  ops::SliceChannel(x, {.num_outputs = 2}, {first, second});
  EXPECT_EQ(second.ToVector(), (Floats{1}));
}

TEST(OpTest, PrefixesAreNamespaces) {
  EXPECT_EQ(ops::zeros({.shape = {2}}).ToVector(), (Floats{0, 0}));
  const NDArray drawn = ops::random::uniform({.low = 2, .high = 3, .shape = {4}});
  for (const float value : drawn.ToVector()) EXPECT_TRUE(value >= 2 && value < 3) << value;
  const NDArray x = NDArray::FromVector(Floats{1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(ops::linalg::gemm2(x, x).ToVector(), (Floats{7, 10, 15, 22}));
}

TEST(OpTest, ChangesAuxiliaryStates) {
  const NDArray one = Vector({1}), mean = Vector({0}), var = Vector({1});
  const NDArray x = NDArray::FromVector(Floats{1, 3}, {2, 1});
  const NDArray y = ops::BatchNorm(x, one, one, mean, var, {.use_global_stats = true});
  EXPECT_EQ(y.shape(), x.shape());
}

TEST(OpTest, CallsAreRecorded) {
  NDArray x = Vector({1, 2});
  x.AttachGrad();
  NDArray y;
  {
    const autograd::Record record;
    y = ops::sum(ops::square(x));
  }
  y.Backward();
  EXPECT_EQ(x.grad().ToVector(), (Floats{2, 4}));
}

TEST(OpTest, WrongArgumentsThrowTheErrorsOfInvoke) {
  const NDArray x = Vector({1, 2});
  EXPECT_EQ(MessageOf([&] { ops::elemwise_add(x, {}); }),
            "elemwise_add: 1 inputs given, expected 2 (lhs, rhs)");
  EXPECT_NE(MessageOf([&] { ops::Dropout(x, {.p = 2}); }).find("parameter p"), std::string::npos);
  const auto no_choice = static_cast<ops::ActivationActType>(77);
  EXPECT_EQ(MessageOf([&] { ops::Activation(x, {.act_type = no_choice}); }),
            "choice 77 of a parameter, expected one of 5");
}

}  // namespace
}  // namespace tessera
