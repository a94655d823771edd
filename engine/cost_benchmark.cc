// Where the time of a push and of a replayed operation goes: its parts one by one, in nanoseconds
// an operation (items_per_second turned over). docs/performance.md has the table.
//
// PushOnly is what the pushing thread does, RunOnly what a worker does for operations that stand
// ready; in a program the two meet on the same cache lines, which PushAndRun shows.
#include <benchmark/benchmark.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tbb/task_arena.h"
#include "tessera/base/device.h"
#include "tessera/engine/core/execution.h"
#include "tessera/engine/core/futex_lock.h"
#include "tessera/engine/core/record_pool.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/observe/trace_recorder.h"

namespace tessera {
namespace {

using engine_internal::Execution;
using engine_internal::FutexLock;
using engine_internal::kNotTraced;
using engine_internal::RecordPool;
using engine_internal::TraceRecorder;

constexpr int kOperations = 20000;
constexpr int kPairs = 500;

void PerOperation(benchmark::State& state, int64_t operations) {
  state.SetItemsProcessed(state.iterations() * operations);
  state.counters["ns"] =
      benchmark::Counter(static_cast<double>(state.iterations() * operations) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void FunctionCall(benchmark::State& state) {
  std::function<void(RunContext)> fn = [](RunContext) {};
  benchmark::DoNotOptimize(fn);
  for (auto _ : state) fn(RunContext{});
  PerOperation(state, 1);
}
BENCHMARK(FunctionCall);

void Isolation(benchmark::State& state) {
  tbb::task_arena arena(2);
  arena.execute([&] {
    for (auto _ : state) tbb::this_task_arena::isolate([] { benchmark::ClobberMemory(); });
  });
  PerOperation(state, 1);
}
BENCHMARK(Isolation);

/// A lock is two atomic exchanges.
void LockOfAVariable(benchmark::State& state) {
  FutexLock lock;
  for (auto _ : state) {
    lock.lock();
    benchmark::ClobberMemory();
    lock.unlock();
  }
  PerOperation(state, 1);
}
BENCHMARK(LockOfAVariable);

void Record(benchmark::State& state) {
  RecordPool<Execution> pool;
  for (auto _ : state) pool.Give(pool.Take());
  PerOperation(state, 1);
}
BENCHMARK(Record);

/// All that a trace costs a push and a run while none is on: each loads a flag and branches, and
/// the run remembers for its end what it found. There is no engine without it to compare with.
void TraceThatIsOff(benchmark::State& state) {
  TraceRecorder trace(/*number=*/0);  // no engine has this one
  int64_t events = 0;
  for (auto _ : state) {
    if (trace.on()) ++events;
    int64_t begin_ns = trace.on() ? trace.Now() : kNotTraced;
    benchmark::DoNotOptimize(begin_ns);
    if (begin_ns != kNotTraced) ++events;
  }
  benchmark::DoNotOptimize(events);
  PerOperation(state, 1);
}
BENCHMARK(TraceThatIsOff);

/// From a notification to the first instruction of the thread that slept.
void WakeUp(benchmark::State& state) {
  std::mutex mutex;
  std::condition_variable changed;
  int turn = 0;
  bool ended = false;
  const auto take_turn = [&](int own) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return turn == own || ended; });
    turn = 1 - own;
    changed.notify_one();
    return !ended;
  };
  std::thread other([&] {
    while (take_turn(1)) {
    }
  });
  for (auto _ : state) take_turn(0);
  {
    std::lock_guard<std::mutex> hold(mutex);
    ended = true;
  }
  changed.notify_one();
  other.join();
  PerOperation(state, 2);
}
BENCHMARK(WakeUp)->UseRealTime();

/// An engine with variables for operations that read one and write one.
class Setup {
 public:
  explicit Setup(int workers)
      : engine_(
            Engine::Create({.kind = EngineKind::kThreaded, .workers = workers, .max_pending = 0})) {
    for (int i = 0; i < 2 * kPairs; ++i) variables_.push_back(engine_->NewVariable());
  }
  ~Setup() { engine_->Start(); }

  Engine& engine() { return *engine_; }
  void Push() {
    for (int i = 0; i < kOperations; ++i) {
      const size_t pair = static_cast<size_t>(2 * (i % kPairs));
      engine_->PushSync([](RunContext) {}, Device::Cpu(), {variables_[pair]},
                        {variables_[pair + 1]});
    }
  }

 private:
  std::unique_ptr<Engine> engine_;
  std::vector<Variable*> variables_;
};

void PushOnly(benchmark::State& state) {
  Setup setup(1);
  for (auto _ : state) {
    setup.Push();
    state.PauseTiming();
    setup.engine().Start();
    setup.engine().WaitForAll();
    setup.engine().Stop();
    state.ResumeTiming();
  }
  PerOperation(state, kOperations);
}
BENCHMARK(PushOnly)->UseRealTime();

void RunOnly(benchmark::State& state) {
  Setup setup(1);
  for (auto _ : state) {
    state.PauseTiming();
    setup.engine().Stop();
    setup.Push();
    state.ResumeTiming();
    setup.engine().Start();
    setup.engine().WaitForAll();
  }
  PerOperation(state, kOperations);
}
BENCHMARK(RunOnly)->UseRealTime();

void PushAndRun(benchmark::State& state) {
  Setup setup(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    setup.Push();
    setup.engine().WaitForAll();
  }
  PerOperation(state, kOperations);
}
BENCHMARK(PushAndRun)->Arg(1)->Arg(2)->UseRealTime();

/// The same while a trace is on.
void PushAndRunTraced(benchmark::State& state) {
  Setup setup(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    state.PauseTiming();
    setup.engine().StartTrace();  // drops what the last one has recorded
    state.ResumeTiming();
    setup.Push();
    setup.engine().WaitForAll();
  }
  PerOperation(state, kOperations);
}
BENCHMARK(PushAndRunTraced)->Arg(1)->Arg(2)->UseRealTime();

/// A chain of operations on variables of the schedule, or on others, which each replay locks.
void Replay(benchmark::State& state, int operations, bool own) {
  const auto engine = Engine::Create({.kind = EngineKind::kThreaded, .workers = 1});
  std::vector<Variable*> variables;
  const auto schedule = engine->Record([&] {
    for (int i = 0; i <= operations; ++i) variables.push_back(engine->NewVariable());
    for (size_t i = 1; i < variables.size(); ++i) {
      engine->PushSync([](RunContext) {}, Device::Cpu(), {variables[i - 1]}, {variables[i]});
    }
    if (!own) return;
    for (size_t i = 1; i + 1 < variables.size(); ++i) engine->DeleteVariable(variables[i]);
  });
  for (auto _ : state) {
    schedule->Replay();
    engine->WaitForVar(variables.back());
  }
  PerOperation(state, operations);
}
BENCHMARK_CAPTURE(Replay, one_operation, 1, true)->UseRealTime();
BENCHMARK_CAPTURE(Replay, chain_of_10000, 10000, true)->UseRealTime();
BENCHMARK_CAPTURE(Replay, chain_of_10000_on_variables_of_others, 10000, false)->UseRealTime();

}  // namespace
}  // namespace tessera
