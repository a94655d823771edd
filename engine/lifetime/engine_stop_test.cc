// Operations and waits while the engine stops: see Engine::Stop.

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

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/testing/thread_sleep.h"

namespace tessera {
namespace {

using engine_internal::AwaitSleep;
using engine_internal::ConfigurationName;
using engine_internal::EngineConfigurationTest;
using engine_internal::MessageOf;
using engine_internal::PushOpen;
using engine_internal::ThisThread;
using engine_internal::ThreadedConfigurations;
using testing::HasSubstr;

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

TEST_P(EngineStopTest, AWaitForAWriteThatHasNotBegunThrowsWhileTheEngineIsStopped) {
  for (const bool pushed_before : {false, true}) {
    Variable *gate = New(), *inner = New(), *outer = New();
    const OnComplete open = PushOpen(*engine_, gate);
    const auto push = [&] { engine_->PushSync([](RunContext) {}, kCpu, {gate}, {inner}); };
    std::promise<pid_t> begun;
    engine_->PushSync(
        [&](RunContext context) {
          if (pushed_before) push();
          begun.set_value(ThisThread());
          if (!pushed_before) {
            AwaitStopped();
            push();
          }
          context.engine->WaitForVar(inner);
        },
        kCpu, {}, {outer});
    const pid_t waiter = begun.get_future().get();
    if (pushed_before) AwaitSleep(waiter);
    std::thread stopper([&] { engine_->Stop(); });
    AwaitStopped();
    open();
    stopper.join();
    EXPECT_THAT(MessageOf([&] { engine_->Throw(outer); }), HasSubstr("stopped"));
    engine_->Start();
    engine_->WaitForAll();
  }
}

TEST_P(EngineStopTest, AWaitForAWriteThatRunsEndsThoughTheEngineStops) {
  Variable *inner = New(), *outer = New();
  std::latch writing(1), go_on(1);
  engine_->PushSync(
      [&](RunContext context) {
        context.engine->PushSync([&](RunContext) { writing.count_down(), go_on.wait(); }, kCpu, {},
                                 {inner});
        context.engine->WaitForVar(inner);
      },
      kCpu, {}, {outer});
  writing.wait();
  std::thread stopper([&] { engine_->Stop(); });
  AwaitStopped();
  go_on.count_down();
  stopper.join();
  EXPECT_EQ(engine_->counters().pending, 0u);
  engine_->WaitForVar(outer);
  engine_->Start();
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

}  // namespace
}  // namespace tessera
