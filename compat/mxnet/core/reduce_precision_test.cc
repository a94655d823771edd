#include "tessera/compat/mxnet/core/reduce_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/symbol/symbol.h"

namespace tessera::mxnet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const PrecisionRules kRules = {.target_ops = {"FullyConnected"},
                               .float32_ops = {"softmax"},
                               .widest_ops = {"_plus"},  // a name of elemwise_add
                               .data = {{"data", DType::kFloat32}}};

/// softmax(relu(fc)), and what is added to it.
Symbol Network() {
  const Symbol fc =
      Symbol::Apply("FullyConnected", {Symbol::Variable("data")}, {{"num_hidden", "3"}}, "fc");
  const Symbol act = Symbol::Apply("Activation", {fc}, {{"act_type", "relu"}}, "act");
  const Symbol softmax = Symbol::Apply("softmax", {act}, {}, "sm");
  const Symbol sum = Symbol::Apply("elemwise_add", {act, softmax}, {}, "sum");
  return Symbol::CreateGroup({softmax, sum});
}

std::string TypeOf(const Symbol& symbol, const std::string& variable) {
  return symbol.GetInputs()[variable].GetAttribute("__dtype__").value_or("none");
}

TEST(ReducePrecisionTest, CastsStandWhereTypesChange) {
  const Symbol net = Network(), reduced = ReducePrecision(net, kRules);
  EXPECT_THAT(
      reduced.GetInternals().ListOutputs(),
      ElementsAre("data", "data_amp_cast_float16_output", "fc_weight",
                  "fc_weight_amp_cast_float16_output", "fc_bias", "fc_bias_amp_cast_float16_output",
                  "fc_output", "act_output", "act_output_amp_cast_float32_output", "sm_output",
                  "sum_amp_multicast_output0", "sum_amp_multicast_output1", "sum_output"));
  EXPECT_EQ(reduced.ListArguments(), net.ListArguments());
  EXPECT_EQ(reduced.ListOutputs(), net.ListOutputs());
  const std::vector<DType> types =
      reduced.GetInternals().InferType({{"data", DType::kFloat32}}).outputs;
  EXPECT_EQ(types[7], DType::kFloat16);   // act
  EXPECT_EQ(types[9], DType::kFloat32);   // sm
  EXPECT_EQ(types[12], DType::kFloat32);  // sum
}

TEST(ReducePrecisionTest, ValuesOfTheRightTypeAreNotCast) {
  // Two layers after another, one value with two readers, and a sum of one type.
  const auto dense = [](const Symbol& input, const char* name) {
    return Symbol::Apply("FullyConnected", {input}, {{"num_hidden", "3"}, {"no_bias", "1"}}, name);
  };
  const Symbol x = Symbol::Variable("data"), first = dense(x, "a");
  const Symbol sum = Symbol::Apply("elemwise_add", {dense(first, "b"), dense(x, "c")}, {}, "sum");
  EXPECT_THAT(ReducePrecision(sum, kRules).GetInternals().ListOutputs(),
              ElementsAre("data", "data_amp_cast_float16_output", "a_weight",
                          "a_weight_amp_cast_float16_output", "a_output", "b_weight",
                          "b_weight_amp_cast_float16_output", "b_output", "c_weight",
                          "c_weight_amp_cast_float16_output", "c_output", "sum_output"));
}

TEST(ReducePrecisionTest, AnAliasDoesNotCountBesideTheOperator) {
  PrecisionRules rules = kRules;
  rules.target_ops = {"Convolution"};
  rules.float32_ops = {"Convolution_v1"};  // an operator of its own in MXNet
  const Symbol net =
      Symbol::Apply("Convolution", {Symbol::Variable("data")},
                    {{"num_filter", "2"}, {"kernel", "(1, 1)"}, {"no_bias", "1"}}, "conv");
  EXPECT_THAT(ReducePrecision(net, rules).GetInternals().ListOutputs(),
              ElementsAre("data", "data_amp_cast_float16_output", "conv_weight",
                          "conv_weight_amp_cast_float16_output", "conv_output"));
}

TEST(ReducePrecisionTest, NamesAndConditionsKeepFloat32) {
  PrecisionRules rules = kRules;
  rules.excluded = {"fc"};
  EXPECT_EQ(ReducePrecision(Network(), rules).InferType({{"data", DType::kFloat32}}).outputs[0],
            DType::kFloat32);
  EXPECT_THAT(
      ReducePrecision(Network()[0], rules).GetInternals().ListOutputs(),
      ElementsAre("data", "fc_weight", "fc_weight_amp_cast_float32_output", "fc_bias",
                  "fc_bias_amp_cast_float32_output", "fc_output", "act_output", "sm_output"));
  rules = kRules;
  rules.conditions = {{"Activation", "act_type", {"softrelu", "relu"}}};
  EXPECT_THAT(ReducePrecision(Network()[0], rules).GetInternals().ListOutputs(),
              ::testing::Contains("fc_output_amp_cast_float32_output"));
}

TEST(ReducePrecisionTest, ParametersGetTheTypesThatTheirReadersNeed) {
  const Symbol fc =
      Symbol::Apply("FullyConnected", {Symbol::Variable("data")}, {{"num_hidden", "3"}}, "fc");
  // No list has LeakyReLU, so it computes in the type of its data.
  const Symbol net = Symbol::Apply("LeakyReLU", {fc}, {{"act_type", "prelu"}}, "leaky");
  net.GetInputs()["fc_weight"].SetAttribute("__dtype__", "0");
  PrecisionRules rules = kRules;
  rules.parameters = {"fc_weight", "fc_bias", "leaky_gamma"};
  const Symbol reduced = ReducePrecision(net, rules);
  EXPECT_EQ(TypeOf(reduced, "fc_weight"), "-1");
  EXPECT_EQ(TypeOf(reduced, "leaky_gamma"), "2");
  rules.casts_parameters = true;
  rules.target = DType::kBFloat16;
  const Symbol cast = ReducePrecision(net, rules);
  EXPECT_EQ(TypeOf(cast, "fc_weight"), "12");
  EXPECT_EQ(TypeOf(cast, "leaky_gamma"), "12");
  EXPECT_EQ(TypeOf(net, "fc_weight"), "0") << "the given graph has changed";
  EXPECT_EQ(TypeOf(net, "leaky_gamma"), "none");
}

TEST(ReducePrecisionTest, StatesStayAsTheyAre) {
  const Symbol net = Symbol::Apply("BatchNorm", {Symbol::Variable("data")}, {}, "bn");
  PrecisionRules rules = kRules;
  rules.float32_ops = {"BatchNorm"};
  rules.data.clear();
  EXPECT_EQ(ReducePrecision(net, rules).ListAuxiliaryStates(), net.ListAuxiliaryStates());
}

TEST(ReducePrecisionTest, OtherTypesAreRefused) {
  PrecisionRules rules = kRules;
  rules.target = DType::kFloat64;
  try {
    ReducePrecision(Network(), rules);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("float64, expected float16 or bfloat16"));
  }
}

}  // namespace
}  // namespace tessera::mxnet
