#include "tessera/engine/workers/worker_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tbb/task_arena.h"
#include "tessera/engine/core/out_of_memory.h"
#include "tessera/engine/workers/compensating_threads.h"
#include "tessera/engine/workers/tbb_workers.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {
namespace {

/// The number of this thread among the workers of the engine that it works for; -1 if it is none.
thread_local int worker_index = -1;

}  // namespace

/// The task that goes through TBB.
class WorkerPool::WorkerTask {
 public:
  explicit WorkerTask(WorkerPool* pool) : pool_(pool) {}
  void operator()() const {
    const WorkerTask own = Copy();
    ReceiveThroughTbb(own.pool_);
    own.pool_->ArenaLoop();
  }

 private:
  WorkerTask Copy() const {
    const HiddenFromTsan hidden;
    return *this;
  }

  WorkerPool* pool_;
};

WorkerPool::WorkerPool(OperationRunner* runner, const ForkWatch& watch, const StallReporter& stall,
                       uint64_t engine_id, int workers)
    : Scheduler(runner, watch, stall),
      engine_id_(engine_id),
      num_workers_(workers),
      threads_(watch, workers, this) {
  PublishThroughTbb(this);
}

std::string WorkerPool::DescribeThreads() const {
  if (blocked_ == 0) return {};
  return absl::StrCat(", ", blocked_, " of them asleep or blocked with another one in their place");
}

int WorkerPool::WorkerIndex() const { return worker_index; }

bool WorkerPool::BeginBlocking() {
  if (!threads_->compensating.Reserve()) return false;
  Start start;
  {
    std::lock_guard<FutexLock> hold(lock_);
    ++blocked_;
    start = OrderWorkers(std::min<int64_t>(CountReady(), 1));
  }
  StartWorkers(start);
  return true;
}

void WorkerPool::EndBlocking() {
  {
    std::lock_guard<FutexLock> hold(lock_);
    --blocked_;
  }
  threads_->compensating.Release();
}

/// Counts up to so many workers more, for StartWorkers. Compensating threads come first, one for
/// each thread that blocks: so never more workers are in TBB's arena than it has places. Requires
/// lock_.
WorkerPool::Start WorkerPool::OrderWorkers(int64_t count) {
  const int ordered = static_cast<int>(std::clamp<int64_t>(count, 0, std::max(0, FreePlaces())));
  if (ordered == 0) return {};  // most pushes: they leave cache lines to the runners
  const int compensating = std::clamp(blocked_ - compensating_, 0, ordered);
  workers_ += ordered;
  active_ += ordered;
  compensating_ += compensating;
  return {.arena = ordered - compensating, .compensating = compensating};
}

void WorkerPool::Dispatch(ReadyList& ready) {
  Start start;
  {
    std::lock_guard<FutexLock> hold(lock_);
    int64_t count = 0;
    if (spinning_) {  // it will take one of these; the next dispatch must not count on it too
      spinning_ = false;
      --count;
    }
    while (!ready.empty()) {
      queue_.Push(ready.PopFront());
      ++count;
    }
    start = OrderWorkers(std::min(count, CountReady()));
  }
  StartWorkers(start);
}

void WorkerPool::StartWorkers(const Start& start) noexcept {
  for (int i = 0; i < start.compensating; ++i) threads_->compensating.Start();
  if (start.arena == 0) return;
  const HiddenFromTsan hidden;
  OrTerminate([&] {
    for (int i = 0; i < start.arena; ++i) threads_->arena.enqueue(WorkerTask(this));
  });
}

void WorkerPool::ArenaLoop() {
  // TBB uses either of the two places of an arena for one thread.
  worker_index = std::min(tbb::this_task_arena::current_thread_index(), num_workers_ - 1);
  WorkerLoop(WorkerKind::kArena);
  worker_index = -1;
}

void WorkerPool::WorkerLoop(WorkerKind kind) {
  {
    const ThreadFrame frame(engine_id_, /*execution=*/nullptr);  // for destructors that wait
    while (Execution* const execution = NextOrRetire(kind)) RunInTurn(execution);
  }
  Deactivate();
}

/// Runs an execution and then, one by one, those that it makes ready.
void WorkerPool::RunInTurn(Execution* execution) {
  for (int direct_runs = 0; execution != nullptr; ++direct_runs) {
    execution = RunAndPickNext(execution, direct_runs);
  }
}

/// The next one from the queue, after a short look-out for one. Returns null if this worker must
/// end; it does not count in workers_ any more.
Execution* WorkerPool::NextOrRetire(WorkerKind kind) {
  std::unique_lock<FutexLock> hold(lock_);
  for (bool looked_out = false;; looked_out = true) {
    // One more than may be, where somebody has come back from a wait: those that stay do the work.
    const bool leave = FreePlaces() < 0;
    if (Execution* const next = leave ? nullptr : PopReady()) return next;
    if (leave || looked_out || spinning_) {
      --workers_;
      if (kind == WorkerKind::kCompensating) --compensating_;
      return nullptr;
    }
    // One worker at a time: more would only take time from those who push.
    spinning_ = true;
    hold.unlock();
    const auto idle = [this] { return queue_.best_rank() == ReadyQueue::kEmptyRank; };
    for (int looks = 0; looks < kIdleLooks && idle(); ++looks) SpinPause();
    hold.lock();
    spinning_ = false;
  }
}

/// Runs an execution. Returns the best of those that it makes ready, for this thread to run while
/// their shared data is in its cache; the others go to the queue.
Execution* WorkerPool::RunAndPickNext(Execution* execution, int direct_runs) {
  ReadyList ready;
  Run(execution, ready);
  Execution* next = nullptr;
  if (direct_runs < kMaxDirectRuns && !stopped_relaxed()) {
    next = ready.PopBest();
    if (next != nullptr && next->rank < queue_.best_rank()) {
      ready.PushBack(next);
      next = nullptr;
    }
  }
  if (!ready.empty()) Dispatch(ready);
  return next;
}

}  // namespace tessera::engine_internal
