#include "tessera/train/lr_scheduler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

TEST(LrSchedulerTest, FactorMultipliesAfterEveryStep) {
  const FactorScheduler schedule(10, 0.5, 0.2);
  EXPECT_DOUBLE_EQ(schedule(1, 1), 1);
  EXPECT_DOUBLE_EQ(schedule(10, 1), 1);
  EXPECT_DOUBLE_EQ(schedule(11, 1), 0.5);
  EXPECT_DOUBLE_EQ(schedule(20, 1), 0.5);
  EXPECT_DOUBLE_EQ(schedule(21, 1), 0.25);
  EXPECT_DOUBLE_EQ(schedule(31, 1), 0.2);
  EXPECT_DOUBLE_EQ(schedule(1000000, 1), 0.2);
}

TEST(LrSchedulerTest, FactorNeverRaisesTheRate) {
  const FactorScheduler schedule(10, 0.5, 0.2);
  for (const double base_lr : {0.0, 1e-9, 0.1, 0.2}) {
    for (const int64_t update : {1, 11, 1000}) EXPECT_EQ(schedule(update, base_lr), base_lr);
  }
  EXPECT_EQ(FactorScheduler(1, 0.5)(5, 0), 0);  // stop_factor_lr's default is above 0
}

TEST(LrSchedulerTest, MultiFactorMultipliesAfterEachGivenStep) {
  const MultiFactorScheduler schedule({5, 8}, 0.1);
  EXPECT_DOUBLE_EQ(schedule(5, 2), 2);
  EXPECT_DOUBLE_EQ(schedule(6, 2), 0.2);
  EXPECT_DOUBLE_EQ(schedule(8, 2), 0.2);
  EXPECT_DOUBLE_EQ(schedule(9, 2), 2 * 0.1 * 0.1);
}

TEST(LrSchedulerTest, CosineFallsFromBaseToFinal) {
  const CosineScheduler schedule(100, 0.1);
  EXPECT_DOUBLE_EQ(schedule(0, 1.1), 1.1);
  EXPECT_DOUBLE_EQ(schedule(50, 1.1), 0.6);
  EXPECT_DOUBLE_EQ(schedule(100, 1.1), 0.1);
  EXPECT_DOUBLE_EQ(schedule(500, 1.1), 0.1);
  for (int i = 1; i <= 100; ++i) EXPECT_LT(schedule(i, 1.1), schedule(i - 1, 1.1));
}

TEST(LrSchedulerTest, WarmupRisesLinearly) {
  const CosineScheduler schedule(110, 0, {.steps = 10, .begin_lr = 0.5});
  EXPECT_DOUBLE_EQ(schedule(0, 1.5), 0.5);
  EXPECT_DOUBLE_EQ(schedule(5, 1.5), 1.0);
  EXPECT_DOUBLE_EQ(schedule(10, 1.5), 1.5);
  EXPECT_DOUBLE_EQ(schedule(60, 1.5), 0.75);
}

/// A schedule's rates at given updates, for a base rate.
struct Table {
  std::shared_ptr<LrScheduler> schedule;
  double base_lr;
  std::vector<std::pair<int64_t, double>> rates;
};

TEST(LrSchedulerTest, RatesAreThoseOfTheTables) {
  const LrWarmup linear = {.steps = 10, .begin_lr = 0.5};
  const LrWarmup constant = {.steps = 10, .begin_lr = 0.5, .mode = LrWarmup::Mode::kConstant};
  const Table tables[] = {
      // The first three are MXNet 1.9.1's, but for updates behind the last.
      {std::make_shared<PolyScheduler>(100, 2, 0.1),
       1.1,
       {{1, 1.0801}, {5, 1.0025}, {10, 0.91}, {30, 0.59}, {99, 0.1001}, {100, 0.1}, {500, 0.1}}},
      {std::make_shared<PolyScheduler>(110, 3, 0.25, constant),
       1.5,
       {{1, 0.5}, {9, 0.5}, {10, 1.5}, {30, 0.89}, {60, 0.40625}, {99, 0.25166375}, {500, 0.25}}},
      {std::make_shared<CosineScheduler>(110, 0.25, linear),
       1.5,
       {{1, 0.6}, {9, 1.4}, {10, 1.5}, {30, 1.380635621484342}, {60, 0.875}, {110, 0.25}}},
      {std::make_shared<OneCycleScheduler>(
           100, OneCycleOptions{.rising_part = 0.25, .start_factor = 10, .final_factor = 100}),
       2,
       {{0, 0.2},
        {5, 0.2 + 1.8 * (1 - std::cos(std::numbers::pi / 5)) / 2},
        {25, 2},
        {50, 0.002 + 1.998 * 0.75},
        {100, 0.002},
        {101, 0.002}}},
      {std::make_shared<InverseSquareRootScheduler>(16, LrWarmup{.steps = 16, .begin_lr = 0}),
       2,
       {{4, 0.5}, {16, 2}, {64, 1}, {1600, 0.2}}},
      {std::make_shared<InverseSquareRootScheduler>(4), 2, {{1, 2}, {4, 2}, {16, 1}}},
  };
  for (const Table& table : tables) {
    const std::string kind = table.schedule->SaveState().Text("kind");
    for (const auto& [update, rate] : table.rates) {
      EXPECT_NEAR((*table.schedule)(update, table.base_lr), rate, 1e-14)
          << kind << ", update " << update;
    }
  }
}

TEST(LrSchedulerTest, ASavedScheduleIsToldFromOthers) {
  const std::shared_ptr<LrScheduler> all[] = {
      std::make_shared<FactorScheduler>(10, 0.5),
      std::make_shared<FactorScheduler>(10, 0.25),
      std::make_shared<FactorScheduler>(10, 0.5, 1e-3),
      std::make_shared<FactorScheduler>(10, 0.5, 1e-8, LrWarmup{.steps = 3}),
      std::make_shared<FactorScheduler>(10, 0.5, 1e-8,
                                        LrWarmup{.steps = 3, .mode = LrWarmup::Mode::kConstant}),
      std::make_shared<MultiFactorScheduler>(std::vector<int64_t>{10}, 0.5),
      std::make_shared<MultiFactorScheduler>(std::vector<int64_t>{10, 20}, 0.5),
      std::make_shared<CosineScheduler>(10),
      std::make_shared<PolyScheduler>(10),
      std::make_shared<PolyScheduler>(10, 3),
      std::make_shared<OneCycleScheduler>(10),
      std::make_shared<InverseSquareRootScheduler>(10),
  };
  for (const auto& saved : all) {
    for (const auto& loading : all) {
      if (saved == loading) {
        EXPECT_NO_THROW(loading->LoadState(saved->SaveState()));
      } else {
        EXPECT_THROW(loading->LoadState(saved->SaveState()), Error);
      }
    }
  }
}

TEST(LrSchedulerTest, ImpossibleSchedulesAreRefused) {
  EXPECT_THROW(PolyScheduler(10, 2, 0, {.steps = 10}), Error);
  EXPECT_THROW(PolyScheduler(10, 0), Error);
  EXPECT_THROW(OneCycleScheduler(1), Error);
  EXPECT_THROW(OneCycleScheduler(10, {.rising_part = 1}), Error);
  EXPECT_THROW(OneCycleScheduler(10, {.start_factor = 0.5}), Error);
  EXPECT_THROW(InverseSquareRootScheduler(0), Error);
  EXPECT_THROW(FactorScheduler(0, 0.5), Error);
  EXPECT_THROW(FactorScheduler(1, 1.5), Error);
  EXPECT_THROW(FactorScheduler(1, 0), Error);
  EXPECT_THROW(MultiFactorScheduler({5, 5}, 0.5), Error);
  EXPECT_THROW(MultiFactorScheduler({0}, 0.5), Error);
  EXPECT_THROW(CosineScheduler(10, 0, {.steps = 10}), Error);
}

}  // namespace
}  // namespace tessera
