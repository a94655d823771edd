// The promises of an engine about waits inside operations, back-pressure, and its life cycle.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
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
using engine_internal::ThreadedConfigurations;
using testing::AllOf;
using testing::HasSubstr;

constexpr Device kCpu = Device::Cpu();

class EngineWaitTest : public EngineConfigurationTest {};
INSTANTIATE_TEST_SUITE_P(All, EngineWaitTest, testing::ValuesIn(AllConfigurations()),
                         ConfigurationName);

class ThreadedEngineWaitTest : public EngineConfigurationTest {};
INSTANTIATE_TEST_SUITE_P(All, ThreadedEngineWaitTest, testing::ValuesIn(ThreadedConfigurations()),
                         ConfigurationName);

TEST_P(EngineWaitTest, AnOperationMayPushAndWait) {
  Variable *outer = engine_->NewVariable(), *inner = engine_->NewVariable();
  int value = 0, seen = 0;
  engine_->PushSync(
      [&](RunContext context) {
        context.engine->PushSync([&](RunContext) { value = 3; }, kCpu, {}, {inner});
        context.engine->WaitForVar(inner);
        seen = value;
      },
      kCpu, {}, {outer});
  engine_->WaitForVar(outer);
  EXPECT_EQ(seen, 3);
}

TEST_P(EngineWaitTest, RecursionThroughWaitsFinishes) {
  // Fibonacci, the wasteful way: each operation pushes two and waits for both.
  std::function<int(int)> fibonacci = [&](int n) -> int {
    if (n < 2) return n;
    int parts[2] = {0, 0};
    Variable* done[2];
    for (int i = 0; i < 2; ++i) {
      done[i] = engine_->NewVariable();
      engine_->PushSync([&parts, &fibonacci, i, n](RunContext) { parts[i] = fibonacci(n - 1 - i); },
                        kCpu, {}, {done[i]});
    }
    for (Variable* variable : done) engine_->WaitForVar(variable);
    for (Variable* variable : done) engine_->DeleteVariable(variable);
    return parts[0] + parts[1];
  };
  EXPECT_EQ(fibonacci(12), 144);
}

TEST_P(EngineWaitTest, ManyWaitingOperationsNeedLittleStack) {
  // Each runs first what it waits for, and not its 20,000 siblings on top of each other.
  constexpr int kParents = 20000;
  std::atomic<int> children{0};
  std::vector<Variable*> variables;
  for (int i = 0; i < kParents; ++i) variables.push_back(engine_->NewVariable());
  for (int i = 0; i < kParents; ++i) {
    engine_->PushSync(
        [&, i](RunContext) {
          engine_->PushSync([&](RunContext) { ++children; }, kCpu, {}, {variables[i]});
          engine_->WaitForVar(variables[i]);
        },
        kCpu, {}, {});
  }
  engine_->WaitForAll();
  EXPECT_EQ(children, kParents);
}

TEST_P(EngineWaitTest, WaitingForOnesOwnWriteThrows) {
  Variable* variable = engine_->NewVariable("mine");
  engine_->PushSync([&](RunContext context) { context.engine->WaitForVar(variable); }, kCpu, {},
                    {variable}, {.name = "selfish"});
  try {
    engine_->WaitForVar(variable);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kFailedPrecondition);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("selfish"), HasSubstr("mine")));
  }
}

TEST_P(EngineWaitTest, WaitingForWhatOneReadsThrowsOnlyIfAWritePends) {
  Variable *input = engine_->NewVariable(), *output = engine_->NewVariable();
  engine_->PushSync([&](RunContext context) { context.engine->WaitForVar(input); }, kCpu, {input},
                    {output});
  EXPECT_NO_THROW(engine_->WaitForVar(output));
  engine_->PushSync(
      [&](RunContext context) {
        context.engine->PushSync([](RunContext) {}, kCpu, {}, {input});
        context.engine->WaitForVar(input);
      },
      kCpu, {input}, {output});
  EXPECT_THROW(engine_->WaitForVar(output), Error);
  EXPECT_NO_THROW(engine_->WaitForVar(input)) << "the pushed write runs all the same";
}

TEST_P(EngineWaitTest, WaitingForADescendantOfOnesOwnWriteThrows) {
  Variable* chain[4];
  for (Variable*& variable : chain) variable = engine_->NewVariable();
  std::atomic<int> runs{0};
  engine_->PushSync(
      [&](RunContext context) {
        for (int i = 1; i < 4; ++i) {
          context.engine->PushSync([&](RunContext) { ++runs; }, kCpu, {chain[i - 1]}, {chain[i]});
        }
        try {
          context.engine->WaitForVar(chain[3]);
        } catch (const Error&) {
          ++runs;
        }
      },
      kCpu, {}, {chain[0]});
  engine_->WaitForAll();
  EXPECT_EQ(runs, 4);
}

TEST_P(EngineWaitTest, OperationsThatWaitForEachOtherGetAnError) {
  Variable *a = engine_->NewVariable(), *b = engine_->NewVariable();
  std::promise<OnComplete> gate;
  Variable* const begin = engine_->NewVariable();
  std::atomic<int> refused{0};
  engine_->PushAsync([&](RunContext, OnComplete done) { gate.set_value(done); }, kCpu, {}, {begin});
  const auto push = [&](Variable* own, Variable* other) {
    engine_->PushSync(
        [&, other](RunContext context) {
          try {
            context.engine->WaitForVar(other);
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), Error::kFailedPrecondition);
            ++refused;
          }
        },
        kCpu, {begin}, {own});
  };
  push(a, b);
  push(b, a);
  gate.get_future().get()();  // both are pushed, and each needs the other
  engine_->WaitForAll();
  EXPECT_GE(refused, 1);  // both, where each finds the other waiting already
}

TEST_P(EngineWaitTest, WaitForAllInsideAnOperationThrows) {
  Variable* variable = engine_->NewVariable();
  engine_->PushSync([](RunContext context) { context.engine->WaitForAll(); }, kCpu, {}, {variable},
                    {.name = "patient"});
  EXPECT_THROW(engine_->WaitForVar(variable), Error);
  engine_->PushSync([](RunContext context) { context.engine->Shutdown(); }, kCpu, {}, {variable});
  EXPECT_THROW(engine_->WaitForVar(variable), Error);
  engine_->PushSync([](RunContext context) { context.engine->Stop(); }, kCpu, {}, {variable});
  EXPECT_THROW(engine_->WaitForVar(variable), Error);
}

TEST_P(EngineWaitTest, AWaitDoesNotWaitForReaders) {
  Variable* variable = engine_->NewVariable();
  std::vector<OnComplete> reader;
  std::latch reading(1);
  engine_->PushAsync(
      [&](RunContext, OnComplete done) { reader.push_back(done), reading.count_down(); }, kCpu,
      {variable}, {});
  reading.wait();
  engine_->WaitForVar(variable);
  reader[0]();
  engine_->WaitForAll();
}

TEST_P(EngineWaitTest, ErrorsOfInnerOperationsReachTheOuterOne) {
  Variable *outer = engine_->NewVariable(), *inner = engine_->NewVariable();
  engine_->PushSync(
      [&](RunContext context) {
        context.engine->PushSync([](RunContext) { throw DataLoss("deep"); }, kCpu, {}, {inner},
                                 {.name = "inner"});
        context.engine->WaitForVar(inner);
      },
      kCpu, {}, {outer}, {.name = "outer"});
  try {
    engine_->WaitForVar(outer);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("deep"), HasSubstr("inner"), HasSubstr("outer")));
  }
}

TEST_P(EngineWaitTest, StoppedNothingBeginsAndStartGoesOn) {
  Variable* variable = engine_->NewVariable();
  std::atomic<int> runs{0};
  engine_->Stop();
  for (int i = 0; i < 100; ++i) {
    engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {variable});
    engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {});
  }
  EXPECT_EQ(runs, 0);
  EXPECT_THROW(engine_->WaitForVar(variable), Error) << "it never could end";
  EXPECT_THROW(engine_->WaitForAll(), Error);
  engine_->Start();
  engine_->WaitForAll();
  EXPECT_EQ(runs, 200);
}

TEST_P(EngineWaitTest, StopWaitsForRunningOperationsOnly) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> running{0};
    for (int i = 0; i < 20; ++i) {
      engine_->PushSync([&](RunContext) { ++running, std::this_thread::yield(), --running; }, kCpu,
                        {}, {});
    }
    engine_->Stop();
    EXPECT_EQ(running, 0);
    engine_->Start();
    engine_->WaitForAll();
  }
}

TEST_P(EngineWaitTest, ShutdownFinishesEverythingAndMayBeRepeated) {
  Variable* variable = engine_->NewVariable();
  std::atomic<int> runs{0};
  for (int i = 0; i < 100; ++i) {
    engine_->PushSync(
        [&](RunContext context) {
          ++runs;
          context.engine->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {});
        },
        kCpu, {}, {variable});
  }
  engine_->Shutdown();
  EXPECT_EQ(runs, 200);
  engine_->Shutdown();
  EXPECT_THROW(engine_->PushSync([](RunContext) {}, kCpu, {}, {variable}), Error);
  engine_->WaitForVar(variable);
  engine_->DeleteVariable(variable);
}

TEST_P(EngineWaitTest, APushThatOverlapsWithShutdownRunsOrThrows) {
  constexpr int kRounds = 100, kThreads = 2;
  for (int round = 0; round < kRounds; ++round) {
    const auto engine = GetParam().Make();
    std::atomic<uint64_t> runs{0}, accepted{0};
    std::latch begin(kThreads + 1);
    std::vector<std::thread> pushers;
    for (int t = 0; t < kThreads; ++t) {
      pushers.emplace_back([&] {
        Variable* const variable = engine->NewVariable();
        begin.arrive_and_wait();
        try {
          // With an end, as Shutdown waits for a moment in which nothing pends.
          for (int i = 0; i < 500; ++i) {
            engine->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {variable});
            ++accepted;
            engine->WaitForVar(variable);
          }
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Error::kFailedPrecondition);
          EXPECT_THAT(error.what(), HasSubstr("after Shutdown")) << "refused, and not left behind";
        }
      });
    }
    begin.arrive_and_wait();
    engine->Shutdown();
    for (std::thread& pusher : pushers) pusher.join();
    EXPECT_EQ(runs.load(), accepted.load());
    EXPECT_EQ(engine->counters().pushed, accepted.load());
    EXPECT_EQ(engine->counters().pending, 0u);
  }
}

TEST_P(EngineWaitTest, AReplayThatOverlapsWithShutdownRunsWholeOrThrows) {
  constexpr int kRounds = 100, kOperations = 100;
  for (int round = 0; round < kRounds; ++round) {
    const auto engine = GetParam().Make();
    Variable* const variable = engine->NewVariable();
    int runs = 0, pushed_inside = 0;
    const auto schedule = engine->Record([&] {
      for (int i = 0; i < kOperations; ++i) {
        engine->PushSync(
            [&](RunContext context) {
              ++runs;
              context.engine->PushSync([&](RunContext) { ++pushed_inside; }, kCpu, {}, {variable});
            },
            kCpu, {}, {variable});
      }
    });
    std::latch begin(2);
    int accepted = 0;
    std::thread replayer([&] {
      begin.arrive_and_wait();
      try {
        for (int i = 0; i < 10; ++i) {
          schedule->Replay();
          ++accepted;
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Error::kFailedPrecondition);
        EXPECT_THAT(error.what(), HasSubstr("after Shutdown"));
      }
    });
    begin.arrive_and_wait();
    engine->Shutdown();
    replayer.join();
    EXPECT_EQ(runs, accepted * kOperations) << "round " << round;
    EXPECT_EQ(pushed_inside, runs) << "what operations push is finished too";
    EXPECT_EQ(engine->counters().pending, 0u);
    EXPECT_NO_THROW(engine->WaitForAll());
  }
}

TEST_P(EngineWaitTest, OfTwoThatACompletionMadeReadyOneMayWaitForTheOther) {
  Variable *input = engine_->NewVariable(), *first = engine_->NewVariable(),
           *second = engine_->NewVariable(), *trigger = engine_->NewVariable();
  // Once completed in a thread outside, once inside another operation.
  for (const bool inside : {false, true}) {
    std::promise<OnComplete> handle;
    int value = 0, seen = 0;
    engine_->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                       {input});
    engine_->PushSync(
        [&](RunContext context) {
          context.engine->WaitForVar(second);  // is ready as well, and nobody else may run it
          seen = value;
        },
        kCpu, {input}, {first});
    engine_->PushSync([&](RunContext) { value = 5; }, kCpu, {input}, {second});
    const OnComplete done = handle.get_future().get();
    if (inside) {
      engine_->PushSync([&](RunContext) { done(); }, kCpu, {}, {trigger});
    } else {
      done();
    }
    engine_->WaitForVar(first);
    EXPECT_EQ(seen, 5);
    engine_->WaitForAll();
  }
}

TEST_P(EngineWaitTest, AnOperationOfOneEngineMayUseAnother) {
  // Each engine counts its own nesting: what is left over in the inner one must run all the same.
  const auto other = GetParam().Make();
  Variable *outer = engine_->NewVariable(), *input = other->NewVariable();
  std::vector<Variable*> outputs;
  for (int i = 0; i < 3; ++i) outputs.push_back(other->NewVariable());
  std::atomic<int> runs{0};
  engine_->PushSync(
      [&](RunContext) {
        std::promise<OnComplete> handle;
        other->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                         {input});
        for (Variable* output : outputs) {
          other->PushSync([&](RunContext) { ++runs; }, kCpu, {input}, {output});
        }
        handle.get_future().get()();
        for (Variable* output : outputs) other->WaitForVar(output);
      },
      kCpu, {}, {outer});
  engine_->WaitForVar(outer);
  EXPECT_EQ(runs, 3);
}

TEST_P(ThreadedEngineWaitTest, AllWorkersMayWaitAtOnce) {
  const int workers = GetParam().workers;
  std::vector<Variable*> done;
  std::latch all_inside(workers);
  for (int i = 0; i < workers; ++i) {
    done.push_back(engine_->NewVariable());
    Variable* inner = engine_->NewVariable();
    engine_->PushSync(
        [&, inner](RunContext context) {
          all_inside.arrive_and_wait();
          context.engine->PushSync([](RunContext) {}, kCpu, {}, {inner});
          context.engine->WaitForVar(inner);
        },
        kCpu, {}, {done.back()});
  }
  for (Variable* variable : done) engine_->WaitForVar(variable);
}

TEST_P(ThreadedEngineWaitTest, AWaitingOperationIsWokenByAForeignCompletion) {
  Variable *inner = engine_->NewVariable(), *outer = engine_->NewVariable();
  std::promise<OnComplete> handle;
  engine_->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                     {inner});
  std::latch waiting(1);
  engine_->PushSync(
      [&](RunContext context) {
        waiting.count_down();
        context.engine->WaitForVar(inner);
      },
      kCpu, {}, {outer});
  waiting.wait();
  handle.get_future().get()();
  engine_->WaitForVar(outer);
}

}  // namespace
}  // namespace tessera
