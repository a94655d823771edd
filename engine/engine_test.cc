#include "tessera/engine/engine.h"

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <future>
#include <latch>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tbb/task_arena.h"
#include "tessera/base/error.h"
#include "tessera/engine/internal/engine_configurations.h"

namespace tessera {
namespace {

using engine_internal::AllConfigurations;
using engine_internal::ConfigurationName;
using engine_internal::EngineConfigurationTest;
using engine_internal::ErrorOf;
using engine_internal::ParallelFor;
using engine_internal::ThreadedConfigurations;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr Device kCpu = Device::Cpu();

class EngineTest : public EngineConfigurationTest {};
INSTANTIATE_TEST_SUITE_P(All, EngineTest, testing::ValuesIn(AllConfigurations()),
                         ConfigurationName);

TEST_P(EngineTest, WritesToOneVariableRunInPushOrder) {
  Variable* variable = engine_->NewVariable();
  std::vector<int> order;  // the engine's order is its only protection
  for (int i = 0; i < 1000; ++i) {
    engine_->PushSync([&order, i](RunContext) { order.push_back(i); }, kCpu, {}, {variable});
  }
  engine_->WaitForVar(variable);
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
}

TEST_P(EngineTest, ReadsSeeTheWriteBeforeThemAndNotTheOneAfter) {
  Variable* data = engine_->NewVariable();
  int value = 0;
  std::vector<int> seen(300, -1);
  for (int round = 0; round < 100; ++round) {
    engine_->PushSync([&value, round](RunContext) { value = round; }, kCpu, {}, {data});
    for (int reader = 0; reader < 3; ++reader) {
      int* out = &seen[round * 3 + reader];
      engine_->PushSync([&value, out](RunContext) { *out = value; }, kCpu, {data}, {});
    }
  }
  engine_->WaitForAll();
  for (int i = 0; i < 300; ++i) EXPECT_EQ(seen[i], i / 3);
}

TEST_P(EngineTest, AChainThroughManyVariablesKeepsItsOrder) {
  std::vector<Variable*> variables;
  for (int i = 0; i < 100; ++i) variables.push_back(engine_->NewVariable());
  std::vector<int> values(100, 0);
  values[0] = 7;
  for (int i = 1; i < 100; ++i) {
    engine_->PushSync([&values, i](RunContext) { values[i] = values[i - 1] + 1; }, kCpu,
                      {variables[i - 1]}, {variables[i]});
  }
  engine_->WaitForVar(variables[99]);
  EXPECT_EQ(values[99], 106);
}

TEST_P(EngineTest, AFunctionLearnsWhereItRuns) {
  Variable* variable = engine_->NewVariable();
  RunContext seen;
  engine_->PushSync([&](RunContext context) { seen = context; }, Device::CpuPinned(3), {},
                    {variable});
  engine_->WaitForVar(variable);
  EXPECT_EQ(seen.device, Device::CpuPinned(3));
  EXPECT_EQ(seen.stream, nullptr);
  EXPECT_EQ(seen.engine, engine_.get());
}

TEST_P(EngineTest, AVariableNamedTwiceIsAnErrorThatNamesIt) {
  Variable* twice = engine_->NewVariable("weights");
  Variable* other = engine_->NewVariable();
  const auto push = [&](VariableList reads, VariableList writes) {
    return ErrorOf([&] {
      engine_->PushSync([](RunContext) { ADD_FAILURE(); }, kCpu, reads, writes, {.name = "step"});
    });
  };
  for (const Error& error :
       {push({twice, other, twice}, {}), push({}, {twice, twice}), push({other, twice}, {twice})}) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("step"), HasSubstr("weights")));
  }
  const Error error =
      ErrorOf([&] { engine_->NewOperator([](RunContext) {}, {twice}, {twice}, {.name = "made"}); });
  EXPECT_THAT(error.what(), AllOf(HasSubstr("made"), HasSubstr("both read and written")));
  EXPECT_EQ(engine_->counters().pushed, 0u);
}

TEST_P(EngineTest, AnOperatorOnADeletedVariableIsAnError) {
  Variable* const variable = engine_->NewVariable("gone");
  engine_->DeleteVariable(variable);
  engine_->WaitForAll();
  const Error error =
      ErrorOf([&] { engine_->NewOperator([](RunContext) {}, {}, {variable}, {.name = "made"}); });
  EXPECT_THAT(error.what(), AllOf(HasSubstr("made"), HasSubstr("gone"), HasSubstr("deleted")));
}

TEST_P(EngineTest, LimitsThatAreOutOfRangeAreErrors) {
  for (const EngineOptions& options :
       {EngineOptions{.max_pending = -1}, EngineOptions{.stall_report_ms = -1},
        EngineOptions{.stall_report_ms = std::numeric_limits<int64_t>::max()}}) {
    EXPECT_EQ(ErrorOf([&] { GetParam().Make(options); }).code(), Error::kInvalidArgument);
  }
}

TEST_P(EngineTest, AVariableInTwoListsIsAnErrorThatNamesBoth) {
  Variable* variable = engine_->NewVariable("sum");
  const auto push = [&](VariableList reads, VariableList writes, VariableList updates) {
    const PushOptions options = {.name = "add", .updates = updates};
    const Error error = ErrorOf([&] {
      engine_->PushSync([](RunContext) { ADD_FAILURE(); }, kCpu, reads, writes, options);
    });
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("\"add\""), HasSubstr("sum")));
    return std::string(error.what());
  };
  EXPECT_THAT(push({variable}, {}, {variable}), HasSubstr("both read and updated"));
  EXPECT_THAT(push({}, {variable}, {variable}), HasSubstr("both written and updated"));
  EXPECT_THAT(push({}, {}, {variable, variable}), HasSubstr("updated twice"));
  EXPECT_THAT(push({variable}, {variable}, {}), HasSubstr("both read and written"));
  EXPECT_EQ(engine_->counters().pushed, 0u);
}

TEST_P(EngineTest, UpdatesAreOrderedAsWritesAreAndAdvanceTheVersion) {
  Variable *sum = engine_->NewVariable(), *input = engine_->NewVariable();
  uint64_t value = 1, expected = 1;  // the engine's order is its only protection
  std::vector<uint64_t> seen(500, 0), expected_seen;
  for (uint64_t i = 0; i < 500; ++i) {
    engine_->PushSync([&value, i](RunContext) { value = 3 * value + i; }, kCpu, {input}, {},
                      {.updates = {sum}});
    engine_->PushSync([&value, &seen, i](RunContext) { seen[i] = value; }, kCpu, {sum}, {});
    expected = 3 * expected + i;
    expected_seen.push_back(expected);
  }
  engine_->WaitForAll();
  EXPECT_EQ(seen, expected_seen);
  EXPECT_EQ(sum->version(), 500u);
  EXPECT_EQ(input->version(), 0u);
}

TEST_P(EngineTest, WrongArgumentsAreErrorsAndPushNothing) {
  Variable* variable = engine_->NewVariable();
  const auto other_engine = GetParam().Make();
  Variable* foreign = other_engine->NewVariable("foreign");
  const auto nothing = [](RunContext) {};
  EXPECT_EQ(ErrorOf([&] { engine_->PushSync(nothing, kCpu, {nullptr}, {}); }).code(),
            Error::kInvalidArgument);
  EXPECT_THAT(ErrorOf([&] { engine_->PushSync(nothing, kCpu, {}, {foreign}); }).what(),
              HasSubstr("another engine"));
  EXPECT_THAT(ErrorOf([&] { engine_->WaitForVar(foreign); }).what(), HasSubstr("another engine"));
  EXPECT_EQ(ErrorOf([&] { engine_->PushSync(SyncFn(), kCpu, {}, {variable}); }).code(),
            Error::kInvalidArgument);
  EXPECT_THAT(ErrorOf([&] { engine_->PushSync(nothing, Device::Gpu(9), {}, {variable}); }).what(),
              HasSubstr("gpu(9)"));
  EXPECT_EQ(engine_->counters().pushed, 0u);
  EXPECT_EQ(variable->version(), 0u);
}

TEST_P(EngineTest, TheVersionAdvancesWithEveryPushedWrite) {
  Variable* variable = engine_->NewVariable();
  Variable* other = engine_->NewVariable();
  EXPECT_EQ(variable->version(), 0u);
  for (int i = 0; i < 5; ++i) {
    engine_->PushSync([](RunContext) {}, kCpu, {other}, {variable});
    engine_->PushSync([](RunContext) {}, kCpu, {variable}, {});
  }
  EXPECT_EQ(variable->version(), 5u);
  engine_->WaitForAll();
  EXPECT_EQ(variable->version(), 5u);
  EXPECT_EQ(other->version(), 0u);
}

TEST_P(EngineTest, OperationsWithManyVariablesAndWithNoneRun) {
  std::vector<Variable*> reads, writes;
  for (int i = 0; i < 20; ++i) reads.push_back(engine_->NewVariable());
  for (int i = 0; i < 10; ++i) writes.push_back(engine_->NewVariable());
  std::atomic<int> runs{0};
  for (int i = 0; i < 50; ++i) {
    engine_->PushSync([&](RunContext) { ++runs; }, kCpu, reads, writes);
    engine_->PushSync([&](RunContext) { ++runs; }, kCpu, writes, reads);
    engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {});
  }
  engine_->WaitForAll();
  EXPECT_EQ(runs, 150);
}

TEST_P(EngineTest, ADeletedVariableServesTheOperationsPushedBefore) {
  Variable* variable = engine_->NewVariable("short-lived");
  Variable* other = engine_->NewVariable();
  auto value = std::make_shared<int>(0);
  std::weak_ptr<int> watch = value;
  for (int i = 0; i < 10; ++i) {
    engine_->PushSync([value](RunContext) { ++*value; }, kCpu, {}, {variable});
  }
  int seen = 0;
  engine_->PushSync([value, &seen](RunContext) { seen = *value; }, kCpu, {variable}, {other});
  engine_->DeleteVariable(variable);
  value.reset();
  engine_->WaitForVar(other);
  EXPECT_EQ(seen, 10);
  engine_->WaitForAll();
  EXPECT_TRUE(watch.expired()) << "captures are released before a wait returns";
}

TEST_P(EngineTest, UseAfterDeletionIsReported) {
  Variable* variable = engine_->NewVariable("gone");
  engine_->DeleteVariable(variable);
  EXPECT_THROW(engine_->PushSync([](RunContext) {}, kCpu, {variable}, {}), Error);
  EXPECT_THROW(engine_->WaitForVar(variable), Error);
  EXPECT_THROW(engine_->Throw(variable), Error);
  EXPECT_THROW(engine_->DeleteVariable(variable), Error);
}

TEST_P(EngineTest, WaitForAllEndsWhileOthersPush) {
  std::atomic<bool> pushing{true};
  std::thread pusher([&] {
    Variable* const variable = engine_->NewVariable();
    for (int i = 0; i < 20000; ++i) engine_->PushSync([](RunContext) {}, kCpu, {}, {variable});
    pushing = false;
  });
  while (pushing) EXPECT_NO_THROW(engine_->WaitForAll());
  pusher.join();
}

TEST_P(EngineTest, CountersNeverGoBackAndAddUp) {
  constexpr uint64_t kPairs = 20000;
  Variable *bad = engine_->NewVariable(), *good = engine_->NewVariable();
  const EngineCounters before = engine_->counters();
  std::atomic<bool> done{false};
  std::thread reader([&] {
    for (EngineCounters last = before; !done;) {
      const EngineCounters now = engine_->counters();
      EXPECT_GE(now.pushed, last.pushed);
      EXPECT_GE(now.run, last.run);
      EXPECT_GE(now.skipped, last.skipped);
      EXPECT_EQ(now.run + now.skipped + now.pending, now.pushed);
      last = now;
    }
  });
  engine_->PushSync([](RunContext) { throw InvalidArgument("bad"); }, kCpu, {}, {bad});
  for (uint64_t i = 0; i < kPairs; ++i) {
    engine_->PushSync([](RunContext) {}, kCpu, {bad}, {});
    engine_->PushSync([](RunContext) {}, kCpu, {}, {good});
  }
  EXPECT_THROW(engine_->WaitForAll(), Error);
  done = true;
  reader.join();
  const EngineCounters after = engine_->counters();
  EXPECT_EQ(after.skipped - before.skipped, kPairs);
  EXPECT_EQ(after.run - before.run, kPairs + 1);
}

TEST_P(EngineTest, ARecycledVariableIsANewOne) {
  Variable* variable = engine_->NewVariable();
  engine_->PushSync([](RunContext) { throw InvalidArgument("old"); }, kCpu, {}, {variable});
  engine_->DeleteVariable(variable);
  EXPECT_THROW(engine_->WaitForAll(), Error);
  for (int i = 0; i < 200; ++i) {
    Variable* fresh = engine_->NewVariable();
    EXPECT_EQ(fresh->version(), 0u);
    engine_->WaitForVar(fresh);
    engine_->DeleteVariable(fresh);
  }
}

TEST_P(EngineTest, AnOperatorCanBePushedManyTimesWhilePushesPend) {
  Variable* input = engine_->NewVariable();
  Variable* output = engine_->NewVariable();
  int runs = 0;
  Opr* op = engine_->NewOperator([&runs](RunContext) { ++runs; }, {input}, {output});
  for (int i = 0; i < 500; ++i) engine_->Push(op, kCpu);
  engine_->DeleteOperator(op);
  engine_->WaitForVar(output);
  EXPECT_EQ(runs, 500);
}

TEST_P(EngineTest, AnOperatorLivesUntilItsLastPushIsComplete) {
  Variable* output = engine_->NewVariable();
  auto token = std::make_shared<int>(1);
  std::weak_ptr<int> watch = token;
  Opr* op = engine_->NewOperator([token](RunContext, OnComplete done) { done(); }, {}, {output});
  token.reset();
  engine_->Push(op, kCpu);
  engine_->DeleteOperator(op);
  engine_->Shutdown();
  EXPECT_TRUE(watch.expired());
}

TEST_P(EngineTest, AsyncOperationsCompleteFromForeignThreads) {
  Variable* variable = engine_->NewVariable();
  Variable* result = engine_->NewVariable();
  std::promise<OnComplete> handle;
  int value = 0, seen = 0;
  engine_->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                     {variable}, {.property = FnProperty::kAsync});
  engine_->PushSync([&](RunContext) { seen = value; }, kCpu, {variable}, {result});
  std::thread foreign([&] {
    OnComplete done = handle.get_future().get();
    value = 42;
    done();
  });
  engine_->WaitForVar(result);
  foreign.join();
  EXPECT_EQ(seen, 42);
}

TEST_P(EngineTest, APendingAsyncOperationHoldsNoWorker) {
  std::vector<OnComplete> handles;
  std::mutex mutex;
  std::vector<Variable*> variables;
  for (int i = 0; i < 20; ++i) {
    variables.push_back(engine_->NewVariable());
    engine_->PushAsync(
        [&](RunContext, OnComplete done) {
          std::lock_guard<std::mutex> hold(mutex);
          handles.push_back(done);
        },
        kCpu, {}, {variables.back()});
  }
  Variable* unrelated = engine_->NewVariable();
  bool ran = false;
  engine_->PushSync([&](RunContext) { ran = true; }, kCpu, {}, {unrelated}, {.priority = -1});
  engine_->WaitForVar(unrelated);  // would never end if the 20 held the workers
  EXPECT_TRUE(ran);
  while (engine_->counters().pending > 0) {
    std::lock_guard<std::mutex> hold(mutex);
    for (const OnComplete& done : handles) done();
    handles.clear();
  }
  engine_->WaitForAll();
}

TEST_P(EngineTest, CompletingTwiceIsAClearError) {
  Variable* variable = engine_->NewVariable();
  std::promise<OnComplete> handle;
  engine_->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                     {variable}, {.name = "read file"});
  const OnComplete done = handle.get_future().get();
  const OnComplete copy = done;
  done();
  const Error error = ErrorOf([&] { copy(); });
  EXPECT_EQ(error.code(), Error::kFailedPrecondition);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("read file"), HasSubstr("engine_test.cc")));
  engine_->WaitForAll();
  engine_.reset();
  EXPECT_THROW(copy(), Error) << "handles may outlive their engine";
}

TEST_P(EngineTest, OfManyThreadsThatCompleteOneSucceeds) {
  for (int round = 0; round < 50; ++round) {
    Variable* variable = engine_->NewVariable();
    std::promise<OnComplete> handle;
    engine_->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                       {variable});
    const OnComplete done = handle.get_future().get();
    std::atomic<int> failures{0};
    std::barrier<> together(4);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        together.arrive_and_wait();
        try {
          done();
        } catch (const Error&) {
          ++failures;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(failures, 3);
    engine_->WaitForVar(variable);
    engine_->DeleteVariable(variable);
  }
}

TEST_P(EngineTest, SeveralThreadsMayPushOnTheSameVariables) {
  Variable* a = engine_->NewVariable();
  Variable* b = engine_->NewVariable();
  int64_t sum_a = 0, sum_b = 0;  // protected by the engine alone
  constexpr int kThreads = 4, kPushes = 500;
  std::barrier<> together(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      together.arrive_and_wait();
      for (int i = 0; i < kPushes; ++i) {
        // Both orders of naming, which would deadlock if queues were entered one after the other.
        const auto first = t % 2 == 0 ? a : b, second = t % 2 == 0 ? b : a;
        engine_->PushSync([&](RunContext) { ++sum_a, ++sum_b; }, kCpu, {}, {first, second});
        if (i % 100 == 0) engine_->WaitForVar(first);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  engine_->WaitForAll();
  EXPECT_EQ(sum_a, kThreads * kPushes);
  EXPECT_EQ(sum_b, kThreads * kPushes);
}

TEST_P(EngineTest, CountersAddUp) {
  Variable* good = engine_->NewVariable();
  Variable* bad = engine_->NewVariable();
  engine_->PushSync([](RunContext) { throw std::runtime_error("no"); }, kCpu, {}, {bad});
  engine_->PushSync([](RunContext) {}, kCpu, {bad}, {});
  engine_->PushSync([](RunContext) {}, kCpu, {bad}, {});
  engine_->PushSync([](RunContext) {}, kCpu, {good}, {});
  EXPECT_THROW(engine_->WaitForAll(), std::runtime_error);
  const EngineCounters counters = engine_->counters();
  EXPECT_EQ(counters.pushed, 4u);
  EXPECT_EQ(counters.run, 2u);
  EXPECT_EQ(counters.skipped, 2u);
  EXPECT_EQ(counters.pending, 0u);
}

TEST_P(EngineTest, DebugStringNamesWhatPendsAndWhatHoldsIt) {
  Variable* variable = engine_->NewVariable("disk");
  std::promise<OnComplete> handle;
  engine_->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                     {variable}, {.name = "fetch"});
  engine_->PushSync([](RunContext) {}, kCpu, {variable}, {}, {.name = "decode"});
  const OnComplete done = handle.get_future().get();
  EXPECT_THAT(engine_->DebugString(),
              AllOf(HasSubstr("pending 2"), HasSubstr("disk"), HasSubstr("held for writing"),
                    HasSubstr("fetch"), HasSubstr("decode"), HasSubstr("engine_test.cc")));
  done();
  engine_->WaitForAll();
  EXPECT_THAT(engine_->DebugString(), HasSubstr("pending 0"));
}

TEST_P(EngineTest, DebugStringNamesEveryReader) {
  Variable* variable = engine_->NewVariable("table");
  std::mutex mutex;
  std::vector<OnComplete> handles;
  std::latch reading(3);
  for (const char* name : {"first", "second", "third"}) {
    engine_->PushAsync(
        [&](RunContext, OnComplete done) {
          std::lock_guard<std::mutex> hold(mutex);
          handles.push_back(done);
          reading.count_down();
        },
        kCpu, {variable}, {}, {.name = name});
  }
  engine_->PushSync([](RunContext) {}, kCpu, {}, {}, {.name = "rewrite", .updates = {variable}});
  reading.wait();
  EXPECT_THAT(engine_->DebugString(),
              AllOf(HasSubstr("\"first\""), HasSubstr("\"second\""), HasSubstr("\"third\""),
                    HasSubstr("held by read"), HasSubstr("queued: update \"rewrite\"")));
  std::lock_guard<std::mutex> hold(mutex);
  handles[1]();  // in any order
  EXPECT_THAT(engine_->DebugString(), AllOf(HasSubstr("\"rewrite\""), HasSubstr("pending 3")));
  handles[0]();
  handles[2]();
  engine_->WaitForAll();
  EXPECT_THAT(engine_->DebugString(), Not(HasSubstr("table")));
}

class ThreadedEngineTest : public EngineConfigurationTest {};
INSTANTIATE_TEST_SUITE_P(All, ThreadedEngineTest, testing::ValuesIn(ThreadedConfigurations()),
                         ConfigurationName);

TEST_P(ThreadedEngineTest, ReadsRunTogetherOnAllWorkers) {
  const int workers = engine_->num_workers();
  ASSERT_EQ(workers, GetParam().workers);
  Variable* variable = engine_->NewVariable();
  std::latch all_inside(workers);  // opens only if all readers are inside at once
  for (int i = 0; i < workers; ++i) {
    engine_->PushSync([&](RunContext) { all_inside.arrive_and_wait(); }, kCpu, {variable}, {});
  }
  engine_->WaitForAll();
  EXPECT_TRUE(all_inside.try_wait());
}

TEST_P(ThreadedEngineTest, TwoEnginesDoNotShareWorkers) {
  const auto other = GetParam().Make();
  const int workers = engine_->num_workers();
  std::latch all_inside(2 * workers);
  for (int i = 0; i < workers; ++i) {
    engine_->PushSync([&](RunContext) { all_inside.arrive_and_wait(); }, kCpu, {}, {});
    other->PushSync([&](RunContext) { all_inside.arrive_and_wait(); }, kCpu, {}, {});
  }
  engine_->WaitForAll();
  other->WaitForAll();
}

TEST_P(ThreadedEngineTest, HigherPrioritiesRunFirstAndPrioritisedWorkBeforeAll) {
  const auto one = Engine::Create({.kind = EngineKind::kThreaded, .workers = 1});
  std::latch started(1), go(1);
  one->PushSync([&](RunContext) { started.count_down(), go.wait(); }, kCpu, {}, {});
  started.wait();
  std::vector<int> order;  // written by the only worker
  const auto push = [&](int number, int priority, FnProperty property = FnProperty::kNormal) {
    one->PushSync([&order, number](RunContext) { order.push_back(number); }, kCpu, {}, {},
                  {.property = property, .priority = priority});
  };
  push(5, 0);
  push(8, -1);
  push(3, 7);
  push(6, 0);
  push(4, 7);
  push(7, 0);
  push(9, std::numeric_limits<int>::min());
  push(2, std::numeric_limits<int>::max());
  push(1, -100, FnProperty::kCpuPrioritized);
  go.count_down();
  one->WaitForAll();
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST_P(EngineTest, OperationsOfEveryPropertyRunInTheirOrder) {
  Variable* variable = engine_->NewVariable();
  int runs = 0;
  for (const FnProperty property :
       {FnProperty::kNormal, FnProperty::kCopyFromGpu, FnProperty::kCopyToGpu,
        FnProperty::kCpuPrioritized, FnProperty::kAsync, FnProperty::kDeleteVariable,
        FnProperty::kGpuPrioritized, FnProperty::kNoSkip}) {
    const int before = runs;
    engine_->PushSync([&, before](RunContext) { runs = runs == before ? before + 1 : -100; }, kCpu,
                      {}, {variable}, {.property = property});
    engine_->WaitForVar(variable);
  }
  EXPECT_EQ(runs, 8);
}

TEST_P(EngineTest, AnOperatorIsNotThatOfAVariableWhichTookADeletedOnesPlace) {
  Variable* old = engine_->NewVariable("old");
  Opr* op = engine_->NewOperator([](RunContext) {}, {}, {old}, {.name = "made"});
  engine_->DeleteVariable(old);
  engine_->WaitForAll();
  std::vector<Variable*> others;  // enough that one has the old one's memory
  for (int i = 0; i < 200; ++i) others.push_back(engine_->NewVariable());
  EXPECT_THROW(engine_->Push(op, kCpu), Error);
  EXPECT_THROW(engine_->Record([&] { engine_->Push(op, kCpu); }), Error);
  engine_->DeleteOperator(op);
  for (Variable* other : others) engine_->DeleteVariable(other);
}

TEST_P(ThreadedEngineTest, ALoopInsideAnOperationUsesTheEnginesWorkers) {
  Variable* variable = engine_->NewVariable();
  std::atomic<int> sum{0};
  int concurrency = 0;
  engine_->PushSync(
      [&](RunContext) {
        concurrency = tbb::this_task_arena::max_concurrency();
        ParallelFor(1000, [&](int) { sum.fetch_add(1); });
      },
      kCpu, {}, {variable});
  engine_->WaitForVar(variable);
  EXPECT_EQ(sum, 1000);
  EXPECT_EQ(concurrency, GetParam().workers);
}

TEST_P(ThreadedEngineTest, ALoopInsideAnOperationRunsOnAsManyThreadsAsThereAreWorkers) {
  Variable* variable = engine_->NewVariable();
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const size_t workers = static_cast<size_t>(GetParam().workers);
  const auto all_are_there = [&] {
    std::lock_guard<std::mutex> hold(mutex);
    threads.insert(std::this_thread::get_id());
    return threads.size() >= workers;
  };
  engine_->PushSync(
      [&](RunContext) {
        const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        ParallelFor(1000, [&](int) {
          while (!all_are_there() && std::chrono::steady_clock::now() < patience) {
            std::this_thread::yield();
          }
        });
      },
      kCpu, {}, {variable});
  engine_->WaitForVar(variable);
  EXPECT_EQ(threads.size(), workers);
}

TEST_P(ThreadedEngineTest, NoOtherOperationRunsOnAThreadThatWaitsForItsOwnLoop) {
  static thread_local bool in_operation = false;
  std::atomic<int> nested{0};
  for (int i = 0; i < 200; ++i) {
    engine_->PushSync(
        [&](RunContext) {
          if (in_operation) ++nested;
          in_operation = true;
          ParallelFor(16, [](int) { std::this_thread::yield(); });
          in_operation = false;
        },
        kCpu, {}, {});
  }
  engine_->WaitForAll();
  EXPECT_EQ(nested, 0);
}

TEST_P(ThreadedEngineTest, ExecuteLendsTheArenaToAThreadFromOutside) {
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

TEST(NaiveEngineTest, AnOperationRunsInsideItsPushOnThePushingThread) {
  const auto engine = Engine::Create({.kind = EngineKind::kNaive});
  Variable* variable = engine->NewVariable();
  std::thread::id thread;
  std::string trace;
  engine->PushSync(
      [&](RunContext context) {
        thread = std::this_thread::get_id();
        trace += "(";
        context.engine->PushSync([&](RunContext) { trace += "inner"; }, kCpu, {}, {});
        // Needs this operation's variable, hence only after it.
        context.engine->PushSync([&](RunContext) { trace += "after"; }, kCpu, {variable}, {});
        trace += ")";
      },
      kCpu, {}, {variable});
  EXPECT_EQ(thread, std::this_thread::get_id());
  EXPECT_EQ(trace, "(inner)after");
}

TEST(NaiveEngineTest, ALongChainBehindAnAsyncOperationNeedsLittleStack) {
  const auto engine = Engine::Create({.kind = EngineKind::kNaive, .max_pending = 0});
  Variable* variable = engine->NewVariable();
  std::vector<OnComplete> first;
  int runs = 0;
  engine->PushAsync([&](RunContext, OnComplete done) { first.push_back(done); }, kCpu, {},
                    {variable});
  for (int i = 0; i < 1000000; ++i) {
    engine->PushAsync([&](RunContext, OnComplete done) { ++runs, done(); }, kCpu, {}, {variable});
  }
  first[0]();
  engine->WaitForAll();
  EXPECT_EQ(runs, 1000000);
}

TEST(DefaultEngineTest, IsOneForTheProcess) {
  Engine* engine = Engine::Get();
  EXPECT_EQ(engine, Engine::Get());
  EXPECT_EQ(engine, Engine::GetShared().get());
  Variable* variable = engine->NewVariable();
  int value = 0;
  engine->PushSync([&](RunContext) { value = 1; }, kCpu, {}, {variable});
  engine->WaitForVar(variable);
  EXPECT_EQ(value, 1);
  engine->DeleteVariable(variable);
}

TEST(EngineOptionsTest, TheEnvironmentFillsInWhatIsNotGiven) {
  setenv("TESSERA_ENGINE_TYPE", "NaiveEngine", 1);
  setenv("TESSERA_NUM_THREADS", "3", 1);
  bool inside_push = false;
  Engine::Create()->PushSync([&](RunContext) { inside_push = true; }, kCpu, {}, {});
  EXPECT_TRUE(inside_push);
  EXPECT_EQ(Engine::Create({.kind = EngineKind::kThreaded})->num_workers(), 3);
  EXPECT_EQ(Engine::Create({.kind = EngineKind::kThreaded, .workers = 2})->num_workers(), 2);
  setenv("TESSERA_ENGINE_TYPE", "FastEngine", 1);
  EXPECT_THAT(ErrorOf([] { Engine::Create(); }).what(),
              AllOf(HasSubstr("FastEngine"), HasSubstr("NaiveEngine")));
  unsetenv("TESSERA_ENGINE_TYPE");
  unsetenv("TESSERA_NUM_THREADS");
}

TEST(EngineOptionsTest, OptionsOutOfRangeAreErrors) {
  EXPECT_THROW(Engine::Create({.workers = -1}), Error);
  EXPECT_THROW(Engine::Create({.workers = 100000}), Error);
  EXPECT_THROW(Engine::Create({.max_pending = -1}), Error);
}

}  // namespace
}  // namespace tessera
