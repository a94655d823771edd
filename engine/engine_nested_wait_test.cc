// Waits inside operations that last, of many at once and among several engines: see "Waiting inside
// an operation" in engine.h.

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/internal/engine_configurations.h"
#include "tessera/engine/internal/thread_sleep.h"

namespace tessera {
namespace {

using engine_internal::AwaitSleep;
using engine_internal::ConfigurationName;
using engine_internal::EngineConfigurationTest;
using engine_internal::ParallelFor;
using engine_internal::PushOpen;
using engine_internal::ThisThread;
using engine_internal::ThreadedConfigurations;
using testing::HasSubstr;

constexpr Device kCpu = Device::Cpu();

class NestedWaitTest : public EngineConfigurationTest {};
INSTANTIATE_TEST_SUITE_P(All, NestedWaitTest, testing::ValuesIn(ThreadedConfigurations()),
                         ConfigurationName);
// If one waiting operation lay on top of another, the lower one could not go on before it.
TEST_P(NestedWaitTest, WaitsEndInAnyOrder) {
  constexpr int kWaits = 20;
  std::vector<OnComplete> open;
  std::vector<Variable*> outer;
  std::latch begun(kWaits);
  for (int i = 0; i < kWaits; ++i) {
    Variable* const inner = New();
    open.push_back(PushOpen(*engine_, inner));
    outer.push_back(New());
    engine_->PushSync(
        [&begun, inner](RunContext context) {
          begun.count_down();
          context.engine->WaitForVar(inner);
        },
        kCpu, {}, {outer.back()});
  }
  begun.wait();
  for (int i = 0; i < kWaits; ++i) {
    open[i]();
    engine_->WaitForVar(outer[i]);
  }
}

TEST_P(NestedWaitTest, ManyWaitsForForeignCompletionsNeedLittleStack) {
  constexpr int kWaits = 2000;
  std::vector<OnComplete> open;
  std::vector<Variable*> awaited;
  for (int i = 0; i < kWaits; ++i) {
    awaited.push_back(New());
    open.push_back(PushOpen(*engine_, awaited.back()));
  }
  std::atomic<int> ended{0};
  for (Variable* const inner : awaited) {
    engine_->PushSync(
        [&ended, inner](RunContext context) {
          context.engine->WaitForVar(inner);
          ++ended;
        },
        kCpu, {}, {New()});
  }
  for (const OnComplete& done : open) done();
  engine_->WaitForAll();
  EXPECT_EQ(ended, kWaits);
}

TEST_P(NestedWaitTest, OtherOperationsGoOnBesideThoseThatWait) {
  Variable* const inner = New();
  const OnComplete done = PushOpen(*engine_, inner);
  std::latch begun(GetParam().workers);
  for (int i = 0; i < GetParam().workers; ++i) {
    engine_->PushSync(
        [&](RunContext context) {
          begun.count_down();
          context.engine->WaitForVar(inner);
        },
        kCpu, {}, {New()});
  }
  begun.wait();
  Variable* const other = New();
  std::atomic<int> runs{0};
  for (int i = 0; i < 100; ++i) engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {other});
  engine_->WaitForVar(other);
  EXPECT_EQ(runs, 100);
  done();
  engine_->WaitForAll();
}

TEST_P(NestedWaitTest, OperationsThatBlockHoldNoWorker) {
  Variable* const other = New();
  for (const bool recorded : {false, true}) {
    std::latch all_begun(10);
    const auto push = [&] {
      for (int i = 0; i < 10; ++i) {
        // None ends before all have begun, with however few workers.
        if (i % 2 == 0) {
          engine_->PushSync([&](RunContext) { all_begun.arrive_and_wait(); }, kCpu, {other}, {},
                            {.property = FnProperty::kAsync});
        } else {
          engine_->PushAsync(
              [&](RunContext, OnComplete done) {
                all_begun.arrive_and_wait();
                done();
              },
              kCpu, {other}, {}, {.property = FnProperty::kAsync});
        }
      }
    };
    if (recorded) {
      engine_->Record(push)->Replay();
    } else {
      push();
    }
    engine_->WaitForAll();
  }
}

TEST_P(NestedWaitTest, EnginesMayWaitForEachOther) {
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

TEST_P(NestedWaitTest, LoopsOfTheProgramMayPushAndWaitOnAllThreads) {
  std::atomic<int> runs{0};
  ParallelFor(200, [&](int) {
    Variable* const variable = New();
    engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {variable});
    engine_->WaitForVar(variable);
  });
  EXPECT_EQ(runs, 200);
}

TEST_P(NestedWaitTest, AWaitForEverythingInsideALoopThrows) {
  std::atomic<int> refused{0};
  Variable* const variable = New();
  engine_->PushSync(
      [&](RunContext context) {
        ParallelFor(64, [&](int) {
          try {
            context.engine->WaitForAll();
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), Error::kFailedPrecondition);
            ++refused;
          }
        });
      },
      kCpu, {}, {variable});
  engine_->WaitForVar(variable);
  EXPECT_EQ(refused, 64);
}

TEST_P(NestedWaitTest, AWaitWithManyOperationsBehindItBeginsAtOnce) {
  Variable *a = New(), *b = New(), *inner = New();
  const OnComplete done = PushOpen(*engine_, inner);
  std::promise<void> begin;
  engine_->PushSync(
      [&](RunContext context) {
        begin.get_future().wait();
        context.engine->WaitForVar(inner);
      },
      kCpu, {}, {a});
  // Each is behind the waiting operation, by way of both. Looking at the queue for each of them
  // would take minutes.
  for (int i = 0; i < 30000; ++i) engine_->PushSync([](RunContext) {}, kCpu, {}, {a, b});
  begin.set_value();
  Variable* const later = New();
  engine_->PushSync([](RunContext context) { context.engine->counters(); }, kCpu, {}, {later});
  engine_->WaitForVar(later);
  done();
  engine_->WaitForAll();
  EXPECT_EQ(engine_->counters().run, 30003u);
}

// The read in front of the wait is looked at before the write that holds it back.
TEST_P(NestedWaitTest, AWaitBehindReadsThatNeedItsOwnerThrows) {
  Variable *a = New(), *b = New(), *x = New();
  std::promise<void> queued;
  std::atomic<int> refused{0};
  engine_->PushSync(
      [&](RunContext context) {
        queued.get_future().wait();
        try {
          context.engine->WaitForVar(x);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Error::kFailedPrecondition);
          ++refused;
        }
      },
      kCpu, {}, {a, b});
  engine_->PushSync([](RunContext) {}, kCpu, {}, {b, x});
  engine_->PushSync([](RunContext) {}, kCpu, {a, x}, {});
  queued.set_value();
  engine_->WaitForAll();
  EXPECT_EQ(refused, 1);
}

TEST_P(NestedWaitTest, AWaitInsideAnotherEngineLendsThePlaceInTheFirst) {
  const auto other = GetParam().Make();
  const auto naive = Engine::Create({.kind = EngineKind::kNaive});
  for (Engine* inner : {other.get(), naive.get()}) {
    Variable *outer = New(), *here = New(), *there = inner->NewVariable();
    std::promise<OnComplete> handle;
    inner->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                     {there});
    const OnComplete done = handle.get_future().get();
    engine_->PushSync(
        [&](RunContext) {
          engine_->PushSync([&](RunContext) { done(); }, kCpu, {}, {here});
          inner->Execute([&] { inner->WaitForVar(there); });
        },
        kCpu, {}, {outer});
    engine_->WaitForVar(outer);
  }
}

TEST_P(NestedWaitTest, AWaitInsideAnyNumberOfEnginesLendsThePlaceInTheOutermost) {
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

TEST_P(NestedWaitTest, AChainOfEnginesThatWaitForTheNextEnds) {
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

TEST_P(NestedWaitTest, AWaitAmongSteadyTrafficIsReportedOnce) {
  std::atomic<int> reports{0};
  std::promise<void> reported;
  const auto engine = GetParam().Make({.stall_report_ms = 20, .stall_report = [&](const auto&) {
                                         if (++reports == 1) reported.set_value();
                                       }});
  Variable *inner = engine->NewVariable(), *outer = engine->NewVariable();
  std::promise<OnComplete> handle;
  engine->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                    {inner});
  const OnComplete done = handle.get_future().get();
  engine->PushSync([&](RunContext context) { context.engine->WaitForVar(inner); }, kCpu, {},
                   {outer});
  std::atomic<bool> over{false};
  std::thread traffic([&] {
    while (!over) engine->PushSync([](RunContext) {}, kCpu, {}, {});
  });
  reported.get_future().wait();
  const uint64_t before = engine->counters().run;
  while (engine->counters().run < before + 10000) std::this_thread::yield();
  EXPECT_EQ(reports, 1);
  over = true;
  traffic.join();
  done();
  engine->WaitForVar(outer);
}

TEST_P(NestedWaitTest, ReadyOperationsWithoutVariablesAreInTheDebugString) {
  engine_->Stop();
  engine_->PushSync([](RunContext) {}, kCpu, {}, {}, {.name = "lonely"});
  EXPECT_THAT(engine_->DebugString(), HasSubstr("ready: 1: \"lonely\""));
  engine_->Start();
  engine_->WaitForAll();
}

TEST_P(NestedWaitTest, AnIdleEngineTakesNoTime) {
  Variable* const variable = New();
  for (int i = 0; i < 100; ++i) engine_->PushSync([](RunContext) {}, kCpu, {}, {variable});
  Variable* const inner = New();
  const OnComplete done = PushOpen(*engine_, inner);
  engine_->PushSync([inner](RunContext context) { context.engine->WaitForVar(inner); }, kCpu, {},
                    {New()});
  const auto used = [] {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const auto microseconds = [](const timeval& time) {
      return static_cast<int64_t>(time.tv_sec) * 1000000 + time.tv_usec;
    };
    return microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // for threads on their way to sleep
  const int64_t before = used();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_LT(used() - before, 200000);  // one spinning thread would take 400,000
  done();
  engine_->WaitForAll();
}

TEST_P(NestedWaitTest, AWaitBesideAReplayInAnotherEngineLeavesItsOperationsToOthers) {
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

// The operation's own place on the variable is given up: what it waits for is behind it no more.
TEST_P(NestedWaitTest, AnAsynchronousFunctionMayWaitForWhatComesAfterItsCompletion) {
  Variable* const x = New();
  int value = 0;
  engine_->PushAsync(
      [&](RunContext context, OnComplete done) {
        done();
        context.engine->PushSync([&](RunContext) { value = 1; }, kCpu, {}, {x});
        context.engine->WaitForVar(x);
        ++value;
      },
      kCpu, {}, {x});
  engine_->WaitForAll();
  EXPECT_EQ(value, 2);
}

// What the waits need is ready only when all that may sleep are asleep.
TEST_P(NestedWaitTest, SomebodyIsAwakeForWhatAThousandWaitsNeed) {
  constexpr int kWaits = 1500, kMaySleep = 1024;
  std::vector<OnComplete> open;
  std::vector<Variable*> completed;
  for (int i = 0; i < kWaits; ++i) {
    completed.push_back(New());
    open.push_back(PushOpen(*engine_, completed.back()));
  }
  std::atomic<int> begun{0}, ended{0};
  for (Variable* const needed : completed) {
    Variable* const awaited = New();
    engine_->PushSync([](RunContext) {}, kCpu, {needed}, {awaited});
    engine_->PushSync(
        [&, awaited](RunContext context) {
          ++begun;
          context.engine->WaitForVar(awaited);
          ++ended;
        },
        kCpu, {}, {New()});
  }
  // One more lies on top of another. (Where the system gives fewer threads this many do not begin
  // before others end.)
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (begun <= kMaySleep && std::chrono::steady_clock::now() < patience) {
    std::this_thread::yield();
  }
  for (const OnComplete& done : open) done();
  engine_->WaitForAll();
  EXPECT_EQ(ended, kWaits);
}

TEST_P(NestedWaitTest, AChainOfWaitsIsAsDeepAsMemoryAllows) {
  constexpr int kDepth = 400;
  std::atomic<int> ended{0};
  std::function<void(Engine*, int)> descend = [&](Engine* engine, int depth) {
    if (depth < kDepth) {
      Variable* const below = engine->NewVariable();
      engine->PushSync([&, depth](RunContext context) { descend(context.engine, depth + 1); }, kCpu,
                       {}, {below});
      engine->WaitForVar(below);
      engine->DeleteVariable(below);
    }
    ++ended;
  };
  engine_->PushSync([&](RunContext context) { descend(context.engine, 1); }, kCpu, {}, {New()});
  engine_->WaitForAll();
  EXPECT_EQ(ended, kDepth);
}

TEST_P(NestedWaitTest, ExecuteFindsAPlaceThoughSleepersHoldThem) {
  const int workers = GetParam().workers;
  std::vector<OnComplete> open;
  std::latch waiting(workers);
  std::vector<std::atomic<pid_t>> threads(workers);
  for (int i = 0; i < workers; ++i) {
    Variable* const awaited = New();
    open.push_back(PushOpen(*engine_, awaited));
    engine_->PushSync(
        [&, i, awaited](RunContext context) {
          waiting.arrive_and_wait();
          threads[i] = ThisThread();
          context.engine->WaitForVar(awaited);
        },
        kCpu, {}, {New()});
  }
  for (const std::atomic<pid_t>& thread : threads) {
    while (thread == 0) std::this_thread::yield();
    AwaitSleep(thread);
  }
  int ran = 0;
  engine_->Execute([&] { ++ran; });
  Variable* const done = New();
  engine_->PushSync([&](RunContext context) { context.engine->Execute([&] { ++ran; }); }, kCpu, {},
                    {done});
  engine_->WaitForVar(done);
  EXPECT_EQ(ran, 2);
  for (const OnComplete& complete : open) complete();
  engine_->WaitForAll();
}

TEST_P(NestedWaitTest, ExecuteEndsThoughAllWorkersBeginToWaitForItAfterItsCall) {
  const int workers = GetParam().workers;
  Variable* const awaited = New();
  const OnComplete open = PushOpen(*engine_, awaited);
  std::latch running(workers);
  std::atomic<pid_t> caller{0};
  for (int i = 0; i < workers; ++i) {
    engine_->PushSync(
        [&](RunContext context) {
          running.arrive_and_wait();
          while (caller == 0) std::this_thread::yield();
          // In Execute, where it has found all places taken; or else in the wait after that.
          AwaitSleep(caller);
          context.engine->WaitForVar(awaited);
        },
        kCpu, {}, {New()});
  }
  running.wait();
  caller = ThisThread();
  EXPECT_THROW(engine_->Execute([&] {
    open();
    throw NotFound("from inside");
  }),
               Error);
  engine_->WaitForAll();
}

TEST_P(NestedWaitTest, OfOperationsThatWaitForEachOtherInARingOneIsRefused) {
  constexpr int kRounds = 300, kRing = 3, kMore = 40;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Variable*> own;
    for (int i = 0; i < kRing; ++i) own.push_back(New());
    std::vector<Variable*> more;  // more than fit into a record
    for (int i = 0; i < kMore; ++i) more.push_back(New());
    Variable* const begin = New();
    const OnComplete open = PushOpen(*engine_, begin);
    std::atomic<int> refused{0};
    for (int i = 0; i < kRing; ++i) {
      std::vector<Variable*> reads = more;
      reads.push_back(begin);
      engine_->PushSync(
          [&, i](RunContext context) {
            try {
              context.engine->WaitForVar(own[(i + 1) % kRing]);
            } catch (const Error&) {
              ++refused;
            }
          },
          kCpu, reads, {own[i]});
      // Behind it, so that those who look around find something that goes on when it is refused.
      engine_->PushSync([](RunContext) {}, kCpu, {own[i]}, {});
    }
    open();
    engine_->WaitForAll();
    EXPECT_EQ(refused, 1);
    for (Variable* variable : own) engine_->DeleteVariable(variable);
    for (Variable* variable : more) engine_->DeleteVariable(variable);
  }
}

TEST_P(NestedWaitTest, AnAsynchronousOperationMayBeCompleteWhileItsFunctionWaits) {
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    Variable *own = New(), *awaited = New();
    const OnComplete open = PushOpen(*engine_, awaited);
    std::promise<OnComplete> promise;
    engine_->PushAsync(
        [&](RunContext context, OnComplete done) {
          promise.set_value(std::move(done));
          context.engine->WaitForVar(awaited);
        },
        kCpu, {}, {own});
    for (int i = 0; i < 20; ++i)
      engine_->PushSync([](RunContext) {}, kCpu, {}, {}, {.updates = {own}});
    promise.get_future().get()();  // what is behind runs while the wait looks at it
    engine_->WaitForVar(own);
    open();
    engine_->WaitForAll();
    engine_->DeleteVariable(own);
    engine_->DeleteVariable(awaited);
  }
}

}  // namespace
}  // namespace tessera
