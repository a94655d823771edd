#include "tessera/engine/workers/waits.h"

#include <chrono>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tessera/engine/workers/blocking_scope.h"
#include "tessera/engine/workers/compensating_threads.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {
namespace {

// A wait spins for about as long as a sleep and a wake-up take.
constexpr auto kSpinTime = std::chrono::microseconds(20);
// Priority inheritance stops after so many queue entries.
constexpr int64_t kMaxInheritanceVisits = 16384;

bool SpinUntil(absl::FunctionRef<bool()> done) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    SpinPause();
  }
  return true;
}

}  // namespace

/// A call of WaitForVar, on the caller's stack. `done` is set under the mutex that the waiter
/// sleeps with, and the waiter takes that mutex once more before it returns: it cannot vanish while
/// it is being woken.
struct Waits::Waiter final : WaitExecution {
  bool inside = false;  ///< an operation waits: it sleeps with inside_mutex_ in place of `mutex`
  std::atomic<bool> done{false};
  std::mutex mutex;
  std::condition_variable condition;
};

void Waits::WaitForVar(DependencyVariable& variable) {
  Waiter waiter;
  waiter.owner = ThreadFrame::Current(state_.id);
  waiter.inside = ThreadFrame::HasFrame(state_.id);
  if (AcquireWait(waiter, variable)) AwaitTurn(waiter);
  if (waiter.fence != nullptr) AwaitFence(*waiter.fence, waiter.inside);
  Report(waiter.failure != nullptr || waiter.fence == nullptr ? waiter.failure
                                                              : waiter.fence->failure);
}

void Waits::WaitForAll() {
  if (MayNotSleep() && !state_.progress.is_idle()) {
    throw BrokenOff(abandoned_.load() ? WaitEnd::kProcessEnds : WaitEnd::kStopped, "WaitForAll",
                    "operations");
  }
  state_.progress.AwaitIdle();
  const FailureRef failure = state_.failures.ReportOldest(state_.progress.pushes());
  if (failure != nullptr) Rethrow(*failure);
}

void Waits::Report(const FailureRef& failure) {
  if (failure == nullptr || failure->cleared.load(std::memory_order_relaxed)) return;
  if (!ClaimReport(*failure, state_.progress.pushes())) return;
  Rethrow(*failure);
}

/// Waits for a device.
void Waits::AwaitFence(Fence& fence, bool inside) {
  const auto done = [&] { return fence.done.load(); };
  if (inside) {
    const WaitEnd end = WaitInside(done, /*waiter=*/nullptr);
    if (end != WaitEnd::kDone) throw BrokenOff(end, "WaitForVar", "the device's work");
    return;
  }
  std::unique_lock<std::mutex> lock(fence.mutex);
  state_.stall.Sleep(fence.condition, lock, "WaitForVar", done);
}

/// Returns when the wait's turn has come. If it throws, the wait has left its queue.
void Waits::AwaitTurn(Waiter& waiter) {
  // The queue points to the waiter, so no exception may leave before its turn.
  absl::Cleanup leave_queue = [&] {
    if (!LeaveQueue(waiter)) BlockOutside(waiter);
  };
  const DependencyVariable& variable = *waiter.inline_edges[0].variable();
  if (LeaveIfDeadlocked(waiter)) {
    std::move(leave_queue).Cancel();
    throw FailedPrecondition(
        "Engine::WaitForVar: operation \"", waiter.owner->display_name(), "\" waits for ",
        variable.ToString(),
        ", but the pending write needs it, or an operation that is suspended beneath it, to "
        "complete first; expected a wait that can end");
  }
  WaitEnd end = WaitEnd::kDone;
  if (waiter.inside) {
    InheritPriority(waiter);
    end = WaitInside([&] { return waiter.done.load(); }, &waiter);
  } else if (MayNotSleep()) {
    end = abandoned_.load() ? WaitEnd::kProcessEnds : WaitEnd::kStopped;
  } else {
    BlockOutside(waiter);
  }
  if (end == WaitEnd::kDone) {
    std::move(leave_queue).Cancel();
  } else if (LeaveQueue(waiter)) {
    std::move(leave_queue).Cancel();
    throw BrokenOff(end, "WaitForVar", variable.ToString());
  }  // Else its turn has come meanwhile.
}

/// Priority inheritance: what the wait needs runs before all else.
void Waits::InheritPriority(Waiter& waiter) {
  engine_internal::InheritPriority(waiter, kMaxInheritanceVisits, [this](Execution* execution) {
    state_.scheduler->Promote(execution);
  });
  state_.scheduler->PromoteJoins();
}

/// Takes the wait out of its queue. Returns false if its turn has come already.
bool Waits::LeaveQueue(Waiter& waiter) {
  std::lock_guard<std::mutex> hold(graph_mutex_);
  return CancelWait(waiter);
}

/// Takes a wait that never could end out of its queue; returns false for any other. One of several
/// operations that wait for each other leaves, and the others go on when it has failed.
bool Waits::LeaveIfDeadlocked(Waiter& waiter) {
  if (waiter.owner == nullptr) return false;
  std::lock_guard<std::mutex> hold(graph_mutex_);
  return WouldDeadlock(waiter) && CancelWait(waiter);
}

/// Sleeps until the wait's turn has come.
void Waits::BlockOutside(Waiter& waiter) {
  const auto done = [&] { return waiter.done.load(); };
  std::mutex& mutex = waiter.inside ? inside_mutex_ : waiter.mutex;
  SpinUntil(done);
  std::unique_lock<std::mutex> lock(mutex);
  state_.stall.Sleep(waiter.condition, lock, "WaitForVar", done, waiter.inline_edges[0].variable());
}

Error Waits::BrokenOff(WaitEnd end, std::string_view call, std::string_view what) const {
  switch (end) {
    case WaitEnd::kStopped:
      return FailedPrecondition("Engine::", call, ": writes of ", what,
                                " pend and the engine is stopped; expected Start before the wait");
    case WaitEnd::kRefused:
      return ResourceExhausted("Engine::", call, ": an operation waits for ", what,
                               ", and there is no compensating thread for it; expected at most ",
                               CompensatingThreads::kMaxThreads,
                               " operations that wait at once, and a system that has threads for "
                               "them");
    default:
      return FailedPrecondition("Engine::", call, ": the process ends while ", what,
                                " pends; expected exit() after all waits");
  }
}

/// Waits inside an operation for `waiter` or, where that is null, for a device.
Waits::WaitEnd Waits::WaitInside(absl::FunctionRef<bool()> done, Waiter* waiter) {
  if (!state_.scheduler->is_naive() && SpinUntil(done)) {
    std::lock_guard<std::mutex> wake_is_over(inside_mutex_);
    return WaitEnd::kDone;
  }
  const BlockingScope scope(*state_.scheduler, state_.id);
  if (!scope.is_compensated() && !state_.scheduler->is_naive()) return WaitEnd::kRefused;
  WaitEnd end = WaitEnd::kDone;
  StallClock clock = state_.stall.NewClock();
  while (!SleepInside(done, clock, waiter, end)) state_.scheduler->RunOnTop();
  return end;
}

/// Sleeps until a wait inside an operation ends in one way or another, or until something is ready
/// that the thread runs on top: then it returns false.
bool Waits::SleepInside(absl::FunctionRef<bool()> done, StallClock& clock, Waiter* waiter,
                        WaitEnd& end) {
  std::condition_variable own;
  std::condition_variable& woken = waiter == nullptr ? own : waiter->condition;
  std::list<std::condition_variable*> place = {&woken};
  std::unique_lock<std::mutex> lock(inside_mutex_);
  // Announced before the look at what there is to do: pairs with NotifyInside, which is called
  // after there is something and looks for the announcement.
  waits_inside_.fetch_add(1);
  sleepers_.splice(sleepers_.end(), place);
  const auto own_place = std::prev(sleepers_.end());
  bool ends = false;
  state_.stall.Sleep(
      woken, lock, "a wait inside an operation",
      [&] {
        ends = true;
        if (done()) {
          end = WaitEnd::kDone;
        } else if (abandoned_.load()) {
          end = WaitEnd::kProcessEnds;
        } else if (waiter != nullptr && state_.scheduler->stopped() && !AwaitedWriteRuns(*waiter)) {
          end = WaitEnd::kStopped;
        } else {
          ends = false;
        }
        return ends || state_.scheduler->HasWorkOnTop();
      },
      clock, waiter == nullptr ? nullptr : waiter->inline_edges[0].variable());
  sleepers_.erase(own_place);
  waits_inside_.fetch_sub(1);
  return ends;
}

void Waits::NotifyInside() {
  if (waits_inside_.load() == 0) return;
  std::lock_guard<std::mutex> hold(inside_mutex_);
  for (std::condition_variable* sleeper : sleepers_) sleeper->notify_one();
}

/// Returns whether a wait from outside throws at once: while the engine is stopped, except at the
/// end of the process in threads that do not end it.
bool Waits::MayNotSleep() const {
  return state_.scheduler->stopped() && (!abandoned_.load() || ends_process());
}

void Waits::Finish(WaitExecution* wait, ReadyList& ready) {
  DependencyVariable& variable = *wait->inline_edges[0].variable();
  wait->failure = variable.failure;  // no lock: the granted read protects the mark
  if (state_.uses_devices.load(std::memory_order_relaxed)) {
    std::lock_guard<FutexLock> hold(variable.lock);
    wait->fence = LastIssuedWrite(variable);
  }
  Leftovers none;  // a read leaves what it finds
  Release(*wait, nullptr, ready, none);
  auto* waiter = static_cast<Waiter*>(wait);
  std::lock_guard<std::mutex> hold(waiter->inside ? inside_mutex_ : waiter->mutex);
  waiter->done.store(true);
  waiter->condition.notify_one();
}

void Waits::ReleaseVariables(Execution& execution, const FailureRef& failure, ReadyList& ready,
                             Leftovers& leftovers, const FenceRef& fence, BegunList& begun) {
  // Relaxed: a function that has just returned costs no more than this lock.
  if (execution.references.load(std::memory_order_relaxed) == 1) {
    Release(execution, failure, ready, leftovers, fence);
    return;
  }
  // The function may be about to wait, and WouldDeadlock be looking at those behind it.
  std::lock_guard<std::mutex> hold(graph_mutex_);
  Release(execution, failure, ready, leftovers, fence);
  if (execution.begun) return;
  // Its function may go on without variables. WouldDeadlock looks at its edges under the mutex.
  execution.SetEdgeCount(0);
  begun.Enter(execution);
}

void Waits::EndWithProcess() {
  ending_thread_ = std::this_thread::get_id();
  abandoned_.store(true);
  NotifyInside();
}

}  // namespace tessera::engine_internal
