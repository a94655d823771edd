// In which order replays run, beside what else the engine does: see schedule.h.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <latch>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/schedule.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/testing/schedule_fixture.h"

namespace tessera {
namespace {

using engine_internal::EngineConfiguration;
using engine_internal::ScheduleFixture;
using testing::ElementsAre;

constexpr Device kCpu = Device::Cpu();

class ScheduleOrderTest : public ScheduleFixture {};
INSTANTIATE_TEST_SUITE_P(All, ScheduleOrderTest,
                         testing::ValuesIn(engine_internal::AllConfigurations()),
                         engine_internal::ConfigurationName);

/// Engines that replay a schedule as a whole; NaiveEngine pushes its operations one by one.
class ThreadedScheduleOrderTest : public ScheduleFixture {};
INSTANTIATE_TEST_SUITE_P(All, ThreadedScheduleOrderTest,
                         testing::ValuesIn(engine_internal::ThreadedConfigurations()),
                         engine_internal::ConfigurationName);

/// Orders that show only if no two operations run at once.
class OneWorkerScheduleOrderTest : public ScheduleFixture {};
INSTANTIATE_TEST_SUITE_P(All, OneWorkerScheduleOrderTest,
                         testing::Values(EngineConfiguration{EngineKind::kThreaded, 1}),
                         engine_internal::ConfigurationName);

/// Orders that show only if two operations run at once.
class TwoWorkersScheduleOrderTest : public ScheduleFixture {};
INSTANTIATE_TEST_SUITE_P(All, TwoWorkersScheduleOrderTest,
                         testing::Values(EngineConfiguration{EngineKind::kThreaded, 2}),
                         engine_internal::ConfigurationName);

TEST_P(ScheduleOrderTest, OrdersWithPushesOnTheSameVariables) {
  Variable* const x = New();
  Variable* const y = New();
  uint64_t value = 1, copy = 0;
  const auto schedule = engine_->Record([&] {
    Push([&] { value = 3 * value + 1; }, {}, {}, {.updates = std::array{x}});
    Push([&] { copy = copy * 31 + value; }, {x}, {}, {.updates = std::array{y}});
  });
  uint64_t expected = 1, expected_copy = 0;
  for (int i = 0; i < 1000; ++i) {
    Push([&] { value ^= 0x5555; }, {}, {}, {.updates = std::array{x}});
    schedule->Replay();
    Push([&] { copy += value; }, {x}, {}, {.updates = std::array{y}});
    expected ^= 0x5555;
    expected = 3 * expected + 1;
    expected_copy = expected_copy * 31 + expected;
    expected_copy += expected;
  }
  engine_->WaitForAll();
  EXPECT_EQ(value, expected);
  EXPECT_EQ(copy, expected_copy);
}

/// Each operation adds to what it writes what it reads; on a grid whose cells wait for the one
/// above and the one to the left.
TEST_P(ScheduleOrderTest, AWavefrontGivesWhatOneThreadGives) {
  constexpr int kSide = 30;
  std::vector<uint64_t> cells(kSide * kSide, 0), expected(kSide * kSide, 0);
  std::vector<Variable*> variables;
  for (int i = 0; i < kSide * kSide; ++i) variables.push_back(New());
  const auto compute = [](std::vector<uint64_t>& values, int row, int column) {
    uint64_t sum = 7 * row + column + values[row * kSide + column];
    if (row > 0) sum = sum * 31 + values[(row - 1) * kSide + column];
    if (column > 0) sum = sum * 17 + values[row * kSide + column - 1];
    values[row * kSide + column] = sum;
  };
  const auto schedule = engine_->Record([&] {
    for (int row = 0; row < kSide; ++row) {
      for (int column = 0; column < kSide; ++column) {
        std::vector<Variable*> reads;
        if (row > 0) reads.push_back(variables[(row - 1) * kSide + column]);
        if (column > 0) reads.push_back(variables[row * kSide + column - 1]);
        Push([&, row, column] { compute(cells, row, column); }, reads, {},
             {.updates = std::array{variables[row * kSide + column]}});
      }
    }
  });
  for (int replay = 0; replay < 50; ++replay) {
    schedule->Replay();
    for (int row = 0; row < kSide; ++row) {
      for (int column = 0; column < kSide; ++column) compute(expected, row, column);
    }
  }
  engine_->WaitForAll();
  EXPECT_EQ(cells, expected);
  EXPECT_EQ(engine_->counters().run, 50u * kSide * kSide);
}

TEST_P(ScheduleOrderTest, WideReplaysRunEveryOperationOnce) {
  constexpr int kWidth = 2000;
  std::vector<Variable*> outputs;
  for (int i = 0; i < kWidth; ++i) outputs.push_back(New());
  Variable* const input = New();
  Variable* const sum = New();
  std::vector<int> runs(kWidth, 0);
  int64_t total = 0;
  const auto schedule = engine_->Record([&] {
    Push([] {}, {}, {input});
    for (int i = 0; i < kWidth; ++i) Push([&, i] { ++runs[i]; }, {input}, {outputs[i]});
    Push([&] { total = std::accumulate(runs.begin(), runs.end(), int64_t{0}); }, outputs, {sum});
  });
  for (int replay = 1; replay <= 20; ++replay) {
    schedule->Replay();
    engine_->WaitForVar(sum);
    ASSERT_EQ(total, int64_t{replay} * kWidth);
  }
  EXPECT_EQ(*std::min_element(runs.begin(), runs.end()), 20);
}

// Functions as small as these lie within their std::function, which the visitor of an operation
// before it looks into meanwhile.
TEST_P(ScheduleOrderTest, FunctionsMayChangeWhatTheyHold) {
  constexpr int kOperations = 400;
  constexpr int kReplays = 100;
  std::vector<Variable*> variables;
  for (int i = 0; i < 8; ++i) variables.push_back(New());
  std::vector<int64_t> calls(kOperations);
  const auto schedule = engine_->Record([&] {
    for (int i = 0; i < kOperations; ++i) {
      engine_->PushSync(
          [call = int64_t{0}, last = &calls[i]](RunContext) mutable { *last = ++call; }, kCpu, {},
          {variables[i % variables.size()]});
    }
  });
  for (int i = 0; i < kReplays; ++i) schedule->Replay();
  engine_->WaitForAll();
  EXPECT_EQ(calls, std::vector<int64_t>(kOperations, kReplays));
}

TEST_P(TwoWorkersScheduleOrderTest, ReplaysOfWhatWritesNothingRunAtOnce) {
  Variable* const a = New();
  std::latch both(2);
  const auto schedule = engine_->Record([&] { Push([&] { both.arrive_and_wait(); }, {a}, {}); });
  schedule->Replay();
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_TRUE(both.try_wait());
}

TEST_P(ThreadedScheduleOrderTest, WhatIsReadyIsThereForEveryWorker) {
  // As many as there are workers meet: none may wait behind another, whatever holds the thread that
  // made it ready. At the beginning and after one operation; with equal priorities and with others.
  const int workers = GetParam().workers;
  for (const int priorities : {1, 3}) {
    for (int round = 0; round < 50; ++round) {
      std::latch roots(workers), after(workers);
      Variable* const a = New();
      const auto schedule = engine_->Record([&] {
        std::vector<Variable*> met;
        const auto meet = [&](std::latch& latch, VariableList reads) {
          for (int i = 0; i < workers; ++i) {
            met.push_back(New());
            Push([&] { latch.arrive_and_wait(); }, reads, {met.back()},
                 {.priority = i % priorities});
          }
        };
        meet(roots, {});
        Push([] {}, met, {a});
        meet(after, {a});
      });
      schedule->Replay();
      engine_->WaitForAll();
    }
  }
  EXPECT_EQ(engine_->counters().run, 100u * (2 * workers + 1));
}

// Visitors leave all the time here, each with its last operation put back for another.
TEST_P(ThreadedScheduleOrderTest, ReplaysEndBetweenMoreUrgentOperations) {
  Variable* const a = New();
  int count = 0;
  const auto schedule = engine_->Record([&] {
    for (int i = 0; i < 4; ++i) Push([&] { ++count; }, {}, {}, {.updates = std::array{a}});
  });
  std::atomic<bool> ended{false};
  std::thread urgent([&] {
    while (!ended) {
      for (int i = 0; i < 20; ++i) Push([] {}, {}, {}, {.priority = 1});
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 3000; ++i) {
    schedule->Replay();
    if (i % 3 == 0) engine_->WaitForVar(a);
  }
  engine_->WaitForVar(a);
  ended = true;
  urgent.join();
  EXPECT_EQ(count, 12000);
}

// The wait needs what its own replay has ready beside it, by way of somebody outside.
TEST_P(ThreadedScheduleOrderTest, AnOperationThatWaitsLeavesItsWorkerToTheReplay) {
  Variable* const begun = New();
  Variable* const outside = New();
  std::optional<OnComplete> complete;
  std::latch given(1);
  engine_->PushAsync(
      [&](RunContext, OnComplete done) {
        complete = done;
        given.count_down();
      },
      kCpu, {}, {outside}, {.property = FnProperty::kAsync});
  given.wait();
  bool waited = false;
  const auto schedule = engine_->Record([&] {
    Push([] {}, {}, {begun});
    for (int i = 0; i < 40; ++i) {  // long ones first, to have several on the stack
      Push(
          [&, i] {
            if (i == 0) {
              engine_->WaitForVar(outside);
              waited = true;
            } else if (i == 39) {
              (*complete)();
            }
          },
          {begun}, {New()});
    }
  });
  while (engine_->counters().pending > 1) std::this_thread::yield();
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_TRUE(waited);
}

TEST_P(ScheduleOrderTest, AsynchronousOperationsCompleteFromAnyThread) {
  Variable* const a = New();
  Variable* const b = New();
  constexpr int kSteps = 20;
  std::vector<int> order;
  std::vector<std::thread> threads(kSteps);
  const auto schedule = engine_->Record([&] {
    for (int i = 0; i < kSteps; ++i) {
      engine_->PushAsync(
          [&, i](RunContext, OnComplete done) {
            if (i % 2 == 0) {
              order.push_back(i);
              done();
            } else {
              threads[i] = std::thread([&, i, done] {
                order.push_back(i);
                done();
              });
            }
          },
          kCpu, {}, {}, {.property = FnProperty::kAsync, .updates = std::array{a}});
      Push([&, i] { order.push_back(100 + i); }, {a}, {}, {.updates = std::array{b}});
    }
  });
  for (int replay = 0; replay < 3; ++replay) {
    schedule->Replay();
    engine_->WaitForAll();  // for the functions to have returned, too
    for (int i = 1; i < kSteps; i += 2) threads[i].join();
    std::vector<int> expected;
    for (int i = 0; i < kSteps; ++i) expected.insert(expected.end(), {i, 100 + i});
    ASSERT_EQ(order, expected);
    order.clear();
  }
  EXPECT_EQ(engine_->counters().run, 6u * kSteps);
}

TEST_P(OneWorkerScheduleOrderTest, HigherPrioritiesRunFirst) {
  std::vector<int> order;
  const auto schedule = engine_->Record([&] {
    for (int i = 0; i < 5; ++i) {
      Push([&, i] { order.push_back(i); }, {}, {New()}, {.priority = i % 3});
    }
    Push([&] { order.push_back(9); }, {}, {New()}, {.property = FnProperty::kCpuPrioritized});
  });
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_THAT(order, ElementsAre(9, 2, 1, 4, 0, 3));
}

TEST_P(OneWorkerScheduleOrderTest, TheLongestWayGoesFirstWherePrioritiesDoNotSay) {
  std::vector<int> order;
  Variable* const chain = New();
  const auto schedule = engine_->Record([&] {
    Push([&] { order.push_back(0); }, {}, {New()});
    for (int i = 1; i < 4; ++i) Push([&, i] { order.push_back(i); }, {}, {chain});
  });
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 0));
}

TEST_P(OneWorkerScheduleOrderTest, OfWhatAnOperationMakesReadyTheLongestWayGoesFirst) {
  std::vector<int> order;
  Variable* const root = New();
  Variable* const chain = New();
  const auto schedule = engine_->Record([&] {
    Push([&] { order.push_back(0); }, {}, {root});
    Push([&] { order.push_back(4); }, {root}, {New()});
    for (int i = 1; i < 4; ++i) Push([&, i] { order.push_back(i); }, {root}, {chain});
  });
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
}

TEST_P(OneWorkerScheduleOrderTest, AReplaysPriorityIsAddedToThoseOfItsOperations) {
  std::vector<int> order;
  Variable* const gate = New();
  const auto record = [&](int number) {
    return engine_->Record(
        [&, number] { Push([&, number] { order.push_back(number); }, {}, {New()}); });
  };
  const auto first = record(1);
  const auto second = record(2);
  std::latch begun(1), go_on(1);
  Push([&] { begun.count_down(), go_on.wait(); }, {}, {gate});
  begun.wait();
  first->Replay();
  Push([&] { order.push_back(3); }, {}, {New()}, {.priority = 1});
  second->Replay({.priority = 2});
  go_on.count_down();
  engine_->WaitForAll();
  EXPECT_THAT(order, ElementsAre(2, 3, 1));
}

TEST_P(OneWorkerScheduleOrderTest, ALongReplayLetsPushesOfItsPriorityHaveTheirTurn) {
  constexpr int kOperations = 5000;
  int done = 0, done_before = -1;
  Variable* const pushed = New();
  const auto schedule = engine_->Record([&] {
    for (int i = 0; i < kOperations; ++i) {
      Push(
          [&, i] {
            if (i == 0) Push([&] { done_before = done; }, {}, {pushed});
            ++done;
          },
          {}, {New()});
    }
  });
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_GE(done_before, 1);
  EXPECT_LT(done_before, 200);
  EXPECT_EQ(done, kOperations);
}

TEST_P(ThreadedScheduleOrderTest, AChainStaysInItsThread) {
  Variable* const chain = New();
  std::set<std::thread::id> threads;
  const auto schedule = engine_->Record([&] {
    for (int i = 0; i < 1000; ++i) {
      Push([&] { threads.insert(std::this_thread::get_id()); }, {}, {chain});
    }
  });
  for (int replay = 0; replay < 10; ++replay) {
    threads.clear();
    schedule->Replay();
    engine_->WaitForAll();
    EXPECT_EQ(threads.size(), 1u);
  }
}

// Two operations that meet, each of a replay of its own.
TEST_P(TwoWorkersScheduleOrderTest, ReplaysThatWriteOtherVariablesRunAtOnce) {
  Variable *recorded = New(), *x = New(), *y = New();
  for (int round = 0; round < 50; ++round) {
    std::latch both(2);
    const auto schedule =
        engine_->Record([&] { Push([&] { both.arrive_and_wait(); }, {}, {recorded}); });
    for (Variable* actual : {x, y}) {
      const VariableBinding bindings[] = {{.recorded = recorded, .actual = actual}};
      schedule->Replay({.variables = bindings});
    }
    engine_->WaitForAll();
  }
}

TEST_P(OneWorkerScheduleOrderTest, MoreUrgentPushesRunBetweenTheOperationsOfAReplay) {
  Variable* const a = New();
  Variable* const b = New();
  std::vector<int> order;
  const auto schedule = engine_->Record([&] {
    Push(
        [&] {
          order.push_back(0);
          Push([&] { order.push_back(7); }, {}, {b}, {.priority = 1});
          Push([&] { order.push_back(8); }, {}, {b}, {.priority = -1});
        },
        {}, {a});
    Push([&] { order.push_back(1); }, {}, {a});
  });
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_THAT(order, ElementsAre(0, 7, 1, 8));
}

TEST_P(ThreadedScheduleOrderTest, StopHoldsAReplayBetweenTwoOperations) {
  Variable* const a = New();
  std::atomic<int> ran{0};
  std::latch began(1), go_on(1);
  const auto schedule = engine_->Record([&] {
    Push(
        [&] {
          began.count_down();
          go_on.wait();
          ++ran;
        },
        {}, {a});
    for (int i = 0; i < 3; ++i) Push([&] { ++ran; }, {}, {a});
  });
  schedule->Replay();
  began.wait();
  std::thread stopper([&] { engine_->Stop(); });
  while (engine_->DebugString().find("stopped") == std::string::npos) std::this_thread::yield();
  go_on.count_down();
  stopper.join();
  EXPECT_EQ(ran, 1);
  engine_->Start();
  engine_->WaitForVar(a);
  EXPECT_EQ(ran, 4);
}

TEST_P(ScheduleOrderTest, AWaitInsideForOtherThingsEnds) {
  Variable* const a = New();
  Variable* const other = New();
  int value = 0, seen = 0;
  const auto schedule = engine_->Record([&] {
    Push(
        [&] {
          for (int i = 0; i < 100; ++i) Push([&] { ++value; }, {}, {other});
          engine_->WaitForVar(other);
          seen = value;
        },
        {}, {a});
  });
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_EQ(seen, 100);
}

TEST_P(ScheduleOrderTest, ReplaysMayBePushedByOperations) {
  Variable* const a = New();
  int count = 0;
  const auto inner = engine_->Record([&] { Push([&] { ++count; }, {}, {a}); });
  Push(
      [&] {
        for (int i = 0; i < 10; ++i) inner->Replay();
      },
      {}, {New()});
  engine_->WaitForAll();
  EXPECT_EQ(count, 10);
}

}  // namespace
}  // namespace tessera
