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
#include "tessera/engine/workers/runner_orders.h"
#include "tessera/engine/workers/spare_threads.h"
#include "tessera/engine/workers/tbb_workers.h"

namespace tessera::engine_internal {

/// Runs operations on the threads of a TBB arena of its own, at most options.workers at a time.
///
/// What is ready stands in our own queue; a TBB task (a "runner") is only the order to work on that
/// queue, at most one for each worker. Priorities and first-come order are thus ours, and no data
/// goes through TBB except the engine's address. Enqueued tasks are taken by TBB's threads between
/// other work and never by a thread that waits inside a parallel loop. Where the system refuses TBB
/// a thread the order is withdrawn, and goes to a thread of the engine's own if there is one later
/// on; until then waits from outside run what is ready.
///
/// While a thread sleeps in a wait inside an operation one runner more may work. It may find no
/// thread and no place with TBB, which knows of no sleep, so it has a thread of the engine's own.
class ThreadedEngine final : public DependencyEngine {
 public:
  explicit ThreadedEngine(const ResolvedOptions& options)
      : DependencyEngine(options), workers_(fork_watch(), options.workers, this) {
    PublishThroughTbb(this);
    PublishThroughTbb(orders_.get());
  }

  ~ThreadedEngine() override {
    Shutdown();
    if (!forked() && !WithoutTbb()) workers_->arenas.KeepForOthers();
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
  // So many may block before the system is asked whether it has threads for more, and for so many
  // more each time.
  static constexpr int kFirstMaxBlocked = 1024;
  static constexpr int kMoreBlocked = 256;

  bool LendPlace(Lender lender) override;
  bool Restart() override;
  void LookAfterOrders() override;
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
  void CallSingleThreaded(const std::function<void()>& fn) override;

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
  /// Whether TBB has refused threads. Relaxed: whoever sees it late finds out for itself.
  bool WithoutTbb() const {
    return orders_->refused() || arena_is_broken_.load(std::memory_order_relaxed);
  }
  int lent() const { return asleep_ + blocked_; }
  /// How many in the queue runners may run: while the engine is stopped none but for threads that
  /// sleep or block inside it; those that are awake look for themselves. Requires queue_lock_.
  int64_t CountForRunners() const { return HoldsRunners() ? 0 : CountReady(); }
  bool HoldsRunners() const { return stopped_.load(std::memory_order_relaxed) && lent() == 0; }
  bool BeginToLend(Lender lender, Start& start);
  bool AllowMoreBlocked();
  bool StartRunners(const Start& start);
  bool StartSpares(int count);
  void GiveUpRunners(int count);
  void EndRunners(int count);
  int EnqueueRunners(int count);
  bool ArenaIsOccupied();

  struct Workers {
    Workers(int count, ThreadedEngine* engine)
        : reservation(count),
          arena(count, /*reserved_for_masters=*/0),
          observer(Initialized(arena), engine->id(), ArenaThreads::kReserved),
          arenas(count, engine->id()),
          spares(arenas, engine->id(), [engine] { engine->SpareLoop(); }) {}

    WorkerReservation reservation;
    tbb::task_arena arena;
    ArenaObserver observer;
    ArenaPool arenas;
    SpareThreads spares;
  };

  const RunnerOrdersOwner orders_;
  std::atomic<bool> arena_is_broken_{false};
  DroppedAfterFork<Workers> workers_;
  int runners_ = 0;                     // ordered or at work; guarded by queue_lock_
  int asleep_ = 0;                      // whose places are lent; guarded by queue_lock_
  int blocked_ = 0;                     // the same of those that block; guarded by queue_lock_
  int max_blocked_ = kFirstMaxBlocked;  // guarded by queue_lock_
  bool no_more_blocked_ = false;  // the system had no threads for more; guarded by queue_lock_
  uint64_t orders_placed_ = 0;    // with TBB, so far; guarded by queue_lock_
  // How many were placed when a wait first saw that none of those left had begun, or 0, and when
  // that was; guarded by queue_lock_.
  uint64_t orders_seen_ = 0;
  std::chrono::steady_clock::time_point orders_seen_at_;
  bool spinning_ = false;  // a runner looks out for work; guarded by queue_lock_
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_WORKERS_THREADED_ENGINE_H_
