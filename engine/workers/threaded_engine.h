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
#include "tessera/engine/workers/arena_pool.h"
#include "tessera/engine/workers/spare_threads.h"
#include "tessera/engine/workers/tbb_workers.h"

namespace tessera::engine_internal {

/// Runs operations on the threads of a TBB arena of its own, at most options.workers at a time.
///
/// What is ready stands in our own queue; a TBB task (a "runner") is only the order to work on that
/// queue, at most one for each worker. Priorities and first-come order are thus ours, and no data
/// goes through TBB except the engine's address. Enqueued tasks are taken by TBB's threads between
/// other work and never by a thread that waits inside a parallel loop.
///
/// While a thread sleeps in a wait inside an operation one runner more may work. It may find no
/// thread and no place with TBB, which knows of no sleep, so it has a thread of the engine's own.
class ThreadedEngine final : public DependencyEngine {
 public:
  explicit ThreadedEngine(const ResolvedOptions& options)
      : DependencyEngine(options), workers_(fork_watch(), options.workers, this) {
    PublishThroughTbb(this);
  }

  ~ThreadedEngine() override {
    Shutdown();
    if (!forked()) workers_->arenas.KeepForOthers();
  }

  int num_workers() const override { return options().workers; }

 private:
  // After so many operations in a row that were made ready by the one before, a runner looks at the
  // queue again: a chain without end must not keep others from their turn.
  static constexpr int kMaxDirectRuns = 64;
  // How often an idle runner looks at the queue before it lets its thread go; about 5 us, less than
  // it takes to wake a thread.
  static constexpr int kIdleLooks = 100;

  // So many threads may sleep in waits inside operations with another one in their place. Beyond
  // that waits run other operations on top.
  static constexpr int kMaxAsleep = 1024;
  // So many may block; beyond that they hold a worker.
  static constexpr int kMaxBlocked = 1024;

  bool LendPlace(Lender lender) override;
  void TakeBackPlace(Lender lender) override {
    std::lock_guard<FutexLock> hold(queue_lock_);
    --(lender == Lender::kWait ? asleep_ : blocked_);
  }

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

  void RunnerLoop();
  void SpareLoop();
  Execution* NextOrRetire();
  void RunInTurn(Execution* execution);
  Execution* RunAndPickNext(Execution* execution, int direct_runs);
  /// In how many places a runner may begin to work; less than none where somebody has come back
  /// from a wait. All others work, sleep or block. Requires queue_lock_.
  int FreePlaces() const { return options().workers + lent() - runners_; }
  /// So many runners that StartRunners is to find threads for.
  struct Start {
    int count = 0;
    bool spare = false;  // not from TBB
  };
  Start OrderRunners(int64_t count);
  int lent() const { return asleep_ + blocked_; }
  /// How many in the queue runners may run: while the engine is stopped none but for threads that
  /// sleep or block inside it; those that are awake look for themselves. Requires queue_lock_.
  int64_t CountForRunners() const { return HoldsRunners() ? 0 : CountReady(); }
  bool HoldsRunners() const { return stopped_.load(std::memory_order_relaxed) && lent() == 0; }
  bool BeginToLend(Lender lender, Start& start);
  void StartRunners(const Start& start) noexcept;
  void GiveUpRunners(int count);

  struct Workers {
    Workers(int count, ThreadedEngine* engine)
        : reservation(count),
          arena(count, /*reserved_for_masters=*/0),
          observer(Initialized(arena), engine->id()),
          arenas(count, engine->id()),
          spares(arenas, engine->id(), [engine] { engine->SpareLoop(); }) {}

    WorkerReservation reservation;
    tbb::task_arena arena;
    ArenaObserver observer;
    ArenaPool arenas;
    SpareThreads spares;
  };

  DroppedAfterFork<Workers> workers_;
  int runners_ = 0;        // ordered or at work; guarded by queue_lock_
  int asleep_ = 0;         // whose places are lent; guarded by queue_lock_
  int blocked_ = 0;        // the same of those that block; guarded by queue_lock_
  bool spinning_ = false;  // a runner looks out for work; guarded by queue_lock_
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_WORKERS_THREADED_ENGINE_H_
