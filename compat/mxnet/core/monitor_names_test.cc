#include "tessera/compat/mxnet/core/monitor_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/ops/registry.h"

namespace tessera::mxnet {
namespace {

using testing::ElementsAre;

struct Names {
  std::vector<std::string> inputs, of_executor, of_hook;
};

Names NamesOf(const char* op, const ParameterMap& parameters = {}) {
  const auto property = OperatorRegistry::Get().Create(op, parameters);
  return {HookNames().inputs(*property), ExecutorNames().outputs(*property),
          HookNames().outputs(*property)};
}

// The names are those that MXNet 1.9.1 gives to its callbacks.
TEST(MonitorNamesTest, AreThoseOfMxnet) {
  const Names relu = NamesOf("relu");
  EXPECT_THAT(relu.inputs, ElementsAre("input0"));
  EXPECT_THAT(relu.of_executor, ElementsAre("output"));
  EXPECT_THAT(relu.of_hook, ElementsAre("0"));

  const Names activation = NamesOf("Activation", {{"act_type", "relu"}});
  EXPECT_THAT(activation.inputs, ElementsAre("input0"));
  EXPECT_THAT(activation.of_hook, ElementsAre("output"));

  const Names split = NamesOf("split", {{"num_outputs", "2"}});
  EXPECT_THAT(split.inputs, ElementsAre("data"));
  EXPECT_THAT(split.of_hook, ElementsAre("output0", "output1"));

  const Names factors = NamesOf("_linalg_gelqf");
  EXPECT_THAT(factors.inputs, ElementsAre("A"));
  EXPECT_THAT(factors.of_executor, ElementsAre("output0", "output1"));
  EXPECT_THAT(factors.of_hook, ElementsAre("0", "1"));

  EXPECT_THAT(NamesOf("make_loss").of_executor, ElementsAre("loss"));
  EXPECT_THAT(NamesOf("_linalg_det").of_executor, ElementsAre("output0"));
  EXPECT_THAT(NamesOf("amp_multicast", {{"num_outputs", "1"}}).of_executor, ElementsAre("output"));
  EXPECT_THAT(NamesOf("amp_multicast", {{"num_outputs", "2"}}).of_executor,
              ElementsAre("output0", "output1"));

  EXPECT_THAT(NamesOf("broadcast_add").inputs, ElementsAre("lhs", "rhs"));
  EXPECT_THAT(NamesOf("sgd_mom_update", {{"lr", "1"}}).inputs,
              ElementsAre("input0", "input1", "input2"));
  EXPECT_THAT(NamesOf("BatchNorm").inputs,
              ElementsAre("data", "gamma", "beta", "moving_mean", "moving_var"));
}

}  // namespace
}  // namespace tessera::mxnet
