// Where an engine takes memory, and what becomes of everything where there is none.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/tools/testing/counted_new.h"

namespace tessera {
namespace {

using engine_internal::PushOpen;

constexpr Device kCpu = Device::Cpu();

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

  /// Returns whether a wait is in the queue of a variable.
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

}  // namespace
}  // namespace tessera
