// Random programs on every kind of engine, checked against running them one operation at a time.
//
// Each write stores a hash of what the operation read, wrote over and is, so that any other order
// of two operations that share a variable shows in the end. TESSERA_TEST_SEED and
// TESSERA_TEST_PROGRAMS choose other and more programs, TESSERA_TEST_OPERATIONS longer ones.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <iostream>
#include <latch>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
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
#include "tessera/engine/internal/engine_configurations.h"

namespace tessera {
namespace {

using engine_internal::EngineConfiguration;
using engine_internal::EngineConfigurationTest;

constexpr Device kCpu = Device::Cpu();

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kOperations = 1000;  // each takes ten times as long
#else
constexpr int kOperations = 10000;
#endif

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdu;
  return hash ^ (hash >> 33);
}

/// The error that a failing operation throws: its number tells who began a chain.
struct PlannedFailure {
  int operation;
};

struct PlannedOperation {
  std::vector<int> reads, writes, updates;  // indices of variables
  int priority = 0;
  bool async = false;   // completes from a foreign thread
  bool cached = false;  // goes through NewOperator
  bool fails = false;   // throws, or hands its error to the callback
  int deletes = -1;     // a variable that is deleted after the push, and not used again
  int wait_for = -1;    // a variable for which the pusher waits afterwards
  // Where a schedule begins: the operations up to `schedule_end` are recorded and replayed, and
  // neither delete nor wait. The others of them have no number here.
  int schedule_end = -1;
  int replays = 0;
  bool keeps_schedule = false;  // until the program has ended
  int replays_again = -1;  // where a kept schedule begins that is replayed once before this push
};

struct Program {
  int variables = 0;
  int pushing_threads = 1;  // they take turns, so that the order of pushes is the program's
  std::vector<PlannedOperation> operations;
};

/// Takes `count` distinct elements out of `pool`, or all that are left.
std::vector<int> Choose(std::mt19937_64& random, int count, std::vector<int>& pool) {
  std::vector<int> chosen;
  for (int i = 0; i < count && !pool.empty(); ++i) {
    std::swap(pool[random() % pool.size()], pool.back());
    chosen.push_back(pool.back());
    pool.pop_back();
  }
  return chosen;
}

/// Has schedules that are kept replayed between later operations, while their variables are there.
void PlanLaterReplays(std::mt19937_64& random, Program& program) {
  const int operations = static_cast<int>(program.operations.size());
  std::vector<int> deleted_at(program.variables, operations);
  for (int i = 0; i < operations; ++i) {
    if (program.operations[i].deletes >= 0) deleted_at[program.operations[i].deletes] = i;
  }
  const auto deleted_first = [&](int begin) {
    int first = operations;
    for (int k = begin; k < program.operations[begin].schedule_end; ++k) {
      const PlannedOperation& operation = program.operations[k];
      for (const auto* list : {&operation.reads, &operation.writes, &operation.updates}) {
        for (const int v : *list) first = std::min(first, deleted_at[v]);
      }
    }
    return first;
  };
  std::vector<int> kept;
  for (int i = 0; i < operations; ++i) {
    PlannedOperation& operation = program.operations[i];
    if (!kept.empty() && random() % 64 == 0) {
      const int begin = kept[random() % kept.size()];
      if (i <= deleted_first(begin)) operation.replays_again = begin;
    }
    if (operation.schedule_end < 0) continue;
    if (operation.keeps_schedule) kept.push_back(i);
    i = operation.schedule_end - 1;
  }
}

Program MakeProgram(std::mt19937_64& random, int operations, int failing_per_mille) {
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  Program program;
  const int most_variables[] = {1, 10, 100, 1000};
  program.variables = 1 + below(most_variables[below(4)]);
  program.pushing_threads = below(3) == 0 ? 3 : 1;
  std::vector<int> living(program.variables);
  std::iota(living.begin(), living.end(), 0);
  for (int i = 0; i < operations; ++i) {
    PlannedOperation operation;
    // Mostly few variables, as real programs have, and sometimes many.
    const bool many = below(16) == 0;
    std::vector<int> pool;
    for (int tries = 0; tries < (many ? 40 : 8); ++tries) {
      const int v = living[below(static_cast<int>(living.size()))];
      if (std::find(pool.begin(), pool.end(), v) == pool.end()) pool.push_back(v);
    }
    operation.writes = Choose(random, 1 + below(many ? 10 : 2), pool);
    if (below(4) == 0) operation.updates = Choose(random, 1 + below(2), pool);
    operation.reads = Choose(random, below(many ? 21 : 4), pool);
    if (below(8) == 0) operation.priority = below(7) - 3;
    operation.async = below(16) == 0;
    operation.cached = below(4) == 0;
    operation.fails = below(1000) < failing_per_mille;
    if (below(128) == 0) operation.wait_for = living[below(static_cast<int>(living.size()))];
    if (below(64) == 0) {
      // A new variable comes in the place of the deleted one.
      int& place = living[below(static_cast<int>(living.size()))];
      if (place != operation.wait_for) {
        operation.deletes = place;
        place = program.variables++;
      }
    }
    program.operations.push_back(std::move(operation));
  }
  for (int i = 0; i < operations; ++i) {
    if (below(100) != 0) continue;
    PlannedOperation& first = program.operations[i];
    first.schedule_end = std::min(i + 1 + below(below(8) == 0 ? 200 : 20), operations);
    first.replays = below(4);
    first.keeps_schedule = below(2) == 0;
    for (int k = i; k < first.schedule_end; ++k) {
      program.operations[k].deletes = program.operations[k].wait_for = -1;
    }
    i = first.schedule_end - 1;
  }
  PlanLaterReplays(random, program);
  return program;
}

/// What a program comes to.
struct Outcome {
  std::vector<uint64_t> values;
  std::vector<int> order_of_reports;  // failed operations, as waits reported them
  uint64_t skipped = 0;

  bool operator==(const Outcome&) const = default;
};

uint64_t Result(const Program& program, int index, const std::vector<uint64_t>& values) {
  uint64_t hash = static_cast<uint64_t>(index) + 1;
  for (int v : program.operations[index].reads) hash = Mix(hash, values[v]);
  for (int v : program.operations[index].updates) hash = Mix(hash, values[v]);
  for (int v : program.operations[index].writes) hash = Mix(hash, values[v]);
  return hash;
}

/// Writes the result to all that the operation writes, so that no two variables agree by chance.
void Store(const Program& program, int index, std::vector<uint64_t>& values) {
  const uint64_t result = Result(program, index, values);
  for (int v : program.operations[index].writes) values[v] = Mix(result, v);
  for (int v : program.operations[index].updates) values[v] = Mix(result, v);
}

/// The operations as they take effect, with those of schedules as often as these are replayed.
std::vector<int> SerialOrder(const Program& program) {
  std::vector<int> order;
  for (int i = 0; i < static_cast<int>(program.operations.size()); ++i) {
    const PlannedOperation& operation = program.operations[i];
    if (const int again = operation.replays_again; again >= 0) {
      for (int k = again; k < program.operations[again].schedule_end; ++k) order.push_back(k);
    }
    if (operation.schedule_end < 0) {
      order.push_back(i);
      continue;
    }
    for (int replay = 0; replay < operation.replays; ++replay) {
      for (int k = i; k < operation.schedule_end; ++k) order.push_back(k);
    }
    i = operation.schedule_end - 1;
  }
  return order;
}

/// Runs the program one operation at a time in that order, with the engine's rules about errors
/// written out plainly: the oracle.
Outcome RunSerially(const Program& program, const std::vector<int>& order) {
  struct Chain {
    int origin;
    int began;             // the operation from which the chain counts
    int reported_at = -1;  // operations pushed by then
  };
  Outcome outcome;
  outcome.values.assign(program.variables, 0);
  std::vector<Chain> chains;                     // in the order of their beginning
  std::vector<int> mark(program.variables, -1);  // index of a chain
  const auto report = [&](int chain, int pushed) {
    if (chain < 0 || chains[chain].reported_at >= 0) return;
    chains[chain].reported_at = pushed;
    outcome.order_of_reports.push_back(chains[chain].origin);
  };
  int pushed = 0;
  for (const int i : order) {
    const PlannedOperation& operation = program.operations[i];
    ++pushed;
    int inherited = -1;
    const auto inherit = [&](int v) {
      if (mark[v] < 0) return;
      if (inherited < 0 || chains[mark[v]].began < chains[inherited].began) inherited = mark[v];
    };
    for (int v : operation.reads) inherit(v);
    for (int v : operation.updates) inherit(v);
    if (inherited >= 0 && chains[inherited].reported_at >= 0) {
      chains.push_back({chains[inherited].origin, pushed});  // after the report: a new chain
      inherited = static_cast<int>(chains.size()) - 1;
    }
    if (inherited >= 0) {
      ++outcome.skipped;
    } else if (operation.fails) {
      chains.push_back({i, pushed});
      inherited = static_cast<int>(chains.size()) - 1;
    } else {
      Store(program, i, outcome.values);
    }
    for (int v : operation.writes) mark[v] = inherited;
    for (int v : operation.updates) mark[v] = inherited;
    if (operation.wait_for >= 0) report(mark[operation.wait_for], pushed);
  }
  // WaitForAll, until nothing is left: chains in the order of their beginning.
  for (int chain = 0; chain < static_cast<int>(chains.size()); ++chain) {
    report(chain, pushed);
  }
  return outcome;
}

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
      : engine_(engine), foreign_(foreign), program_(program) {
    outcome_.values.assign(program.variables, 0);
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

  /// Thread t of n pushes operations t, t + n, … whenever it comes to it. Afterwards `order` is
  /// that in which the pushes took effect.
  Outcome RunConcurrently(int threads, std::vector<int>* order) {
    const uint64_t skipped_before = engine_.counters().skipped;
    engine_.StartTrace();
    std::latch begin(threads);
    std::vector<std::thread> pushers;
    for (int t = 0; t < threads; ++t) {
      pushers.emplace_back([=, this, &begin] {
        begin.arrive_and_wait();
        for (size_t i = t; i < program_.operations.size(); i += threads) Push(static_cast<int>(i));
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
      if (i >= scheduled_to_) Push(i);
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
    const PushOptions options = {.priority = operation.priority, .name = name, .updates = updates};
    const auto sync = [this, index](RunContext) { Compute(index); };
    const auto async = [this, index](RunContext, OnComplete done) {
      foreign_.Run([this, index, done] {
        try {
          Compute(index);
        } catch (const PlannedFailure&) {
          done(std::current_exception());
          return;
        }
        done();
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
    if (operation.deletes >= 0) {
      engine_.DeleteVariable(std::exchange(variables_[operation.deletes], nullptr));
    }
    if (operation.wait_for >= 0) {
      Reports([&] { engine_.WaitForVar(variables_[operation.wait_for]); });
    }
  }

  void Compute(int index) {
    if (program_.operations[index].fails) throw PlannedFailure{index};
    Store(program_, index, outcome_.values);
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
  Outcome outcome_;
};

std::vector<EngineConfiguration> RandomConfigurations() {
  std::vector<EngineConfiguration> configurations = engine_internal::AllConfigurations();
  configurations.push_back({EngineKind::kThreaded, 64});
  return configurations;
}

class EngineRandomTest : public EngineConfigurationTest {
 protected:
  /// Runs the programs of this run on one engine, each against the oracle.
  void RunPrograms(int failing_per_mille) {
    const auto seed = static_cast<uint64_t>(
        EnvironmentInt("TESSERA_TEST_SEED", 20150617, 0, std::numeric_limits<int64_t>::max()));
    const int64_t programs = EnvironmentInt("TESSERA_TEST_PROGRAMS", 20, 1, 1000000);
    const int operations =
        static_cast<int>(EnvironmentInt("TESSERA_TEST_OPERATIONS", kOperations, 1, 1000000));
    std::cout << "TESSERA_TEST_SEED=" << seed << " TESSERA_TEST_PROGRAMS=" << programs
              << " TESSERA_TEST_OPERATIONS=" << operations << "\n";
    ForeignThreads foreign;
    for (int64_t i = 0; i < programs; ++i) {
      std::mt19937_64 random(seed + static_cast<uint64_t>(i));
      const Program program = MakeProgram(random, operations, failing_per_mille);
      const Outcome expected = RunSerially(program, SerialOrder(program));
      const Outcome actual = EngineRun(*engine_, foreign, program).Run();
      ASSERT_EQ(actual.values, expected.values) << "program " << i << " of the seed";
      ASSERT_EQ(actual.order_of_reports, expected.order_of_reports) << "program " << i;
      ASSERT_EQ(actual.skipped, expected.skipped) << "program " << i;
    }
  }
};
/// Programs whose operations four threads push without taking turns.
class ConcurrentPushersTest : public EngineConfigurationTest {
 protected:
  void RunPrograms(int failing_per_mille) {
    const auto seed = static_cast<uint64_t>(
        EnvironmentInt("TESSERA_TEST_SEED", 20150618, 0, std::numeric_limits<int64_t>::max()));
    const int64_t programs = EnvironmentInt("TESSERA_TEST_PROGRAMS", 20, 1, 1000000) / 4 + 1;
    const int operations =
        static_cast<int>(EnvironmentInt("TESSERA_TEST_OPERATIONS", kOperations, 1, 1000000));
    constexpr int kThreads = 4;
    std::cout << "TESSERA_TEST_SEED=" << seed << "\n";
    ForeignThreads foreign;
    for (int64_t i = 0; i < programs; ++i) {
      std::mt19937_64 random(seed + static_cast<uint64_t>(i));
      Program program = MakeProgram(random, operations, failing_per_mille);
      for (PlannedOperation& operation : program.operations) {
        operation.deletes = operation.wait_for = -1;
        operation.schedule_end = operation.replays_again = -1;
      }
      std::vector<int> order;
      const Outcome actual =
          EngineRun(*engine_, foreign, program).RunConcurrently(kThreads, &order);
      ASSERT_EQ(order.size(), program.operations.size()) << "program " << i << " of the seed";
      std::vector<int> next(kThreads);
      std::iota(next.begin(), next.end(), 0);
      for (const int operation : order) {
        int& expected = next[operation % kThreads];
        ASSERT_EQ(operation, expected) << "a thread's pushes stay in order; program " << i;
        expected += kThreads;
      }
      const Outcome expected = RunSerially(program, order);
      ASSERT_EQ(actual.values, expected.values) << "program " << i << " of the seed";
      ASSERT_EQ(actual.order_of_reports, expected.order_of_reports) << "program " << i;
      ASSERT_EQ(actual.skipped, expected.skipped) << "program " << i;
    }
  }
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

TEST_P(ConcurrentPushersTest, ProgramsEndAsIfRunInTheOrderOfThePushes) { RunPrograms(0); }

TEST_P(ConcurrentPushersTest, FailuresAreThoseOfTheOrderOfThePushes) { RunPrograms(5); }

}  // namespace
}  // namespace tessera
