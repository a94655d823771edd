#include "tessera/engine/schedule/replay.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <unordered_set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::engine_internal {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

constexpr uint32_t kNone = SchedulePlan::kNone;

/// An operation that writes a variable of its own and reads those of some before it.
struct Operation {
  std::vector<int> after;
  int priority = 0;
};

class ReplayTest : public testing::Test {
 protected:
  SchedulePlan PlanOf(const std::vector<Operation>& operations) {
    variables_ = std::make_unique<DependencyVariable[]>(operations.size());
    std::vector<RecordedPush> pushes;
    for (size_t i = 0; i < operations.size(); ++i) {
      OperatorRef op(new OperatorRecord);
      op->fn = SyncFn([](RunContext) {});
      for (const int before : operations[i].after) {
        op->edges.emplace_back(&variables_[before], Access::kRead);
      }
      op->edges.emplace_back(&variables_[i], Access::kWrite);
      pushes.push_back({.op = std::move(op),
                        .device = Device::Cpu(),
                        .priority = operations[i].priority,
                        .site = {}});
    }
    return SchedulePlan("test", /*slots=*/0, std::move(pushes), /*own=*/{});
  }

  /// Returns the order in which a single visitor runs operations, in a second replay of the same
  /// state.
  std::vector<uint32_t> OrderOfOneVisitor(const SchedulePlan& plan) {
    Replay replay(plan, /*stacks=*/2);
    std::vector<uint32_t> order;
    for (int i = 0; i < 2; ++i) {
      order.clear();
      replay.Start();
      uint32_t next = replay.Take(/*stack=*/0);
      while (next != kNone) {
        order.push_back(next);
        next = replay.Release(/*stack=*/0, next);
        if (next == kNone) next = replay.Take(/*stack=*/0);
      }
    }
    return order;
  }

 private:
  std::unique_ptr<DependencyVariable[]> variables_;
};

TEST_F(ReplayTest, WhatBecameReadyLastRunsFirst) {
  const SchedulePlan plan = PlanOf({{}, {}, {{0}}, {{0}}, {{2}}, {{1, 4}}});
  EXPECT_THAT(OrderOfOneVisitor(plan), ElementsAre(0, 2, 4, 3, 1, 5));
  EXPECT_THAT(plan.order(), ElementsAre(0, 2, 4, 3, 1, 5));
}

TEST_F(ReplayTest, OneVisitorRunsInThePlansOrder) {
  std::mt19937 random(7);
  for (int schedule = 0; schedule < 200; ++schedule) {
    const bool has_priorities = schedule % 2 == 0;
    std::vector<Operation> operations(random() % 50);
    for (size_t i = 0; i < operations.size(); ++i) {
      if (has_priorities) operations[i].priority = static_cast<int>(random() % 3);
      for (size_t before = i - std::min<size_t>(i, 8); before < i; ++before) {
        if (random() % 5 == 0) operations[i].after.push_back(static_cast<int>(before));
      }
    }
    const SchedulePlan plan = PlanOf(operations);
    EXPECT_THAT(OrderOfOneVisitor(plan), ElementsAreArray(plan.order())) << "schedule " << schedule;
  }
}

}  // namespace
}  // namespace tessera::engine_internal
