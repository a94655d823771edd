// The promises of an engine about its bound on pending operations.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/testing/thread_sleep.h"

namespace tessera {
namespace {

using engine_internal::AllConfigurations;
using engine_internal::ConfigurationName;
using engine_internal::EngineConfigurationTest;
using engine_internal::PushOpen;
using engine_internal::ThreadedConfigurations;

constexpr Device kCpu = Device::Cpu();

class EngineBoundTest : public EngineConfigurationTest {};
INSTANTIATE_TEST_SUITE_P(All, EngineBoundTest, testing::ValuesIn(AllConfigurations()),
                         ConfigurationName);

class ThreadedEngineBoundTest : public EngineConfigurationTest {};
INSTANTIATE_TEST_SUITE_P(All, ThreadedEngineBoundTest, testing::ValuesIn(ThreadedConfigurations()),
                         ConfigurationName);

TEST_P(EngineBoundTest, PushersOutsideWaitForRoom) {
  const auto engine = GetParam().Make({.max_pending = 10});
  Variable* variable = engine->NewVariable();
  uint64_t most = 0;
  for (int i = 0; i < 5000; ++i) {
    engine->PushSync([](RunContext) {}, kCpu, {}, {variable});
    most = std::max(most, engine->counters().pending);
  }
  EXPECT_LE(most, 10u);
  engine->WaitForAll();
}

// Who pushes may be who completes.
TEST_P(ThreadedEngineBoundTest, WhereOneMayPendTheFirstPushDoesNotWaitForItself) {
  const auto engine = GetParam().Make({.max_pending = 1});
  PushOpen(*engine, engine->NewVariable())();
  engine->WaitForAll();
  EXPECT_EQ(engine->counters().run, 1u);
}

TEST_P(ThreadedEngineBoundTest, APusherSleepsAtTheBoundUntilThereIsRoomOrTheEngineStops) {
  for (const bool stops : {false, true}) {
    const auto engine = GetParam().Make({.max_pending = 10});
    Variable* variable = engine->NewVariable();
    std::promise<OnComplete> handle;
    engine->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                      {variable});
    const OnComplete done = handle.get_future().get();
    std::atomic<int> pushes{0};
    std::atomic<pid_t> pushing{0};
    std::thread pusher([&] {
      pushing = engine_internal::ThisThread();
      for (int i = 0; i < 50; ++i, ++pushes) {
        engine->PushSync([](RunContext) {}, kCpu, {}, {variable});
      }
    });
    while (engine->counters().pending < 10) std::this_thread::yield();
    engine_internal::AwaitSleep(pushing);
    EXPECT_EQ(engine->counters().pending, 10u);
    EXPECT_EQ(pushes, 8) << "the ninth call sleeps";
    std::thread stopper;
    if (stops) {
      stopper = std::thread([&] { engine->Stop(); });
      pusher.join();  // what is pushed to a stopped engine is kept
    }
    done();
    if (stops) {
      stopper.join();
      EXPECT_GE(engine->counters().pending, 40u);
      engine->Start();
    } else {
      pusher.join();
    }
    engine->WaitForAll();
    EXPECT_EQ(engine->counters().run, 51u);
  }
}

TEST_P(EngineBoundTest, PushersInsideOperationsAreNeverStuck) {
  const auto engine = GetParam().Make({.max_pending = 4});
  Variable *blocked = engine->NewVariable(), *open = engine->NewVariable();
  int after = 0;
  std::atomic<int> aside{0};
  engine->PushSync(
      [&](RunContext context) {
        for (int i = 0; i < 1000; ++i) {
          context.engine->PushSync([&](RunContext) { ++after; }, kCpu, {}, {blocked});
          context.engine->PushSync([&](RunContext) { ++aside; }, kCpu, {}, {open});
        }
      },
      kCpu, {}, {blocked});
  engine->WaitForAll();
  EXPECT_EQ(after, 1000);
  EXPECT_EQ(aside, 1000);
}

TEST_P(EngineBoundTest, OperationsPushWithoutABound) {
  const auto engine = GetParam().Make({.max_pending = 4});
  Variable* const variable = engine->NewVariable();
  uint64_t most = 0;
  engine->PushSync(
      [&](RunContext context) {
        for (int i = 0; i < 100; ++i)
          context.engine->PushSync([](RunContext) {}, kCpu, {}, {variable});
        most = context.engine->counters().pending;
      },
      kCpu, {}, {variable});
  engine->WaitForAll();
  EXPECT_EQ(most, 101u);
}

TEST_P(EngineBoundTest, WithoutABoundPushesNeverWait) {
  const auto engine = GetParam().Make({.max_pending = 0});
  Variable* variable = engine->NewVariable();
  std::vector<OnComplete> first;
  std::latch started(1);
  engine->PushAsync(
      [&](RunContext, OnComplete done) { first.push_back(done), started.count_down(); }, kCpu, {},
      {variable});
  started.wait();
  for (int i = 0; i < 200000; ++i) engine->PushSync([](RunContext) {}, kCpu, {}, {variable});
  EXPECT_EQ(engine->counters().pending, 200001u);
  first[0]();
  engine->WaitForAll();
}

}  // namespace
}  // namespace tessera
