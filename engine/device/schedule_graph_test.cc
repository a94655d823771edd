// Schedules that are one graph for a device, on a simulated one: see "Graphs" in schedule.h.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/testing/simulated_device.h"

namespace tessera {
namespace {

using engine_internal::ConfigurationName;
using engine_internal::EngineConfiguration;
using engine_internal::MessageOf;
using engine_internal::SimulatedDevice;
using engine_internal::ThreadedConfigurations;
using testing::HasSubstr;

constexpr Device kCpu = Device::Cpu();
constexpr Device kGpu = Device::Gpu(0);

class ScheduleGraphTest : public testing::TestWithParam<EngineConfiguration> {
 protected:
  Variable* New(std::string_view name = {}) { return engine_->NewVariable(name); }

  /// Pushes a capturable operation that has the device run `work`.
  void PushWork(std::function<void()> work, VariableList reads, VariableList writes,
                PushOptions options = {}) {
    options.capturable = true;
    engine_->PushSync(
        [this, work = std::move(work)](RunContext context) {
          ++calls_;
          SimulatedDevice::Enqueue(context.stream, work);
        },
        kGpu, reads, writes, options);
  }

  /// An operation that fails when it is called.
  void PushThrow(VariableList reads, VariableList writes) {
    engine_->PushSync([](RunContext) { throw InvalidArgument("no work"); }, kGpu, reads, writes,
                      {.name = "thrower", .capturable = true});
  }

  SimulatedDevice device_;  // outlives the engine
  std::unique_ptr<Engine> engine_ = GetParam().Make();
  std::atomic<int> calls_{0};  // of functions that PushWork has pushed
};
INSTANTIATE_TEST_SUITE_P(All, ScheduleGraphTest, testing::ValuesIn(ThreadedConfigurations()),
                         ConfigurationName);

TEST_P(ScheduleGraphTest, FunctionsAreCalledOnceAndTheirWorkIsDoneEachTime) {
  Variable* variable = New();
  int value = 1;
  const auto schedule = engine_->Record([&] {
    PushWork([&] { value *= 3; }, {}, {}, {.updates = {variable}});
    PushWork([&] { value += 1; }, {}, {}, {.updates = {variable}});
  });
  int expected = 1;
  for (int i = 0; i < 10; ++i) {
    schedule->Replay();
    expected = expected * 3 + 1;
  }
  engine_->WaitForVar(variable);
  EXPECT_EQ(value, expected);
  EXPECT_EQ(calls_, 2);
  EXPECT_EQ(device_.captures(), 1);
  EXPECT_EQ(device_.launches(), 10);
  EXPECT_EQ(variable->version(), 10u);
}

TEST_P(ScheduleGraphTest, NodesKeepTheOrderOfRandomRecordings) {
  std::mt19937 random(11);
  for (int program = 0; program < 20; ++program) {
    constexpr int kVariables = 6;
    std::vector<Variable*> variables;
    for (int i = 0; i < kVariables; ++i) variables.push_back(New());
    std::vector<uint64_t> values(kVariables, 1), expected(kVariables, 1);
    std::vector<std::function<void(std::vector<uint64_t>&)>> steps;
    const auto schedule = engine_->Record([&] {
      for (int i = 0; i < 40; ++i) {
        const size_t from = random() % kVariables;
        const size_t to = (from + 1 + random() % (kVariables - 1)) % kVariables;
        steps.push_back([from, to, i](std::vector<uint64_t>& of) {
          of[to] = of[to] * 31 + of[from] + static_cast<uint64_t>(i);
        });
        PushWork([&values, step = steps.back()] { step(values); }, {variables[from]}, {},
                 {.updates = {variables[to]}});
      }
    });
    for (int replay = 0; replay < 5; ++replay) {
      schedule->Replay();
      for (const auto& step : steps) step(expected);
    }
    engine_->WaitForAll();
    EXPECT_EQ(values, expected) << "program " << program;
  }
  EXPECT_EQ(device_.launches(), 100);
}

TEST_P(ScheduleGraphTest, OtherSlotsAreCapturedOnceMore) {
  Variable* variable = New();
  const auto schedule = engine_->Record(
      [&] {
        engine_->PushSync(
            [this](RunContext context) {
              ++calls_;
              int* const target = static_cast<int*>(context.slots[0]);
              SimulatedDevice::Enqueue(context.stream, [target] { ++*target; });
            },
            kGpu, {}, {variable}, {.capturable = true});
      },
      {.slots = 1});
  int a = 0, b = 0;
  void *const to_a = &a, *const to_b = &b;
  device_.Hold();  // the second capture comes before the first launch is done
  for (int i = 0; i < 3; ++i) schedule->Replay({.slots = {&to_a, 1}});
  for (int i = 0; i < 5; ++i) schedule->Replay({.slots = {&to_b, 1}});
  device_.Resume();
  engine_->WaitForVar(variable);
  EXPECT_EQ(a, 3);
  EXPECT_EQ(b, 5);
  EXPECT_EQ(calls_, 2);
  EXPECT_EQ(device_.captures(), 2);
}

TEST_P(ScheduleGraphTest, AReplayHasItsPlaceAmongPushesOnBothSides) {
  Variable *data = New(), *result = New();
  int value = 0;
  std::vector<int> seen;
  const auto schedule =
      engine_->Record([&] { PushWork([&] { value *= 2; }, {}, {}, {.updates = {data}}); });
  for (int i = 1; i <= 20; ++i) {
    // From the host, from another stream of the device and from the graph's own.
    engine_->PushSync([&, i](RunContext) { value = i; }, kCpu, {}, {data});
    PushWork([&] { value += 100; }, {}, {},
             {.property = FnProperty::kCopyToGpu, .updates = {data}});
    schedule->Replay();
    PushWork([&] { value += 1; }, {}, {}, {.updates = {data}});
    engine_->PushSync([&](RunContext) { seen.push_back(value); }, kCpu, {data}, {result});
  }
  engine_->WaitForAll();
  ASSERT_EQ(seen.size(), 20u);
  for (int i = 1; i <= 20; ++i) EXPECT_EQ(seen[i - 1], (i + 100) * 2 + 1);
  EXPECT_EQ(device_.launches(), 20);
}

TEST_P(ScheduleGraphTest, NobodyWaitsForTheDevice) {
  Variable* variable = New();
  int value = 0;
  const auto schedule =
      engine_->Record([&] { PushWork([&] { ++value; }, {}, {}, {.updates = {variable}}); });
  device_.Hold();
  for (int i = 0; i < 30; ++i) schedule->Replay();
  while (device_.launches() < 30) std::this_thread::yield();
  EXPECT_EQ(value, 0);
  EXPECT_EQ(engine_->counters().pending, 30u);
  device_.Resume();
  engine_->WaitForAll();
  EXPECT_EQ(value, 30);
}

TEST_P(ScheduleGraphTest, CountersCountOperations) {
  Variable *a = New(), *b = New();
  const auto schedule = engine_->Record([&] {
    PushWork([] {}, {}, {a});
    PushWork([] {}, {a}, {b});
  });
  for (int i = 0; i < 4; ++i) schedule->Replay();
  engine_->WaitForAll();
  const EngineCounters counters = engine_->counters();
  EXPECT_EQ(counters.pushed, 8u);
  EXPECT_EQ(counters.run, 8u);
  EXPECT_EQ(counters.skipped, 0u);
}

TEST_P(ScheduleGraphTest, ADeviceThatRefusesIsGivenEachOperation) {
  Variable *a = New(), *b = New();
  int value = 0;
  const auto schedule = engine_->Record([&] {
    PushWork([&] { ++value; }, {}, {}, {.updates = {a}});
    PushWork([&] { value *= 2; }, {a}, {b});
  });
  device_.RefuseGraphs(true);
  schedule->Replay();  // finds out
  engine_->WaitForAll();
  EXPECT_EQ(value, 2);
  device_.RefuseGraphs(false);
  schedule->Replay();  // does not try again
  engine_->WaitForAll();
  EXPECT_EQ(value, 6);
  EXPECT_EQ(calls_, 4);
  EXPECT_EQ(device_.captures(), 0);
  EXPECT_EQ(engine_->counters().run, 4u);
}

TEST_P(ScheduleGraphTest, OneOperationThatIsNotCapturableMakesAllOfThemPushes) {
  Variable *a = New(), *b = New();
  int value = 0;
  const auto mixed = engine_->Record([&] {
    PushWork([&] { ++value; }, {}, {}, {.updates = {a}});
    engine_->PushSync([&](RunContext) { value *= 2; }, kCpu, {a}, {b});
  });
  const auto two_devices = engine_->Record([&] {
    PushWork([&] { ++value; }, {}, {}, {.updates = {a}});
    engine_->PushSync(
        [&](RunContext context) { SimulatedDevice::Enqueue(context.stream, [&] { value *= 2; }); },
        Device::Gpu(1), {a}, {b}, {.capturable = true});
  });
  const auto asynchronous = engine_->Record([&] {
    engine_->PushAsync(
        [&](RunContext context, OnComplete on_complete) {
          SimulatedDevice::Enqueue(context.stream, [&] { ++value; });
          on_complete();
        },
        kGpu, {}, {}, {.updates = {a}, .capturable = true});
  });
  mixed->Replay();
  engine_->WaitForAll();
  two_devices->Replay();
  engine_->WaitForAll();
  asynchronous->Replay();
  engine_->WaitForAll();
  EXPECT_EQ(value, 7);
  EXPECT_EQ(device_.captures(), 0);
}

TEST_P(ScheduleGraphTest, NoOtherPushComesBetweenOperationsThatArePushedByThemselves) {
  constexpr int kReplays = 300, kThreads = 2;
  Variable *a = New(), *b = New(), *c = New();
  int at_a = 0, at_b = 0, at_c = 0, between = 0;
  const auto mixed = engine_->Record([&] {
    engine_->PushSync([&](RunContext) { ++at_a; }, kCpu, {}, {}, {.updates = {a}});
    PushWork([&] { ++at_b; }, {}, {}, {.updates = {b}});
    engine_->PushSync([&](RunContext) { ++at_c; }, kCpu, {}, {}, {.updates = {c}});
  });
  std::atomic<int> replaying{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int replay = 0; replay < kReplays; ++replay) mixed->Replay();
      --replaying;
    });
  }
  Variable* const result = New();
  while (replaying > 0) {
    engine_->PushSync([&](RunContext) { between += at_a != at_b || at_b != at_c; }, kCpu, {a, b, c},
                      {}, {.updates = {result}});
  }
  for (std::thread& thread : threads) thread.join();
  engine_->WaitForAll();
  EXPECT_EQ(between, 0);
  EXPECT_EQ(at_a, kReplays * kThreads);
  EXPECT_EQ(at_b, kReplays * kThreads);
}

TEST_P(ScheduleGraphTest, AFunctionThatThrowsMarksWhatItWrites) {
  Variable *a = New("a"), *b = New("b"), *c = New("c");
  int value = 0;
  const auto schedule = engine_->Record([&] {
    PushWork([&] { ++value; }, {}, {a});
    PushThrow({}, {b});
    PushWork([&] { value += 10; }, {b}, {c});
  });
  schedule->Replay();
  engine_->WaitForVar(a);
  EXPECT_EQ(value, 1);
  EXPECT_THAT(MessageOf([&] { engine_->WaitForVar(c); }), HasSubstr("thrower"));
  engine_->WaitForVar(b);  // one chain, one report
  engine_->WaitForAll();
  EXPECT_EQ(engine_->counters().skipped, 1u);
  EXPECT_EQ(engine_->counters().run, 2u);
}

TEST_P(ScheduleGraphTest, AnErrorOnAnInputSkipsOnlyWhatDependsOnIt) {
  Variable *input = New("input"), *a = New("a"), *b = New("b");
  int at_a = 0, at_b = 0;
  const auto schedule = engine_->Record([&] {
    PushWork([&] { ++at_a; }, {input}, {a});
    PushWork([&] { ++at_b; }, {}, {b});
  });
  engine_->PushSync([](RunContext) { throw InvalidArgument("spoilt"); }, kCpu, {}, {input},
                    {.name = "spoiler"});
  schedule->Replay();
  EXPECT_THAT(MessageOf([&] { engine_->WaitForVar(a); }), HasSubstr("spoiler"));
  engine_->WaitForVar(b);
  EXPECT_EQ(at_a, 0);
  EXPECT_EQ(at_b, 1);
  // Written afresh the input is sound, and the graph is launched.
  engine_->PushSync([](RunContext) {}, kCpu, {}, {input});
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_EQ(at_a, 1);
  EXPECT_EQ(at_b, 2);
  EXPECT_EQ(device_.launches(), 1);
}

TEST_P(ScheduleGraphTest, AnErrorOfTheDeviceMarksAllThatTheScheduleWrites) {
  Variable *a = New("a"), *b = New("b");
  const auto schedule = engine_->Record(
      [&] {
        PushWork([] {}, {}, {a});
        PushWork([] {}, {}, {b});
      },
      {.name = "step"});
  device_.Fail("the device has burnt");
  schedule->Replay();
  const std::string message = MessageOf([&] { engine_->WaitForVar(a); });
  EXPECT_THAT(message, HasSubstr("the device has burnt"));
  EXPECT_THAT(message, HasSubstr("step"));
  engine_->WaitForVar(b);  // of the same chain
  device_.Repair();
  schedule->Replay();
  engine_->WaitForAll();
}

TEST_P(ScheduleGraphTest, BindingsAndDeletionsHoldForGraphs) {
  Variable *recorded = New("recorded"), *actual = New("actual");
  int value = 0;
  auto schedule = engine_->Record([&] {
    Variable* own = New("own");
    PushWork([&] { value = 5; }, {}, {own});
    PushWork([&] { value += 1; }, {own}, {recorded});
    engine_->DeleteVariable(own);
  });
  const VariableBinding binding{recorded, actual};
  schedule->Replay({.variables = {&binding, 1}});
  schedule->Replay();
  schedule.reset();  // while replays pend
  engine_->WaitForVar(actual);
  engine_->WaitForVar(recorded);
  EXPECT_EQ(value, 6);
  EXPECT_EQ(actual->version(), 1u);
  EXPECT_EQ(recorded->version(), 1u);
  engine_->WaitForAll();
}

TEST_P(ScheduleGraphTest, ReplaysThatWriteNothingMayComeFromManyThreads) {
  Variable* data = New();
  std::atomic<int> reads{0};
  const auto schedule = engine_->Record([&] {
    for (int i = 0; i < 3; ++i) PushWork([&] { ++reads; }, {data}, {});
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) schedule->Replay();
    });
  }
  for (std::thread& thread : threads) thread.join();
  engine_->WaitForAll();
  EXPECT_EQ(reads, 600);
}

}  // namespace
}  // namespace tessera
