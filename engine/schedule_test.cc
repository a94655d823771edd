#include "tessera/engine/schedule.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <latch>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/internal/engine_configurations.h"

namespace tessera {
namespace {

using engine_internal::EngineConfiguration;
using engine_internal::EngineConfigurationTest;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr Device kCpu = Device::Cpu();

/// The message of the Error that `call` throws, which must have the code.
template <typename Call>
std::string ErrorOf(absl::StatusCode code, Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

class ScheduleTest : public EngineConfigurationTest {
 protected:
  ~ScheduleTest() override {
    for (Variable* variable : variables_) engine_->DeleteVariable(variable);
  }
  Variable* New(std::string_view name = {}) {
    variables_.push_back(engine_->NewVariable(name));
    return variables_.back();
  }
  void Push(std::function<void()> fn, VariableList reads, VariableList writes,
            const PushOptions& options = {}) {
    engine_->PushSync([fn = std::move(fn)](RunContext) { fn(); }, kCpu, reads, writes, options);
  }

 private:
  std::vector<Variable*> variables_;
};
INSTANTIATE_TEST_SUITE_P(All, ScheduleTest, testing::ValuesIn(engine_internal::AllConfigurations()),
                         engine_internal::ConfigurationName);

/// What is different where a replay pushes its operations one by one.
class ThreadedScheduleTest : public ScheduleTest {};
INSTANTIATE_TEST_SUITE_P(All, ThreadedScheduleTest,
                         testing::ValuesIn(engine_internal::ThreadedConfigurations()),
                         engine_internal::ConfigurationName);

/// What shows only where no two operations run at once.
class OneWorkerScheduleTest : public ScheduleTest {};
INSTANTIATE_TEST_SUITE_P(All, OneWorkerScheduleTest,
                         testing::Values(EngineConfiguration{EngineKind::kThreaded, 1}),
                         engine_internal::ConfigurationName);

/// What shows only where two do.
class TwoWorkersScheduleTest : public ScheduleTest {};
INSTANTIATE_TEST_SUITE_P(All, TwoWorkersScheduleTest,
                         testing::Values(EngineConfiguration{EngineKind::kThreaded, 2}),
                         engine_internal::ConfigurationName);

TEST_P(ScheduleTest, RecordingRunsNothingAndEachReplayRunsAll) {
  Variable* const a = New();
  std::vector<int> seen;
  const auto schedule = engine_->Record([&] {
    for (int i = 0; i < 3; ++i) Push([&, i] { seen.push_back(i); }, {}, {a});
  });
  EXPECT_EQ(schedule->size(), 3u);
  engine_->WaitForAll();
  EXPECT_THAT(seen, ElementsAre());
  EXPECT_EQ(a->version(), 0u);
  schedule->Replay();
  schedule->Replay();
  engine_->WaitForVar(a);
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 0, 1, 2));
  engine_->WaitForAll();
  EXPECT_EQ(engine_->counters().run, 6u);
}

TEST_P(ThreadedScheduleTest, AVersionAdvancesOnceForEachReplayThatWrites) {
  Variable* const a = New();
  const auto schedule = engine_->Record([&] {
    Push([] {}, {}, {a});
    Push([] {}, {}, {a});
  });
  schedule->Replay();
  EXPECT_EQ(a->version(), 1u);
  engine_->WaitForAll();
}

TEST_P(ScheduleTest, OrdersWithPushesOnTheSameVariables) {
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
TEST_P(ScheduleTest, AWavefrontGivesWhatOneThreadGives) {
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

TEST_P(ScheduleTest, WideReplaysRunEveryOperationOnce) {
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

TEST_P(TwoWorkersScheduleTest, ReplaysOfWhatWritesNothingRunAtOnce) {
  Variable* const a = New();
  std::latch both(2);
  const auto schedule = engine_->Record([&] { Push([&] { both.arrive_and_wait(); }, {a}, {}); });
  schedule->Replay();
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_TRUE(both.try_wait());
}

TEST_P(ThreadedScheduleTest, WhatIsReadyIsThereForEveryWorker) {
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
TEST_P(ThreadedScheduleTest, ReplaysEndBetweenMoreUrgentOperations) {
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

TEST_P(ScheduleTest, AReplayThatThrewLeavesNothingToTheNext) {
  Variable* const a = New();
  Variable* const b = New();
  Variable* const deleted = engine_->NewVariable("gone");
  int count = 0;
  const auto schedule = engine_->Record([&] {
    Push([&] { ++count; }, {}, {a}, {.priority = 1});
    Push([&] { ++count; }, {a}, {b});
  });
  engine_->DeleteVariable(deleted);
  const VariableBinding bound[] = {{.recorded = b, .actual = deleted}};
  EXPECT_THAT(
      ErrorOf(absl::StatusCode::kInvalidArgument, [&] { schedule->Replay({.variables = bound}); }),
      AllOf(HasSubstr("gone"), HasSubstr("deleted")));
  engine_->WaitForAll();
  EXPECT_EQ(count, 0);
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_EQ(count, 2);
}

// The wait needs what its own replay has ready beside it, by way of somebody outside.
TEST_P(ThreadedScheduleTest, AnOperationThatWaitsLeavesItsWorkerToTheReplay) {
  Variable* const begun = New();
  Variable* const outside = New();
  std::optional<OnComplete> complete;
  engine_->PushAsync([&](RunContext, OnComplete done) { complete = done; }, kCpu, {}, {outside},
                     {.property = FnProperty::kAsync});
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
              while (!complete.has_value()) std::this_thread::yield();
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

TEST_P(ScheduleTest, RecordedDeletionsAreCheckedAndHappenOnce) {
  Variable* const a = engine_->NewVariable("a");
  auto first = engine_->Record([&] {
    engine_->DeleteVariable(a);
    EXPECT_THAT(ErrorOf(absl::StatusCode::kInvalidArgument, [&] { engine_->DeleteVariable(a); }),
                AllOf(HasSubstr("\"a\""), HasSubstr("deleted already")));
  });
  auto second = engine_->Record([&] { engine_->DeleteVariable(a); });
  first.reset();
  engine_->WaitForAll();
  Variable* const stranger = engine_->NewVariable("stranger");  // maybe in the place of a
  second.reset();
  bool ran = false;
  Push([&] { ran = true; }, {}, {stranger});
  engine_->WaitForVar(stranger);
  EXPECT_TRUE(ran);
  engine_->DeleteVariable(stranger);
}

TEST_P(ScheduleTest, OperationsThatRunOnARecordingThreadPushAsEver) {
  Variable* const a = New();
  int from_operation = 0;
  const auto schedule = engine_->Record([&] {
    Push([] {}, {}, {a});
    engine_->Execute([&] { Push([&] { ++from_operation; }, {}, {New()}); });
  });
  engine_->WaitForAll();
  EXPECT_EQ(from_operation, 1);
  EXPECT_EQ(schedule->size(), 1u);
}

TEST_P(ScheduleTest, SlotsAreThoseOfTheReplay) {
  Variable* const a = New();
  std::vector<int> seen;
  const auto schedule = engine_->Record(
      [&] {
        engine_->PushSync(
            [&](RunContext context) {
              seen.push_back(*static_cast<int*>(context.slots[0]));
              *static_cast<int*>(context.slots[1]) = seen.back() + 1;
            },
            kCpu, {}, {a});
      },
      {.name = "step", .slots = 2});
  int values[3] = {10, 0, 0};
  for (int i = 0; i < 2; ++i) {
    void* const slots[] = {&values[i], &values[i + 1]};
    schedule->Replay({.slots = slots});
  }
  engine_->WaitForVar(a);
  EXPECT_THAT(seen, ElementsAre(10, 11));
  EXPECT_EQ(values[2], 12);
  EXPECT_THAT(ErrorOf(absl::StatusCode::kInvalidArgument, [&] { schedule->Replay(); }),
              AllOf(HasSubstr("step"), HasSubstr("given 0 slots"), HasSubstr("expected 2")));
}

TEST_P(ScheduleTest, VariablesMayBeOthersInEachReplay) {
  Variable* const weight = New("weight");
  Variable* const batch = New("batch");
  int total = 0;
  const auto schedule = engine_->Record(
      [&] {
        engine_->PushSync(
            [&](RunContext context) { total += *static_cast<int*>(context.slots[0]); }, kCpu,
            {batch}, {}, {.updates = std::array{weight}});
      },
      {.name = "step", .slots = 1});
  constexpr int kBatches = 10;
  std::array<int, kBatches> values{};
  std::vector<Variable*> batches;
  for (int i = 0; i < kBatches; ++i) {
    batches.push_back(New());
    Push([&, i] { values[i] = i + 1; }, {}, {batches[i]});
    const VariableBinding bound[] = {{.recorded = batch, .actual = batches[i]}};
    void* const slots[] = {&values[i]};
    schedule->Replay({.slots = slots, .variables = bound});
    Push([&, i] { values[i] = 1000; }, {}, {batches[i]});  // only after the replay
  }
  engine_->WaitForAll();
  EXPECT_EQ(total, kBatches * (kBatches + 1) / 2);

  void* const slots[] = {&values[0]};
  const VariableBinding unknown[] = {{.recorded = batches[0], .actual = batches[1]}};
  EXPECT_THAT(ErrorOf(absl::StatusCode::kInvalidArgument,
                      [&] { schedule->Replay({.slots = slots, .variables = unknown}); }),
              HasSubstr("does not use"));
  const VariableBinding twice[] = {{.recorded = batch, .actual = weight}};
  EXPECT_THAT(ErrorOf(absl::StatusCode::kInvalidArgument,
                      [&] { schedule->Replay({.slots = slots, .variables = twice}); }),
              AllOf(HasSubstr("weight"), HasSubstr("both read and updated")));
  const VariableBinding again[] = {{.recorded = batch, .actual = batches[0]},
                                   {.recorded = batch, .actual = batches[1]}};
  EXPECT_THAT(ErrorOf(absl::StatusCode::kInvalidArgument,
                      [&] { schedule->Replay({.slots = slots, .variables = again}); }),
              HasSubstr("two bindings"));
  const VariableBinding null[] = {{.recorded = batch, .actual = nullptr}};
  EXPECT_THAT(ErrorOf(absl::StatusCode::kInvalidArgument,
                      [&] { schedule->Replay({.slots = slots, .variables = null}); }),
              HasSubstr("null"));
  schedule->Replay({.slots = slots});  // none of these has changed anything
  engine_->WaitForAll();
  EXPECT_EQ(total, kBatches * (kBatches + 1) / 2 + 1000);
}

TEST_P(ScheduleTest, AnErrorSkipsWhatReadsItAndIsReportedOnceAtItsName) {
  Variable* const a = New("a");
  Variable* const b = New("b");
  Variable* const c = New("c");
  bool fail = true;
  int from_a = 0, from_c = 0;
  const auto schedule = engine_->Record([&] {
    Push(
        [&] {
          if (fail) throw DataLoss("bad block");
        },
        {}, {a}, {.name = "load"});
    Push([&] { ++from_a; }, {a}, {b}, {.name = "use"});
    Push([&] { ++from_c; }, {}, {c}, {.name = "other"});
  });
  schedule->Replay();
  engine_->WaitForVar(c);
  EXPECT_EQ(from_c, 1);
  EXPECT_THAT(ErrorOf(absl::StatusCode::kDataLoss, [&] { engine_->WaitForVar(b); }),
              AllOf(HasSubstr("bad block"), HasSubstr("load"), HasSubstr("schedule_test.cc")));
  engine_->WaitForVar(a);  // one report for the chain
  engine_->WaitForAll();
  EXPECT_EQ(from_a, 0);
  EXPECT_EQ(engine_->counters().skipped, 1u);

  fail = false;
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_EQ(from_a, 1);
  EXPECT_EQ(from_c, 2);
}

TEST_P(ScheduleTest, AnErrorFromBeforeSkipsWhatReadsItUnlessItIsWrittenFirst) {
  Variable* const a = New("a");
  Variable* const b = New("b");
  int reads = 0, writes = 0;
  const auto reader = engine_->Record([&] { Push([&] { ++reads; }, {a}, {b}); });
  const auto writer = engine_->Record([&] {
    Push([&] { ++writes; }, {}, {a});
    Push([&] { ++reads; }, {a}, {b});
  });
  Push([] { throw DataLoss("bad block"); }, {}, {a});
  reader->Replay();
  EXPECT_THAT(ErrorOf(absl::StatusCode::kDataLoss, [&] { engine_->WaitForVar(b); }),
              HasSubstr("bad block"));
  EXPECT_EQ(reads, 0);
  reader->Replay();  // was not told of: reported once more
  EXPECT_THAT(ErrorOf(absl::StatusCode::kDataLoss, [&] { engine_->WaitForVar(b); }),
              HasSubstr("bad block"));
  writer->Replay();
  engine_->WaitForAll();
  EXPECT_EQ(writes, 1);
  EXPECT_EQ(reads, 1);
}

TEST_P(ScheduleTest, NoSkipRunsOnMarkedInputs) {
  Variable* const a = New();
  Variable* const b = New();
  bool ran = false;
  const auto schedule = engine_->Record([&] {
    Push([] { throw DataLoss("bad block"); }, {}, {a});
    Push([&] { ran = true; }, {a}, {b}, {.property = FnProperty::kNoSkip});
  });
  schedule->Replay();
  engine_->WaitForVar(b);
  EXPECT_TRUE(ran);
  ErrorOf(absl::StatusCode::kDataLoss, [&] { engine_->WaitForAll(); });
}

TEST_P(ScheduleTest, AsynchronousOperationsCompleteFromAnyThread) {
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

TEST_P(ScheduleTest, AnAsynchronousFailureMarksWhatItWrites) {
  Variable* const a = New();
  Variable* const b = New();
  bool ran = false;
  const auto schedule = engine_->Record([&] {
    engine_->PushAsync(
        [](RunContext, OnComplete done) { done(std::make_exception_ptr(DataLoss("late"))); }, kCpu,
        {}, {a});
    Push([&] { ran = true; }, {a}, {b});
  });
  schedule->Replay();
  EXPECT_THAT(ErrorOf(absl::StatusCode::kDataLoss, [&] { engine_->WaitForVar(b); }),
              HasSubstr("late"));
  EXPECT_FALSE(ran);
}

TEST_P(OneWorkerScheduleTest, HigherPrioritiesRunFirst) {
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

TEST_P(OneWorkerScheduleTest, TheLongestWayGoesFirstWherePrioritiesDoNotSay) {
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

TEST_P(OneWorkerScheduleTest, MoreUrgentPushesRunBetweenTheOperationsOfAReplay) {
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

TEST_P(ThreadedScheduleTest, StopHoldsAReplayBetweenTwoOperations) {
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

TEST_P(ThreadedScheduleTest, AWaitInsideForWhatTheScheduleUsesThrows) {
  Variable* const a = New("a");
  Variable* const b = New("b");
  std::string message;
  const auto schedule = engine_->Record([&] {
    Push([] {}, {}, {a});
    Push(
        [&] {
          // Behind the replay, on its own variable: it needs this operation to end.
          Push([] {}, {}, {a});
          message = ErrorOf(absl::StatusCode::kFailedPrecondition, [&] { engine_->WaitForVar(a); });
        },
        {}, {b}, {.name = "waits"});
  });
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_THAT(message, AllOf(HasSubstr("waits"), HasSubstr("\"a\"")));
}

TEST_P(ScheduleTest, AWaitInsideForOtherThingsEnds) {
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

TEST_P(ScheduleTest, ReplaysMayBePushedByOperations) {
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

TEST_P(ScheduleTest, RecordedOperatorsOutliveTheirDeletion) {
  Variable* const a = New();
  int count = 0;
  const auto schedule = engine_->Record([&] {
    EngineOperator* op = engine_->NewOperator([&](RunContext) { ++count; }, {}, {a});
    engine_->Push(op, kCpu);
    engine_->Push(op, kCpu);
    engine_->DeleteOperator(op);
  });
  schedule->Replay();
  engine_->WaitForVar(a);
  EXPECT_EQ(count, 2);
}

TEST_P(ScheduleTest, VariablesOfTheRecordingGoWithTheSchedule) {
  Variable* const a = New();
  int value = 0, result = 0;
  auto schedule = engine_->Record([&] {
    Variable* const temporary = engine_->NewVariable("temporary");
    Push([&] { ++value; }, {}, {temporary});
    Push([&] { result = value; }, {temporary}, {a});
    engine_->DeleteVariable(temporary);
    EXPECT_THAT(ErrorOf(absl::StatusCode::kInvalidArgument, [&] { Push([] {}, {temporary}, {}); }),
                AllOf(HasSubstr("temporary"), HasSubstr("was deleted")));
  });
  for (int i = 0; i < 5; ++i) schedule->Replay();
  schedule.reset();  // the replays end all the same
  engine_->WaitForVar(a);
  EXPECT_EQ(result, 5);
}

/// Values that belong to the schedule: replays on other outputs must not run at once all the same.
TEST_P(ScheduleTest, ReplaysShareVariablesOfTheScheduleOneAfterAnother) {
  constexpr int kReplays = 200;
  Variable* const recorded = New();
  int inside = 0, other = 0, state = 0;
  std::vector<int> results(kReplays);
  const auto schedule = engine_->Record(
      [&] {
        Variable* const a = engine_->NewVariable();
        Variable* const b = engine_->NewVariable();
        Variable* const kept = engine_->NewVariable();  // read before it is written
        engine_->PushSync(
            [&](RunContext context) { inside = *static_cast<int*>(context.slots[0]); }, kCpu, {},
            {a});
        Push([&] { other = inside + 1; }, {a}, {b});
        Push([&] { ++state; }, {}, {}, {.updates = std::array{kept}});
        engine_->PushSync(
            [&](RunContext context) {
              *static_cast<int*>(context.slots[1]) = 10 * inside + other + state;
            },
            kCpu, {a, b, kept}, {recorded});
        for (Variable* variable : {a, b, kept}) engine_->DeleteVariable(variable);
      },
      {.slots = 2});
  std::vector<Variable*> outputs;
  std::vector<int> inputs(kReplays);
  for (int i = 0; i < kReplays; ++i) {
    outputs.push_back(New());
    inputs[i] = i;
    void* const slots[] = {&inputs[i], &results[i]};
    const VariableBinding bound[] = {{.recorded = recorded, .actual = outputs[i]}};
    schedule->Replay({.slots = slots, .variables = bound});
  }
  engine_->WaitForAll();
  for (int i = 0; i < kReplays; ++i) EXPECT_EQ(results[i], 10 * i + i + 1 + i + 1);
}

TEST_P(ScheduleTest, AVariableFromBeforeTheRecordingKeepsItsOrderWhenThatDeletesIt) {
  Variable* const shared = engine_->NewVariable();
  int value = 0, seen = 0;
  std::latch go_on(1);
  if (GetParam().threaded()) {
    Push(
        [&] {
          go_on.wait();
          value = 1;
        },
        {}, {shared});
  }
  const auto schedule = engine_->Record([&] {
    Push([&] { value = 10 * value + 2; }, {}, {shared});
    Push([&] { seen = value; }, {shared}, {New()});
    engine_->DeleteVariable(shared);
  });
  schedule->Replay();
  go_on.count_down();
  engine_->WaitForAll();
  EXPECT_EQ(seen, GetParam().threaded() ? 12 : 2);
}

TEST_P(ScheduleTest, AReplayOnADeletedVariableIsAnError) {
  Variable* const a = engine_->NewVariable("gone");
  int count = 0;
  const auto schedule = engine_->Record([&] { Push([&] { ++count; }, {}, {a}); });
  schedule->Replay();
  engine_->DeleteVariable(a);  // after the replay
  engine_->WaitForAll();
  EXPECT_EQ(count, 1);
  EXPECT_THAT(ErrorOf(absl::StatusCode::kInvalidArgument, [&] { schedule->Replay(); }),
              AllOf(HasSubstr("gone"), HasSubstr("deleted")));
  // Its memory may be that of a new one by now.
  std::vector<Variable*> others;
  for (int i = 0; i < 200; ++i) others.push_back(engine_->NewVariable());
  EXPECT_THAT(ErrorOf(absl::StatusCode::kInvalidArgument, [&] { schedule->Replay(); }),
              HasSubstr("gone"));
  for (Variable* other : others) engine_->DeleteVariable(other);
  engine_->WaitForAll();
  EXPECT_EQ(count, 1);
}

TEST_P(ScheduleTest, ARecordingHasNoPlaceForWaits) {
  Variable* const a = New();
  const auto nothing = engine_->Record([] {});
  nothing->Replay();
  EXPECT_EQ(nothing->size(), 0u);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { engine_->WaitForVar(a); }, [&] { engine_->WaitForAll(); },
           [&] { nothing->Replay(); }, [&] { engine_->Record([] {}); }}) {
    EXPECT_THAT(ErrorOf(absl::StatusCode::kFailedPrecondition, [&] { engine_->Record(call); }),
                HasSubstr("records a schedule"));
  }
  bool ran = false;
  Push([&] { ran = true; }, {}, {a});
  engine_->WaitForVar(a);
  EXPECT_TRUE(ran) << "the thread still records";
}

TEST_P(ScheduleTest, ARecordingThatThrowsLeavesNothing) {
  bool ran = false;
  EXPECT_THROW(engine_->Record([&] {
    Variable* const temporary = engine_->NewVariable();
    Push([&] { ran = true; }, {}, {temporary});
    engine_->DeleteVariable(temporary);
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  engine_->WaitForAll();
  EXPECT_FALSE(ran);
}

TEST_P(ScheduleTest, DescribeTellsPathWidthAndVariables) {
  Variable* const a = New("a");
  Variable* const b = New("b");
  Variable* const c = New("c");
  Variable* const d = New("d");
  const auto schedule = engine_->Record(
      [&] {
        Push([] {}, {a}, {b}, {.name = "first"});
        Push([] {}, {b}, {c}, {.name = "left"});
        Push([] {}, {b}, {}, {.name = "right", .updates = std::array{d}});
        Push([] {}, {c}, {}, {.name = "last \"one\"", .updates = std::array{d}});
      },
      {.name = "diamond", .slots = 1});
  EXPECT_THAT(schedule->Describe(),
              AllOf(HasSubstr("schedule \"diamond\": 4 operations, 4 dependencies, 1 slot\n"),
                    HasSubstr("critical path: 3 operations: first > left > last \"one\"\n"),
                    HasSubstr("width: 2, at step 2"), HasSubstr("reads 1 variable: variable \"a\""),
                    HasSubstr("writes 2 variables: variable \"b\""),
                    HasSubstr("updates 1 variable: variable \"d\"")));
  EXPECT_THAT(
      schedule->Graphviz(),
      AllOf(HasSubstr("digraph \"diamond\" {\n"), HasSubstr("n0 [label=\"first\", style=bold];"),
            HasSubstr("n2 [label=\"right\"];"), HasSubstr("label=\"last \\\"one\\\"\""),
            HasSubstr("n0 -> n1 [style=bold];"), HasSubstr("n0 -> n2;"), HasSubstr("n2 -> n3;"),
            Not(HasSubstr("n0 -> n3"))));
}

TEST_P(ThreadedScheduleTest, AStallReportNamesTheReplay) {
  std::mutex mutex;
  std::string report;
  const auto engine =
      GetParam().Make({.stall_report_ms = 20, .stall_report = [&](const auto& text) {
                         std::lock_guard<std::mutex> hold(mutex);
                         report = text;
                       }});
  Variable* const a = engine->NewVariable("a");
  std::latch go_on(1);
  const auto schedule =
      engine->Record([&] { engine->PushSync([&](RunContext) { go_on.wait(); }, kCpu, {}, {a}); },
                     {.name = "epoch"});
  schedule->Replay();
  std::thread waiter([&] { engine->WaitForVar(a); });
  for (;;) {
    std::lock_guard<std::mutex> hold(mutex);
    if (!report.empty()) break;
  }
  go_on.count_down();
  waiter.join();
  EXPECT_THAT(report, AllOf(HasSubstr("replay of \"epoch\""), HasSubstr("\"a\"")));
  engine->DeleteVariable(a);
}

TEST_P(ScheduleTest, ATraceHasEachOperationOfEachReplay) {
  Variable* const a = New();
  Variable* const b = New();
  const auto schedule = engine_->Record([&] {
    Push([] {}, {}, {a}, {.name = "produce"});
    Push([] {}, {a}, {b}, {.name = "consume"});
  });
  engine_->StartTrace();
  schedule->Replay();
  schedule->Replay();
  engine_->WaitForAll();
  const std::string trace = engine_->StopTrace();
  const auto count = [&trace](const std::string& text) {
    int found = 0;
    for (size_t at = trace.find(text); at != std::string::npos; at = trace.find(text, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("\"name\":\"produce\""), 2);
  EXPECT_EQ(count("\"name\":\"consume\""), 2);
  EXPECT_THAT(trace, HasSubstr("schedule_test.cc"));
}

TEST_P(ScheduleTest, SchedulesMayBeDestroyedWhileThreadsReplayOthers) {
  Variable* const a = New();
  uint64_t count = 0;
  constexpr int kThreads = 4, kRounds = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        Variable* const own = engine_->NewVariable();
        auto schedule = engine_->Record([&] {
          for (int i = 0; i < 5; ++i) Push([] {}, {own}, {});
          Push([] {}, {}, {own});
          for (int i = 0; i < 3; ++i) {
            Push([&] { ++count; }, {own}, {}, {.updates = std::array{a}});
          }
        });
        for (int i = 0; i <= (round + t) % 4; ++i) schedule->Replay();
        if (round % 2 == 0) schedule.reset();
        engine_->DeleteVariable(own);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  engine_->WaitForAll();
  uint64_t expected = 0;
  for (int t = 0; t < kThreads; ++t) {
    for (int round = 0; round < kRounds; ++round) expected += 3 * ((round + t) % 4 + 1);
  }
  EXPECT_EQ(count, expected);
}

}  // namespace
}  // namespace tessera
