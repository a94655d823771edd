// What runs, waits and returns while the engine stops: see Engine::Stop.

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/testing/thread_sleep.h"

namespace tessera {
namespace {

using engine_internal::AwaitSleep;
using engine_internal::ConfigurationName;
using engine_internal::EngineConfigurationTest;
using engine_internal::PushOpen;
using engine_internal::ThisThread;
using engine_internal::ThreadedConfigurations;

constexpr Device kCpu = Device::Cpu();

class EngineStopTest : public EngineConfigurationTest {
 protected:
  /// Returns when the engine says that it is stopped.
  void AwaitStopped() {
    while (engine_->DebugString().find("stopped") == std::string::npos) std::this_thread::yield();
  }
};
INSTANTIATE_TEST_SUITE_P(All, EngineStopTest, testing::ValuesIn(ThreadedConfigurations()),
                         ConfigurationName);

TEST_P(EngineStopTest, WhatAWaitNeedsRunsAlthoughTheEngineStops) {
  Variable *inner = New(), *outer = New();
  std::latch begun(1);
  std::atomic<bool> ran{false};
  engine_->PushSync(
      [&](RunContext context) {
        begun.count_down();
        AwaitStopped();
        context.engine->PushSync([&](RunContext) { ran = true; }, kCpu, {}, {inner});
        context.engine->WaitForVar(inner);
      },
      kCpu, {}, {outer});
  begun.wait();
  engine_->Stop();  // returns, though the operation waits
  EXPECT_TRUE(ran);
  engine_->Start();
  engine_->WaitForVar(outer);
}

TEST_P(EngineStopTest, ReadersThatHoldBackAWriteRunAlthoughTheEngineStops) {
  Variable *x = New(), *outer = New();
  std::latch begun(1);
  std::atomic<int> reads{0};
  engine_->PushSync(
      [&](RunContext context) {
        begun.count_down();
        AwaitStopped();
        // Both are ready or queued in a stopped engine, and the wait is for the write alone.
        context.engine->PushSync([&](RunContext) { ++reads; }, kCpu, {x}, {});
        context.engine->PushSync([](RunContext) {}, kCpu, {}, {x});
        context.engine->WaitForVar(x);
      },
      kCpu, {}, {outer});
  begun.wait();
  engine_->Stop();
  EXPECT_EQ(reads, 1);
  engine_->Start();
  engine_->WaitForVar(outer);
}

TEST_P(EngineStopTest, AllThatAWaitNeedsRunsAlthoughTheEngineStopsHoweverMuchItIs) {
  constexpr int kWrites = 20000;
  Variable *x = New(), *y = New(), *outer = New();
  std::latch begun(1);
  std::atomic<int> runs{0};
  engine_->PushSync(
      [&](RunContext context) {
        begun.count_down();
        AwaitStopped();
        for (int i = 0; i < kWrites; ++i) {
          Variable *const source = New();
          context.engine->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {source});
          // Each pair stands in two lines, both of which are as long as that.
          context.engine->PushSync([&](RunContext) { ++runs; }, kCpu, {source}, {},
                                   {.updates = {x, y}});
          engine_->DeleteVariable(source);
        }
        context.engine->WaitForVar(x);
      },
      kCpu, {}, {outer});
  begun.wait();
  engine_->Stop();
  EXPECT_EQ(runs, 2 * kWrites);
  engine_->Start();
  engine_->WaitForVar(outer);
}

TEST_P(EngineStopTest, AReplayThatAWaitNeedsGoesOnAlthoughTheEngineStops) {
  Variable *x = New(), *outer = New();
  std::atomic<int> runs{0};
  const auto schedule = engine_->Record([&] {
    for (int i = 0; i < 50; ++i) engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {x});
  });
  std::latch begun(1);
  engine_->PushSync(
      [&](RunContext context) {
        begun.count_down();
        AwaitStopped();
        schedule->Replay();
        context.engine->WaitForVar(x);
      },
      kCpu, {}, {outer});
  begun.wait();
  engine_->Stop();
  EXPECT_EQ(runs, 50);
  engine_->Start();
  engine_->WaitForVar(outer);
}

// More than one stack may hold.
TEST_P(EngineStopTest, AnyNumberOfNestedWaitsEndsAlthoughTheEngineStops) {
  constexpr size_t kDepth = 350;
  std::vector<Variable *> variables;
  for (size_t i = 0; i <= kDepth; ++i) variables.push_back(New());
  std::thread stopper;
  size_t ended = 0;
  const std::function<void(size_t)> descend = [&](size_t depth) {
    if (depth == 10) {
      stopper = std::thread([&] { engine_->Stop(); });
      AwaitStopped();
    }
    if (depth == kDepth) return;
    engine_->PushSync([&, depth](RunContext) { descend(depth + 1); }, kCpu, {},
                      {variables[depth + 1]});
    engine_->WaitForVar(variables[depth + 1]);
    ++ended;
  };
  std::latch over(1);
  engine_->PushSync([&](RunContext) { descend(0), over.count_down(); }, kCpu, {}, {variables[0]});
  over.wait();
  stopper.join();
  EXPECT_EQ(ended, kDepth);
  engine_->Start();
  engine_->WaitForAll();
}

// As many as lie on one stack. What is ready first is another wait's, and waits for the bottom of
// it.
TEST_P(EngineStopTest, DeepWaitsEndThoughWhatIsReadyWaitsForThemWhileTheEngineStops) {
  constexpr size_t kDepth = 101;
  std::vector<Variable *> nested;
  for (size_t i = 0; i <= kDepth; ++i) nested.push_back(New());
  Variable *top_gate = New(), *other_gate = New(), *other = New(), *held = New(), *both = New();
  const OnComplete open_top = PushOpen(*engine_, top_gate);
  const OnComplete open_other = PushOpen(*engine_, other_gate);
  engine_->PushSync([](RunContext) {}, kCpu, {top_gate}, {nested[kDepth]});
  std::promise<pid_t> top;
  const std::function<void(size_t)> descend = [&](size_t depth) {
    if (depth + 1 == kDepth) {
      top.set_value(ThisThread());
    } else {
      engine_->PushSync([&, depth](RunContext) { descend(depth + 1); }, kCpu, {},
                        {nested[depth + 1]});
    }
    engine_->WaitForVar(nested[depth + 1]);
  };
  engine_->PushSync([&](RunContext) { descend(0); }, kCpu, {}, {nested[0]});
  const pid_t top_thread = top.get_future().get();
  AwaitSleep(top_thread);
  std::latch other_begun(1), blocks(1), release(1);
  engine_->PushSync(
      [&](RunContext) {
        other_begun.count_down();
        engine_->WaitForVar(nested[0]);
      },
      kCpu, {other_gate}, {other});
  // The thread of the wait that needs it blocks: with one worker nobody else is awake.
  engine_->PushSync(
      [&](RunContext) {
        engine_->PushSync([&](RunContext) { blocks.count_down(), release.wait(); }, kCpu, {},
                          {held}, {.property = FnProperty::kAsync});
        engine_->PushSync([](RunContext) {}, kCpu, {held, other}, {both});
        engine_->WaitForVar(both);
      },
      kCpu, {}, {});
  blocks.wait();
  std::thread stopper([&] { engine_->Stop(); });
  AwaitStopped();
  AwaitSleep(top_thread);
  open_other();
  other_begun.wait();
  open_top();
  release.count_down();
  stopper.join();
  EXPECT_EQ(engine_->counters().pending, 0u);
  engine_->Start();
  engine_->WaitForAll();  // none of the waits was refused
}

TEST_P(EngineStopTest, StopReturnsWhenSomebodyStarts) {
  for (int i = 0; i < 50; ++i) {
    Variable *const variable = New();
    std::latch begun(1);
    std::promise<void> end;
    engine_->PushSync(
        [&](RunContext) {
          begun.count_down();
          end.get_future().wait();
        },
        kCpu, {}, {variable});
    begun.wait();
    std::thread stopper([&] { engine_->Stop(); });
    AwaitStopped();
    engine_->Start();
    if (i % 2 == 0) stopper.join();
    end.set_value();
    if (i % 2 != 0) stopper.join();
    engine_->WaitForVar(variable);
  }
}

TEST_P(EngineStopTest, StopStartAndShutdownMayMeet) {
  for (int i = 0; i < 20; ++i) {
    const auto engine = GetParam().Make();
    Variable *const variable = engine->NewVariable();
    std::atomic<int> runs{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int k = 0; k < 20; ++k) t == 0 ? engine->Stop() : engine->Start();
      });
    }
    for (int k = 0; k < 100; ++k) {
      engine->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {variable});
    }
    engine->Shutdown();
    EXPECT_EQ(runs, 100);
    for (std::thread &thread : threads) thread.join();
  }
}

// A wait begins with what it finds soon. All of it has to be known where nothing else begins.
TEST(NaiveEngineStopTest, AWaitThatNeedsManyOperationsEndsThoughTheEngineStops) {
  constexpr int kMany = 20000;
  const auto engine = Engine::Create({.kind = EngineKind::kNaive, .max_pending = 0});
  Variable *const gate = engine->NewVariable(), *const needed = engine->NewVariable();
  const OnComplete open = PushOpen(*engine, gate);
  for (int i = 0; i < kMany; ++i) {
    Variable *const own = engine->NewVariable();
    engine->PushSync([](RunContext) {}, kCpu, {gate}, {own});
    engine->PushSync([](RunContext) {}, kCpu, {own}, {needed});
  }
  std::promise<pid_t> waiting, stopping;
  std::thread waiter([&] {
    engine->PushSync(
        [&](RunContext context) {
          waiting.set_value(ThisThread());
          context.engine->WaitForVar(needed);
        },
        kCpu, {}, {});
  });
  AwaitSleep(waiting.get_future().get());
  std::thread stopper([&] {
    stopping.set_value(ThisThread());
    engine->Stop();
  });
  AwaitSleep(stopping.get_future().get());
  open();
  stopper.join();
  waiter.join();
  engine->Start();
  engine->WaitForAll();
  EXPECT_EQ(engine->counters().run, 2u * kMany + 2u);
}

}  // namespace
}  // namespace tessera
