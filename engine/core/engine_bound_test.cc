// What an engine promises about its bound on what pends.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/testing/thread_sleep.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera {
namespace {

using engine_internal::AllConfigurations;
using engine_internal::ConfigurationName;
using engine_internal::EngineConfigurationTest;
using engine_internal::ParallelFor;
using engine_internal::PushOpen;
using engine_internal::ThreadedConfigurations;
using engine_internal::WaitAWhile;

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

// One of TBB's threads that was in the arena of an engine at its end keeps the engine's number.
TEST_P(ThreadedEngineBoundTest, AThreadThatAnEndedEngineHadWaitsForRoom) {
  const auto engine = GetParam().Make({.max_pending = 10});
  Variable* const variable = engine->NewVariable();
  uint64_t most = 0;
  std::thread pusher([&] {
    engine_internal::ThreadFrame::SetArena(UINT64_MAX);  // no living engine's
    for (int i = 0; i < 5000; ++i) {
      engine->PushSync([](RunContext) {}, kCpu, {}, {variable});
      most = std::max(most, engine->counters().pending);
    }
  });
  pusher.join();
  EXPECT_LE(most, 10u);
  engine->WaitForAll();
}

// A loop of the program's own, on threads that an engine has just had.
TEST_P(ThreadedEngineBoundTest, PiecesOfALoopOutsideWaitForRoomAfterAnEngineHasEnded) {
  for (int round = 0; round < 10; ++round) {
    const auto ended = GetParam().Make();
    for (int i = 0; i < 20; ++i) {
      ended->PushSync([](RunContext) { ParallelFor(8, [](int) {}); }, kCpu, {}, {});
    }
    ended->WaitForAll();
  }
  constexpr int kPieces = 64;
  const auto engine = GetParam().Make({.max_pending = 100});
  std::atomic<uint64_t> most{0};
  ParallelFor(kPieces, [&](int) {
    for (int i = 0; i < 100; ++i) {
      engine->PushSync([](RunContext) {}, kCpu, {}, {});
      const uint64_t pending = engine->counters().pending;
      uint64_t before = most;
      while (pending > before && !most.compare_exchange_weak(before, pending)) {
      }
    }
  });
  EXPECT_LE(most, 100u + kPieces) << "and one operation for each thread that pushes at once";
  engine->WaitForAll();
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

// Runs an operation that calls push(i) so many times; returns how many operations pended at the
// most.
template <typename Push>
uint64_t MostPending(Engine& engine, int pushes, const Push& push,
                     const VariableList& writes = {}) {
  uint64_t most = 0;
  const auto pusher = [&](RunContext) {
    for (int i = 0; i < pushes; ++i) {
      push(i);
      most = std::max(most, engine.counters().pending);
    }
  };
  engine.PushSync(pusher, kCpu, {}, writes);
  engine.WaitForAll();
  return most;
}

// Other workers run a chain without the queue, in which an operation that pushes it finds nothing;
// and the chain's operations may take longer than any patience of the pusher's with a single one.
TEST_P(ThreadedEngineBoundTest, AnOperationThatPushesAChainWaitsForRoom) {
  const auto engine = GetParam().Make({.max_pending = 20});
  Variable* const variable = engine->NewVariable();
  for (const auto time : {std::chrono::milliseconds(0), std::chrono::milliseconds(3)}) {
    const auto link = [&](RunContext) {
      if (time.count() > 0) std::this_thread::sleep_for(time);
    };
    const auto push = [&](int) { engine->PushSync(link, kCpu, {}, {variable}); };
    EXPECT_LE(MostPending(*engine, time.count() > 0 ? 100 : 20000, push), 21u) << time.count();
  }
}

// Their functions return at once, so that there is always one that is ready: it makes no room.
TEST_P(ThreadedEngineBoundTest, AnOperationThatPushesAsynchronousOnesWaitsForRoom) {
  const auto engine = GetParam().Make({.max_pending = 20});
  std::mutex mutex;
  std::deque<OnComplete> open;
  std::atomic<bool> ended{false};
  std::thread completer([&] {
    while (!ended) {
      std::deque<OnComplete> now;
      {
        std::lock_guard<std::mutex> hold(mutex);
        now.swap(open);
      }
      for (const OnComplete& done : now) done();
      std::this_thread::yield();
    }
  });
  const auto begin = [&](RunContext, OnComplete done) {
    std::lock_guard<std::mutex> hold(mutex);
    open.push_back(std::move(done));
  };
  const auto push = [&](int) { engine->PushAsync(begin, kCpu, {}, {}); };
  EXPECT_LE(MostPending(*engine, 2000, push), 21u);
  ended = true;
  completer.join();
}

// What stands behind the pusher makes no room before its end, and does not count: it gets on, also
// beside an operation that waits for it by means that the engine does not know; and the others are
// bounded all the same.
TEST_P(ThreadedEngineBoundTest, WhatStandsBehindThePusherDoesNotCount) {
  const auto engine = GetParam().Make({.max_pending = 20});
  Variable *const own = engine->NewVariable(), *const other = engine->NewVariable();
  std::latch pushed(1);
  engine->PushSync([&](RunContext) { pushed.wait(); }, kCpu, {}, {},
                   {.property = FnProperty::kAsync});
  constexpr int kBehind = 1000;
  int behind = 0, aside = 0;
  const auto push = [&](int i) {
    if (i == 2 * kBehind) pushed.count_down();
    if (i < kBehind) {
      engine->PushSync([&](RunContext) { ++behind; }, kCpu, {}, {own});
    } else {
      engine->PushSync([&](RunContext) { ++aside; }, kCpu, {}, {other});
    }
  };
  EXPECT_LE(MostPending(*engine, 2 * kBehind + 1, push, {own}), kBehind + kBehind / 2 + 25u);
  EXPECT_EQ(behind, kBehind);
  EXPECT_EQ(aside, kBehind + 1);
}

// Each of two pushes behind the other, and one waits for what stands behind a third.
TEST_P(ThreadedEngineBoundTest, PushersDoNotWaitForEachOther) {
  for (const bool waits : {false, true}) {
    const auto engine = GetParam().Make({.max_pending = 4});
    Variable* const own[] = {engine->NewVariable(), engine->NewVariable()};
    std::atomic<int> runs{0};
    std::atomic<bool> has_pushed{false};
    const auto pusher = [&](int self) {
      return [&, self](RunContext) {
        if (waits && self == 1) {
          while (!has_pushed) std::this_thread::yield();
          engine->WaitForVar(own[0]);
          return;
        }
        for (int i = 0; i < 500; ++i) {
          Variable* const held = own[waits ? i % 2 : 1 - self];
          engine->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {held});
          has_pushed = true;
        }
      };
    };
    engine->Stop();
    for (int i = 0; i < 2; ++i) {
      engine->PushSync(pusher(i), kCpu, {}, {own[i]}, {.property = FnProperty::kAsync});
    }
    engine->Start();
    engine->WaitForAll();
    EXPECT_EQ(runs, waits ? 500 : 1000);
  }
}

// Where an operation of a replay pushes, the replay does not count, and it goes on meanwhile.
TEST_P(ThreadedEngineBoundTest, AnOperationOfAReplayWaitsForRoom) {
  const auto engine = GetParam().Make({.max_pending = 20});
  Variable *const chain = engine->NewVariable(), *const replayed = engine->NewVariable();
  uint64_t most = 0;
  int runs = 0;
  const auto schedule = engine->Record([&] {
    const auto push_many = [&](RunContext context) {
      for (int i = 0; i < 2000; ++i) {
        context.engine->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {chain});
        most = std::max(most, context.engine->counters().pending);
      }
    };
    engine->PushSync(push_many, kCpu, {}, {replayed});
    for (int i = 0; i < 9; ++i) engine->PushSync([](RunContext) {}, kCpu, {}, {replayed});
  });
  schedule->Replay();
  engine->WaitForAll();
  EXPECT_EQ(runs, 2000);
  EXPECT_LE(most, 20u + 10u + 5u + 1u);
}

// What waits is an operation that the engine cannot tell: one whose loop's piece it is, or one of
// another engine. So nobody knows what may complete, and the push does not wait.
TEST_P(ThreadedEngineBoundTest, APushThatUnknownOperationsWaitForDoesNotWait) {
  if (GetParam().workers == 1) return;  // a loop has no other thread
  for (const bool of_another_engine : {false, true}) {
    std::atomic<int> reports{0};
    const auto engine = GetParam().Make(
        {.max_pending = 4, .stall_report_ms = 500, .stall_report = [&](const std::string& report) {
           if (report.find("a push waits for room") != std::string::npos) ++reports;
         }});
    Variable *const held = engine->NewVariable(), *const awaited = engine->NewVariable();
    std::atomic<int> runs{0};
    const auto pusher = [&](RunContext) {
      for (int i = 0; i < 50; ++i) engine->PushSync([&](RunContext) { ++runs; }, kCpu, {held}, {});
    };
    const auto waiter = [&](RunContext) {
      const auto wait = [&] {
        engine->PushSync(pusher, kCpu, {}, {awaited});
        engine->WaitForVar(awaited);
      };
      if (!of_another_engine) return engine_internal::RunPieceElsewhere(wait);
      Variable* const there = engine_->NewVariable();
      engine_->PushSync([&](RunContext) { wait(); }, kCpu, {}, {there});
      engine_->WaitForVar(there);
    };
    engine->PushSync(waiter, kCpu, {}, {held});
    engine->WaitForAll();
    EXPECT_EQ(runs, 50);
    EXPECT_EQ(reports, 0);
  }
}

// Nothing makes room but what comes after the pushes, of which the engine knows nothing: the
// pusher gets on in the end, and says for what it has waited.
TEST_P(ThreadedEngineBoundTest, APusherThatAllOthersWaitForGetsOnInTheEnd) {
  std::atomic<int> reports{0};
  const auto engine = GetParam().Make(
      {.max_pending = 4, .stall_report_ms = 100, .stall_report = [&](const std::string& report) {
         if (report.find("a push waits for room") != std::string::npos) ++reports;
       }});
  Variable* const variable = engine->NewVariable();
  const OnComplete done = engine_internal::PushOpen(*engine, variable);
  int runs = 0;
  const auto pusher = [&](RunContext) {
    for (int i = 0; i < 5; ++i) engine->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {variable});
    done();
  };
  engine->PushSync(pusher, kCpu, {}, {});
  engine->WaitForAll();
  EXPECT_EQ(runs, 5);
  EXPECT_GE(reports, 1);
}

// At the bound an operation that pushes runs another one on top of itself: the oldest, or those
// that pushed before would wait for as long as others push.
TEST_P(ThreadedEngineBoundTest, PushingAtTheBoundKeepsNoOlderOperationFromItsTurn) {
  const auto engine = GetParam().Make({.max_pending = 100});
  std::atomic<bool> ended{false};
  engine->Stop();
  for (int i = 0; i < engine->num_workers(); ++i) {
    engine->PushSync(
        [&](RunContext context) {
          while (!ended) context.engine->PushSync([](RunContext) {}, kCpu, {}, {});
        },
        kCpu, {}, {});
  }
  engine->PushSync([&](RunContext) { ended = true; }, kCpu, {}, {});
  engine->Start();
  engine->WaitForAll();
  EXPECT_TRUE(ended);
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
