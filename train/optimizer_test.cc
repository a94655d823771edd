#include "tessera/train/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using ndarray_testing::Vector;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(OptimizerTest, SgdFollowsTheGradient) {
  Sgd sgd({{.learning_rate = 0.5}});
  NDArray weight = Vector({1, 2});
  sgd.Update(0, weight, Vector({2, -2}));
  EXPECT_THAT(weight.ToVector(), ElementsAre(0, 3));
  EXPECT_EQ(sgd.num_update(), 1);
}

TEST(OptimizerTest, SgdWithEverythingMatchesTheFormula) {
  const double lr = 0.1, wd = 0.01, rescale = 0.25, clip = 0.6, momentum = 0.9;
  Sgd sgd(
      {{.learning_rate = lr, .wd = wd, .rescale_grad = rescale, .clip_gradient = clip}, momentum});
  NDArray weight = Vector({1, -2}), grad = Vector({2, -8});
  double w[] = {1, -2}, mom[] = {0, 0};
  for (int step = 0; step < 5; ++step) {
    sgd.Update(0, weight, grad);
    const double g[] = {0.5, -0.6};  // rescaled, the second one clipped
    for (int i = 0; i < 2; ++i) {
      mom[i] = momentum * mom[i] - lr * (g[i] + wd * w[i]);
      w[i] += mom[i];
    }
  }
  const std::vector<float> values = weight.ToVector();
  EXPECT_NEAR(values[0], w[0], 1e-5);
  EXPECT_NEAR(values[1], w[1], 1e-5);
}

TEST(OptimizerTest, NamesDecideAboutWeightDecay) {
  Sgd sgd({{.learning_rate = 1, .wd = 0.5}});
  sgd.SetWdMult({{"c_weight", 0.5}});
  sgd.SetLrMult({{"d_weight", 0.5}});
  sgd.SetParameterNames({"a_weight", "b_bias", "c_weight", "d_weight"});
  std::vector<float> after;
  const NDArray zero = Vector({0});
  for (int i = 0; i < 5; ++i) {
    NDArray weight = Vector({1});
    sgd.Update(i, weight, zero);
    after.push_back(weight.ToVector()[0]);
  }
  EXPECT_THAT(after, ElementsAre(0.5f, 1, 0.75f, 0.75f, 0.5f));
}

TEST(OptimizerTest, FactorsOfTheOptimizerGoBeforeThoseOfTheNetwork) {
  Sgd sgd({{.learning_rate = 1, .wd = 0.5}});
  sgd.SetLrMult({{"a_weight", 0.5}});
  sgd.SetWdMult({{"b_weight", 0.5}});
  sgd.SetParameterNames({"a_weight", "b_weight", "c_weight"});
  sgd.SetNetworkFactors(/*lr_mult=*/{{"a_weight", 0}, {"c_weight", 0}},
                        /*wd_mult=*/{{"b_weight", 0}});
  std::vector<float> after;
  for (int i = 0; i < 3; ++i) {
    NDArray weight = Vector({1});
    sgd.Update(i, weight, Vector({0}));
    after.push_back(weight.ToVector()[0]);
  }
  EXPECT_THAT(after, ElementsAre(0.75f, 0.75f, 1));
}

TEST(OptimizerTest, TheScheduleSetsTheRateOfEachUpdate) {
  Sgd sgd({{.learning_rate = 1, .lr_scheduler = std::make_shared<FactorScheduler>(1, 0.5)}});
  NDArray weight = Vector({0}), other = Vector({0});
  const NDArray grad = Vector({-1});
  EXPECT_DOUBLE_EQ(sgd.learning_rate(), 1);
  sgd.Update(0, weight, grad);
  sgd.Update(1, other, grad);  // belongs to the same update
  EXPECT_DOUBLE_EQ(sgd.learning_rate(), 0.5);
  sgd.Update(0, weight, grad);
  sgd.Update(0, weight, grad);
  EXPECT_THAT(weight.ToVector(), ElementsAre(1.75f));
  EXPECT_THAT(other.ToVector(), ElementsAre(1));
}

TEST(OptimizerTest, AScheduleContinuesBehindEarlierUpdates) {
  const auto schedule = std::make_shared<FactorScheduler>(2, 0.5);
  const NDArray grad = Vector({-1});
  Sgd whole({{.learning_rate = 1, .lr_scheduler = schedule}});
  NDArray weight = Vector({0}), continued = Vector({0});
  for (int i = 0; i < 6; ++i) {
    if (i == 3) continued = weight.Copy(Device::Cpu());
    whole.Update(0, weight, grad);
  }
  Sgd rest({{.learning_rate = 1, .lr_scheduler = schedule, .begin_num_update = 3}});
  EXPECT_EQ(rest.num_update(), 3);
  EXPECT_DOUBLE_EQ(rest.learning_rate(), 0.5);
  NDArray other = Vector({0});
  for (int i = 0; i < 3; ++i) {
    rest.Update(0, continued, grad);
    rest.Update(1, other, grad);  // belongs to the same update
  }
  EXPECT_EQ(rest.num_update(), whole.num_update());
  EXPECT_EQ(continued.ToVector(), weight.ToVector());
  EXPECT_THAT(other.ToVector(), ElementsAre(1));  // 0.5 + 0.25 + 0.25
}

TEST(OptimizerTest, MomentumSurvivesAChangeOfRateAndArrays) {
  Sgd sgd({{.learning_rate = 1, .lr_scheduler = std::make_shared<FactorScheduler>(1, 0.5)}, 0.5});
  NDArray weight = Vector({0});
  sgd.Update(0, weight, Vector({-1}));  // mom = 1
  sgd.Update(0, weight, Vector({-1}));  // mom = 0.5 + 0.5
  sgd.Update(0, weight, Vector({0}));   // mom = 0.5
  EXPECT_THAT(weight.ToVector(), ElementsAre(2.5f));
}

TEST(OptimizerTest, ArraysThatDoNotFitAreRefused) {
  Sgd sgd;
  NDArray weight = Vector({1, 2});
  try {
    sgd.Update(0, weight, Vector({1, 2, 3}));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("(2,)"), HasSubstr("(3,)")));
  }
  EXPECT_THROW(sgd.Update(-1, weight, weight), Error);
  EXPECT_THAT(weight.ToVector(), ElementsAre(1, 2));
}

TEST(OptimizerTest, ImpossibleOptionsAreRefused) {
  EXPECT_THROW(Sgd({{.learning_rate = -1}}), Error);
  EXPECT_THROW(Sgd({{.learning_rate = NAN}}), Error);
  EXPECT_THROW(Sgd({{.wd = INFINITY}}), Error);
  EXPECT_THROW(Sgd({{.begin_num_update = -1}}), Error);
  EXPECT_THROW(Sgd({{}, 1.0}), Error);
  EXPECT_THROW(Sgd({{}, -0.1}), Error);
}

}  // namespace
}  // namespace tessera
