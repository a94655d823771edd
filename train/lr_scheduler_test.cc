#include "tessera/train/lr_scheduler.h"

#include <gtest/gtest.h>

#include <cstdint>

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

TEST(LrSchedulerTest, ImpossibleSchedulesAreRefused) {
  EXPECT_THROW(FactorScheduler(0, 0.5), Error);
  EXPECT_THROW(FactorScheduler(1, 1.5), Error);
  EXPECT_THROW(FactorScheduler(1, 0), Error);
  EXPECT_THROW(MultiFactorScheduler({5, 5}, 0.5), Error);
  EXPECT_THROW(MultiFactorScheduler({0}, 0.5), Error);
  EXPECT_THROW(CosineScheduler(10, 0, {.steps = 10}), Error);
}

}  // namespace
}  // namespace tessera
