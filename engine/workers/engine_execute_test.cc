// Engine::Execute: where calls from outside find a thread, whom they leave their turn, and what
// does not wait for them.

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tbb/task_arena.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/testing/thread_sleep.h"

namespace tessera {
namespace {

using engine_internal::AwaitSleep;
using engine_internal::ConfigurationName;
using engine_internal::EngineConfigurationTest;
using engine_internal::MostAtOnce;
using engine_internal::ParallelFor;
using engine_internal::PushOpen;
using engine_internal::ThisThread;
using engine_internal::ThreadedConfigurations;

constexpr Device kCpu = Device::Cpu();

class ExecuteTest : public EngineConfigurationTest {
 protected:
  /// Occupies all places of the arena by calls of Execute until the latch opens, and returns their
  /// threads.
  std::vector<std::thread> OccupyArena(Engine& engine, std::latch& goes_on) {
    std::latch running(GetParam().workers);
    std::vector<std::thread> callers;
    for (int i = 0; i < GetParam().workers; ++i) {
      callers.emplace_back([&] {
        engine.Execute([&] {
          running.count_down();
          goes_on.wait();
        });
      });
    }
    running.wait();
    return callers;
  }
};
INSTANTIATE_TEST_SUITE_P(All, ExecuteTest, testing::ValuesIn(ThreadedConfigurations()),
                         ConfigurationName);

TEST_P(ExecuteTest, ExecuteLendsTheArenaToAThreadFromOutside) {
  std::atomic<int> sum{0};
  int concurrency = 0;
  Variable* variable = engine_->NewVariable();
  int written = 0;
  engine_->Execute([&] {
    concurrency = tbb::this_task_arena::max_concurrency();
    ParallelFor(100, [&](int) { ++sum; });
    // With one worker this thread has its place: only helping lets the wait end.
    engine_->PushSync([&](RunContext) { written = 5; }, kCpu, {}, {variable});
    engine_->WaitForVar(variable);
    engine_->WaitForAll();
  });
  EXPECT_EQ(sum, 100);
  EXPECT_EQ(concurrency, GetParam().workers);
  EXPECT_EQ(written, 5);
  EXPECT_THROW(engine_->Execute([] { throw std::runtime_error("through"); }), std::runtime_error);
}

// Something is ready at any time, and no worker leaves its place for want of work.
TEST_P(ExecuteTest, ExecuteHasItsTurnAmongOperationsThatPushThemselves) {
  const int workers = GetParam().workers;
  std::atomic<bool> ends{false};
  const std::function<void()> push = [&] {
    engine_->PushSync(
        [&](RunContext) {
          if (!ends) push();
        },
        kCpu, {}, {});
  };
  std::latch all_run(workers + 1);
  for (int i = 0; i < workers; ++i) {
    engine_->PushSync([&](RunContext) { all_run.arrive_and_wait(); }, kCpu, {}, {});
  }
  for (int i = 0; i < 4 * workers; ++i) push();
  all_run.arrive_and_wait();
  int runs = 0;
  for (int i = 0; i < 100; ++i) engine_->Execute([&] { ++runs; });
  EXPECT_EQ(runs, 100);
  EXPECT_THROW(engine_->Execute([] { throw std::runtime_error("through"); }), std::runtime_error);
  ends = true;
  engine_->WaitForAll();
}

TEST_P(ExecuteTest, ExecuteTakesThePlaceOfACallThatReturns) {
  const int others = GetParam().workers - 1;
  std::latch running(others), first_begun(1), first_goes_on(1), all_go_on(1);
  for (int i = 0; i < others; ++i) {
    engine_->PushSync([&](RunContext) { running.count_down(), all_go_on.wait(); }, kCpu, {}, {});
  }
  running.wait();
  std::thread first(
      [&] { engine_->Execute([&] { first_begun.count_down(), first_goes_on.wait(); }); });
  first_begun.wait();
  std::atomic<pid_t> second_thread{0};
  std::thread second([&] {
    second_thread = ThisThread();
    engine_->Execute([] {});
  });
  while (second_thread == 0) std::this_thread::yield();
  AwaitSleep(second_thread);
  first_goes_on.count_down();
  first.join();
  second.join();
  all_go_on.count_down();
  engine_->WaitForAll();
}

TEST_P(ExecuteTest, CallsOfExecuteLeaveOperationsTheirTurn) {
  std::atomic<bool> ends{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < 2 + GetParam().workers; ++i) {
    callers.emplace_back([&] {
      while (!ends) engine_->Execute([] {});
    });
  }
  Variable* const variable = New();
  int runs = 0;
  for (int i = 0; i < 100; ++i) {
    engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {variable});
    engine_->WaitForVar(variable);
  }
  EXPECT_EQ(runs, 100);
  ends = true;
  for (std::thread& caller : callers) caller.join();
}

// A worker that makes a call for its caller is in no operation.
TEST_P(ExecuteTest, StopDoesNotWaitForExecute) {
  const int workers = GetParam().workers;
  const int calls = std::min(2, workers);
  std::latch running(workers), goes_on(1), calls_begun(calls), calls_go_on(1);
  for (int i = 0; i < workers; ++i) {
    engine_->PushSync([&](RunContext) { running.count_down(), goes_on.wait(); }, kCpu, {}, {});
  }
  running.wait();
  std::vector<std::thread> callers;
  for (int i = 0; i < calls; ++i) {
    callers.emplace_back(
        [&] { engine_->Execute([&] { calls_begun.count_down(), calls_go_on.wait(); }); });
  }
  goes_on.count_down();
  calls_begun.wait();
  engine_->Stop();
  calls_go_on.count_down();
  for (std::thread& caller : callers) caller.join();
  engine_->Start();
}

// It has the place of one who slept, and has come back since.
TEST_P(ExecuteTest, StopDoesNotWaitForExecuteInAPlaceThatWasLent) {
  const int workers = GetParam().workers;
  Variable* const awaited = New();
  const OnComplete open = PushOpen(*engine_, awaited);
  std::vector<std::promise<pid_t>> sleepers(workers);
  for (int i = 0; i < workers; ++i) {
    engine_->PushSync(
        [&, i](RunContext context) {
          sleepers[i].set_value(ThisThread());
          context.engine->WaitForVar(awaited);
        },
        kCpu, {}, {});
  }
  for (std::promise<pid_t>& sleeper : sleepers) AwaitSleep(sleeper.get_future().get());
  std::latch called(1), goes_on(1);
  std::thread caller([&] {
    engine_->Execute([&] {
      called.count_down();
      goes_on.wait();
    });
  });
  called.wait();
  open();
  engine_->Stop();
  EXPECT_EQ(engine_->counters().pending, 0u);
  goes_on.count_down();
  caller.join();
  engine_->Start();
}

// Calls have all places that are left when what the waits need becomes ready.
TEST_P(ExecuteTest, StopDoesNotWaitForExecuteInThePlaceOfWhatItWaitsFor) {
  const int workers = GetParam().workers;
  Variable *const gate = New(), *const needed = New();
  const OnComplete open = PushOpen(*engine_, gate);
  engine_->PushSync([](RunContext) {}, kCpu, {gate}, {needed});
  std::vector<std::promise<pid_t>> sleepers(workers);
  for (std::promise<pid_t>& sleeper : sleepers) {
    engine_->PushSync(
        [&](RunContext context) {
          sleeper.set_value(ThisThread());
          context.engine->WaitForVar(needed);
        },
        kCpu, {}, {});
  }
  for (std::promise<pid_t>& sleeper : sleepers) AwaitSleep(sleeper.get_future().get());
  std::latch called(workers), goes_on(1);
  std::vector<std::thread> callers;
  for (int i = 0; i < workers; ++i) {
    callers.emplace_back([&] {
      engine_->Execute([&] {
        called.count_down();
        goes_on.wait();
      });
    });
  }
  called.wait();
  std::promise<pid_t> stopping;
  std::thread stopper([&] {
    stopping.set_value(ThisThread());
    engine_->Stop();
  });
  AwaitSleep(stopping.get_future().get());
  open();
  stopper.join();
  EXPECT_EQ(engine_->counters().pending, 0u);
  goes_on.count_down();
  for (std::thread& caller : callers) caller.join();
  engine_->Start();
}

TEST_P(ExecuteTest, StopDoesNotWaitForExecuteThoughOperationsAreReady) {
  std::latch goes_on(1);
  std::vector<std::thread> callers = OccupyArena(*engine_, goes_on);
  bool ran = false;
  Variable* const variable = New();
  engine_->PushSync([&](RunContext) { ran = true; }, kCpu, {}, {variable});
  engine_->Stop();
  EXPECT_FALSE(ran);
  goes_on.count_down();
  for (std::thread& caller : callers) caller.join();
  engine_->Start();
  engine_->WaitForVar(variable);
  EXPECT_TRUE(ran);
}

TEST_P(ExecuteTest, NeitherStopNorShutdownWaitsForACallThatHasNoPlace) {
  for (const bool shuts_down : {false, true}) {
    const auto engine = GetParam().Make();
    std::latch goes_on(1);
    std::vector<std::thread> callers = OccupyArena(*engine, goes_on);
    std::promise<pid_t> thread;
    std::atomic<bool> called{false};
    callers.emplace_back([&] {
      thread.set_value(ThisThread());
      engine->Execute([&] { called = true; });
    });
    AwaitSleep(thread.get_future().get());
    shuts_down ? engine->Shutdown() : engine->Stop();
    EXPECT_FALSE(called);
    goes_on.count_down();
    for (std::thread& caller : callers) caller.join();
    EXPECT_TRUE(called);
  }
}

TEST_P(ExecuteTest, CallsMayComeAfterShutdown) {
  for (int round = 0; round < 50; ++round) {
    const auto engine = GetParam().Make();
    engine->Shutdown();
    std::atomic<int> calls{0};
    std::vector<std::thread> callers;
    for (int i = 0; i < 3; ++i) {
      callers.emplace_back([&] {
        for (int call = 0; call < 3; ++call) engine->Execute([&] { ++calls; });
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(calls, 9);
  }
}

TEST_P(ExecuteTest, HasItsTurnAmongTheOperationsOfAReplay) {
  constexpr int kOperations = 50000;
  std::promise<pid_t> thread;
  std::atomic<int> done{0};
  const auto schedule = engine_->Record([&] {
    Variable* const first = New();
    engine_->PushSync([&](RunContext) { AwaitSleep(thread.get_future().get()); }, kCpu, {},
                      {first});
    for (int i = 1; i < kOperations; ++i) {
      engine_->PushSync([&](RunContext) { ++done; }, kCpu, {first}, {New()});
    }
  });
  schedule->Replay();
  int done_before = kOperations;
  std::latch over(1);
  std::thread caller([&] {
    thread.set_value(ThisThread());
    engine_->Execute([&] { done_before = done; });
    over.wait();  // asleep, if it has not been in the call
  });
  engine_->WaitForAll();
  over.count_down();
  caller.join();
  EXPECT_LT(done_before, kOperations / 2);
  EXPECT_EQ(done, kOperations - 1);
}

// They run in the thread that waits, or one by one in a replay, and never come to the queue's end.
TEST_P(ExecuteTest, HasItsTurnAmongTheOperationsThatAWaitNeeds) {
  constexpr int kOperations = 200;
  struct Case {
    bool in_execute, waits_for_all, replays;
  };
  for (const Case& wait :
       {Case{false, false, false}, Case{false, false, true}, Case{true, false, false},
        Case{true, false, true}, Case{true, true, false}, Case{true, true, true}}) {
    Variable* const variable = New();
    std::promise<pid_t> thread;
    std::atomic<int> done{0};
    std::atomic<bool> called{false};
    const auto push_all = [&] {
      engine_->PushSync([&](RunContext) { AwaitSleep(thread.get_future().get()); }, kCpu, {},
                        {variable});
      for (int i = 1; i < kOperations; ++i) {
        engine_->PushSync(
            [&](RunContext) {
              if (!called) std::this_thread::sleep_for(std::chrono::microseconds(200));
              ++done;
            },
            kCpu, {}, {variable});
      }
    };
    const auto schedule = engine_->Record(push_all);
    std::latch places_taken(GetParam().workers), goes_on(1);
    const auto wait_for_all = [&] {
      places_taken.arrive_and_wait();
      wait.replays ? schedule->Replay() : push_all();
      wait.waits_for_all ? engine_->WaitForAll() : engine_->WaitForVar(variable);
    };
    for (int i = 1; i < GetParam().workers; ++i) {
      engine_->PushSync([&](RunContext) { places_taken.count_down(), goes_on.wait(); }, kCpu, {},
                        {});
    }
    std::thread waiter;
    if (wait.in_execute) {
      waiter = std::thread([&] { engine_->Execute(wait_for_all); });
    } else {
      engine_->PushSync([&](RunContext) { wait_for_all(); }, kCpu, {}, {});
    }
    places_taken.wait();
    int done_before = kOperations;
    std::latch over(1);
    std::thread caller([&] {
      thread.set_value(ThisThread());
      engine_->Execute([&] {
        done_before = done;
        called = true;
      });
      over.wait();  // asleep, if it has not been in the call
    });
    engine_->WaitForVar(variable);
    over.count_down();
    caller.join();
    goes_on.count_down();
    if (waiter.joinable()) waiter.join();
    engine_->WaitForAll();
    EXPECT_LT(done_before, kOperations - 1)
        << wait.in_execute << wait.waits_for_all << wait.replays;
    EXPECT_EQ(done, kOperations - 1);
  }
}

TEST_P(ExecuteTest, NoMoreCallsRunAtOnceThanThereArePlacesThoughOthersSleep) {
  const int workers = GetParam().workers;
  Variable* const awaited = New();
  const OnComplete open = PushOpen(*engine_, awaited);
  std::promise<pid_t> sleeper;
  engine_->PushSync(
      [&](RunContext context) {
        sleeper.set_value(ThisThread());
        context.engine->WaitForVar(awaited);
      },
      kCpu, {}, {});
  AwaitSleep(sleeper.get_future().get());
  MostAtOnce calls;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4 * (workers + 2); ++i) {
    callers.emplace_back([&] {
      for (int call = 0; call < 5; ++call) engine_->Execute([&] { calls.Call(); });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_LE(calls.most(), workers);  // one of them in the sleeper's place
  open();
  engine_->WaitForAll();
}

TEST_P(ExecuteTest, ACallThatWaitsForAllLeavesItsPlaceToOneThatCompletesIt) {
  const OnComplete open = PushOpen(*engine_, New());
  std::vector<std::thread> waiters;
  std::vector<std::promise<pid_t>> asleep(GetParam().workers);
  for (std::promise<pid_t>& waiter : asleep) {
    waiters.emplace_back([&] {
      engine_->Execute([&] {
        waiter.set_value(ThisThread());
        engine_->WaitForAll();
      });
    });
  }
  for (std::promise<pid_t>& waiter : asleep) AwaitSleep(waiter.get_future().get());
  engine_->Execute([&] { open(); });
  for (std::thread& waiter : waiters) waiter.join();
}

TEST_P(ExecuteTest, AnEmptyFunctionIsAnError) {
  EXPECT_EQ(engine_internal::ErrorOf([&] { engine_->Execute(nullptr); }).code(),
            Error::kInvalidArgument);
}

TEST_P(ExecuteTest, TheCallerHearsOfTheOperationThatFailed) {
  Variable* const failed = New();
  engine_->PushSync([](RunContext) { throw 1; }, kCpu, {}, {failed}, {.name = "bad"});
  std::latch running(GetParam().workers + 1), goes_on(1);
  for (int i = 0; i < GetParam().workers; ++i) {
    engine_->PushSync([&](RunContext) { running.arrive_and_wait(), goes_on.wait(); }, kCpu, {}, {});
  }
  running.arrive_and_wait();
  std::promise<pid_t> thread;
  std::thread caller([&] {
    thread.set_value(ThisThread());
    EXPECT_THROW(engine_->Execute([&] { engine_->WaitForVar(failed); }), int);
    ASSERT_TRUE(Engine::LastFailure().has_value());
    EXPECT_EQ(Engine::LastFailure()->name, "bad");
  });
  AwaitSleep(thread.get_future().get());
  goes_on.count_down();
  caller.join();
  engine_->WaitForAll();
}

}  // namespace
}  // namespace tessera
