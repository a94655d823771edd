#ifndef TESSERA_ENGINE_CORE_SCHEDULER_H_
#define TESSERA_ENGINE_CORE_SCHEDULER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "tessera/engine/core/execution.h"
#include "tessera/engine/core/futex_lock.h"
#include "tessera/engine/core/ready_queue.h"
#include "tessera/engine/lifetime/process_life.h"
#include "tessera/engine/observe/stall_report.h"

namespace tessera::engine_internal {

/// Runs what a scheduler has chosen.
class OperationRunner {
 public:
  /// Runs the execution, or skips it, and appends those that become ready by that.
  virtual void Run(Execution* execution, ReadyList& ready) = 0;

 protected:
  ~OperationRunner() = default;
};

/// Decides which operation runs next, and in which thread.
///
/// Operations that are ready stand in one queue, which says what goes first. A kind of scheduler
/// derives from this class and says in Dispatch which threads take them from there: WorkerPool has
/// threads of a TBB arena, NaiveScheduler has none.
///
/// Threads: every member may be called from any thread.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Takes all of `ready`, to run it now or later. Called without locks.
  virtual void Dispatch(ReadyList& ready) = 0;

  /// Returns whether each operation runs in its push, without threads of the scheduler's own.
  virtual bool is_naive() const = 0;
  /// The number of threads that run operations.
  virtual int num_workers() const = 0;
  /// The number of the calling thread among them; -1 if it is none.
  virtual int WorkerIndex() const { return -1; }

  /// Calls an operation's function, whose TBB loops no task of the program cancels.
  virtual void Call(const SyncFn& fn, const RunContext& context) = 0;
  virtual void Call(const AsyncFn& fn, const RunContext& context, OnComplete on_complete) = 0;
  /// Calls a function that runs operations one after another.
  virtual void CallIsolated(const std::function<void()>& fn) = 0;

  /// The calling thread, which runs an operation, is about to sleep or to block: one operation more
  /// may run until EndBlocking. Returns false if there is no compensating thread.
  virtual bool BeginBlocking() { return false; }
  virtual void EndBlocking() {}

  /// Runs an operation on top of one that waits in this thread, if the scheduler is naive and there
  /// is one.
  virtual void RunOnTop() {}
  /// Returns whether RunOnTop would find one.
  virtual bool HasWorkOnTop() { return false; }

  /// Makes an execution the next to run if it is in the queue.
  void Promote(Execution* execution);
  /// Makes the tasks that join demanded replays the next to run.
  void PromoteJoins();

  /// The rank of the next operation in the queue. May be out of date.
  int64_t best_rank() const { return queue_.best_rank(); }

  /// Counts one more that may run operations, or has work on a device.
  void Activate();
  /// Counts one less. It is last in a thread's use of the engine: with the count at 0 a stopped
  /// engine may be destroyed.
  void Deactivate();

  /// Lets no operation begin from here on, for good if this is `at_end` of the engine or of the
  /// process. Returns false, with nothing done, if the engine's end has begun and this is no part
  /// of it.
  bool Stop(bool at_end);
  /// Returns when no operation runs after a Stop, or somebody has called Start.
  void AwaitStop();
  /// Lets operations begin again, except after the end.
  void Start();
  /// May be out of date.
  bool stopped() const { return stopped_.load(); }
  /// For each operation: no memory order goes with it.
  bool stopped_relaxed() const { return stopped_.load(std::memory_order_relaxed); }

  /// Begins the engine's end: from here on Stop does nothing.
  void BeginEnd();
  /// Begins to push several operations one by one, which the engine's end waits for. Returns false
  /// if that has begun and the caller is no operation.
  bool BeginPushes(bool in_operation);
  void EndPushes();
  bool HasPushes();

  /// Takes what is left in the queue of an engine that has ended; null if there is nothing.
  Execution* TakeLeft();

  /// Describes the threads at work and the queue, by describe(execution) for some of them.
  std::string Describe(const std::function<std::string(const Execution&)>& describe) const;

 protected:
  Scheduler(OperationRunner* runner, const ForkWatch& watch, const StallReporter& stall)
      : runner_(runner), stall_(stall), quiet_(watch) {}

  /// Runs an execution that this thread has chosen.
  void Run(Execution* execution, ReadyList& ready) { runner_->Run(execution, ready); }

  /// The number of operations in the queue that may begin.
  int64_t CountReady() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    return stopped_relaxed() ? 0 : queue_.size();
  }
  /// Takes the best of these from the queue; null if there is none.
  Execution* PopReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    return stopped_relaxed() ? nullptr : queue_.Pop();
  }

  /// Describes threads beside those at work; may be empty.
  virtual std::string DescribeThreads() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) { return {}; }

  // Pushers and workers take its cache line from each other: what else they read is on others.
  alignas(64) mutable FutexLock lock_;
  ReadyQueue queue_ ABSL_GUARDED_BY(lock_);
  // Threads that run operations or look for some, and operations on devices.
  int64_t active_ ABSL_GUARDED_BY(lock_) = 0;

 private:
  int64_t stop_waiters_ ABSL_GUARDED_BY(lock_) = 0;  // threads in AwaitStop
  int64_t pushes_ ABSL_GUARDED_BY(lock_) = 0;        // open BeginPushes
  bool ending_ ABSL_GUARDED_BY(lock_) = false;
  bool ended_ ABSL_GUARDED_BY(lock_) = false;
  // Written under lock_, and read without it where being late does no harm.
  alignas(64) std::atomic<bool> stopped_{false};
  OperationRunner* const runner_;
  const StallReporter& stall_;
  std::mutex quiet_mutex_;                           // taken before lock_
  DroppedAfterFork<std::condition_variable> quiet_;  // active_ has become 0, or Start was called
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_SCHEDULER_H_
