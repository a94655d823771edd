#ifndef TESSERA_ENGINE_INTERNAL_THREADED_ENGINE_H_
#define TESSERA_ENGINE_INTERNAL_THREADED_ENGINE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tbb/task_arena.h"
#include "tessera/engine/internal/arena_pool.h"
#include "tessera/engine/internal/dependency_engine.h"
#include "tessera/engine/internal/process_life.h"
#include "tessera/engine/internal/runner_orders.h"
#include "tessera/engine/internal/spare_threads.h"
#include "tessera/engine/internal/tbb_workers.h"

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

  ~ThreadedEngine() override { Shutdown(); }

  void Execute(const std::function<void()>& fn) override;

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
  void CallInstead(const std::function<void()>& fn) override;

  class Runner;

  /// A call of Execute from outside. It waits until it has a place in the arena, where the calling
  /// thread then works, or a thread of the engine's takes it.
  struct OutsideCall {
    explicit OutsideCall(const std::function<void()>& function) : body(function) {}

    const std::function<void()>& body;
    // Guarded by queue_lock_.
    bool has_place = false;
    bool begun = false;  // in its place
    bool taken = false;
    // Guarded by the mutex of Calls, for one that was taken.
    bool ended = false;
    std::exception_ptr error;
    std::optional<FailedOperation> last_failure;  // that waits in it have reported
  };

  /// What those who have a call wait for: a change of any.
  struct Calls {
    void Notify() {
      std::lock_guard<std::mutex> hold(mutex);
      changed.notify_all();
    }

    std::mutex mutex;
    std::condition_variable changed;
  };

  /// Where a call of Execute is to run its function.
  enum class Place {
    kInArena,
    kNoThread,  // in an arena for this thread alone
    kTaken,     // nowhere, for a thread of the engine's does
  };
  Place AwaitPlace(OutsideCall& call);
  bool ReservePlace(OutsideCall& call);
  void LeavePlace();
  void CallInArena(OutsideCall& call, const std::function<void()>& mine);
  void CallInOwnArena(const std::function<void()>& body);
  bool BeginCall(OutsideCall& call);
  bool IsTaken(const OutsideCall& call);
  /// A call that waits, for a runner to make; null if there is none. Requires queue_lock_.
  OutsideCall* TakeCall() { return calls_.empty() ? nullptr : TakeWaitingCall(); }
  OutsideCall* TakeWaitingCall();
  void AddCall(OutsideCall& call);
  bool RemoveCall(const OutsideCall& call);
  void RunCall(OutsideCall& call);
  void AwaitEnd(OutsideCall& call);
  /// Where TBB keeps a call that it has found no place for, it has one of its threads make it
  /// between two tasks. So that there is an end of this one the runner has another one ordered in
  /// its stead, and leaves. Returns whether it has to, without a look at the engine.
  bool MakeWay() {
    // Beside one worker there is a place in any case. Relaxed: whoever sees it late makes way one
    // turn later.
    if (options().workers == 1 || entering_.load(std::memory_order_relaxed) == 0) return false;
    OrderInStead();
    return true;
  }
  void OrderInStead();

  /// What a runner does next: either of them.
  struct Work {
    Execution* execution = nullptr;
    OutsideCall* call = nullptr;
  };
  void RunnerLoop();
  void SpareLoop();
  bool NextOrRetire(Work& work);
  void Do(const Work& work);
  Execution* RunAndPickNext(Execution* execution, int direct_runs);
  /// How many threads may be in the arena. (For one worker TBB makes a second place, but has no
  /// thread for the worker while a call has that.)
  int Places() const { return options().workers; }
  /// How many runners may work, sleep or block. Requires queue_lock_.
  int MaxRunners() const { return options().workers + lent(); }
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
  bool BeginToLend(Lender lender, Start& start);
  bool AllowMoreBlocked();
  bool StartRunners(const Start& start);
  bool StartSpares(int count);
  void GiveUpRunners(int count);
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
    Calls calls;
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
  std::vector<OutsideCall*> calls_;  // neither begun nor taken; guarded by queue_lock_
  int guests_ = 0;                   // calls that have a place; guarded by queue_lock_
  std::atomic<int> entering_{0};     // those of them that have not begun; written under queue_lock_
  bool spinning_ = false;            // a runner looks out for work; guarded by queue_lock_
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_INTERNAL_THREADED_ENGINE_H_
