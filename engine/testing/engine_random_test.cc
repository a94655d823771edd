// Random programs on every kind of engine, checked against running them one operation at a time:
// see random_program.h.
//
// TESSERA_TEST_SEED and TESSERA_TEST_PROGRAMS choose other and more programs,
// TESSERA_TEST_OPERATIONS longer ones.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <iostream>
#include <iterator>
#include <latch>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/environment.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/testing/random_program.h"

namespace tessera {
namespace {

using engine_internal::Call;
using engine_internal::Conflict;
using engine_internal::EngineConfiguration;
using engine_internal::EngineConfigurationTest;
using engine_internal::MakeProgram;
using engine_internal::Outcome;
using engine_internal::PlannedFailure;
using engine_internal::PlannedOperation;
using engine_internal::PlanNestedPushes;
using engine_internal::Program;
using engine_internal::RunSerially;
using engine_internal::SerialOrder;

constexpr Device kCpu = Device::Cpu();

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kOperations = 1000;  // each takes ten times as long
#else
constexpr int kOperations = 10000;
#endif

/// The operations in the order in which an engine took their pushes: each slice of its trace has
/// the operation's name, here its number, and after that the push's.
std::vector<int> OrderOfPushes(const std::string& trace) {
  std::map<uint64_t, int> by_push;
  std::istringstream lines(trace);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"ph\":\"X\"") == line.npos) continue;
    const auto number_after = [&line](const std::string& text) {
      const size_t at = line.find(text);
      return at == line.npos ? 0 : std::strtoull(line.c_str() + at + text.size(), nullptr, 10);
    };
    by_push[number_after("\"push\":")] = static_cast<int>(number_after("\"name\":\""));
  }
  std::vector<int> order;
  for (const auto& [push, operation] : by_push) order.push_back(operation);
  return order;
}

/// Threads outside the engine that complete asynchronous operations.
class ForeignThreads {
 public:
  ForeignThreads() {
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { Work(); });
  }
  ~ForeignThreads() {
    {
      std::lock_guard<std::mutex> hold(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void Run(std::function<void()> task) {
    {
      std::lock_guard<std::mutex> hold(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

 private:
  void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ended_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_
  bool ended_ = false;                       // guarded by mutex_
  std::vector<std::thread> threads_;
};

/// Runs a program on an engine. The values stand in plain memory: only the engine's order protects
/// them, which is what ThreadSanitizer then checks.
class EngineRun {
 public:
  EngineRun(Engine& engine, ForeignThreads& foreign, const Program& program)
      : engine_(engine), foreign_(foreign), program_(program), outcome_(program) {
    for (int i = 0; i < program.variables; ++i) variables_.push_back(engine.NewVariable());
  }

  Outcome Run() {
    const uint64_t skipped_before = engine_.counters().skipped;
    std::vector<std::thread> helpers;
    for (int t = 1; t < program_.pushing_threads; ++t)
      helpers.emplace_back([=, this] { PushTurns(t); });
    PushTurns(0);
    for (std::thread& helper : helpers) helper.join();
    return Finish(skipped_before);
  }

  /// How many operations pended at most when a push of Run had returned.
  uint64_t most_pending() const { return most_pending_; }

  /// Thread t of n pushes operations t, t + n, … whenever it comes to it, but for those that others
  /// push. Afterwards `order` is that in which the pushes took effect.
  Outcome RunConcurrently(int threads, std::vector<int>* order) {
    const uint64_t skipped_before = engine_.counters().skipped;
    engine_.StartTrace();
    std::latch begin(threads);
    std::vector<std::thread> pushers;
    for (int t = 0; t < threads; ++t) {
      pushers.emplace_back([=, this, &begin] {
        begin.arrive_and_wait();
        for (size_t i = t; i < program_.operations.size(); i += threads) {
          if (program_.operations[i].pushed_by < 0) Push(static_cast<int>(i));
        }
      });
    }
    for (std::thread& pusher : pushers) pusher.join();
    const Outcome outcome = Finish(skipped_before);
    *order = OrderOfPushes(engine_.StopTrace());
    return outcome;
  }

 private:
  Outcome Finish(uint64_t skipped_before) {
    while (Reports([&] { engine_.WaitForAll(); })) {
    }
    for (Variable* variable : variables_) {
      if (variable != nullptr) engine_.DeleteVariable(variable);
    }
    outcome_.skipped = engine_.counters().skipped - skipped_before;
    return outcome_;
  }

  void PushTurns(int thread) {
    for (int i = 0; i < static_cast<int>(program_.operations.size()); ++i) {
      if (i / 50 % program_.pushing_threads != thread) continue;
      for (int turn = turn_.load(); turn != i; turn = turn_.load()) turn_.wait(turn);
      if (const int again = program_.operations[i].replays_again; again >= 0) {
        schedules_.at(again)->Replay();
      }
      if (program_.operations[i].schedule_end >= 0) Replay(i);
      if (i >= scheduled_to_) {
        Push(i);
        most_pending_ = std::max(most_pending_, engine_.counters().pending);
        DeleteAndWait(i);
      }
      turn_.store(i + 1);
      if ((i + 1) % 50 == 0) turn_.notify_all();
    }
  }

  void Replay(int first) {
    const PlannedOperation& operation = program_.operations[first];
    std::unique_ptr<Schedule> schedule = engine_.Record([&] {
      for (int k = first; k < operation.schedule_end; ++k) Push(k);
    });
    for (int i = 0; i < operation.replays; ++i) schedule->Replay();
    if (operation.keeps_schedule) schedules_.emplace(first, std::move(schedule));
    scheduled_to_ = operation.schedule_end;
  }

  /// In a thread that pushes, or in the function that pushes the operation.
  void Push(int index) {
    const PlannedOperation& operation = program_.operations[index];
    const auto list = [this](const std::vector<int>& numbers) {
      std::vector<Variable*> variables;
      for (int v : numbers) variables.push_back(variables_[v]);
      return variables;
    };
    const std::vector<Variable*> reads = list(operation.reads), writes = list(operation.writes),
                                 updates = list(operation.updates);
    const std::string name = std::to_string(index);
    const PushOptions options = {.property = operation.property,
                                 .priority = operation.priority,
                                 .name = name,
                                 .updates = updates};
    const auto sync = [this, index](RunContext) {
      PushNested(index);
      Call(program_, index, outcome_);
    };
    const auto async = [this, index](RunContext, OnComplete done) {
      PushNested(index);
      foreign_.Run([this, index, done] {
        std::exception_ptr error;
        try {
          Call(program_, index, outcome_);
        } catch (const PlannedFailure&) {
          error = std::current_exception();
        }
        // Handed on for good: who waits may be the last to have it, which ThreadSanitizer could not
        // know, since it does not see how libstdc++ counts.
        done(std::move(error));
      });
    };
    if (operation.cached) {
      Opr* op = operation.async ? engine_.NewOperator(async, reads, writes, options)
                                : engine_.NewOperator(sync, reads, writes, options);
      engine_.Push(op, kCpu, operation.priority);
      engine_.DeleteOperator(op);
    } else if (operation.async) {
      engine_.PushAsync(async, kCpu, reads, writes, options);
    } else {
      engine_.PushSync(sync, kCpu, reads, writes, options);
    }
  }

  void PushNested(int index) {
    for (const int nested : program_.operations[index].pushes) Push(nested);
  }

  /// Deletes and waits as the program says between an operation's push and the next.
  void DeleteAndWait(int index) {
    const PlannedOperation& operation = program_.operations[index];
    if (operation.deletes >= 0) {
      engine_.DeleteVariable(std::exchange(variables_[operation.deletes], nullptr));
    }
    if (operation.wait_for >= 0) {
      Reports([&] { engine_.WaitForVar(variables_[operation.wait_for]); });
    }
  }

  /// Whether the wait rethrows a failure; notes which.
  template <typename Wait>
  bool Reports(Wait wait) {
    try {
      wait();
    } catch (const PlannedFailure& failure) {
      outcome_.order_of_reports.push_back(failure.operation);
      const std::optional<FailedOperation> failed = Engine::LastFailure();
      EXPECT_TRUE(failed && failed->name == std::to_string(failure.operation));
      return true;
    }
    return false;
  }

  Engine& engine_;
  ForeignThreads& foreign_;
  const Program& program_;
  std::vector<Variable*> variables_;
  std::atomic<int> turn_{0};
  // Whose turn it is has these.
  int scheduled_to_ = 0;
  std::map<int, std::unique_ptr<Schedule>> schedules_;  // by where they begin
  uint64_t most_pending_ = 0;
  Outcome outcome_;
};

/// Programs of a test, the same each time unless the environment asks for others.
struct Choice {
  explicit Choice(uint64_t default_seed)
      : seed(static_cast<uint64_t>(EnvironmentInt("TESSERA_TEST_SEED",
                                                  static_cast<int64_t>(default_seed), 0,
                                                  std::numeric_limits<int64_t>::max()))) {
    std::cout << "TESSERA_TEST_SEED=" << seed << " TESSERA_TEST_PROGRAMS=" << programs
              << " TESSERA_TEST_OPERATIONS=" << operations << "\n";
  }

  const uint64_t seed;
  const int64_t programs = EnvironmentInt("TESSERA_TEST_PROGRAMS", 20, 1, 1000000);
  const int operations =
      static_cast<int>(EnvironmentInt("TESSERA_TEST_OPERATIONS", kOperations, 1, 1000000));
};

// Bounds on what pends: pushers are held up at nearly each push, often, and now and then.
constexpr int64_t kBounds[] = {1, 8, 500};

std::vector<EngineConfiguration> RandomConfigurations() {
  std::vector<EngineConfiguration> configurations = engine_internal::AllConfigurations();
  configurations.push_back({EngineKind::kThreaded, 64});
  return configurations;
}

class EngineRandomTest : public EngineConfigurationTest {
 protected:
  /// Runs the programs of this run on one engine, each against the oracle.
  void RunPrograms(int failing_per_mille) {
    const Choice choice(20150617);
    for (int64_t i = 0; i < choice.programs; ++i) {
      Compare(*engine_, choice, i, failing_per_mille);
      if (HasFatalFailure()) return;
    }
  }

  /// Returns the most operations that pended after a push.
  uint64_t Compare(Engine& engine, const Choice& choice, int64_t i, int failing_per_mille) {
    std::mt19937_64 random(choice.seed + static_cast<uint64_t>(i));
    const Program program = MakeProgram(random, choice.operations, failing_per_mille);
    const Outcome expected = RunSerially(program, SerialOrder(program));
    EngineRun run(engine, foreign_, program);
    ExpectEqual(run.Run(), expected, i);
    return run.most_pending();
  }

  static void ExpectEqual(const Outcome& actual, const Outcome& expected, int64_t i) {
    ASSERT_EQ(actual.values, expected.values) << "program " << i << " of the seed";
    ASSERT_EQ(actual.calls, expected.calls) << "program " << i << " of the seed";
    ASSERT_EQ(actual.order_of_reports, expected.order_of_reports) << "program " << i;
    ASSERT_EQ(actual.skipped, expected.skipped) << "program " << i;
  }

  ForeignThreads foreign_;
};

/// Programs whose operations four threads push without taking turns, and functions of operations.
class ConcurrentPushersTest : public EngineRandomTest {
 protected:
  void RunPrograms(int failing_per_mille) {
    const Choice choice(20150618);
    for (int64_t i = 0; i < choice.programs / 4 + 1; ++i) {
      CompareConcurrent(*engine_, choice, i, failing_per_mille);
      if (HasFatalFailure()) return;
    }
  }

  void CompareConcurrent(Engine& engine, const Choice& choice, int64_t i, int failing_per_mille) {
    std::mt19937_64 random(choice.seed + static_cast<uint64_t>(i));
    Program program = MakeProgram(random, choice.operations, failing_per_mille);
    PlanNestedPushes(random, program);
    std::vector<int> order;
    const Outcome actual = EngineRun(engine, foreign_, program).RunConcurrently(kThreads, &order);
    const Outcome expected = RunSerially(program, order);
    CheckPushes(program, order, expected.calls);
    ExpectEqual(actual, expected, i);
  }

  /// That each operation was pushed as often as it should be where those were called, and that what
  /// one thread or one function pushes stays in order.
  static void CheckPushes(const Program& program, const std::vector<int>& order,
                          const std::vector<int>& calls) {
    const int operations = static_cast<int>(program.operations.size());
    std::vector<int> place(operations, -1);
    for (int at = 0; at < static_cast<int>(order.size()); ++at) {
      ASSERT_EQ(place[order[at]], -1) << "operation " << order[at] << " was pushed twice";
      place[order[at]] = at;
    }
    std::vector<int> last_of_thread(kThreads, -1), last_of_function(operations, -1);
    for (int i = 0; i < operations; ++i) {
      const int by = program.operations[i].pushed_by;
      ASSERT_EQ(place[i] >= 0, by < 0 || calls[by] == 1) << "operation " << i;
      if (place[i] < 0) continue;
      int& last = by < 0 ? last_of_thread[i % kThreads] : last_of_function[by];
      ASSERT_GT(place[i], last) << "pushes of one thread; operation " << i;
      if (by >= 0) {
        ASSERT_GT(place[i], place[by]) << "operation " << i;
      }
      last = place[i];
    }
  }

  static constexpr int kThreads = 4;
};

INSTANTIATE_TEST_SUITE_P(All, EngineRandomTest, testing::ValuesIn(RandomConfigurations()),
                         engine_internal::ConfigurationName);

INSTANTIATE_TEST_SUITE_P(All, ConcurrentPushersTest, testing::ValuesIn(RandomConfigurations()),
                         engine_internal::ConfigurationName);

TEST_P(EngineRandomTest, ProgramsEndAsIfRunOneOperationAtATime) { RunPrograms(0); }

TEST_P(EngineRandomTest, EveryFailureIsObservedExactlyAsSpecified) {
  RunPrograms(5);
  // A clean program passes on the engine afterwards.
  RunPrograms(0);
}

TEST_P(EngineRandomTest, ABoundOnWhatPendsHoldsAndChangesNothing) {
  const Choice choice(20150619);
  for (int64_t i = 0; i < choice.programs / 8 + 1; ++i) {
    const int64_t bound = kBounds[i % std::size(kBounds)];
    const auto engine = GetParam().Make({.max_pending = bound});
    EXPECT_LE(Compare(*engine, choice, i, 5), static_cast<uint64_t>(bound)) << "program " << i;
    if (HasFatalFailure()) return;
  }
}

TEST_P(ConcurrentPushersTest, ProgramsEndAsIfRunInTheOrderOfThePushes) { RunPrograms(0); }

TEST_P(ConcurrentPushersTest, FailuresAreThoseOfTheOrderOfThePushes) { RunPrograms(5); }

TEST_P(ConcurrentPushersTest, ABoundOnWhatPendsChangesNothing) {
  const Choice choice(20150620);
  for (int64_t i = 0; i < choice.programs / 8 + 1; ++i) {
    const auto engine = GetParam().Make({.max_pending = kBounds[i % std::size(kBounds)]});
    CompareConcurrent(*engine, choice, i, 5);
    if (HasFatalFailure()) return;
  }
}

// The comparisons can fail: two neighbours that conflict, exchanged, give another result.
TEST(RandomProgramTest, AnotherOrderOfTwoThatShareAVariableShowsInTheEnd) {
  int swaps = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    const Program program = MakeProgram(random, 60, /*failing_per_mille=*/0);
    std::vector<int> order = SerialOrder(program);
    const std::vector<uint64_t> values = RunSerially(program, order).values;
    for (size_t i = 1; i < order.size(); ++i) {
      const PlannedOperation &first = program.operations[order[i - 1]],
                             &second = program.operations[order[i]];
      if (&first == &second || !Conflict(first, second)) continue;
      std::swap(order[i - 1], order[i]);
      EXPECT_NE(RunSerially(program, order).values, values) << "seed " << seed << ", place " << i;
      std::swap(order[i - 1], order[i]);
      ++swaps;
    }
  }
  EXPECT_GT(swaps, 100);
}

}  // namespace
}  // namespace tessera
