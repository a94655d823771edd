// How threads wait for a DependencyEngine.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <limits>
#include <list>
#include <new>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/engine/core/dependency_engine.h"
#include "tessera/engine/observe/stall_clock.h"
#include "tessera/engine/workers/thread_frame.h"
#include "tessera/engine/workers/waiter.h"

namespace tessera::engine_internal {
namespace {

// How long a wait spins before it sleeps: about what a sleep and a wake-up cost.
constexpr auto kSpinTime = std::chrono::microseconds(20);
// How many operations that a wait does not need a thread runs on top of each other.
constexpr int kMaxHelpDepth = 64;
// How many operations that a wait needs, and wait themselves, a thread runs on top of each other.
// Beyond that another thread does, on a stack of its own.
constexpr int kMaxDemandedDepth = 100;
// How many queue entries a wait looks at to find what it needs: while the engine runs it only
// brings that forward.
constexpr int64_t kMaxDemandVisits = 16384;
constexpr std::string_view kWaitInside = "a wait inside an operation";
thread_local int help_depth = 0;
thread_local int demanded_depth = 0;

/// While it lives, one more of a kind lies on this thread's stack.
class DepthScope {
 public:
  explicit DepthScope(int& depth) : depth_(depth) { ++depth_; }
  ~DepthScope() { --depth_; }
  DepthScope(const DepthScope&) = delete;
  DepthScope& operator=(const DepthScope&) = delete;

 private:
  int& depth_;
};

uint32_t NextToken() {
  static std::atomic<uint32_t> last{0};
  uint32_t token;
  // Relaxed: nothing but the number.
  while ((token = last.fetch_add(1, std::memory_order_relaxed)) == 0) {
  }
  return token;
}

}  // namespace

/// Sleeps on the condition until done() holds, and writes the wait's report if that takes too long.
/// `waiter` may be null.
void DependencyEngine::WaitOn(std::condition_variable& condition,
                              std::unique_lock<std::mutex>& lock, std::string_view what,
                              Waiter* waiter, StallClock& clock, absl::FunctionRef<bool()> done) {
  while (clock.pending()) {
    if (condition.wait_until(lock, clock.due(), done)) return;
    lock.unlock();  // DebugString takes its time, and those who could wake us need the mutex
    if (clock.TakeDue()) ReportStall(what, waiter);
    lock.lock();
  }
  condition.wait(lock, done);
}

void DependencyEngine::WaitOn(std::condition_variable& condition,
                              std::unique_lock<std::mutex>& lock, std::string_view what,
                              absl::FunctionRef<bool()> done) {
  StallClock clock(options_.stall_report_ms);
  WaitOn(condition, lock, what, /*waiter=*/nullptr, clock, done);
}

void DependencyEngine::WaitForVar(Variable* variable) {
  CheckNotForked("WaitForVar");
  CheckNotRecording("WaitForVar");
  DependencyVariable* checked = Checked(variable, "WaitForVar");
  Waiter waiter;
  waiter.owner = ThreadFrame::Current(id_);
  waiter.inside = ThreadFrame::HasFrame(id_);
  if (AcquireWait(waiter, *checked)) {
    if (waiter.inside) waiter.token = NextToken();
    AwaitTurn(waiter);
  }
  if (waiter.fence != nullptr) AwaitFence(*waiter.fence, waiter.inside);
  Report(waiter.failure != nullptr || waiter.fence == nullptr ? waiter.failure
                                                              : waiter.fence->failure);
}

/// Waits for a device, which needs nobody here to get on.
void DependencyEngine::AwaitFence(Fence& fence, bool inside) {
  const auto done = [&] { return fence.done.load(); };
  if (inside) {
    if (!ParkUntil(done, nullptr)) throw Abandoned("WaitForVar");
    return;
  }
  std::unique_lock<std::mutex> lock(fence.mutex);
  WaitOn(fence.condition, lock, "WaitForVar", done);
}

void DependencyEngine::AwaitTurn(Waiter& waiter) {
  // From here on the queue points to the waiter, so no exception may leave before its turn.
  absl::Cleanup leave_queue = [&] {
    if (!LeaveQueue(waiter)) BlockOutside(waiter);
  };
  const DependencyVariable& variable = *waiter.inline_edges[0].variable();
  if (LeaveIfEndless(waiter)) {
    std::move(leave_queue).Cancel();
    throw FailedPrecondition(
        "Engine::WaitForVar: operation \"", waiter.owner->display_name(), "\" waits for ",
        variable.ToString(),
        ", but the pending write needs it, or an operation that is suspended beneath it, to "
        "complete first; expected a wait that can end");
  }
  // Inside an operation what the wait needs goes on.
  if (!waiter.inside && stopped_.load() && MustReturnAtExit() && LeaveQueue(waiter)) {
    std::move(leave_queue).Cancel();
    if (abandoned_.load()) throw Abandoned("WaitForVar");
    throw FailedPrecondition("Engine::WaitForVar: writes of ", variable.ToString(),
                             " pend and the engine is stopped; expected Start before the wait");
  }
  if (!waiter.inside) {
    std::move(leave_queue).Cancel();
    BlockOutside(waiter);
    return;
  }
  Demand(waiter, kMaxDemandVisits);
  if (!ParkUntil([&] { return waiter.done.load(); }, &waiter)) throw Abandoned("WaitForVar");
  std::move(leave_queue).Cancel();
  std::lock_guard<std::mutex> wake_is_over(waiter.mutex);
}

/// Has what the wait needs run before all else, as far as that is found within so many visits.
void DependencyEngine::Demand(Waiter& waiter, int64_t max_visits) {
  DemandWhatBlocks(waiter, max_visits, [this](Execution* execution) {
    std::lock_guard<FutexLock> hold(queue_lock_);
    queue_.Promote(execution);
  });
}

/// Takes the wait out of its queue. Returns false if its turn has come already.
bool DependencyEngine::LeaveQueue(Waiter& waiter) {
  std::lock_guard<std::mutex> hold(wait_graph_mutex_);
  return CancelWait(waiter);
}

/// The same for a wait that never could end; returns false for any other. Of several operations
/// that wait for each other one leaves, and the others go on when it has failed.
bool DependencyEngine::LeaveIfEndless(Waiter& waiter) {
  if (waiter.owner == nullptr) return false;
  std::lock_guard<std::mutex> hold(wait_graph_mutex_);
  return NeedsItsOwner(waiter) && CancelWait(waiter);
}

/// Sleeps until the wait's turn has come.
void DependencyEngine::BlockOutside(Waiter& waiter) {
  const auto spin_end = std::chrono::steady_clock::now() + kSpinTime;
  while (!waiter.done.load(std::memory_order_relaxed) &&
         std::chrono::steady_clock::now() < spin_end) {
    SpinPause();
  }
  if (waiter.done.load()) {
    std::lock_guard<std::mutex> wake_is_over(waiter.mutex);
    return;
  }
  std::unique_lock<std::mutex> lock(waiter.mutex);
  StallClock clock(options_.stall_report_ms);
  WaitOn(waiter.condition, lock, "WaitForVar", &waiter, clock, [&] { return waiter.done.load(); });
}

/// What a wait throws when the process ends before it could.
Error DependencyEngine::Abandoned(std::string_view call) const {
  return FailedPrecondition("Engine::", call,
                            ": the process ends while what this waits for pends; expected exit() "
                            "after all waits");
}

/// Whether a wait from outside may not just sleep on while the engine is stopped. At the end of the
/// process one may in any other thread than the one that ends it, where an exception would turn the
/// end into a crash.
bool DependencyEngine::MustReturnAtExit() const {
  return !abandoned_.load() || std::this_thread::get_id() == ending_thread_;
}

/// Waits inside the engine, for `waiter` or, where that is null, for a device. The thread runs what
/// the wait needs; where nothing of that is ready, it sleeps and lends its place to another thread.
/// So no operation lies on top of another one that does not need it. Only where too many sleep
/// already it runs whatever is ready, up to a depth. Returns false if the process ends before
/// done() holds.
bool DependencyEngine::ParkUntil(absl::FunctionRef<bool()> done, Waiter* waiter) {
  // A wait for a device needs no operation.
  const auto pop_needed = [&] {
    return waiter == nullptr ? nullptr : queue_.PopDemanded(waiter->token);
  };
  const auto pop_any_demanded = [&] { return queue_.PopAnyDemanded(); };
  Execution* const current = ThreadFrame::Current(id_);
  // A function that may block has its place lent already.
  const ThreadFrame* const frame = ThreadFrame::InnermostOf(id_);
  const bool blocks = frame != nullptr && frame->blocks();
  if (!blocks) SuspendVisit(current);
  absl::Cleanup resume = [&] {
    if (!blocks) ResumeVisit(current);
  };
  bool lent = blocks, all_demanded = false;
  const auto take_back = [&] {
    if (!blocks && std::exchange(lent, false)) TakeBackPlace(Lender::kWait);
  };
  absl::Cleanup take_back_at_end = take_back;
  StallClock clock(options_.stall_report_ms);
  const auto spin_end = std::chrono::steady_clock::now() + kSpinTime;
  while (!done()) {
    if (abandoned_.load()) return false;
    // Where there is always something to run it never sleeps.
    if (clock.TakeDue()) ReportStall(kWaitInside, waiter);
    // Who works in a lent place takes what is needed first; while the engine is stopped nothing
    // else begins, so that all of it must be known.
    const bool stopped = stopped_.load();
    if (stopped && !all_demanded && waiter != nullptr) {
      take_back();  // it is lent anew for what is found
      Demand(*waiter, std::numeric_limits<int64_t>::max());
    }
    all_demanded |= stopped;  // marks stay, and what was pushed since comes after the wait
    if (!lent && demanded_depth < kMaxDemandedDepth) {
      const DepthScope scope(demanded_depth);
      if (TryRun(pop_needed)) continue;
    }
    const bool too_deep = help_depth >= kMaxHelpDepth;
    if (!lent) {
      if (std::chrono::steady_clock::now() < spin_end) {
        SpinPause();
        continue;
      }
      lent = LendPlace(Lender::kWait);
      if (!lent) {
        // Too deep for others, those go on that any wait needs.
        {
          const DepthScope scope(help_depth);
          if (too_deep ? TryRun(pop_any_demanded) : TryRunOne()) continue;
        }
        SleepUntilReady(clock, done, /*any=*/!too_deep, stopped);
        continue;
      }
    }
    Sleep(clock, done, waiter, stopped);
  }
  return true;
}

/// Sleeps until done() holds or the process ends, or the engine is no longer as `stopped` as that.
void DependencyEngine::Sleep(StallClock& clock, absl::FunctionRef<bool()> done, Waiter* waiter,
                             bool stopped) {
  // One for each sleeper: there may be a thousand, and most of what happens concerns one of them.
  std::condition_variable woken;
  std::list<std::condition_variable*> place = {&woken};
  std::unique_lock<std::mutex> lock(park_mutex_);
  // Announced before the look at what there is to do: pairs with NotifyParked, which is called
  // after there is something and looks for the announcement.
  parked_.fetch_add(1);
  sleepers_.splice(sleepers_.end(), place);
  const auto own_place = std::prev(sleepers_.end());
  if (waiter != nullptr) waiter->sleeping = &woken;
  WaitOn(woken, lock, kWaitInside, waiter, clock,
         [&] { return done() || abandoned_.load() || stopped_.load() != stopped; });
  if (waiter != nullptr) waiter->sleeping = nullptr;
  sleepers_.erase(own_place);
  parked_.fetch_sub(1);
}

/// Sleeps until done() holds, the process ends, or something is ready that may begin: `any`
/// operation, or one that a wait needs; or it is no longer as `stopped` as that.
void DependencyEngine::SleepUntilReady(StallClock& clock, absl::FunctionRef<bool()> done, bool any,
                                       bool stopped) {
  std::unique_lock<std::mutex> lock(park_mutex_);
  // As above, for NotifyHelpers too.
  parked_.fetch_add(1);
  parked_helpers_.fetch_add(1);
  WaitOn(*park_condition_, lock, kWaitInside,
         /*waiter=*/nullptr, clock, [&] {
           if (done() || abandoned_.load() || stopped_.load() != stopped) return true;
           std::lock_guard<FutexLock> hold(queue_lock_);
           return (any ? CountReady() : queue_.CountDemanded()) > 0;
         });
  parked_helpers_.fetch_sub(1);
  parked_.fetch_sub(1);
}

bool DependencyEngine::Idle() const {
  // In this order: if they are equal, nothing pended when the first was read, as operations are
  // counted as pushed before they are counted as complete.
  const uint64_t completed = completed_.load();
  return completed == pushed_.count();
}

/// Returns when nothing has pended at some moment since the call.
void DependencyEngine::WaitUntilIdle() {
  std::unique_lock<std::mutex> lock(idle_mutex_);
  idle_waiters_.fetch_add(1);
  // Not asked again afterwards: others may push once more by the time that this thread has woken.
  WaitOn(*idle_condition_, lock, "a wait for all operations", [&] { return Idle(); });
  idle_waiters_.fetch_sub(1);
}

void DependencyEngine::WaitForAll() {
  CheckNotForked("WaitForAll");
  CheckNotRecording("WaitForAll");
  CheckNotInOperation("WaitForAll");
  if (stopped_.load() && !Idle() && MustReturnAtExit()) {
    if (abandoned_.load()) throw Abandoned("WaitForAll");
    throw FailedPrecondition(
        "Engine::WaitForAll: operations pend and the engine is stopped; expected Start before the "
        "wait");
  }
  WaitUntilIdle();
  const FailureRef failure = failures_.ReportOldest(pushed_.count());
  failures_.Renew();
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
  if (!ClaimReport(*failure, pushed_.count())) return;
  failures_.Renew();
  Rethrow(*failure);
}

void DependencyEngine::ReportStall(std::string_view what, const Waiter* waiter) const noexcept {
  try {
    // The variable is the waiter's as long as this thread is in its wait.
    const std::string awaited =
        waiter == nullptr ? "" : DescribeAwaited(waiter->inline_edges[0].variable());
    options_.stall_report(absl::StrCat("tessera engine: ", std::string(what),
                                       " has lasted longer than ", options_.stall_report_ms,
                                       " ms\n", awaited, DebugString()));
  } catch (...) {
    // No memory for it, perhaps. The wait has to go on, for others have pointers to it.
  }
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
