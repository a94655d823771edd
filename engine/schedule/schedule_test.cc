// Recordings, and the slots and variables that replays are given: see schedule.h.

#include "tessera/engine/schedule.h"

#include <array>
#include <cstdint>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/testing/schedule_fixture.h"

namespace tessera {
namespace {

using engine_internal::MessageWith;
using engine_internal::ScheduleFixture;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr Device kCpu = Device::Cpu();

class ScheduleTest : public ScheduleFixture {};
INSTANTIATE_TEST_SUITE_P(All, ScheduleTest, testing::ValuesIn(engine_internal::AllConfigurations()),
                         engine_internal::ConfigurationName);

/// Engines that replay a schedule as a whole; NaiveEngine pushes its operations one by one.
class ThreadedScheduleTest : public ScheduleFixture {};
INSTANTIATE_TEST_SUITE_P(All, ThreadedScheduleTest,
                         testing::ValuesIn(engine_internal::ThreadedConfigurations()),
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

TEST_P(ScheduleTest, RecordedDeletionsAreCheckedAndHappenOnce) {
  Variable* const a = engine_->NewVariable("a");
  auto first = engine_->Record([&] {
    engine_->DeleteVariable(a);
    EXPECT_THAT(MessageWith(Error::kInvalidArgument, [&] { engine_->DeleteVariable(a); }),
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

// Neither may a destructor throw, nor may the deletion become part of the other recording.
TEST_P(ScheduleTest, AScheduleMayGoWhileAnotherIsRecorded) {
  Variable* const a = engine_->NewVariable("a");
  Variable* const b = engine_->NewVariable("b");
  auto old = engine_->Record([&] {
    Push([] {}, {}, {a});
    engine_->DeleteVariable(a);
    engine_->DeleteVariable(b);
  });
  auto schedule = engine_->Record([&] {
    engine_->DeleteVariable(b);
    old.reset();
  });
  EXPECT_THAT(MessageWith(Error::kInvalidArgument, [&] { Push([] {}, {}, {a}); }),
              HasSubstr("deleted"));
  schedule.reset();
  engine_->WaitForAll();
}

TEST_P(ScheduleTest, SchedulesThatDeleteTheSameVariableMayGoAtOnce) {
  for (int round = 0; round < 200; ++round) {
    Variable* const a = engine_->NewVariable();
    std::unique_ptr<Schedule> schedules[2];
    for (auto& schedule : schedules) {
      schedule = engine_->Record([&] { engine_->DeleteVariable(a); });
    }
    std::latch both(2);
    std::thread other([&] {
      both.arrive_and_wait();
      schedules[0].reset();
    });
    both.arrive_and_wait();
    schedules[1].reset();
    New();  // maybe in the place of a; it goes with the test, which throws if it is gone
    other.join();
  }
}

TEST_P(ScheduleTest, EachVariableOfAScheduleCanBeAwaited) {
  constexpr int kVariables = 8;
  std::vector<Variable*> variables;
  for (int i = 0; i < kVariables; ++i) variables.push_back(New());
  std::vector<int> values(kVariables, 0);
  const auto schedule = engine_->Record([&] {
    for (int i = 0; i < kVariables; ++i) {
      std::vector<Variable*> reads;
      if (i > 0) reads.push_back(variables[i - 1]);
      Push([&values, i] { values[i] += i == 0 ? 1 : values[i - 1]; }, reads, {},
           {.updates = std::array{variables[i]}});
    }
  });
  std::vector<int> expected(kVariables, 0);
  for (int replay = 0; replay < 5; ++replay) {
    for (int awaited = 0; awaited < kVariables; ++awaited) {
      schedule->Replay();
      for (int i = 0; i < kVariables; ++i) expected[i] += i == 0 ? 1 : expected[i - 1];
      engine_->WaitForVar(variables[awaited]);
      ASSERT_EQ(values[awaited], expected[awaited]);
    }
  }
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
  EXPECT_THAT(MessageWith(Error::kInvalidArgument, [&] { schedule->Replay(); }),
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
  EXPECT_THAT(MessageWith(Error::kInvalidArgument,
                          [&] { schedule->Replay({.slots = slots, .variables = unknown}); }),
              HasSubstr("does not use"));
  const VariableBinding twice[] = {{.recorded = batch, .actual = weight}};
  EXPECT_THAT(MessageWith(Error::kInvalidArgument,
                          [&] { schedule->Replay({.slots = slots, .variables = twice}); }),
              AllOf(HasSubstr("weight"), HasSubstr("both read and updated")));
  const VariableBinding again[] = {{.recorded = batch, .actual = batches[0]},
                                   {.recorded = batch, .actual = batches[1]}};
  EXPECT_THAT(MessageWith(Error::kInvalidArgument,
                          [&] { schedule->Replay({.slots = slots, .variables = again}); }),
              HasSubstr("two bindings"));
  const VariableBinding null[] = {{.recorded = batch, .actual = nullptr}};
  EXPECT_THAT(MessageWith(Error::kInvalidArgument,
                          [&] { schedule->Replay({.slots = slots, .variables = null}); }),
              HasSubstr("null"));
  schedule->Replay({.slots = slots});  // none of these has changed anything
  engine_->WaitForAll();
  EXPECT_EQ(total, kBatches * (kBatches + 1) / 2 + 1000);
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
    EXPECT_THAT(MessageWith(Error::kInvalidArgument, [&] { Push([] {}, {temporary}, {}); }),
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
  EXPECT_THAT(trace, HasSubstr("schedule_fixture.h"));
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
