#ifndef TESSERA_ENGINE_WORKERS_WORKER_POOL_H_
#define TESSERA_ENGINE_WORKERS_WORKER_POOL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "tbb/task_arena.h"
#include "tessera/engine/core/scheduler.h"
#include "tessera/engine/lifetime/process_life.h"
#include "tessera/engine/workers/compensating_threads.h"
#include "tessera/engine/workers/tbb_workers.h"

namespace tessera::engine_internal {

/// Runs operations on the threads of a TBB arena of its own, at most `workers` at a time.
///
/// An enqueued TBB task (a worker task) is only the order to work on the ready queue, at most one
/// for each worker. Priorities and first-come order are thus the queue's, and no data goes through
/// TBB except the pool's address. Enqueued tasks are taken by TBB's threads between other work and
/// never by a thread that waits inside a parallel loop.
///
/// While a thread sleeps in a wait inside an operation, or blocks, one operation more may run, on a
/// compensating thread.
class WorkerPool final : public Scheduler {
 public:
  /// Throws Error(kResourceExhausted) if the system has no threads for the workers.
  WorkerPool(OperationRunner* runner, const ForkWatch& watch, const StallReporter& stall,
             uint64_t engine_id, int workers);

  void Dispatch(ReadyList& ready) override;
  bool is_naive() const override { return false; }
  int num_workers() const override { return num_workers_; }
  int WorkerIndex() const override;
  void Call(const SyncFn& fn, const RunContext& context) override {
    tbb::this_task_arena::isolate([&] { fn(context); });
  }
  void Call(const AsyncFn& fn, const RunContext& context, OnComplete on_complete) override {
    tbb::this_task_arena::isolate([&] { fn(context, std::move(on_complete)); });
  }
  void CallIsolated(const std::function<void()>& fn) override { tbb::this_task_arena::isolate(fn); }
  bool BeginBlocking() override;
  void EndBlocking() override;

 private:
  // After so many operations in a row that were made ready by the one before, a worker looks at the
  // queue again: a chain without end must not keep others from their turn.
  static constexpr int kMaxDirectRuns = 64;
  // An idle worker looks at the queue so often before it lets its thread go; about 5 us, less than
  // it takes to wake a thread.
  static constexpr int kIdleLooks = 100;

  class WorkerTask;
  /// The origin of a worker's thread.
  enum class WorkerKind { kArena, kCompensating };
  /// Workers that StartWorkers is to find threads for.
  struct Start {
    int arena = 0;
    int compensating = 0;
  };

  std::string DescribeThreads() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  /// The number of workers that may still begin; negative where a thread has come back from a wait.
  int FreePlaces() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    return num_workers_ + blocked_ - workers_;
  }
  Start OrderWorkers(int64_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void StartWorkers(const Start& start) noexcept;
  void ArenaLoop();
  void WorkerLoop(WorkerKind kind);
  Execution* NextOrRetire(WorkerKind kind);
  void RunInTurn(Execution* execution);
  Execution* RunAndPickNext(Execution* execution, int direct_runs);

  struct Threads {
    Threads(int count, WorkerPool* pool)
        : reservation(count),
          arena(count, /*reserved_for_masters=*/0),
          observer(Initialized(arena), pool->engine_id_),
          compensating(count, pool->engine_id_,
                       [pool] { pool->WorkerLoop(WorkerKind::kCompensating); }) {}

    WorkerReservation reservation;
    tbb::task_arena arena;
    ArenaObserver observer;
    CompensatingThreads compensating;
  };

  const uint64_t engine_id_;
  const int num_workers_;
  int workers_ ABSL_GUARDED_BY(lock_) = 0;        // ordered, at work or blocked
  int compensating_ ABSL_GUARDED_BY(lock_) = 0;   // those of them on compensating threads
  int blocked_ ABSL_GUARDED_BY(lock_) = 0;        // between BeginBlocking and EndBlocking
  bool spinning_ ABSL_GUARDED_BY(lock_) = false;  // a worker looks out for work
  DroppedAfterFork<Threads> threads_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_WORKERS_WORKER_POOL_H_
