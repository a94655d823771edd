#include "tessera/train/initializer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

std::vector<float> Initialized(const Initializer& initializer, std::string_view name,
                               const TShape& shape, uint64_t seed = 1) {
  NDArray array(shape);
  initializer.Initialize(name, seed, array);
  return array.ToVector();
}

struct Moments {
  double mean = 0, deviation = 0, largest = 0;
};

Moments MomentsOf(const std::vector<float>& values) {
  Moments moments;
  for (const float value : values) {
    moments.mean += value;
    moments.largest = std::max<double>(moments.largest, std::abs(value));
  }
  moments.mean /= static_cast<double>(values.size());
  for (const float value : values) moments.deviation += std::pow(value - moments.mean, 2);
  moments.deviation = std::sqrt(moments.deviation / static_cast<double>(values.size()));
  return moments;
}

TEST(InitializerTest, TheEndOfTheNameDecides) {
  const Constant seven(7);
  EXPECT_THAT(Initialized(seven, "fc1_weight", {3}), Each(7));
  for (const char* name : {"fc1_bias", "bn_beta", "bn_moving_mean", "bn_running_mean"}) {
    EXPECT_THAT(Initialized(seven, name, {3}), Each(0)) << name;
  }
  for (const char* name : {"bn_gamma", "bn_moving_var", "bn_running_var"}) {
    EXPECT_THAT(Initialized(seven, name, {3}), Each(1)) << name;
  }
}

TEST(InitializerTest, ANameWithoutARuleIsRefused) {
  try {
    Initialized(Zero(), "sigmoid_label", {3});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("sigmoid_label"), HasSubstr("weight, bias")));
  }
}

TEST(InitializerTest, ValuesDependOnSeedAndNameAlone) {
  const Uniform uniform(1);
  const std::vector<float> first = Initialized(uniform, "a_weight", {4, 5}, 3);
  EXPECT_EQ(Initialized(uniform, "a_weight", {20}, 3), first);
  EXPECT_NE(Initialized(uniform, "b_weight", {4, 5}, 3), first);
  EXPECT_NE(Initialized(uniform, "a_weight", {4, 5}, 4), first);
}

TEST(InitializerTest, UniformFillsItsRange) {
  const Moments moments = MomentsOf(Initialized(Uniform(0.5f), "w_weight", {100000}));
  EXPECT_NEAR(moments.mean, 0, 0.005);
  EXPECT_NEAR(moments.deviation, 0.5 / std::sqrt(3.0), 0.005);
  EXPECT_LE(moments.largest, 0.5);
  EXPECT_GT(moments.largest, 0.499);
}

TEST(InitializerTest, NormalHasItsDeviation) {
  const Moments moments = MomentsOf(Initialized(Normal(2), "w_weight", {100000}));
  EXPECT_NEAR(moments.mean, 0, 0.03);
  EXPECT_NEAR(moments.deviation, 2, 0.03);
}

TEST(InitializerTest, XavierScalesWithTheNumberOfConnections) {
  using Factor = XavierOptions::Factor;
  const TShape shape = {40, 60, 5, 5};
  const double average = std::sqrt(3 / (25 * 50.0));
  EXPECT_NEAR(MomentsOf(Initialized(Xavier(), "w_weight", shape)).largest, average, average * 0.01);
  const double in = std::sqrt(2 / (25 * 60.0));
  const Xavier gaussian({.rnd_type = XavierOptions::Distribution::kGaussian,
                         .factor_type = Factor::kIn,
                         .magnitude = 2});
  EXPECT_NEAR(MomentsOf(Initialized(gaussian, "w_weight", shape)).deviation, in, in * 0.02);
  const double out = std::sqrt(3 / (25 * 40.0));
  EXPECT_NEAR(
      MomentsOf(Initialized(Xavier({.factor_type = Factor::kOut}), "w_weight", shape)).largest, out,
      out * 0.01);
}

TEST(InitializerTest, XavierNeedsTwoDimensions) {
  try {
    Initialized(Xavier(), "w_weight", {3});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("w_weight"), HasSubstr("(3,)")));
  }
}

TEST(InitializerTest, FillsOtherFloatingPointTypes) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    NDArray array({10}, Device::Cpu(), dtype);
    Constant(0.5f).Initialize("w_weight", 0, array);
    EXPECT_THAT(array.ToVector(), Each(0.5f)) << dtype;
  }
  NDArray integers({10}, Device::Cpu(), DType::kInt32);
  EXPECT_THROW(One().Initialize("w_weight", 0, integers), Error);
}

}  // namespace
}  // namespace tessera
