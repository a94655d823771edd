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
#include "tessera/engine/core/out_of_memory.h"
#include "tessera/engine/workers/compensating_threads.h"
#include "tessera/engine/workers/tbb_workers.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {
namespace {

/// The number of this thread among the workers of the engine that it works for; -1 if it is none.
thread_local int worker_index = -1;

}  // namespace

/// What goes through TBB to order a runner.
class ThreadedEngine::Runner {
 public:
  explicit Runner(ThreadedEngine* engine) : engine_(engine) {}
  void operator()() const {
    const Runner own = Copy();
    ReceiveThroughTbb(own.engine_);
    own.engine_->WorkerLoop();
  }

 private:
  Runner Copy() const {
    const HiddenFromTsan hidden;
    return *this;
  }

  ThreadedEngine* engine_;
};

std::string ThreadedEngine::DescribePlaces() const {
  if (blocked_ == 0) return {};
  return absl::StrCat(", ", blocked_, " of them asleep or blocked with another one in their place");
}

int ThreadedEngine::WorkerIndex() const { return worker_index; }

bool ThreadedEngine::BeginBlocking() {
  if (!workers_->compensating.Reserve()) return false;
  Start start;
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    ++blocked_;
    start = OrderRunners(std::min<int64_t>(CountReady(), 1));
  }
  StartRunners(start);
  return true;
}

void ThreadedEngine::EndBlocking() {
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    --blocked_;
  }
  workers_->compensating.Release();
}

/// Counts up to so many runners more, for StartRunners. Compensating threads come first, one for
/// each thread that blocks: so never more runners are in TBB's arena than it has places. Requires
/// queue_lock_.
ThreadedEngine::Start ThreadedEngine::OrderRunners(int64_t count) {
  const int ordered = static_cast<int>(std::clamp<int64_t>(count, 0, std::max(0, FreePlaces())));
  if (ordered == 0) return {};  // most pushes: they leave cache lines to the runners
  const int compensating = std::clamp(blocked_ - compensating_, 0, ordered);
  runners_ += ordered;
  active_ += ordered;
  compensating_ += compensating;
  return {.workers = ordered - compensating, .compensating = compensating};
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
    start = OrderRunners(std::min(count, CountReady()));
  }
  StartRunners(start);
}

void ThreadedEngine::StartRunners(const Start& start) noexcept {
  for (int i = 0; i < start.compensating; ++i) workers_->compensating.Start();
  if (start.workers == 0) return;
  const HiddenFromTsan hidden;
  OrTerminate([&] {
    for (int i = 0; i < start.workers; ++i) workers_->arena.enqueue(Runner(this));
  });
}

void ThreadedEngine::WorkerLoop() {
  // Of the two places of an arena for one thread TBB uses either.
  worker_index = std::min(tbb::this_task_arena::current_thread_index(), options().workers - 1);
  RunnerLoop(RunnerKind::kWorker);
  worker_index = -1;
}

void ThreadedEngine::RunnerLoop(RunnerKind kind) {
  {
    const ThreadFrame frame(this, id(), /*execution=*/nullptr);  // for destructors that wait
    while (Execution* const execution = NextOrRetire(kind)) RunInTurn(execution);
  }
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
Execution* ThreadedEngine::NextOrRetire(RunnerKind kind) {
  std::unique_lock<FutexLock> hold(queue_lock_);
  for (bool looked_out = false;; looked_out = true) {
    // One more than may be, where somebody has come back from a wait: those that stay do the work.
    const bool leave = FreePlaces() < 0;
    if (Execution* const next = leave ? nullptr : PopReady()) return next;
    if (leave || looked_out || spinning_) {
      --runners_;
      if (kind == RunnerKind::kCompensating) --compensating_;
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
