// How threads wait for a DependencyEngine.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tessera/base/error.h"
#include "tessera/engine/core/dependency_engine.h"
#include "tessera/engine/workers/blocking_scope.h"
#include "tessera/engine/workers/compensating_threads.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {
namespace {

// A wait spins for about as long as a sleep and a wake-up take.
constexpr auto kSpinTime = std::chrono::microseconds(20);
// Priority inheritance stops after so many queue entries.
constexpr int64_t kMaxDemandVisits = 16384;

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
struct DependencyEngine::Waiter final : WaitExecution {
  bool inside = false;  ///< an operation waits: it sleeps with inside_mutex_ in place of `mutex`
  std::atomic<bool> done{false};
  std::mutex mutex;
  std::condition_variable condition;
};

void DependencyEngine::WaitForVar(Variable* variable) {
  CheckNotForked("WaitForVar");
  CheckNotRecording("WaitForVar");
  DependencyVariable* checked = Checked(variable, "WaitForVar");
  Waiter waiter;
  waiter.owner = ThreadFrame::Current(id_);
  waiter.inside = ThreadFrame::HasFrame(id_);
  if (AcquireWait(waiter, *checked)) AwaitTurn(waiter);
  if (waiter.fence != nullptr) AwaitFence(*waiter.fence, waiter.inside);
  Report(waiter.failure != nullptr || waiter.fence == nullptr ? waiter.failure
                                                              : waiter.fence->failure);
}

/// Waits for a device.
void DependencyEngine::AwaitFence(Fence& fence, bool inside) {
  const auto done = [&] { return fence.done.load(); };
  if (inside) {
    const WaitEnd end = WaitInside(done, /*waiter=*/nullptr);
    if (end != WaitEnd::kDone) throw BrokenOff(end, "WaitForVar", "the device's work");
    return;
  }
  std::unique_lock<std::mutex> lock(fence.mutex);
  stall_.Sleep(fence.condition, lock, "WaitForVar", done);
}

/// Returns when the wait's turn has come. If it throws, the wait has left its queue.
void DependencyEngine::AwaitTurn(Waiter& waiter) {
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
    Demand(waiter);
    end = WaitInside([&] { return waiter.done.load(); }, &waiter);
  } else if (scheduler_->stopped() && MustReturnAtExit()) {
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
void DependencyEngine::Demand(Waiter& waiter) {
  DemandWhatBlocks(waiter, kMaxDemandVisits,
                   [this](Execution* execution) { scheduler_->Promote(execution); });
  scheduler_->PromoteJoins();
}

/// Takes the wait out of its queue. Returns false if its turn has come already.
bool DependencyEngine::LeaveQueue(Waiter& waiter) {
  std::lock_guard<std::mutex> hold(wait_graph_mutex_);
  return CancelWait(waiter);
}

/// Takes a wait that never could end out of its queue; returns false for any other. Of several
/// operations that wait for each other one leaves, and the others go on when it has failed.
bool DependencyEngine::LeaveIfDeadlocked(Waiter& waiter) {
  if (waiter.owner == nullptr) return false;
  std::lock_guard<std::mutex> hold(wait_graph_mutex_);
  return WouldDeadlock(waiter) && CancelWait(waiter);
}

/// Sleeps until the wait's turn has come.
void DependencyEngine::BlockOutside(Waiter& waiter) {
  const auto done = [&] { return waiter.done.load(); };
  std::mutex& mutex = waiter.inside ? inside_mutex_ : waiter.mutex;
  SpinUntil(done);
  std::unique_lock<std::mutex> lock(mutex);
  stall_.Sleep(waiter.condition, lock, "WaitForVar", done, waiter.inline_edges[0].variable());
}

Error DependencyEngine::BrokenOff(WaitEnd end, std::string_view call, std::string_view what) const {
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

/// Whether a wait from outside may not just sleep on while the engine is stopped. At the end of the
/// process one may in any other thread than the one that ends it, where an exception would turn the
/// end into a crash.
bool DependencyEngine::MustReturnAtExit() const {
  return !abandoned_.load() || std::this_thread::get_id() == ending_thread_;
}

/// Waits inside an operation for `waiter` or, where that is null, for a device.
DependencyEngine::WaitEnd DependencyEngine::WaitInside(absl::FunctionRef<bool()> done,
                                                       Waiter* waiter) {
  if (!scheduler_->runs_on_top() && SpinUntil(done)) {
    std::lock_guard<std::mutex> wake_is_over(inside_mutex_);
    return WaitEnd::kDone;
  }
  const BlockingScope scope(this);
  if (!scope.is_compensated() && !scheduler_->runs_on_top()) return WaitEnd::kRefused;
  WaitEnd end = WaitEnd::kDone;
  StallClock clock = stall_.NewClock();
  while (!SleepInside(done, clock, waiter, end)) scheduler_->RunOnTop();
  return end;
}

/// Sleeps until a wait inside an operation ends in one way or another, or until something is ready
/// that the thread runs on top: then it returns false.
bool DependencyEngine::SleepInside(absl::FunctionRef<bool()> done, StallClock& clock,
                                   Waiter* waiter, WaitEnd& end) {
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
  stall_.Sleep(
      woken, lock, "a wait inside an operation",
      [&] {
        ends = true;
        if (done()) {
          end = WaitEnd::kDone;
        } else if (abandoned_.load()) {
          end = WaitEnd::kProcessEnds;
        } else if (waiter != nullptr && scheduler_->stopped() && !AwaitedWriteRuns(*waiter)) {
          end = WaitEnd::kStopped;
        } else {
          ends = false;
        }
        return ends || scheduler_->HasWorkOnTop();
      },
      clock, waiter == nullptr ? nullptr : waiter->inline_edges[0].variable());
  sleepers_.erase(own_place);
  waits_inside_.fetch_sub(1);
  return ends;
}

void DependencyEngine::WaitForAll() {
  CheckNotForked("WaitForAll");
  CheckNotRecording("WaitForAll");
  CheckNotInOperation("WaitForAll");
  if (scheduler_->stopped() && !progress_.is_idle() && MustReturnAtExit()) {
    throw BrokenOff(abandoned_.load() ? WaitEnd::kProcessEnds : WaitEnd::kStopped, "WaitForAll",
                    "operations");
  }
  progress_.AwaitIdle();
  const FailureRef failure = failures_.ReportOldest(progress_.pushes());
  if (failure != nullptr) Rethrow(*failure);
}

void DependencyEngine::Throw(Variable* variable) {
  CheckNotForked("Throw");
  DependencyVariable* checked = Checked(variable, "Throw");
  CheckAlive(*checked, "Throw");
  FailureRef failure;
  {
    std::lock_guard<FutexLock> hold(checked->lock);
    failure = checked->failure;
    const FenceRef fence = LastIssuedWrite(*checked);
    if (failure == nullptr && fence != nullptr && fence->done.load()) failure = fence->failure;
  }
  Report(failure);
}

bool DependencyEngine::IsIdle(Variable* variable) {
  if (forked()) return false;
  DependencyVariable* checked = Checked(variable, "IsIdle");
  CheckAlive(*checked, "IsIdle");
  std::lock_guard<FutexLock> hold(checked->lock);
  return IsUnused(*checked);
}

void DependencyEngine::Report(const FailureRef& failure) {
  if (failure == nullptr || failure->cleared.load(std::memory_order_relaxed)) return;
  if (!ClaimReport(*failure, progress_.pushes())) return;
  Rethrow(*failure);
}

/// Finishes a wait whose turn has come.
void DependencyEngine::FinishWait(WaitExecution* wait, ReadyList& ready) {
  DependencyVariable& variable = *wait->inline_edges[0].variable();
  wait->failure = variable.failure;  // no lock: the granted read protects the mark
  if (uses_devices_.load(std::memory_order_relaxed)) {
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

void DependencyEngine::NotifyInside() {
  if (waits_inside_.load() == 0) return;
  std::lock_guard<std::mutex> hold(inside_mutex_);
  for (std::condition_variable* sleeper : sleepers_) sleeper->notify_one();
}

void DependencyEngine::CheckNotInOperation(std::string_view call) const {
  const Execution* current = ThreadFrame::Current(id_);
  if (current == nullptr && ThreadFrame::IsWorker(id_)) {
    throw FailedPrecondition("Engine::", call,
                             ": called inside a parallel loop on the engine's workers, for whose "
                             "operation it would wait; expected a call from outside");
  }
  if (current == nullptr) return;
  throw FailedPrecondition("Engine::", call, ": called inside operation \"",
                           current->display_name(),
                           "\", for whose end it would wait; expected a call from outside");
}

}  // namespace tessera::engine_internal
