#include "tessera/engine/workers/threaded_engine.h"

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
#include "tessera/engine/workers/arena_pool.h"
#include "tessera/engine/workers/spare_threads.h"
#include "tessera/engine/workers/tbb_workers.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {
namespace {

/// While it lives, its thread is a runner in a place of an engine's arena, which nobody else has
/// meanwhile; also where the runner is in another arena, in whatever place there.
class RunnerPlace {
 public:
  RunnerPlace(uint64_t engine_id, int index)
      : engine_id_(engine_id), index_(index), outer_(innermost_) {
    innermost_ = this;
  }
  ~RunnerPlace() { innermost_ = outer_; }
  RunnerPlace(const RunnerPlace&) = delete;
  RunnerPlace& operator=(const RunnerPlace&) = delete;

  /// Which place of that engine this thread has; -1 if none.
  static int IndexIn(uint64_t engine_id) {
    const RunnerPlace* place = innermost_;
    while (place != nullptr && place->engine_id_ != engine_id) place = place->outer_;
    return place == nullptr ? -1 : place->index_;
  }

 private:
  static inline thread_local const RunnerPlace* innermost_ = nullptr;

  const uint64_t engine_id_;
  const int index_;
  const RunnerPlace* const outer_;
};

}  // namespace

/// What goes through TBB to order a runner.
class ThreadedEngine::Runner {
 public:
  explicit Runner(ThreadedEngine* engine) : engine_(engine) {}
  void operator()() const {
    const Runner own = Copy();
    ReceiveThroughTbb(own.engine_);
    own.engine_->RunnerLoop();
  }

 private:
  Runner Copy() const {
    const HiddenFromTsan hidden;
    return *this;
  }

  ThreadedEngine* engine_;
};

std::string ThreadedEngine::DescribePlaces() const {
  std::string text;
  if (lent() > 0) {
    absl::StrAppend(&text, ", ", lent(),
                    " of them asleep or blocked with another one in their place");
  }
  if (blocked_ >= kMaxBlocked) absl::StrAppend(&text, " (others that block hold a worker)");
  return text;
}

int ThreadedEngine::WorkerIndex() const { return RunnerPlace::IndexIn(id()); }

/// Counts one place more as lent, with a runner if there is work. Returns false if too many are.
bool ThreadedEngine::BeginToLend(Lender lender, Start& start) {
  std::lock_guard<FutexLock> hold(queue_lock_);
  const bool waits = lender == Lender::kWait;
  int& count = waits ? asleep_ : blocked_;
  if (count >= (waits ? kMaxAsleep : kMaxBlocked)) return false;
  ++count;
  if (CountReady() > 0) start = OrderRunners(1);
  return true;
}

bool ThreadedEngine::LendPlace(Lender lender) {
  Start start;
  if (!BeginToLend(lender, start)) return false;
  if (lender == Lender::kBlocked) {
    StartRunners(start);
    return true;
  }
  if (start.count == 0 || workers_->spares.Start(1) == 1) return true;
  // The system gives no thread more: the caller has to do the work itself.
  GiveUpRunners(1);
  TakeBackPlace(lender);
  return false;
}

/// Counts up to that many runners more, for StartRunners. Requires queue_lock_.
ThreadedEngine::Start ThreadedEngine::OrderRunners(int64_t count) {
  const int free = std::max(0, FreePlaces());
  const Start start = {.count = static_cast<int>(std::clamp<int64_t>(count, 0, free)),
                       .spare = lent() > 0};
  if (start.count == 0) return start;  // most pushes: they leave cache lines to the runners
  runners_ += start.count;
  active_ += start.count;
  return start;
}

void ThreadedEngine::Dispatch(ReadyList& ready) {
  Start start;
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    int64_t count = 0;
    if (spinning_) {  // it will take one of these; whoever comes next must not count on it too
      spinning_ = false;
      --count;
    }
    while (!ready.empty()) {
      queue_.Push(ready.PopFront());
      ++count;
    }
    start = OrderRunners(std::min(count, CountForRunners()));
  }
  StartRunners(start);
  NotifyHelpers();
}

/// What the runners are for is in the queue already: where the system has no thread of the engine's
/// own for one, the others do the work. From TBB's arena all of them come.
void ThreadedEngine::StartRunners(const Start& start) noexcept {
  if (start.count == 0) return;
  if (start.spare) {
    const int missing = start.count - workers_->spares.Start(start.count);
    if (missing > 0) GiveUpRunners(missing);
    return;
  }
  const HiddenFromTsan hidden;
  for (int i = 0; i < start.count; ++i) workers_->arena.enqueue(Runner(this));
}

/// So many that were ordered do not come.
void ThreadedEngine::GiveUpRunners(int count) {
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    runners_ -= count;
  }
  for (int i = 0; i < count; ++i) Deactivate();
}

void ThreadedEngine::RunnerLoop() {
  // Of the two places of an arena for one thread TBB uses either.
  const int index = std::min(tbb::this_task_arena::current_thread_index(), options().workers - 1);
  const RunnerPlace place(id(), index);
  const ThreadFrame frame(this, id(), /*execution=*/nullptr);  // for destructors that wait
  while (Execution* const execution = NextOrRetire()) RunInTurn(execution);
  Deactivate();
}

/// The same in a thread of the engine's own.
void ThreadedEngine::SpareLoop() {
  const ThreadFrame frame(this, id(), /*execution=*/nullptr);
  while (Execution* const execution = NextOrRetire()) RunInTurn(execution);
  Deactivate();
}

/// Runs an execution and then, one by one, what that makes ready.
void ThreadedEngine::RunInTurn(Execution* execution) {
  for (int direct_runs = 0; execution != nullptr; ++direct_runs) {
    execution = RunAndPickNext(execution, direct_runs);
  }
}

/// The next one from the queue, after a short look-out for one. Returns null if this runner must
/// end; it does not count in runners_ any more.
Execution* ThreadedEngine::NextOrRetire() {
  std::unique_lock<FutexLock> hold(queue_lock_);
  for (bool looked_out = false;; looked_out = true) {
    // One more than may be, where somebody has come back from a wait: those that stay do the work.
    const bool leave = HoldsRunners() || FreePlaces() < 0;
    if (Execution* const next = leave ? nullptr : PopReady()) return next;
    if (leave || looked_out || spinning_) {
      --runners_;
      return nullptr;
    }
    // One runner at a time: more would only take time from those who push.
    spinning_ = true;
    hold.unlock();
    const auto idle = [this] { return queue_.best_rank() == ReadyQueue::kEmptyRank; };
    for (int looks = 0; looks < kIdleLooks && idle(); ++looks) SpinPause();
    hold.lock();
    spinning_ = false;
  }
}

/// Runs an execution. Of those that it makes ready the best is returned, for this thread to run
/// while what they share is in its cache; the others go to the queue.
Execution* ThreadedEngine::RunAndPickNext(Execution* execution, int direct_runs) {
  ReadyList ready;
  Run(execution, ready);
  Execution* next = nullptr;
  if (direct_runs < kMaxDirectRuns && !stopped_.load(std::memory_order_relaxed)) {
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
