// What operations of one engine may do with another one: see "Waiting inside an operation" and
// "Parallel loops inside an operation" in engine.h.

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tbb/info.h"
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
using engine_internal::ParallelFor;
using engine_internal::PushOpen;
using engine_internal::RunPieceElsewhere;
using engine_internal::ThisThread;
using engine_internal::ThreadedConfigurations;
using engine_internal::WaitAWhile;

constexpr Device kCpu = Device::Cpu();

class SeveralEnginesTest : public EngineConfigurationTest {};
INSTANTIATE_TEST_SUITE_P(All, SeveralEnginesTest, testing::ValuesIn(ThreadedConfigurations()),
                         ConfigurationName);

TEST_P(SeveralEnginesTest, EnginesMayWaitForEachOther) {
  const auto other = GetParam().Make();
  Variable *of_other = other->NewVariable(), *first = New(), *second = New();
  std::latch inside(1);
  std::atomic<bool> ran{false};
  engine_->PushSync(
      [&](RunContext) {
        inside.wait();  // until the other engine has an operation that needs this one's
        other->WaitForVar(of_other);
      },
      kCpu, {}, {first});
  other->PushSync(
      [&](RunContext) {
        engine_->PushSync([&](RunContext) { ran = true; }, kCpu, {}, {second});
        inside.count_down();
        engine_->WaitForVar(second);
      },
      kCpu, {}, {of_other});
  engine_->WaitForVar(first);
  EXPECT_TRUE(ran);
}

TEST_P(SeveralEnginesTest, AWaitInsideAnyNumberOfEnginesLendsThePlaceInTheOutermost) {
  constexpr size_t kEngines = 100;
  std::vector<std::unique_ptr<Engine>> inner;
  for (size_t i = 0; i < kEngines; ++i) {
    inner.push_back(Engine::Create({.kind = EngineKind::kNaive}));
  }
  Engine& innermost = *inner.back();
  Variable *outer = New(), *here = New(), *there = innermost.NewVariable();
  std::promise<OnComplete> handle;
  innermost.PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                      {there});
  const OnComplete done = handle.get_future().get();
  // Each of them runs what is pushed on this thread.
  const std::function<void(size_t)> descend = [&](size_t depth) {
    if (depth < kEngines) {
      inner[depth]->PushSync([&, depth](RunContext) { descend(depth + 1); }, kCpu, {}, {});
      return;
    }
    engine_->PushSync([&](RunContext) { done(); }, kCpu, {}, {here});
    innermost.WaitForVar(there);
  };
  engine_->PushSync([&](RunContext) { descend(0); }, kCpu, {}, {outer});
  engine_->WaitForVar(outer);
  for (const auto& engine : inner) EXPECT_NO_THROW(engine->WaitForAll());
}

TEST_P(SeveralEnginesTest, AChainOfEnginesThatWaitForTheNextEnds) {
  constexpr size_t kEngines = 40;
  std::vector<std::unique_ptr<Engine>> chain;
  std::vector<Variable*> variables;
  for (size_t i = 0; i < kEngines; ++i) {
    chain.push_back(GetParam().Make());
    variables.push_back(chain.back()->NewVariable());
  }
  size_t ended = 0;
  const std::function<void(size_t)> push = [&](size_t i) {
    chain[i]->PushSync(
        [&, i](RunContext) {
          if (i + 1 < kEngines) {
            push(i + 1);
            chain[i + 1]->WaitForVar(variables[i + 1]);
          }
          ++ended;
        },
        kCpu, {}, {variables[i]});
  };
  push(0);
  chain[0]->WaitForVar(variables[0]);
  EXPECT_EQ(ended, kEngines);
}

TEST_P(SeveralEnginesTest, AWaitBesideAReplayInAnotherEngineLeavesItsOperationsToOthers) {
  const auto other = GetParam().Make();
  Variable* const there = other->NewVariable();
  Variable* const here = New();
  for (int round = 0; round < 20; ++round) {
    std::promise<OnComplete> handle;
    other->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                     {there});
    const OnComplete done = handle.get_future().get();
    const auto schedule = engine_->Record([&] {
      // As many waits as there are workers, and behind them what ends them.
      for (int i = 0; i < GetParam().workers; ++i) {
        engine_->PushSync([&](RunContext) { other->WaitForVar(there); }, kCpu, {}, {New()});
      }
      engine_->PushSync([&](RunContext) { done(); }, kCpu, {}, {here});
    });
    schedule->Replay();
    engine_->WaitForAll();
  }
}

// The first one waits for an operation that waits for what stands behind the second one's caller.
TEST_P(SeveralEnginesTest, ASecondShutdownLendsThePlaceOfTheOperationThatCallsIt) {
  const int workers = GetParam().workers;
  const auto other = GetParam().Make();
  Variable* const here = New();
  std::latch busy(workers), first_waits(1), other_runs(1);
  std::atomic<pid_t> waiter{0}, first{0};
  for (int i = 0; i < workers; ++i) {
    engine_->PushSync(
        [&, i](RunContext) {
          busy.count_down();
          first_waits.wait();
          if (i > 0) {  // it only holds its worker, until the others are through
            other_runs.wait();
            return;
          }
          other->Shutdown();
        },
        kCpu, {}, {});
  }
  busy.wait();
  engine_->PushSync([&](RunContext) { other_runs.count_down(); }, kCpu, {}, {here});
  other->PushSync(
      [&](RunContext) {
        waiter = ThisThread();
        engine_->WaitForVar(here);
      },
      kCpu, {}, {});
  while (waiter == 0) std::this_thread::yield();
  AwaitSleep(waiter);
  std::thread shutdown([&] {
    first = ThisThread();
    other->Shutdown();
  });
  while (first == 0) std::this_thread::yield();
  AwaitSleep(first);
  first_waits.count_down();
  shutdown.join();
  engine_->WaitForAll();
  EXPECT_EQ(other->counters().pending, 0u);
}

// Those that work in the place of others have loops of several threads as long as the system gives
// what TBB may start, which becomes more with each engine.
TEST_P(SeveralEnginesTest, AnotherEngineThatIsNotUsedLeavesLoopsTheirThreads) {
  const int workers = GetParam().workers;
  std::latch busy(workers), goes_on(1);
  for (int i = 0; i < workers; ++i) {
    engine_->PushSync([&](RunContext) { busy.count_down(), goes_on.wait(); }, kCpu, {}, {},
                      {.property = FnProperty::kAsync});
  }
  busy.wait();
  const auto threads_of_a_loop = [&] {
    Variable* const variable = New();
    int threads = 0;
    engine_->PushSync([&](RunContext) { threads = tbb::this_task_arena::max_concurrency(); }, kCpu,
                      {}, {variable});
    engine_->WaitForVar(variable);
    return threads;
  };
  const int alone = threads_of_a_loop();
  const auto other = GetParam().Make();
  EXPECT_EQ(threads_of_a_loop(), alone);
  EXPECT_EQ(alone, workers);
  goes_on.count_down();
  engine_->WaitForAll();
}

// They work in the place of sleepers, on all threads that TBB has. What runs in the stead of TBB's
// then is seen by its loops: where an order was withdrawn they have one thread.
TEST_P(SeveralEnginesTest, PiecesThatSleepLeaveAnotherEngineItsThreads) {
  const int workers = GetParam().workers;
  if (workers == 1) return;                                         // a loop has no other thread
  const int left = tbb::info::default_concurrency() - 1 + workers;  // of TBB's, for such pieces
  for (int round = 0; round < 4; ++round) {
    const auto other = GetParam().Make();
    Variable *const there = other->NewVariable(), *const here = other->NewVariable();
    const OnComplete done = PushOpen(*other, there);
    for (int i = 0; i < workers; ++i) {
      engine_->PushSync([&](RunContext) { other->WaitForVar(there); }, kCpu, {}, {});
    }
    std::atomic<pid_t> asleep[2] = {0, 0};
    std::atomic<int> pieces{0};
    for (int i = 0; i <= left; ++i) {
      engine_->PushSync(
          [&](RunContext) {
            const auto own = std::this_thread::get_id();
            ParallelFor(2 * workers, [&](int) {
              if (std::this_thread::get_id() != own) {
                if (const int piece = pieces++; piece < 2) asleep[piece] = ThisThread();
              }
              other->WaitForVar(there);
            });
          },
          kCpu, {}, {});
    }
    for (const std::atomic<pid_t>& thread : asleep) {
      while (thread == 0) std::this_thread::yield();
      AwaitSleep(thread);
    }
    // Those that TBB does not wake for the loops it would have for what comes now.
    const auto patience = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (pieces < left && std::chrono::steady_clock::now() < patience) std::this_thread::yield();
    int threads = 0;
    other->PushSync([&](RunContext) { threads = tbb::this_task_arena::max_concurrency(); }, kCpu,
                    {}, {here});
    other->WaitForVar(here);
    EXPECT_EQ(threads, workers);
    done();
    engine_->WaitForAll();
  }
}

// All threads of the arena are in the loop: the operation's own one waits for the others, which
// wait for another engine.
TEST_P(SeveralEnginesTest, PiecesOfALoopThatWaitForAnotherEngineLendTheirPlaces) {
  const int workers = GetParam().workers;
  const auto other = GetParam().Make();
  Variable *outer = New(), *here = New(), *there = other->NewVariable();
  const OnComplete done = PushOpen(*other, there);
  std::latch all_inside(workers);
  std::vector<std::atomic<pid_t>> threads(static_cast<size_t>(workers));
  engine_->PushSync(
      [&](RunContext) {
        const auto own = std::this_thread::get_id();
        ParallelFor(workers, [&](int i) {
          all_inside.arrive_and_wait();
          threads[static_cast<size_t>(i)] = std::this_thread::get_id() == own ? -1 : ThisThread();
          if (std::this_thread::get_id() != own) other->WaitForVar(there);
        });
      },
      kCpu, {}, {outer});
  for (const std::atomic<pid_t>& thread : threads) {
    while (thread == 0) std::this_thread::yield();
    if (thread > 0) AwaitSleep(thread);
  }
  engine_->PushSync([&](RunContext) { done(); }, kCpu, {}, {here});
  engine_->WaitForVar(here);
  engine_->WaitForVar(outer);
}

}  // namespace
}  // namespace tessera
