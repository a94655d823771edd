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
#include "tessera/engine/lifetime/living_engines.h"
#include "tessera/engine/observe/stall_clock.h"
#include "tessera/engine/workers/lent_places.h"
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
// How long a wait of a thread that does not matter any more sleeps at the end of the process.
constexpr auto kEndOfProcess = std::chrono::seconds(10);
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
  waiter.inside = ThreadFrame::Inside(id_);
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
  bool reached;
  {
    LentPlaces lent(this, &fence.mutex, &fence.condition);
    std::unique_lock<std::mutex> lock(fence.mutex);
    WaitOn(fence.condition, lock, "WaitForVar", [&] { return done() || lent.process_ends(); });
    reached = done();
  }
  if (!reached) throw Abandoned("WaitForVar");
}

void DependencyEngine::AwaitTurn(Waiter& waiter) {
  // From here on the queue points to the waiter, so no exception may leave before its turn.
  absl::Cleanup leave_queue = [&] {
    if (!LeaveQueue(waiter)) BlockOutside(waiter, /*until_process_ends=*/false);
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
  if (!waiter.inside && stopped_.load() && LeaveQueue(waiter)) {
    std::move(leave_queue).Cancel();
    if (abandoned_.load()) throw Abandoned("WaitForVar");
    throw FailedPrecondition("Engine::WaitForVar: writes of ", variable.ToString(),
                             " pend and the engine is stopped; expected Start before the wait");
  }
  if (!waiter.inside) {
    std::move(leave_queue).Cancel();
    if (BlockOutside(waiter, /*until_process_ends=*/true)) return;
    if (LeaveQueue(waiter)) throw Abandoned("WaitForVar");
    BlockOutside(waiter, /*until_process_ends=*/false);
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

/// Sleeps until the wait's turn has come, or in an operation of an engine that ends with the
/// process until then, if so asked. Returns whether its turn has come.
bool DependencyEngine::BlockOutside(Waiter& waiter, bool until_process_ends) {
  const auto spin_end = std::chrono::steady_clock::now() + kSpinTime;
  while (!waiter.done.load(std::memory_order_relaxed) &&
         std::chrono::steady_clock::now() < spin_end) {
    SpinPause();
  }
  if (waiter.done.load()) {
    std::lock_guard<std::mutex> wake_is_over(waiter.mutex);
    return true;
  }
  LentPlaces lent(this, &waiter.mutex, &waiter.condition);
  std::unique_lock<std::mutex> lock(waiter.mutex);
  StallClock clock(options_.stall_report_ms);
  WaitOn(waiter.condition, lock, "WaitForVar", &waiter, clock,
         [&] { return waiter.done.load() || (until_process_ends && lent.process_ends()); });
  return waiter.done.load();
}

/// What a wait throws when the process ends before it could. In a thread that has nothing to do
/// with that end the error would turn it into a crash: there the process ends during the sleep,
/// unless it waits for this very thread.
Error DependencyEngine::Abandoned(std::string_view call) const {
  const bool bystander = !InAnyOperation() && std::this_thread::get_id() != ending_thread_;
  if (bystander) std::this_thread::sleep_for(kEndOfProcess);
  return FailedPrecondition("Engine::", call,
                            ": the process ends while what this waits for pends; expected exit() "
                            "after all waits");
}

/// Whether this thread is at a piece of an operation's loop, of whatever engine: a worker without a
/// frame is, unless its engine is gone.
bool DependencyEngine::AtPiece() {
  const uint64_t id = ThreadFrame::Arena();
  return id != 0 && !ThreadFrame::HasFrame(id) && LivingEngine::Find(id, [](DependencyEngine&) {});
}

/// Whether this thread is in an operation of any engine, or at a piece of its loop.
bool DependencyEngine::InAnyOperation() { return ThreadFrame::InOperation() || AtPiece(); }

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
  const PlaceTakenBack place_taken_back(this);
  Execution* const current = ThreadFrame::Current(id_);
  SuspendVisit(current);
  absl::Cleanup resume = [&] { ResumeVisit(current); };
  bool lent = false, all_demanded = false;
  const auto take_back = [&] {
    if (std::exchange(lent, false)) TakeBackPlace(Lender::kWait);
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
        if (SleepUntilReady(clock, done, /*any=*/!too_deep, stopped) && !done()) return false;
        continue;
      }
    }
    if (Sleep(clock, done, waiter, stopped) && !done()) return false;
  }
  return true;
}

/// Sleeps until done() holds or the process ends; also when the engine is not `stopped`, or not any
/// more. Returns whether the process ends for another engine that this thread works for.
bool DependencyEngine::Sleep(StallClock& clock, absl::FunctionRef<bool()> done, Waiter* waiter,
                             bool stopped) {
  // One for each sleeper: there may be a thousand, and most of what happens concerns one of them.
  std::condition_variable woken;
  LentPlaces lent(this, &park_mutex_, &woken);
  std::list<std::condition_variable*> place = {&woken};
  std::unique_lock<std::mutex> lock(park_mutex_);
  // Announced before the look at what there is to do: pairs with NotifyParked, which is called
  // after there is something and looks for the announcement.
  parked_.fetch_add(1);
  sleepers_.splice(sleepers_.end(), place);
  const auto own_place = std::prev(sleepers_.end());
  if (waiter != nullptr) waiter->sleeping = &woken;
  WaitOn(woken, lock, kWaitInside, waiter, clock, [&] {
    return done() || abandoned_.load() || stopped_.load() != stopped || lent.process_ends();
  });
  if (waiter != nullptr) waiter->sleeping = nullptr;
  sleepers_.erase(own_place);
  parked_.fetch_sub(1);
  return lent.process_ends();
}

/// Sleeps until done() holds, the process ends, or something is ready that may begin: `any`
/// operation, or one that a wait needs; or it is no longer as `stopped` as that. Returns what Sleep
/// does.
bool DependencyEngine::SleepUntilReady(StallClock& clock, absl::FunctionRef<bool()> done, bool any,
                                       bool stopped) {
  LentPlaces lent(this, &park_mutex_, &*park_condition_);
  std::unique_lock<std::mutex> lock(park_mutex_);
  // As above, for NotifyHelpers too.
  parked_.fetch_add(1);
  parked_helpers_.fetch_add(1);
  WaitOn(*park_condition_, lock, kWaitInside,
         /*waiter=*/nullptr, clock, [&] {
           if (done() || abandoned_.load() || lent.process_ends()) return true;
           if (stopped_.load() != stopped) return true;
           std::lock_guard<FutexLock> hold(queue_lock_);
           return (any ? CountReady() : queue_.CountDemanded()) > 0;
         });
  parked_helpers_.fetch_sub(1);
  parked_.fetch_sub(1);
  return lent.process_ends();
}

bool DependencyEngine::Idle() const {
  // In this order: if they are equal, nothing pended when the first was read, as operations are
  // counted as pushed before they are counted as complete.
  const uint64_t completed = completed_.load();
  return completed == pushed_.count();
}

/// Returns whether nothing pended at some moment since the call; false if the process ends before,
/// which a thread outside the engine hears of only if it asks to.
bool DependencyEngine::WaitUntilIdle(bool until_process_ends) {
  LentPlaces lent(this, &idle_mutex_, &*idle_condition_);
  std::unique_lock<std::mutex> lock(idle_mutex_);
  idle_waiters_.fetch_add(1);
  bool idle = false;  // others may push once more by the time that this thread has woken
  WaitOn(*idle_condition_, lock, "a wait for all operations", [&] {
    idle = Idle();
    return idle || (until_process_ends && lent.process_ends());
  });
  idle_waiters_.fetch_sub(1);
  return idle;
}

void DependencyEngine::WaitForAll() {
  CheckNotForked("WaitForAll");
  CheckNotRecording("WaitForAll");
  CheckNotInOperation("WaitForAll");
  if (stopped_.load() && !Idle()) {
    if (abandoned_.load()) throw Abandoned("WaitForAll");
    throw FailedPrecondition(
        "Engine::WaitForAll: operations pend and the engine is stopped; expected Start before the "
        "wait");
  }
  if (!WaitUntilIdle(/*until_process_ends=*/true)) throw Abandoned("WaitForAll");
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
  if (ThreadFrame::IsWorker(id_) && !ThreadFrame::HasFrame(id_)) {
    throw FailedPrecondition("Engine::", call,
                             ": called inside a parallel loop on the engine's workers, for whose "
                             "operation it would wait; expected a call from outside");
  }
  const Execution* current = ThreadFrame::Current(id_);
  if (current == nullptr) return;
  throw FailedPrecondition("Engine::", call, ": called inside operation \"",
                           current->display_name(),
                           "\", for whose end it would wait; expected a call from outside");
}

}  // namespace tessera::engine_internal
