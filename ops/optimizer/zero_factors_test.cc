// States and averages with a factor 0, which are not read and may hold NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/registry.h"

namespace tessera {
namespace {

/// Returns the new weight of a step from weight 2 with gradient 0.5, where states hold NaN.
float Step(const std::string& op, const ParameterMap& parameters, float weight = 2) {
  const auto property = OperatorRegistry::Get().Create(op, parameters);
  const size_t count = property->ListArguments().size();
  const std::vector<TShape> shapes(count, TShape{1});
  const std::vector<DType> types(count, DType::kFloat32);
  const auto made = property->CreateOperator(Device::Cpu(), shapes, types);
  std::vector<float> values(count, NAN);
  values[0] = weight;
  values[1] = 0.5f;
  std::vector<TBlob> in;
  for (float& value : values) in.emplace_back(&value, TShape{1}, DType::kFloat32, Device::Cpu());
  float out = NAN;
  const TBlob outputs[] = {TBlob(&out, {1}, DType::kFloat32, Device::Cpu())};
  std::vector<OpReqType> req = {kWriteTo};
  req.insert(req.end(), property->MutatedInputs().size(), kWriteInplace);
  made->Forward({}, in, req, outputs);
  return out;
}

TEST(ZeroFactorsTest, AStateThatCountsForNothingIsNotRead) {
  EXPECT_EQ(Step("sgd_mom_update", {{"lr", "1"}, {"momentum", "0"}}), 1.5f);
  EXPECT_EQ(Step("nag_mom_update", {{"lr", "1"}, {"momentum", "0"}}), 1.5f);
  EXPECT_EQ(Step("signum_update", {{"lr", "1"}, {"momentum", "0"}}), 1);
  const ParameterMap adam = {{"lr", "1"}, {"beta1", "0"}, {"beta2", "0"}, {"epsilon", "0"}};
  EXPECT_EQ(Step("adam_update", adam), 1);
  EXPECT_EQ(Step("rmsprop_update", {{"lr", "1"}, {"gamma1", "0"}, {"epsilon", "0"}}), 1);
}

TEST(ZeroFactorsTest, NoDecayLeavesOutTheWeight) {
  EXPECT_EQ(Step("sgd_update", {{"lr", "1"}}, INFINITY), INFINITY);
}

}  // namespace
}  // namespace tessera
