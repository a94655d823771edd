#ifndef TESSERA_ENGINE_WORKERS_THREADED_ENGINE_H_
#define TESSERA_ENGINE_WORKERS_THREADED_ENGINE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tbb/task_arena.h"
#include "tessera/engine/core/dependency_engine.h"
#include "tessera/engine/lifetime/process_life.h"
#include "tessera/engine/workers/compensating_threads.h"
#include "tessera/engine/workers/tbb_workers.h"

namespace tessera::engine_internal {

/// Runs operations on the threads of a TBB arena of its own, at most options.workers at a time.
///
/// What is ready stands in our own queue; a TBB task (a "runner") is only the order to work on that
/// queue, at most one for each worker. Priorities and first-come order are thus ours, and no data
/// goes through TBB except the engine's address. Enqueued tasks are taken by TBB's threads between
/// other work and never by a thread that waits inside a parallel loop.
///
/// While a thread sleeps in a wait inside an operation, or blocks, one runner more may work, on a
/// compensating thread.
class ThreadedEngine final : public DependencyEngine {
 public:
  explicit ThreadedEngine(const ResolvedOptions& options)
      : DependencyEngine(options), workers_(fork_watch(), options.workers, this) {
    PublishThroughTbb(this);
  }

  ~ThreadedEngine() override { Shutdown(); }

  int num_workers() const override { return options().workers; }

 private:
  // After so many operations in a row that were made ready by the one before, a runner looks at the
  // queue again: a chain without end must not keep others from their turn.
  static constexpr int kMaxDirectRuns = 64;
  // How often an idle runner looks at the queue before it lets its thread go; about 5 us, less than
  // it takes to wake a thread.
  static constexpr int kIdleLooks = 100;

  bool BeginBlocking() override;
  void EndBlocking() override;
  std::string DescribePlaces() const override;
  int WorkerIndex() const override;
  void Dispatch(ReadyList& ready) override;
  void Call(const SyncFn& fn, const RunContext& context) override {
    tbb::this_task_arena::isolate([&] { fn(context); });
  }
  void Call(const AsyncFn& fn, const RunContext& context, OnComplete on_complete) override {
    tbb::this_task_arena::isolate([&] { fn(context, std::move(on_complete)); });
  }

  void CallIsolated(const std::function<void()>& fn) override { tbb::this_task_arena::isolate(fn); }

  class Runner;

  /// Where a runner's thread comes from.
  enum class RunnerKind { kWorker, kCompensating };

  void WorkerLoop();
  void RunnerLoop(RunnerKind kind);
  Execution* NextOrRetire(RunnerKind kind);
  void RunInTurn(Execution* execution);
  Execution* RunAndPickNext(Execution* execution, int direct_runs);
  /// How many runners more may work; less than none where somebody has come back from a wait.
  /// Requires queue_lock_.
  int FreePlaces() const { return options().workers + blocked_ - runners_; }
  /// So many runners that StartRunners is to find threads for.
  struct Start {
    int workers = 0;
    int compensating = 0;
  };
  Start OrderRunners(int64_t count);
  void StartRunners(const Start& start) noexcept;

  struct Workers {
    Workers(int count, ThreadedEngine* engine)
        : reservation(count),
          arena(count, /*reserved_for_masters=*/0),
          observer(Initialized(arena), engine->id()),
          compensating(count, engine->id(),
                       [engine] { engine->RunnerLoop(RunnerKind::kCompensating); }) {}

    WorkerReservation reservation;
    tbb::task_arena arena;
    ArenaObserver observer;
    CompensatingThreads compensating;
  };

  DroppedAfterFork<Workers> workers_;
  // Guarded by queue_lock_.
  int runners_ = 0;        // ordered, at work or blocked
  int compensating_ = 0;   // those of them on compensating threads
  int blocked_ = 0;        // open BlockingScopes
  bool spinning_ = false;  // a runner looks out for work; guarded by queue_lock_
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_WORKERS_THREADED_ENGINE_H_
