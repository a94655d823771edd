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
#include "tessera/engine/workers/runner_orders.h"
#include "tessera/engine/workers/spare_threads.h"
#include "tessera/engine/workers/tbb_workers.h"

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
  Runner(ThreadedEngine* engine, RunnerOrders* orders) : engine_(engine), orders_(orders) {}
  void operator()() const {
    const Runner own = Copy();
    ReceiveThroughTbb(own.orders_);
    if (!own.orders_->Begin()) return;  // the engine may be gone
    ReceiveThroughTbb(own.engine_);
    own.engine_->RunnerLoop();
  }

 private:
  Runner Copy() const {
    const HiddenFromTsan hidden;
    return *this;
  }

  ThreadedEngine* engine_;
  RunnerOrders* orders_;
};

std::string ThreadedEngine::DescribePlaces() const {
  std::string text;
  if (lent() > 0) {
    absl::StrAppend(&text, ", ", lent(),
                    " of them asleep or blocked with another one in their place");
  }
  if (blocked_ >= max_blocked_ && no_more_blocked_) {
    absl::StrAppend(&text, " (the system has no threads for more: others hold a worker)");
  }
  return text;
}

int ThreadedEngine::WorkerIndex() const { return RunnerPlace::IndexIn(id()); }

/// Counts one place more as lent, with a runner if there is work. Returns false if too many are.
bool ThreadedEngine::BeginToLend(Lender lender, Start& start) {
  std::lock_guard<FutexLock> hold(queue_lock_);
  const bool waits = lender == Lender::kWait;
  int& count = waits ? asleep_ : blocked_;
  if (count >= (waits ? kMaxAsleep : max_blocked_)) return false;
  ++count;
  if (CountReady() > 0) start = OrderRunners(1);
  return true;
}

/// For one more that blocks than may: what it waits for may stand behind any number of them. Those
/// that TBB may start must be left over, since it ends the process where it is refused one.
bool ThreadedEngine::AllowMoreBlocked() {
  const bool given = SystemGivesMoreThreads(kMoreBlocked);
  std::lock_guard<FutexLock> hold(queue_lock_);
  no_more_blocked_ = !given;
  if (given && blocked_ >= max_blocked_) max_blocked_ = blocked_ + kMoreBlocked;
  return given;
}

bool ThreadedEngine::LendPlace(Lender lender) {
  Start start;
  while (!BeginToLend(lender, start)) {
    if (lender == Lender::kWait || !AllowMoreBlocked()) return false;
  }
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
                       .spare = lent() > 0 || BorrowedSleep::Any() || WithoutTbb()};
  if (start.count == 0) return start;  // most pushes: they leave cache lines to the runners
  runners_ += start.count;
  active_ += start.count;
  if (!start.spare) {
    orders_->Order(start.count);
    orders_placed_ += static_cast<uint64_t>(start.count);
  }
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

bool ThreadedEngine::Restart() {
  Start start;
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    start = OrderRunners(CountForRunners());
  }
  return StartRunners(start);
}

/// Returns false if some are missing. Does not throw: what the runners are for is in the queue
/// already. Where there is neither memory nor a thread those who sleep run it, or order runners
/// again, as does the next push.
bool ThreadedEngine::StartRunners(const Start& start) {
  if (start.count == 0) return true;
  return StartSpares(start.spare ? start.count : EnqueueRunners(start.count));
}

/// The same in threads of the engine's own.
bool ThreadedEngine::StartSpares(int count) {
  if (count == 0) return true;
  const int missing = count - workers_->spares.Start(count);
  if (missing == 0) return true;
  GiveUpRunners(missing);
  starved_.store(true);
  NotifyParked();
  WakeSleepers();
  return false;
}

/// So many that were ordered do not come.
void ThreadedEngine::GiveUpRunners(int count) {
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    runners_ -= count;
  }
  EndRunners(count);
}

/// They do not count in runners_ any more.
void ThreadedEngine::EndRunners(int count) {
  for (int i = 0; i < count; ++i) Deactivate();
}

/// Has TBB start them. Returns for how many others have to be found, those of earlier orders among
/// them: where there is no memory, or the system refuses TBB a thread.
int ThreadedEngine::EnqueueRunners(int count) {
  bool refused = !SystemGivesThreads();
  int left = count;
  try {
    const HiddenFromTsan hidden;
    for (; left > 0 && !refused; --left) {
      refused = arena_is_broken_.load(std::memory_order_relaxed);
      if (refused) break;
      workers_->arena.enqueue(Runner(this, orders_.get()));
    }
  } catch (const std::bad_alloc&) {
  } catch (const std::exception&) {
    // From the start of a thread, when the task is with TBB already; it may begin some day. Whoever
    // uses the arena once more may wait for ever, as of TBB 2021.8.
    --left;
    refused = true;
    arena_is_broken_.store(true, std::memory_order_relaxed);
  }
  int missing = left == 0 ? 0 : orders_->TakeBack(left);
  if (refused) {
    orders_->MarkRefused();
    missing += orders_->Withdraw();
  }
  return missing;
}

/// Whether TBB's threads find no place in the arena: for loops of operations have taken all of
/// them, and they come to the orders in the end.
bool ThreadedEngine::ArenaIsOccupied() { return workers_->observer.workers() >= options().workers; }

/// TBB does not tell if it has no thread for an order, because another user of it has been refused
/// one before.
void ThreadedEngine::LookAfterOrders() {
  const auto now = std::chrono::steady_clock::now();
  int withdrawn;
  bool needless;
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    needless = HoldsRunners();
    const int open = orders_->open();
    // Who is at work comes to the queue in the end.
    if (open == 0 || open != runners_ || ArenaIsOccupied()) {
      orders_seen_ = 0;
      return;
    }
    // Not the same orders, if there were others since.
    if (std::exchange(orders_seen_, orders_placed_) != orders_placed_) {
      orders_seen_at_ = now;
      return;
    }
    if (now - orders_seen_at_ < kFirstLookTime) return;  // another wait has looked
    withdrawn = orders_->Withdraw();
    orders_seen_ = 0;
    // At once: who begins to need runners from here on finds their places free.
    if (needless) runners_ -= withdrawn;
  }
  if (needless) {
    EndRunners(withdrawn);
  } else {
    StartSpares(withdrawn);
  }
}

void ThreadedEngine::CallSingleThreaded(const std::function<void()>& fn) {
  bool called = false;
  try {
    CallAlone([&] {
      called = true;
      fn();
    });
  } catch (const std::exception&) {  // no memory for the arena
    if (called) throw;
    fn();
  }
}

void ThreadedEngine::RunnerLoop() {
  // Of the two places of an arena for one thread TBB uses either.
  const int index = std::min(tbb::this_task_arena::current_thread_index(), options().workers - 1);
  const RunnerPlace place(id(), index);
  while (Execution* const execution = NextOrRetire()) RunInTurn(execution);
  Deactivate();
}

/// The same in a thread of the engine's own. A loop for which TBB is refused a thread fails, or the
/// process ends: so once TBB has been refused one, loops stay on this thread.
void ThreadedEngine::SpareLoop() {
  while (Execution* const execution = NextOrRetire()) {
    // Asked when the threads of another engine have come to those that TBB may start.
    if (WithoutTbb() || !SystemGivesThreadsAgain()) {
      CallSingleThreaded([&] { RunInTurn(execution); });
    } else {
      RunInTurn(execution);
    }
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
