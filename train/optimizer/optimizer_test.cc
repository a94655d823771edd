#include "tessera/train/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/ops/sparse.h"
#include "tessera/train/adam.h"
#include "tessera/train/sgd.h"

namespace tessera {
namespace {

using ndarray_testing::Vector;
using testing::AllOf;
using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;
using testing::Pointwise;

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

TEST(OptimizerTest, ManySmallWeightsTakeOneOperation) {
  Sgd sgd({{.learning_rate = 1}, 0.5});
  std::vector<NDArray> weights;
  std::vector<ParameterUpdate> updates;
  for (int i = 0; i < 50; ++i) {
    weights.push_back(Vector({1, 2, 3}));
    updates.push_back({i, weights.back(), Vector({1, 1, static_cast<float>(i)})});
  }
  sgd.UpdateAll(updates);  // makes the states
  NDArray::WaitAll();
  const uint64_t before = Engine::Get()->counters().pushed;
  sgd.UpdateAll(updates);
  EXPECT_EQ(Engine::Get()->counters().pushed, before + 1);
  EXPECT_THAT(weights[7].ToVector(), ElementsAre(1 - 2.5f, 2 - 2.5f, 3 - 17.5f));
}

TEST(OptimizerTest, AnIndexOccursOnceInAnUpdate) {
  Sgd sgd;
  NDArray weight = Vector({1});
  const ParameterUpdate updates[] = {{0, weight, Vector({1})}, {0, weight, Vector({1})}};
  EXPECT_THROW(sgd.UpdateAll(updates), Error);
  EXPECT_EQ(sgd.num_update(), 0);
  EXPECT_THAT(weight.ToVector(), ElementsAre(1));
}

TEST(OptimizerTest, RulesSetFactorsOfGroups) {
  Sgd sgd({{.learning_rate = 1, .wd = 0.5}});
  sgd.SetLrMult({{"b_weight", 0.25}});
  sgd.SetNetworkFactors({{"c_weight", 4}}, {});
  sgd.SetParameterRules({{.pattern = "a_*", .fixed = true},
                         {.pattern = "*_weight", .lr_mult = 0.5},
                         {.pattern = "?_bias", .lr_mult = 2, .wd_mult = 1},
                         {.pattern = "*", .lr_mult = 100}});
  sgd.SetParameterNames({"a_weight", "b_weight", "c_weight", "d_bias", "d_gamma"});
  std::vector<float> after;
  for (int i = 0; i < 5; ++i) {
    NDArray weight = Vector({1});
    sgd.Update(i, weight, Vector({1}));
    after.push_back(weight.ToVector()[0]);
  }
  EXPECT_THAT(after, ElementsAre(1, 1 - 0.25f * 1.5f, 1 - 0.5f * 1.5f, 1 - 2 * 1.5f, -99));
}

TEST(OptimizerTest, TheNormOfAllGradientsIsLimited) {
  Sgd sgd({{.learning_rate = 1, .rescale_grad = 0.5, .clip_global_norm = 1}});
  NDArray a = Vector({0, 0}), b = Vector({0});
  // The rescaled gradients are 1, 2 and 2, of norm 3.
  const ParameterUpdate large[] = {{0, a, Vector({2, 4})}, {1, b, Vector({-4})}};
  sgd.UpdateAll(large);
  EXPECT_NEAR(a.ToVector()[0], -1.0 / 3, 1e-6);
  EXPECT_NEAR(a.ToVector()[1], -2.0 / 3, 1e-6);
  EXPECT_NEAR(b.ToVector()[0], 2.0 / 3, 1e-6);
  // Their norm is 1/2, which is left as it is.
  const ParameterUpdate small[] = {{0, a, Vector({0, 0})}, {1, b, Vector({1})}};
  sgd.UpdateAll(small);
  EXPECT_NEAR(b.ToVector()[0], 2.0 / 3 - 0.5, 1e-6);
}

TEST(OptimizerTest, AccumulatedGradientsAreAveraged) {
  Sgd sgd({{.learning_rate = 1, .accumulate_steps = 3}});
  NDArray weight = Vector({0, 0});
  for (int round = 1; round <= 2; ++round) {
    sgd.Update(0, weight, Vector({1, 2}));
    sgd.Update(0, weight, Vector({2, 2}));
    EXPECT_EQ(sgd.num_update(), round - 1);
    sgd.Update(0, weight, Vector({6, -1}));
    EXPECT_EQ(sgd.num_update(), round);
    EXPECT_THAT(weight.ToVector(),
                ElementsAre(-3.0f * static_cast<float>(round), -1.0f * static_cast<float>(round)));
  }
}

TEST(OptimizerTest, SumsOf16BitGradientsAreFloats) {
  // In float16, 2048 + 1 is 2048.
  Sgd sgd({{.learning_rate = 1, .accumulate_steps = 4}});
  NDArray weight = Vector({0}).AsType(DType::kFloat16);
  for (const float g : {2048.0f, 1.0f, 1.0f, 2.0f}) {
    sgd.Update(0, weight, Vector({g}).AsType(DType::kFloat16));
  }
  EXPECT_THAT(weight.ToVector(), ElementsAre(-513));
}

TEST(OptimizerTest, AHalfDoneAccumulationIsSaved) {
  const SgdOptions options{{.learning_rate = 1, .accumulate_steps = 2}, 0.5};
  Sgd first(options), second(options);
  NDArray weight = Vector({0});
  for (const float g : {1.0f, 3.0f, 5.0f}) first.Update(0, weight, Vector({g}));
  const TrainingState state = first.SaveState();
  second.LoadState(state);
  NDArray continued = weight.Copy(Device::Cpu());
  first.Update(0, weight, Vector({7}));
  second.Update(0, continued, Vector({7}));
  EXPECT_THAT(continued.ToVector(), ElementsAre(-2.0f - 7.0f));  // mom = -2, then -1 - 6
  EXPECT_EQ(continued.ToVector(), weight.ToVector());
}

TEST(OptimizerTest, AnOverflowLeavesOutTheStepAndLowersTheScale) {
  const auto scaler =
      std::make_shared<LossScaler>(LossScalerOptions{.scale = 8, .factor = 2, .interval = 2});
  Sgd sgd({{.learning_rate = 1, .loss_scaler = scaler}});
  NDArray weight = Vector({0}).AsType(DType::kFloat16);
  const auto update = [&](float grad) {
    sgd.Update(0, weight, Vector({grad}).AsType(DType::kFloat16));
    return weight.ToVector()[0];
  };
  EXPECT_EQ(update(8), -1);
  EXPECT_EQ(update(INFINITY), -1);
  EXPECT_EQ(scaler->scale(), 4);
  EXPECT_EQ(update(NAN), -1);
  EXPECT_EQ(scaler->scale(), 2);
  EXPECT_EQ(sgd.num_update(), 1);
  EXPECT_EQ(update(2), -2);
  EXPECT_EQ(update(2), -3);
  EXPECT_EQ(scaler->scale(), 4);  // after two steps
  const TrainingState state = sgd.SaveState();
  scaler->LoadState(LossScaler().SaveState());
  EXPECT_EQ(scaler->scale(), 65536);
  sgd.LoadState(state);
  EXPECT_EQ(scaler->scale(), 4);
}

TEST(OptimizerTest, ImpossibleScalersAreRefused) {
  EXPECT_THROW(LossScaler({.scale = 0.5}), Error);
  EXPECT_THROW(LossScaler({.scale = 1e9}), Error);
  EXPECT_THROW(LossScaler({.factor = 0.5}), Error);
  EXPECT_THROW(LossScaler({.interval = 0}), Error);
  EXPECT_THROW(Sgd({{.accumulate_steps = 0}}), Error);
}

TEST(OptimizerTest, WithoutCopiesA16BitWeightLosesSmallSteps) {
  for (const bool copies : {true, false}) {
    Sgd sgd({{.learning_rate = 1, .multi_precision = copies}});
    NDArray weight = Vector({2048}).AsType(DType::kFloat16);
    for (int i = 0; i < 4; ++i) sgd.Update(0, weight, Vector({-0.5f}).AsType(DType::kFloat16));
    EXPECT_THAT(weight.ToVector(), ElementsAre(copies ? 2050 : 2048));
  }
}

TEST(OptimizerTest, AStateThatDoesNotFitIsRefused) {
  Sgd sgd({{.learning_rate = 1}, 0.5});
  NDArray weight = Vector({1, 2});
  sgd.Update(0, weight, Vector({1, 1}));
  const TrainingState state = sgd.SaveState();
  EXPECT_THROW(Adam().LoadState(state), Error);
  EXPECT_THROW(Sgd().LoadState(state), Error);  // has no momentum
  SgdOptions scheduled{{.learning_rate = 1}, 0.5};
  scheduled.lr_scheduler = std::make_shared<FactorScheduler>(1, 0.5);
  EXPECT_THROW(Sgd(scheduled).LoadState(state), Error);
  Sgd other({{.learning_rate = 1}, 0.5});
  other.LoadState(state);
  try {
    other.Update(0, Vector({1, 2, 3}), Vector({1, 1, 1}));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("parameter 0"), HasSubstr("(3,)")));
  }
}

/// Returns a gradient (6, 2) with the rows 1, 2 and 4.
NDArray Rows(float scale) {
  const std::vector<float> values = {1 * scale, 2 * scale, 3 * scale,
                                     4 * scale, 5 * scale, 6 * scale};
  return sparse::FromRows(NDArray::FromVector(values, {3, 2}), Vector({1, 2, 4}), {6, 2});
}

NDArray Weight() {
  std::vector<float> values;
  for (int i = 0; i < 12; ++i) values.push_back(static_cast<float>(i) - 5.5f);
  return NDArray::FromVector(values, {6, 2});
}

/// Returns the weight after three steps with gradients of Rows, made dense if `dense`.
std::vector<float> AfterRows(Optimizer* optimizer, NDArray weight, bool dense = false) {
  for (const float scale : {1.0f, -2.0f, 0.5f}) {
    NDArray grad = Rows(scale);
    if (dense) grad = sparse::Cast(grad, StorageType::kDefault);
    optimizer->Update(0, weight, grad);
  }
  return weight.ToVector();
}

TEST(OptimizerTest, RowsOfAGradientTakeTheStepsOfADenseOne) {
  const OptimizerOptions options = {.learning_rate = 0.1, .rescale_grad = 0.5};
  // Without decay, a row with gradient 0 stays as it is.
  Sgd sparse_sgd({options, 0.9}), dense_sgd({options, 0.9});
  EXPECT_THAT(AfterRows(&sparse_sgd, Weight()),
              Pointwise(FloatEq(), AfterRows(&dense_sgd, Weight(), true)));
  Adam sparse_adam({options}), dense_adam({options});
  EXPECT_THAT(AfterRows(&sparse_adam, Weight()),
              Pointwise(FloatEq(), AfterRows(&dense_adam, Weight(), true)));
}

TEST(OptimizerTest, LazyStepsLeaveTheOtherRows) {
  OptimizerOptions options = {.learning_rate = 0.1, .wd = 0.5};
  const std::vector<float> before = Weight().ToVector();
  Sgd lazy({options});
  const std::vector<float> rows = AfterRows(&lazy, Weight());
  options.lazy_update = false;
  Sgd standard({options}), dense({options});
  const std::vector<float> all = AfterRows(&standard, Weight());
  EXPECT_EQ(all, AfterRows(&dense, Weight(), true));
  for (const size_t row : {0u, 3u, 5u}) {
    EXPECT_EQ(rows[2 * row], before[2 * row]);
    EXPECT_NE(all[2 * row], before[2 * row]);
  }
  for (const size_t row : {1u, 2u, 4u}) EXPECT_FLOAT_EQ(rows[2 * row], all[2 * row]);
}

TEST(OptimizerTest, ANormSeesTheWholeGradient) {
  Lars rows({{.learning_rate = 0.1, .wd = 0.5}}), dense({{.learning_rate = 0.1, .wd = 0.5}});
  EXPECT_EQ(AfterRows(&rows, Weight()), AfterRows(&dense, Weight(), true));
}

TEST(OptimizerTest, ClippingCountsTheRowsOfAllGradients) {
  const NDArray other = Vector({0});
  // The norm of the rows 1 to 6 and of 3 is 10.
  Sgd sgd({{.learning_rate = 1, .clip_global_norm = 5}});
  NDArray weight = NDArray({6, 2});
  weight = 0;
  const ParameterUpdate updates[] = {{0, weight, Rows(1)}, {1, other, Vector({3})}};
  sgd.UpdateAll(updates);
  EXPECT_THAT(other.ToVector(), ElementsAre(-1.5f));
  EXPECT_THAT(weight.ToVector(), ElementsAre(0, 0, -0.5f, -1, -1.5f, -2, 0, 0, -2.5f, -3, 0, 0));
}

TEST(OptimizerTest, RowsAreAccumulated) {
  Sgd sgd({{.learning_rate = 1, .accumulate_steps = 2}});
  NDArray weight = NDArray({6, 2});
  weight = 0;
  sgd.Update(0, weight, Rows(1));
  sgd.Update(0, weight, Rows(3));
  EXPECT_THAT(weight.ToVector(), ElementsAre(0, 0, -2, -4, -6, -8, 0, 0, -10, -12, 0, 0));
}

TEST(OptimizerTest, ARowSparseWeightStoresTheRowsThatChange) {
  Sgd sgd({{.learning_rate = 1}, 0.5});
  NDArray weight = sparse::FromRows(NDArray::FromVector(std::vector<float>{10, 20}, {1, 2}),
                                    Vector({2}), {6, 2});
  sgd.Update(0, weight, Rows(1));
  EXPECT_THAT(weight.ToVector(), ElementsAre(0, 0, -1, -2, 7, 16, 0, 0, -5, -6, 0, 0));
  NDArray half = sparse::Zeros(StorageType::kRowSparse, {6, 2}, Device::Cpu(), DType::kFloat16);
  sgd.Update(1, half, Rows(1).AsType(DType::kFloat16));
  EXPECT_THAT(half.AsType(DType::kFloat32).ToVector(),
              ElementsAre(0, 0, -1, -2, -3, -4, 0, 0, -5, -6, 0, 0));

  const NDArray csr = sparse::Zeros(StorageType::kCsr, {6, 2});
  try {
    sgd.Update(2, csr, Rows(1));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("parameter 2"), HasSubstr("csr weight")));
  }
}

/// Adds the signs of the gradient.
class SignAscent final : public Optimizer {
 public:
  SignAscent() : Optimizer({.learning_rate = 0.5}) {}

 protected:
  void Step(int, const NDArray& weight, const NDArray& grad, const Rates& rates) override {
    NDArray changed = weight;
    for (const float g : grad.ToVector()) changed += rates.lr * (g > 0 ? 1.0 : -1.0);
  }
};

TEST(OptimizerTest, AnOptimizerMayHaveAStepOfItsOwn) {
  SignAscent optimizer;
  NDArray weight = Vector({1});
  optimizer.Update(0, weight, Vector({-3}));
  EXPECT_THAT(weight.ToVector(), ElementsAre(0.5f));
}

}  // namespace
}  // namespace tessera
