// Waits inside operations that last, and many of them at once: see "Waiting inside an operation" in
// engine.h.

#include <sys/types.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
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

TEST_P(NestedWaitTest, AThousandOperationsMayWaitForForeignCompletions) {
  constexpr int kWaits = 1000;
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

TEST_P(NestedWaitTest, AWaitAmongSteadyTrafficIsReportedOnce) {
  std::atomic<int> reports{0};
  std::promise<void> reported;
  const auto report = [&](const std::string& text) {
    if (!text.starts_with("tessera engine: a wait inside an operation ")) return;  // but of a push
    if (++reports == 1) reported.set_value();
  };
  const auto engine = GetParam().Make({.stall_report_ms = 20, .stall_report = report});
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
  constexpr int64_t kLookNs = 50'000'000;
  Variable* const variable = New();
  for (int i = 0; i < 100; ++i) engine_->PushSync([](RunContext) {}, kCpu, {}, {variable});
  Variable* const inner = New();
  const OnComplete done = PushOpen(*engine_, inner);
  engine_->PushSync([inner](RunContext context) { context.engine->WaitForVar(inner); }, kCpu, {},
                    {New()});
  const auto used_ns = [] {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  // Threads are on their way to sleep at first. One that spins takes all of every look, or on a
  // busy machine the better part.
  int64_t used = kLookNs;
  for (int look = 0; look < 200 && used > kLookNs / 10; ++look) {
    const int64_t before = used_ns();
    std::this_thread::sleep_for(std::chrono::nanoseconds(kLookNs));
    used = used_ns() - before;
  }
  EXPECT_LE(used, kLookNs / 10) << "in the last of 200 looks";
  done();
  engine_->WaitForAll();
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

TEST_P(NestedWaitTest, BeyondTheCompensatingThreadsAWaitThrows) {
  constexpr int kWaits = 1030;
  Variable* const awaited = New();
  const OnComplete open = PushOpen(*engine_, awaited);
  std::atomic<int> refused{0}, waited{0};
  std::promise<void> first_refusal;
  for (int i = 0; i < kWaits; ++i) {
    engine_->PushSync(
        [&](RunContext context) {
          try {
            context.engine->WaitForVar(awaited);
            ++waited;
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), Error::kResourceExhausted);
            if (++refused == 1) first_refusal.set_value();
          }
        },
        kCpu, {}, {});
  }
  first_refusal.get_future().wait();
  open();
  engine_->WaitForAll();
  EXPECT_GE(refused, 1);
  EXPECT_EQ(refused + waited, kWaits);
}

TEST_P(NestedWaitTest, AChainOfWaitsMayBeDeep) {
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

// It has lent its place before.
TEST_P(NestedWaitTest, AWaitOfAnOperationThatMayBlockLendsNoSecondPlace) {
  Variable* const awaited = New();
  const OnComplete open = PushOpen(*engine_, awaited);
  std::promise<pid_t> sleeper;
  engine_->PushSync(
      [&](RunContext context) {
        sleeper.set_value(ThisThread());
        context.engine->WaitForVar(awaited);
      },
      kCpu, {}, {}, {.property = FnProperty::kAsync});
  AwaitSleep(sleeper.get_future().get());
  EXPECT_LE(MostThatRunAtOnce(), GetParam().workers);
  open();
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
