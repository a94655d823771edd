// Where an engine takes memory, and what becomes of everything where there is none.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <latch>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/internal/engine_configurations.h"
#include "tessera/engine/internal/failure.h"
#include "tessera/engine/internal/simulated_device.h"
#include "tessera/engine/internal/thread_sleep.h"
#include "tessera/engine/internal/trace_recorder.h"
#include "tessera/tools/testing/counted_new.h"

namespace tessera {
namespace {

using engine_internal::AwaitSleep;
using engine_internal::ClaimReport;
using engine_internal::FailureLog;
using engine_internal::FailureRef;
using engine_internal::PushOpen;
using engine_internal::SimulatedDevice;
using engine_internal::ThisThread;
using engine_internal::TracedEnd;
using engine_internal::TracedPush;
using engine_internal::TracedRun;
using engine_internal::TraceEvents;
using engine_internal::TraceRecorder;

constexpr Device kCpu = Device::Cpu();

/// For an operation that makes memory fail on its thread, until the end of what comes after it.
struct FailureOnRunner {
  std::optional<FailingNew> failing;
  std::thread::id thread;
  bool failed = false;

  void Begin(int64_t call, int64_t failures = 1) {
    thread = std::this_thread::get_id();
    failing.emplace(call, failures);
  }
  void End() {
    EXPECT_EQ(std::this_thread::get_id(), thread);
    failed = failing.has_value() && failing->has_failed();
    failing.reset();
  }
  /// Pushes the end, behind all that uses the variables. It is all that becomes ready there, so
  /// that it runs in the same thread.
  void PushEnd(Engine& engine, VariableList variables) {
    engine.PushSync([this](RunContext) { End(); }, kCpu, variables, {},
                    {.property = FnProperty::kNoSkip});
  }
};

class EngineAllocationTest : public engine_internal::EngineConfigurationTest {
 protected:
  /// A chain through all variables, each of which outlives the schedule.
  std::unique_ptr<Schedule> RecordChain(const std::vector<Variable*>& variables) {
    return engine_->Record([&] {
      for (size_t i = 1; i < variables.size(); ++i) {
        engine_->PushSync([](RunContext) {}, kCpu, {variables[i - 1]}, {variables[i]});
      }
    });
  }

  /// Whether a wait stands in the queue of a variable.
  static bool HasWait(const Engine& engine) {
    return engine.DebugString().find("(a wait)") != std::string::npos;
  }
};
INSTANTIATE_TEST_SUITE_P(All, EngineAllocationTest,
                         testing::ValuesIn(engine_internal::ThreadedConfigurations()),
                         engine_internal::ConfigurationName);

TEST_P(EngineAllocationTest, TheCountSeesAllocations) {
  const int64_t before = NewCalls();
  int* volatile made = new int(1);  // volatile, or a compiler may do without both
  delete made;
  EXPECT_EQ(NewCalls() - before, 1);
}

// Whatever number of operations and variables they have.
TEST_P(EngineAllocationTest, ReplaysTakeNothing) {
  constexpr int kReplays = 500;
  for (const int size : {10, 400}) {
    std::vector<Variable*> variables;
    for (int i = 0; i < size; ++i) variables.push_back(engine_->NewVariable());
    const auto schedule = RecordChain(variables);
    const auto replay = [&] {
      for (int i = 0; i < kReplays; ++i) {
        schedule->Replay();
        engine_->WaitForVar(variables.back());
      }
    };
    // Until pools hold what any interleaving of replays and their ends asks for.
    int64_t taken = -1;
    for (int round = 0; round < 50 && taken != 0; ++round) {
      const int64_t before = NewCalls();
      replay();
      taken = NewCalls() - before;
    }
    EXPECT_EQ(taken, 0) << "by each " << kReplays << " replays of " << size << " variables";
    for (Variable* variable : variables) engine_->DeleteVariable(variable);
  }
}

TEST_P(EngineAllocationTest, PushesAndRunsTakeNothingWhileNoTraceIsOn) {
  constexpr int kPushes = 500;
  Variable* const variable = engine_->NewVariable();
  EngineOperator* const op = engine_->NewOperator([](RunContext) {}, {}, {variable});
  const auto taken = [&] {
    const int64_t before = NewCalls();
    for (int i = 0; i < kPushes; ++i) {
      engine_->Push(op, kCpu);
      engine_->WaitForVar(variable);
    }
    return NewCalls() - before;
  };
  const auto least_taken = [&] {
    int64_t least = taken();
    for (int round = 0; round < 50 && least != 0; ++round) least = std::min(least, taken());
    return least;
  };
  EXPECT_EQ(least_taken(), 0);
  engine_->StartTrace();
  EXPECT_GT(taken(), 0) << "the count sees what a trace takes";
  const std::string trace = engine_->StopTrace();
  EXPECT_EQ(least_taken(), 0) << "after a trace";
  engine_->StartTrace();
  EXPECT_LT(engine_->StopTrace().size(), trace.size()) << "what ran in between is not there";
  engine_->DeleteOperator(op);
}

// Others have pointers to such a wait, so nothing may end it early. The first allocation of its
// thread would fail.
TEST_P(EngineAllocationTest, AWaitForAnotherEngineInsideAnOperationTakesNothing) {
  struct Kind {
    const char* name;
    std::function<void(Engine&, Variable*)> wait;
  };
  const Kind kinds[] = {
      {"WaitForVar", [](Engine& engine, Variable* variable) { engine.WaitForVar(variable); }},
      {"WaitForAll", [](Engine& engine, Variable*) { engine.WaitForAll(); }},
      {"Stop", [](Engine& engine, Variable*) { engine.Stop(); }},
  };
  Variable* const outer = engine_->NewVariable();
  for (const Kind& kind : kinds) {
    const auto other = GetParam().Make();
    Variable* const there = other->NewVariable();
    // A function that runs holds up each of them.
    std::latch runs(1), goes_on(1);
    other->PushSync([&](RunContext) { runs.count_down(), goes_on.wait(); }, kCpu, {}, {there});
    runs.wait();
    std::atomic<pid_t> thread{0};
    std::atomic<bool> returned{false};
    bool failed = true;
    engine_->PushSync(
        [&](RunContext) {
          const FailingNew failing(0);
          thread = ThisThread();
          kind.wait(*other, there);
          returned = true;
          failed = failing.has_failed();
        },
        kCpu, {}, {outer});
    while (thread == 0) std::this_thread::yield();
    AwaitSleep(thread);
    EXPECT_FALSE(returned) << kind.name << " waits for what runs";
    goes_on.count_down();
    engine_->WaitForVar(outer);
    EXPECT_TRUE(returned) << kind.name;
    EXPECT_FALSE(failed) << kind.name;
  }
}

TEST_P(EngineAllocationTest, ExecuteWithoutMemoryLeavesNoCallBehind) {
  bool failed = true;
  for (int64_t call = 0; failed; ++call) {
    {
      const FailingNew failing(call);
      try {
        engine_->Execute([] {});
      } catch (const std::bad_alloc&) {
      }
      failed = failing.has_failed();
    }
    // A thread that comes to work in the place of one that sleeps looks for such calls first.
    Variable *const awaited = engine_->NewVariable(), *const after = engine_->NewVariable();
    const OnComplete done = PushOpen(*engine_, awaited);
    engine_->PushSync([&](RunContext context) { context.engine->WaitForVar(awaited); }, kCpu, {},
                      {});
    engine_->PushSync([](RunContext) {}, kCpu, {}, {after});
    engine_->WaitForVar(after);
    done();
    engine_->WaitForAll();
  }
}

TEST_P(EngineAllocationTest, AWaitInsideAnOperationMayFindNoMemory) {
  std::atomic<bool> failed{true};
  for (int64_t call = 0; failed; ++call) {
    Variable* const awaited = engine_->NewVariable();
    const OnComplete done = PushOpen(*engine_, awaited);
    std::atomic<pid_t> thread{0};
    std::atomic<bool> ended{false};
    engine_->PushSync(
        [&](RunContext context) {
          const FailingNew failing(call);
          thread = ThisThread();
          try {
            context.engine->WaitForVar(awaited);
          } catch (const std::bad_alloc&) {
          }
          failed = failing.has_failed();
          ended = true;
        },
        kCpu, {}, {});
    while (thread == 0) std::this_thread::yield();
    AwaitSleep(thread);  // in the wait, or at its end for want of work
    done();
    engine_->WaitForAll();
    ASSERT_TRUE(ended) << "allocation " << call;
  }
}

// A call for help goes to the queue, where others with a priority stand already. What may be
// missing is a thread that comes: then the operation's own one does the rest afterwards.
TEST_P(EngineAllocationTest, AReplayWhoseOperationWaitsWithoutMemoryGoesOn) {
  constexpr int kOthers = 20;
  for (int64_t call = 0; call < 5; ++call) {
    const auto engine = GetParam().Make(), other = GetParam().Make();
    Variable *const first = engine->NewVariable(), *const there = other->NewVariable();
    std::latch runs(1), goes_on(1);
    other->PushSync([&](RunContext) { runs.count_down(), goes_on.wait(); }, kCpu, {}, {there});
    runs.wait();
    std::atomic<pid_t> thread{0};
    std::atomic<bool> filled{false};
    std::atomic<int> others{0};
    const auto schedule = engine->Record([&] {
      engine->PushSync(
          [&](RunContext) {
            thread = ThisThread();
            while (!filled) std::this_thread::yield();
            const FailingNew failing(call);
            other->WaitForVar(there);
          },
          kCpu, {}, {first}, {.priority = 7});
      // It has the longest way to go, so it begins.
      engine->PushSync([&](RunContext) { ++others; }, kCpu, {first}, {}, {.priority = 7});
      for (int i = 1; i < kOthers; ++i) {
        engine->PushSync([&](RunContext) { ++others; }, kCpu, {}, {}, {.priority = 7});
      }
    });
    schedule->Replay();
    while (thread == 0) std::this_thread::yield();
    for (int i = 0; i < 8; ++i) engine->PushSync([](RunContext) {}, kCpu, {}, {}, {.priority = 3});
    filled = true;
    AwaitSleep(thread);
    goes_on.count_down();
    engine->WaitForAll();
    EXPECT_EQ(others, kOthers) << "allocation " << call;
  }
}

// The operation that sleeps has lent its place, so that what becomes ready needs a new thread, for
// which there is no memory at first. Nobody pushes after that.
TEST_P(EngineAllocationTest, AWaitFromOutsideOrdersTheThreadThatThereWasNoMemoryFor) {
  for (const bool waits_before : {false, true}) {
    for (const bool for_all : {false, true}) {
      const auto engine = GetParam().Make(), other = GetParam().Make();
      Variable *const x = engine->NewVariable(), *const begin = engine->NewVariable();
      Variable* const there = other->NewVariable();
      const OnComplete end_sleep = PushOpen(*other, there), open = PushOpen(*engine, begin);
      std::atomic<pid_t> sleeper{0}, waiter{0};
      engine->PushSync(
          [&](RunContext) {
            sleeper = ThisThread();
            other->WaitForVar(there);
          },
          kCpu, {}, {});
      while (sleeper == 0) std::this_thread::yield();
      AwaitSleep(sleeper);
      std::atomic<bool> ran{false};
      engine->PushSync(
          [&](RunContext) {
            ran = true;
            end_sleep();
          },
          kCpu, {begin}, {x});
      const auto wait = [&] {
        waiter = ThisThread();
        for_all ? engine->WaitForAll() : engine->WaitForVar(x);
        EXPECT_TRUE(ran);
      };
      std::thread waits;
      if (waits_before) {
        waits = std::thread(wait);
        while (waiter == 0) std::this_thread::yield();
        AwaitSleep(waiter);
      }
      {
        const FailingNew failing(0);
        open();
        EXPECT_TRUE(failing.has_failed());
      }
      waits_before ? waits.join() : wait();
      engine->WaitForAll();
    }
  }
}

// From inside its only operation on one allocation fails.
TEST_P(EngineAllocationTest, AReplayMayFindNoMemoryForItsEnd) {
  bool failed = true;
  for (int64_t call = 0; failed; ++call) {
    const auto engine = GetParam().Make();
    Variable* const variable = engine->NewVariable();
    FailureOnRunner failure;
    const auto schedule = engine->Record(
        [&] { engine->PushSync([&](RunContext) { failure.Begin(call); }, kCpu, {}, {variable}); });
    const OnComplete open = PushOpen(*engine, variable);
    schedule->Replay();
    failure.PushEnd(*engine, {variable});
    open();
    EXPECT_NO_THROW(engine->WaitForAll()) << "allocation " << call;
    EXPECT_EQ(engine->counters().run, 3u) << "allocation " << call;
    failed = failure.failed;
  }
}

// The same for one whose operation throws: one allocation fails, or all of them do.
TEST_P(EngineAllocationTest, AFailedReplayMayFindNoMemoryForItsEnd) {
  for (const int64_t failures : {1, 1000}) {
    bool failed = true;
    for (int64_t call = 0; failed; ++call) {
      const auto engine = GetParam().Make();
      Variable *const first = engine->NewVariable(), *const second = engine->NewVariable();
      FailureOnRunner failure;
      const auto schedule = engine->Record([&] {
        engine->PushSync(
            [&](RunContext) {
              failure.Begin(call, failures);
              throw 1;
            },
            kCpu, {}, {first});
        engine->PushSync([](RunContext) {}, kCpu, {first}, {second});
      });
      const OnComplete open = PushOpen(*engine, first);
      schedule->Replay();
      Variable* const both[] = {first, second};
      failure.PushEnd(*engine, both);
      open();
      EXPECT_THROW(engine->WaitForVar(second), int) << "allocation " << call;
      EXPECT_NO_THROW(engine->WaitForVar(first)) << "one chain, allocation " << call;
      EXPECT_NO_THROW(engine->WaitForAll()) << "allocation " << call;
      EXPECT_EQ(engine->counters().skipped, 1u) << "allocation " << call;
      failed = failure.failed;
    }
  }
}

// It alone has claimed the report, so that no later wait would throw the error.
TEST_P(EngineAllocationTest, AWaitRethrowsAnErrorThoughThereIsNoMemoryForItsMessage) {
  const std::string text(100, 't'), name(100, 'n');
  for (const bool for_all : {false, true}) {
    for (const int64_t failures : {1, 1000}) {
      bool failed = true;
      for (int64_t call = 0; failed; ++call) {
        Variable *const bad = engine_->NewVariable(), *const good = engine_->NewVariable();
        engine_->PushSync([&](RunContext) { throw DataLoss(text); }, kCpu, {}, {bad},
                          {.name = name});
        engine_->PushSync([](RunContext) {}, kCpu, {bad}, {good},
                          {.property = FnProperty::kNoSkip});
        engine_->WaitForVar(good);
        absl::StatusCode code{};
        bool whole = false;
        {
          const FailingNew failing(call, failures);
          try {
            for_all ? engine_->WaitForAll() : engine_->WaitForVar(bad);
          } catch (const Error& error) {
            code = error.code();
            whole = std::string_view(error.what()).find(name) != std::string_view::npos;
          } catch (const std::bad_alloc&) {
          }
          failed = failing.has_failed();
        }
        EXPECT_EQ(code, Error::kDataLoss) << "allocation " << call;
        EXPECT_TRUE(whole || failed);
        ASSERT_TRUE(Engine::LastFailure().has_value());
        EXPECT_STRNE(Engine::LastFailure()->pushed_at.file_name(), "");
        EXPECT_NO_THROW(engine_->WaitForAll()) << "it is reported";
      }
    }
  }
}

TEST_P(EngineAllocationTest, APushThatFindsNoMemoryThrowsAndPushesNothing) {
  constexpr int kVariables = 40;  // more than fit into a record
  const std::string name(100, 'n');
  for (const int priority : {0, 7}) {
    bool failed = true;
    for (int64_t call = 0; failed; ++call) {
      const auto engine = GetParam().Make();
      std::vector<Variable*> variables;
      for (int i = 0; i < kVariables; ++i) variables.push_back(engine->NewVariable());
      engine->Stop();  // all that is ready has to be kept
      std::atomic<uint64_t> runs{0};
      uint64_t accepted = 0;
      const auto push = [&](VariableList reads) {
        try {
          engine->PushSync([&runs](RunContext) { ++runs; }, kCpu, reads, {},
                           {.priority = priority, .name = name});
          ++accepted;
        } catch (const std::bad_alloc&) {
        }
      };
      {
        const FailingNew failing(call);
        for (int i = 0; i < 3; ++i) push({});
        push(variables);
        failed = failing.has_failed();
      }
      EXPECT_EQ(accepted, failed ? 3u : 4u) << "allocation " << call;
      ASSERT_EQ(engine->counters().pushed, accepted) << "allocation " << call;
      engine->Start();
      engine->WaitForAll();
      EXPECT_EQ(runs, accepted) << "allocation " << call;
    }
  }
}

// It looks around first whether it could end, for which it needs some.
TEST_P(EngineAllocationTest, AWaitThatFindsNoMemoryThrowsAndLeavesItsQueue) {
  Variable *outer = engine_->NewVariable(), *there = engine_->NewVariable();
  const OnComplete done = PushOpen(*engine_, there);
  bool refused = false;
  engine_->PushSync(
      [&](RunContext context) {
        const FailingNew failing(0);
        try {
          context.engine->WaitForVar(there);
        } catch (const std::bad_alloc&) {
          refused = true;
        }
      },
      kCpu, {}, {outer});
  engine_->WaitForVar(outer);
  EXPECT_TRUE(refused);
  EXPECT_FALSE(HasWait(*engine_));
  done();
  engine_->WaitForVar(there);
}

// Destructors call it, and that of a schedule does.
TEST_P(EngineAllocationTest, ADeletionNeedsNoMemory) {
  bool failed = true;
  for (int64_t call = 0; failed; ++call) {
    const auto engine = GetParam().Make();
    std::vector<Variable*> variables;
    for (int i = 0; i < 200; ++i) variables.push_back(engine->NewVariable());
    std::promise<OnComplete> handle;
    // So that each deletion takes a record, and there are none left for those of the schedule.
    engine->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                      variables);
    const OnComplete open = handle.get_future().get();
    auto schedule = engine->Record([&] {
      for (int i = 0; i < 200; ++i) engine->DeleteVariable(engine->NewVariable());
    });
    {
      const FailingNew failing(call, /*failures=*/1000);
      for (Variable* const variable : variables) engine->DeleteVariable(variable);
      schedule.reset();
      failed = failing.has_failed();
    }
    for (Variable* const variable : {variables.front(), variables.back()}) {
      EXPECT_THROW(engine->PushSync([](RunContext) {}, kCpu, {variable}, {}), Error);
    }
    open();
    engine->WaitForAll();
  }
}

// A deletion that it could not note can be asked for again; those that it has noted take place.
TEST_P(EngineAllocationTest, ARecordingMayFindNoMemoryAnywhere) {
  bool failed = true;
  for (int64_t call = 0; failed; ++call) {
    Variable *const out = engine_->NewVariable(), *own = nullptr;
    bool deleted = false;
    std::unique_ptr<Schedule> schedule;
    const auto pushes = [&] {
      own = engine_->NewVariable();
      engine_->PushSync([](RunContext) {}, kCpu, {}, {own});
      engine_->PushSync([](RunContext) {}, kCpu, {own}, {out});
      try {
        engine_->DeleteVariable(own);
      } catch (const std::bad_alloc&) {
        engine_->DeleteVariable(own);
      }
      deleted = true;
    };
    {
      const FailingNew failing(call);
      try {
        schedule = engine_->Record(pushes);
      } catch (const std::bad_alloc&) {
      }
      failed = failing.has_failed();
    }
    if (schedule != nullptr) {
      schedule->Replay();
      engine_->WaitForVar(out);
      schedule.reset();
    }
    if (deleted) {
      EXPECT_THROW(engine_->IsIdle(own), Error) << "allocation " << call;
    } else if (own != nullptr) {
      engine_->DeleteVariable(own);
    }
    engine_->DeleteVariable(out);
  }
}

// What is missing when its turn has come fails it as if its function had; on the thread of the
// push.
TEST(AsyncMemoryTest, AnAsynchronousOperationThatFindsNoMemoryFails) {
  bool failed = true;
  int errors = 0;
  for (int64_t call = 0; failed; ++call) {
    const auto engine = Engine::Create({.kind = EngineKind::kNaive});
    Variable* const variable = engine->NewVariable();
    engine->PushSync([](RunContext) {}, kCpu, {}, {variable});  // a record for the pool
    int runs = 0, refused = 0;
    {
      const FailingNew failing(call);
      try {
        engine->PushAsync([&](RunContext, OnComplete done) { ++runs, done(); }, kCpu, {},
                          {variable});
      } catch (const std::bad_alloc&) {
        ++refused;
      }
      failed = failing.has_failed();
    }
    int error = 0;
    try {
      engine->WaitForVar(variable);  // would not end if it were lost
    } catch (const std::bad_alloc&) {
      ++error;
    }
    EXPECT_EQ(runs + refused + error, 1) << "allocation " << call;
    EXPECT_EQ(engine->counters().pending, 0u) << "allocation " << call;
    errors += error;
  }
  EXPECT_GT(errors, 0);
}

// The destructor of the last handle finds it out, and has nobody to throw to.
TEST(AsyncMemoryTest, ALostCompletionIsAnErrorThoughThereIsNoMemoryToSaySo) {
  bool failed = true;
  for (int64_t call = 0; failed; ++call) {
    const auto engine = Engine::Create({.kind = EngineKind::kNaive});
    Variable* const variable = engine->NewVariable();
    std::optional<OnComplete> open = PushOpen(*engine, variable);
    {
      const FailingNew failing(call, /*failures=*/1000);
      open.reset();
      failed = failing.has_failed();
    }
    EXPECT_ANY_THROW(engine->WaitForVar(variable)) << "allocation " << call;
    EXPECT_EQ(engine->counters().pending, 0u) << "allocation " << call;
  }
}

// Records are made many at a time, so that one which is lost does not show.
TEST(RecordMemoryTest, WhatFindsNoMemoryLeavesNoRecordBehind) {
  const auto engine = Engine::Create({.kind = EngineKind::kNaive});
  std::vector<Variable*> variables;
  for (int i = 0; i < 40; ++i) variables.push_back(engine->NewVariable());  // more than one holds
  EngineOperator* const op = engine->NewOperator([](RunContext) {}, variables, {});
  const std::string name(1000, 'n');
  struct Case {
    const char* name;
    std::function<void()> failing, succeeding;
  };
  const Case cases[] = {
      {"Push", [&] { engine->Push(op, kCpu); }, [&] { engine->Push(op, kCpu); }},
      {"NewVariable", [&] { engine->NewVariable(name); },
       [&] { engine->DeleteVariable(engine->NewVariable()); }},
  };
  for (const Case& each : cases) {
    int64_t before = 0;
    for (int i = 0; i < 1000; ++i) {
      {
        const FailingNew failing(0);
        EXPECT_THROW(each.failing(), std::bad_alloc) << each.name;
      }
      each.succeeding();
      if (i == 0) before = OutstandingNews();
    }
    EXPECT_EQ(OutstandingNews(), before) << each.name;
  }
  engine->DeleteOperator(op);
}

// What is issued to a device has to be noted with its variables, and goes on: so there is no error.
TEST(DeviceMemoryTest, WhatIsIssuedWithoutMemoryKeepsItsOrder) {
  SimulatedDevice device;
  for (const int64_t failures : {1, 20}) {
    bool failed = true;
    for (int64_t call = 0; failed; ++call) {
      // All functions are called in one thread.
      const auto engine = Engine::Create({.kind = EngineKind::kThreaded, .workers = 1});
      Variable *const first = engine->NewVariable(), *const second = engine->NewVariable();
      FailureOnRunner failure;
      int value = 0, copied = 0, seen = 0;
      const OnComplete open = PushOpen(*engine, first);
      engine->PushSync(
          [&](RunContext context) {
            SimulatedDevice::Enqueue(context.stream, [&] { value = 7; });
            failure.Begin(call, failures);
          },
          Device::Gpu(0), {}, {first});
      engine->PushSync([](RunContext) {}, Device::Gpu(0), {first}, {});
      engine->PushSync([](RunContext) {}, Device::Gpu(1), {first}, {});
      // On another stream, which waits for the first one.
      engine->PushSync([](RunContext) {}, Device::Gpu(0), {first}, {second},
                       {.property = FnProperty::kCopyFromGpu});
      engine->PushSync([&](RunContext) { seen = value; }, kCpu, {second}, {});
      engine->PushSync([](RunContext) {}, Device::Gpu(0), {second}, {first});
      engine->PushSync([&](RunContext) { failure.End(); }, Device::Gpu(0), {first}, {});
      engine->PushSync(
          [&](RunContext context) {
            SimulatedDevice::Enqueue(context.stream, [&] { copied = value; });
          },
          Device::Gpu(0), {first}, {second}, {.property = FnProperty::kCopyFromGpu});
      open();
      EXPECT_NO_THROW(engine->WaitForAll()) << "allocation " << call;
      EXPECT_EQ(seen, 7) << "allocation " << call;
      EXPECT_EQ(copied, 7) << "allocation " << call;
      failed = failure.failed;
    }
  }
}

// The mark that it replaces is destroyed where no lock is held, and kept nowhere until then.
TEST(AsyncMemoryTest, ACompletionInsideTheFunctionUnmarksWithoutMemory) {
  const auto engine = Engine::Create({.kind = EngineKind::kNaive});
  std::vector<Variable*> variables;
  for (int i = 0; i < 3; ++i) variables.push_back(engine->NewVariable());
  for (Variable* const variable : variables) {
    engine->PushSync([](RunContext) { throw 1; }, kCpu, {}, {variable});
  }
  bool failed = true;
  engine->PushAsync(
      [&](RunContext, OnComplete done) {
        const FailingNew failing(0, /*failures=*/1000);
        done();
        failed = failing.has_failed();
      },
      kCpu, {}, variables);
  EXPECT_FALSE(failed);
  for (Variable* const variable : variables) EXPECT_NO_THROW(engine->WaitForVar(variable));
}

// On the thread of the push, as above.
TEST(ErrorMemoryTest, WhatAnOperationThrowsIsKeptWhereThereIsNoMemoryToNoteIt) {
  const std::string name(100, 'n');
  bool failed = true;
  for (int64_t call = 0; failed; ++call) {
    const auto engine = Engine::Create({.kind = EngineKind::kNaive});
    Variable *const bad = engine->NewVariable(), *const next = engine->NewVariable();
    int refused = 0;
    const auto push = [&](VariableList reads, VariableList writes) {
      try {
        engine->PushSync([](RunContext) { throw 1; }, kCpu, reads, writes, {.name = name});
      } catch (const std::bad_alloc&) {
        ++refused;
      }
    };
    push({}, {bad});  // a record for the pool
    EXPECT_THROW(engine->WaitForVar(bad), int);
    {
      const FailingNew failing(call);
      push({bad}, {next});  // skipped, and nobody has been told that it would be
      push({}, {bad});
      failed = failing.has_failed();
    }
    ASSERT_EQ(engine->counters().pending, 0u) << "allocation " << call;
    const int chains = static_cast<int>(engine->counters().pushed) - 1;
    EXPECT_EQ(chains + refused, 2) << "allocation " << call;
    for (int i = 0; i < chains; ++i) {
      EXPECT_THROW(engine->WaitForAll(), int) << "allocation " << call;
    }
    EXPECT_NO_THROW(engine->WaitForAll()) << "allocation " << call;
  }
}

TEST(ErrorMemoryTest, AChainWithoutMemoryAndReserveJoinsTheOneThatHasIt) {
  const std::string name(100, 'n');
  const auto number = [](const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (int thrown) {
      return thrown;
    }
  };
  std::vector<std::exception_ptr> errors;
  for (int i = 0; i < 20; ++i) errors.push_back(std::make_exception_ptr(i));
  FailureLog log;
  FailureRef first;
  {
    const FailingNew failing(0, /*failures=*/1000);
    first = log.Begin(errors[0], name, {}, /*sequence=*/1);
    EXPECT_TRUE(ClaimReport(*first, 1));
    // More than there is room for.
    for (size_t i = 1; i < errors.size(); ++i) {
      const FailureRef joined = log.Begin(errors[i], name, {}, /*sequence=*/1 + i);
      EXPECT_EQ(joined, first);
      EXPECT_EQ(joined->reported_at, 0u) << "somebody hears of it";
    }
  }
  EXPECT_EQ(number(first->error), 0);
  EXPECT_EQ(first->name, name.substr(0, 64));
  const FailureRef second = log.Begin(errors[1], name, {}, /*sequence=*/21);
  EXPECT_NE(second, first);
  {
    const FailingNew failing(0);
    const FailureRef third = log.Begin(errors[2], name, {}, /*sequence=*/22);
    EXPECT_NE(third, first) << "there is a reserve again";
    EXPECT_EQ(number(third->error), 2);
  }
  EXPECT_EQ(number(log.ReportOldest(1)->error), 0);
  EXPECT_EQ(number(log.ReportOldest(1)->error), 1);
  EXPECT_EQ(number(log.ReportOldest(1)->error), 2);
  EXPECT_THROW(std::rethrow_exception(log.ReportOldest(1)->error), Error) << "for the lack of room";
  EXPECT_EQ(log.ReportOldest(1), nullptr);
}

TEST(ErrorMemoryTest, AReportThatFindsNoMemoryIsThereAtTheNextCall) {
  const auto error = std::make_exception_ptr(1);
  bool failed = true;
  const auto reports = [&](int64_t call) {
    FailureLog log;
    {
      const FailingNew failing(0, /*failures=*/1000);
      for (uint64_t i = 1; i <= 20; ++i) log.Begin(error, "operation", {}, i);  // too many to keep
    }
    failed = false;
    for (int count = 0;; ++count) {
      FailureRef report;
      try {
        const FailingNew failing(call);
        report = log.ReportOldest(1);
        failed |= failing.has_failed();
      } catch (const std::bad_alloc&) {
        failed = true;
        report = log.ReportOldest(1);
      }
      if (report == nullptr) return count;
    }
  };
  const int all = reports(/*call=*/1000);
  failed = true;
  for (int64_t call = 0; failed; ++call) EXPECT_EQ(reports(call), all) << "allocation " << call;
}

TEST(ErrorMemoryTest, AChainThatIsReportedGivesItsReserveUp) {
  const auto error = std::make_exception_ptr(1);
  FailureLog log;
  const auto begin_without_memory = [&](uint64_t sequence) {
    const FailingNew failing(0, /*failures=*/1000);
    return log.Begin(error, "operation", {}, sequence);
  };
  const FailureRef first = begin_without_memory(1);
  EXPECT_EQ(log.ReportOldest(1), first);
  log.Renew();
  const FailureRef second = begin_without_memory(2);
  EXPECT_NE(second, first);
  EXPECT_TRUE(first->cleared);
  EXPECT_EQ(log.ReportOldest(2), second);
}

TEST(TraceMemoryTest, EventsForWhichThereIsNoMemoryAreCounted) {
  const std::string name(100, 'n');
  bool failed = true;
  for (int64_t call = 0; failed; ++call) {
    // No engine has come as far as that.
    TraceRecorder recorder(std::numeric_limits<uint64_t>::max() - static_cast<uint64_t>(call));
    recorder.Start();
    const int64_t now = recorder.Now();
    TracedPush push{.sequence = 1, .time_ns = now, .name = name};
    {
      const FailingNew failing(call);
      recorder.Add(std::move(push));
      recorder.Add(TracedRun{.sequence = 1, .begin_ns = now, .end_ns = now}, name, /*worker=*/0);
      recorder.Add(TracedEnd{.sequence = 1, .end_ns = now}, name);
      failed = failing.has_failed();
    }
    const TraceEvents events = recorder.Stop();
    EXPECT_EQ(events.dropped, failed ? 1u : 0u) << "allocation " << call;
    EXPECT_EQ(events.pushes.size() + events.runs.size() + events.ends.size(), 3 - events.dropped);
    for (const TracedRun& run : events.runs) EXPECT_EQ(run.name, name);
    for (const TracedEnd& end : events.ends) EXPECT_EQ(end.name, name);
  }
}

// On the thread of the push, which alone is short of memory.
TEST(TraceMemoryTest, AnOperationWhoseTraceFindsNoMemoryRunsAllTheSame) {
  const std::string name(100, 'n');
  bool failed = true;
  for (int64_t call = 0; failed; ++call) {
    const auto engine = Engine::Create({.kind = EngineKind::kNaive});
    Variable *const variable = engine->NewVariable(), *const bad = engine->NewVariable();
    // Both records come from a pool that has some.
    engine->PushSync([](RunContext) { throw 1; }, kCpu, {}, {bad});
    engine->StartTrace();
    int runs = 0, refused = 0;
    {
      const FailingNew failing(call);
      for (Variable* const read : {variable, bad}) {  // the second is skipped
        try {
          engine->PushSync([&runs](RunContext) { ++runs; }, kCpu, {read}, {}, {.name = name});
        } catch (const std::bad_alloc&) {
          ++refused;
        }
      }
      failed = failing.has_failed();
    }
    const EngineCounters counters = engine->counters();
    EXPECT_EQ(counters.pending, 0u) << "allocation " << call;
    EXPECT_EQ(counters.pushed, 3u - static_cast<uint64_t>(refused)) << "allocation " << call;
    EXPECT_EQ(counters.run, static_cast<uint64_t>(1 + runs)) << "allocation " << call;
    EXPECT_LE(refused, failed ? 1 : 0) << "allocation " << call;
    const bool recorded = engine->StopTrace().find("\"dropped_events\":0}") != std::string::npos;
    EXPECT_EQ(recorded, !failed || refused > 0) << "allocation " << call;
    EXPECT_THROW(engine->WaitForAll(), int) << "the one that was to fail";
    EXPECT_NO_THROW(engine->WaitForAll());
  }
}

}  // namespace
}  // namespace tessera
