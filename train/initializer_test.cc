#include "tessera/train/initializer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
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

TEST(InitializerTest, TruncatedNormalHasNoOutliers) {
  const Moments moments = MomentsOf(Initialized(TruncatedNormal(0.5f), "w_weight", {100000}));
  EXPECT_NEAR(moments.mean, 0, 0.005);
  // The deviation of the standard normal distribution between -2 and 2.
  EXPECT_NEAR(moments.deviation, 0.5 * 0.87962566, 0.005);
  EXPECT_LE(moments.largest, 1);
  EXPECT_GT(moments.largest, 0.99);
}

TEST(InitializerTest, MsraPreluIsAXavier) {
  const Xavier same({.rnd_type = XavierOptions::Distribution::kGaussian,
                     .factor_type = XavierOptions::Factor::kIn,
                     .magnitude = 2 / 1.25f});
  EXPECT_EQ(Initialized(MsraPrelu(XavierOptions::Factor::kIn, 0.5f), "w_weight", {40, 60}),
            Initialized(same, "w_weight", {40, 60}));
}

TEST(InitializerTest, OrthogonalHasOrthogonalRowsOrColumns) {
  using Distribution = XavierOptions::Distribution;
  for (const Distribution distribution : {Distribution::kUniform, Distribution::kGaussian}) {
    for (const TShape& shape : {TShape{5, 3, 4}, TShape{12, 5}, TShape{7, 7}, TShape{1, 9}}) {
      const index_t rows = shape[0], columns = shape.Size() / rows;
      const std::vector<float> values =
          Initialized(Orthogonal({.scale = 2, .rnd_type = distribution}), "w_weight", shape);
      const bool by_rows = rows <= columns;
      const index_t count = std::min(rows, columns), length = std::max(rows, columns);
      const auto at = [&](index_t vector, index_t i) {
        const index_t position = by_rows ? vector * columns + i : i * columns + vector;
        return static_cast<double>(values[static_cast<size_t>(position)]);
      };
      for (index_t a = 0; a < count; ++a) {
        for (index_t b = 0; b <= a; ++b) {
          double dot = 0;
          for (index_t i = 0; i < length; ++i) dot += at(a, i) * at(b, i);
          EXPECT_NEAR(dot, a == b ? 4 : 0, 1e-5) << shape << ", " << a << " and " << b;
        }
      }
    }
  }
  EXPECT_TRUE(Initialized(Orthogonal(), "w_weight", {0, 3}).empty());
  EXPECT_THROW(Initialized(Orthogonal(), "w_weight", {3}), Error);
}

TEST(InitializerTest, BilinearHasMxnetsNumbers) {
  using testing::ElementsAre;
  using testing::FloatEq;
  EXPECT_THAT(Initialized(Bilinear(), "w_weight", {1, 1, 4, 4}),
              ElementsAre(0.0625f, 0.1875f, 0.1875f, 0.0625f, 0.1875f, 0.5625f, 0.5625f, 0.1875f,
                          0.1875f, 0.5625f, 0.5625f, 0.1875f, 0.0625f, 0.1875f, 0.1875f, 0.0625f));
  const std::vector<float> two = Initialized(Bilinear(), "w_weight", {2, 1, 2, 5});
  for (const size_t begin : {0u, 10u}) {
    EXPECT_THAT(
        std::vector<float>(two.begin() + begin, two.begin() + begin + 10),
        ElementsAre(FloatEq(1 / 9.0f), FloatEq(2 / 9.0f), FloatEq(3 / 9.0f), FloatEq(2 / 9.0f),
                    FloatEq(1 / 9.0f), FloatEq(2 / 9.0f), FloatEq(4 / 9.0f), FloatEq(6 / 9.0f),
                    FloatEq(4 / 9.0f), FloatEq(2 / 9.0f)));
  }
  EXPECT_THROW(Initialized(Bilinear(), "w_weight", {4, 4}), Error);
}

TEST(InitializerTest, MixedTakesTheFirstRuleThatFits) {
  using testing::ElementsAre;
  const Mixed mixed({{"*_lstm_bias", std::make_shared<LstmBias>(2), /*as_weight=*/true},
                     {"a?_*", std::make_shared<Constant>(7)},
                     {"embedding", std::make_shared<Constant>(5), /*as_weight=*/true},
                     {"*_weight", std::make_shared<One>()}});
  EXPECT_THAT(Initialized(mixed, "b_lstm_bias", {8}), ElementsAre(0, 0, 2, 2, 0, 0, 0, 0));
  EXPECT_THAT(Initialized(mixed, "a1_weight", {2}), Each(7));
  EXPECT_THAT(Initialized(mixed, "a1_bias", {2}), Each(0));  // by the end of its name
  EXPECT_THAT(Initialized(mixed, "embedding", {2}), Each(5));
  EXPECT_THAT(Initialized(mixed, "b_weight", {2}), Each(1));
  EXPECT_THROW(Initialized(mixed, "b_bias", {2}), Error);
  EXPECT_THROW(Initialized(mixed, "b_lstm_bias", {7}), Error);
  EXPECT_THROW(Mixed({{"*", nullptr}}), Error);
}

TEST(InitializerTest, LoadTakesSavedArrays) {
  using testing::ElementsAre;
  const std::map<std::string, NDArray> saved = {
      {"arg:a_weight", NDArray::FromVector(std::vector<float>{1, 2}, {2})},
      {"aux:bn_moving_mean", NDArray::FromVector(std::vector<float>{3}, {1})},
      {"b_bias", NDArray::FromVector(std::vector<float>{4}, {1})}};
  const Load load(saved, std::make_shared<One>()), only(saved);
  EXPECT_THAT(Initialized(load, "a_weight", {2}), ElementsAre(1, 2));
  EXPECT_THAT(Initialized(load, "bn_moving_mean", {1}), ElementsAre(3));
  EXPECT_THAT(Initialized(load, "b_bias", {1}), ElementsAre(4));
  EXPECT_THAT(Initialized(load, "c_weight", {1}), ElementsAre(1));
  EXPECT_THROW(Initialized(only, "c_weight", {1}), Error);
  try {
    Initialized(load, "a_weight", {3});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("a_weight"), HasSubstr("(2,)"), HasSubstr("(3,)")));
  }
  NDArray half({2}, Device::Cpu(), DType::kFloat16);
  load.Initialize("a_weight", 0, half);
  EXPECT_THAT(half.ToVector(), ElementsAre(1, 2));
}

}  // namespace
}  // namespace tessera
