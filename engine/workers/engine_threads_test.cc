// The promises of an engine to the threads that complete, push and wait, and about those that run
// its operations: workers and parallel loops, NaiveEngine, the default engine, options.

#include <pthread.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
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
#include "tbb/task_group.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/testing/thread_sleep.h"

namespace tessera {
namespace {

using base_testing::ErrorOf;
using engine_internal::AllConfigurations;
using engine_internal::AwaitSleep;
using engine_internal::ConfigurationName;
using engine_internal::EngineConfigurationTest;
using engine_internal::ParallelFor;
using engine_internal::PushOpen;
using engine_internal::ThisThread;
using engine_internal::ThreadedConfigurations;
using testing::AllOf;
using testing::HasSubstr;

constexpr Device kCpu = Device::Cpu();

class EngineThreadsTest : public EngineConfigurationTest {};
INSTANTIATE_TEST_SUITE_P(All, EngineThreadsTest, testing::ValuesIn(AllConfigurations()),
                         ConfigurationName);

class ThreadedEngineTest : public EngineConfigurationTest {};
INSTANTIATE_TEST_SUITE_P(All, ThreadedEngineTest, testing::ValuesIn(ThreadedConfigurations()),
                         ConfigurationName);

TEST_P(EngineThreadsTest, AsyncOperationsCompleteFromForeignThreads) {
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

TEST_P(EngineThreadsTest, APendingAsyncOperationHoldsNoWorker) {
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

TEST_P(EngineThreadsTest, CompletingTwiceIsAClearError) {
  Variable* variable = engine_->NewVariable();
  std::promise<OnComplete> handle;
  engine_->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                     {variable}, {.name = "read file"});
  const OnComplete done = handle.get_future().get();
  const OnComplete copy = done;
  done();
  const Error error = ErrorOf([&] { copy(); });
  EXPECT_EQ(error.code(), Error::kFailedPrecondition);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("read file"), HasSubstr("engine_threads_test.cc")));
  engine_->WaitForAll();
  engine_.reset();
  EXPECT_THROW(copy(), Error) << "handles may outlive their engine";
}

TEST_P(EngineThreadsTest, OfManyThreadsThatCompleteOneSucceeds) {
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

TEST_P(EngineThreadsTest, SeveralThreadsMayPushOnTheSameVariables) {
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

TEST_P(EngineThreadsTest, WaitForAllEndsWhileOthersPush) {
  std::atomic<bool> pushing{true};
  std::thread pusher([&] {
    Variable* const variable = engine_->NewVariable();
    for (int i = 0; i < 20000; ++i) engine_->PushSync([](RunContext) {}, kCpu, {}, {variable});
    pushing = false;
  });
  while (pushing) EXPECT_NO_THROW(engine_->WaitForAll());
  pusher.join();
}

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

TEST_P(EngineThreadsTest, LoopsInOperationsRunCompletelyThoughTheTaskThatPushesIsCancelled) {
  std::atomic<int> steps{0};
  const auto loop = [&](RunContext) { ParallelFor(1000, [&](int) { steps.fetch_add(1); }); };
  const auto push = [&] {
    engine_->PushSync(loop, kCpu, {}, {});
    engine_->PushAsync([&](RunContext context, OnComplete done) { loop(context), done(); }, kCpu,
                       {}, {});
  };
  const auto schedule = engine_->Record(push);
  tbb::task_group group;
  group.run_and_wait([&] {
    group.cancel();
    push();
    schedule->Replay();
    engine_->WaitForAll();
  });
  EXPECT_EQ(steps, 4000);
}

TEST_P(EngineThreadsTest, AnErrorInACancelledTaskReachesTheWait) {
  Variable* const variable = engine_->NewVariable();
  tbb::task_group group;
  group.run_and_wait([&] {
    group.cancel();
    engine_->PushSync([](RunContext) { throw NotFound("no such file"); }, kCpu, {}, {variable});
    EXPECT_EQ(ErrorOf([&] { engine_->WaitForVar(variable); }).code(), Error::kNotFound);
  });
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

TEST_P(ThreadedEngineTest, AThousandFunctionsMayBlockForWhatStandsBehindThem) {
  constexpr int kBlocking = 1024;
  for (int round = 0; round < 2; ++round) {
    std::latch ends(1);
    std::atomic<int> blocked{0};
    for (int i = 0; i < kBlocking; ++i) {
      engine_->PushSync([&](RunContext) { ++blocked, ends.wait(); }, kCpu, {}, {},
                        {.property = FnProperty::kAsync});
    }
    engine_->PushSync([&](RunContext) { ends.count_down(); }, kCpu, {}, {});
    engine_->WaitForAll();
    EXPECT_EQ(blocked, kBlocking);
  }
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

TEST(NaiveEngineTest, APushRunsItsFunctionThoughOthersAreReadyAndOtherThreadsRunThem) {
  const auto engine = Engine::Create({.kind = EngineKind::kNaive});
  Variable* const variable = engine->NewVariable();
  const OnComplete open = PushOpen(*engine, variable);
  std::latch first_runs(1);
  std::atomic<bool> second_has_begun{false}, own_has_run{false};
  engine->PushSync(
      [&](RunContext) {
        first_runs.count_down();
        while (!second_has_begun) std::this_thread::yield();
      },
      kCpu, {variable}, {});
  engine->PushSync(
      [&](RunContext) {
        second_has_begun = true;
        while (!own_has_run) std::this_thread::yield();
      },
      kCpu, {variable}, {});
  std::thread completer([&] { open(); });
  first_runs.wait();  // from here on the second stands in the queue
  std::thread::id thread;
  engine->PushSync(
      [&](RunContext) {
        thread = std::this_thread::get_id();
        own_has_run = true;
      },
      kCpu, {}, {});
  EXPECT_EQ(thread, std::this_thread::get_id());
  second_has_begun = true;
  completer.join();
}

TEST(NaiveEngineTest, ACompletionRunsWhatItMakesReadyAndInAnOperationTheFirstOfIt) {
  const auto engine = Engine::Create({.kind = EngineKind::kNaive});
  std::string trace;
  const auto complete = [&] {
    Variable* const variable = engine->NewVariable();
    const OnComplete open = PushOpen(*engine, variable);
    for (const char* const name : {"a", "b", "c"}) {
      engine->PushSync([&trace, name](RunContext) { trace += name; }, kCpu, {variable}, {},
                       {.priority = *name == 'b' ? 1 : 0});
    }
    open();
    trace += ".";
  };
  complete();
  EXPECT_EQ(trace, "bac.");
  trace.clear();
  engine->PushSync([&](RunContext) { complete(); }, kCpu, {}, {});
  EXPECT_EQ(trace, "b.ac");
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

TEST(EngineOptionsTest, ProcessesOfAJobDivideTheMachinesThreads) {
  for (const char* const launcher : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    setenv(launcher, "1000000", 1);
    EXPECT_EQ(Engine::Create({.kind = EngineKind::kThreaded})->num_workers(), 1);
    setenv("TESSERA_NUM_THREADS", "3", 1);
    EXPECT_EQ(Engine::Create({.kind = EngineKind::kThreaded})->num_workers(), 3);
    unsetenv("TESSERA_NUM_THREADS");
    unsetenv(launcher);
  }
}

TEST(EngineOptionsTest, CreateThrowsWhereTheSystemRefusesItsThreads) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 47), 0);  // more than there are addresses
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  bool refused = false;
  try {
    Engine::Create({.kind = EngineKind::kThreaded, .workers = 1000});
  } catch (const Error& error) {
    refused = error.code() == Error::kResourceExhausted;
  }
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  EXPECT_TRUE(refused);
  Engine::Create({.kind = EngineKind::kThreaded, .workers = 2})->WaitForAll();
}

TEST(EngineOptionsTest, OptionsOutOfRangeAreErrors) {
  EXPECT_THROW(Engine::Create({.workers = -1}), Error);
  EXPECT_THROW(Engine::Create({.workers = 100000}), Error);
  EXPECT_THROW(Engine::Create({.max_pending = -1}), Error);
}

TEST_P(EngineThreadsTest, LimitsThatAreOutOfRangeAreErrors) {
  for (const EngineOptions& options :
       {EngineOptions{.max_pending = -1}, EngineOptions{.stall_report_ms = -1},
        EngineOptions{.stall_report_ms = std::numeric_limits<int64_t>::max()}}) {
    EXPECT_EQ(ErrorOf([&] { GetParam().Make(options); }).code(), Error::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tessera
