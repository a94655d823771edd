// How threads wait for a DependencyEngine, and how it stops and ends.

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/engine/internal/dependency_engine.h"
#include "tessera/engine/internal/thread_frame.h"
#include "tessera/engine/internal/waiter.h"

namespace tessera::engine_internal {
namespace {

// How long a wait spins before it sleeps: about what a sleep and a wake-up cost.
constexpr auto kSpinTime = std::chrono::microseconds(20);

}  // namespace

/// Sleeps on the condition until done() holds, and writes one report if that takes too long.
template <typename Done>
void DependencyEngine::WaitOn(std::condition_variable& condition,
                              std::unique_lock<std::mutex>& lock, std::string_view what,
                              Done done) const {
  if (options_.stall_report_ms > 0) {
    const auto limit = std::chrono::milliseconds(options_.stall_report_ms);
    if (condition.wait_for(lock, limit, done)) return;
    lock.unlock();  // DebugString takes its time, and those who could wake us need the mutex
    ReportStall(what);
    lock.lock();
  }
  condition.wait(lock, done);
}

void DependencyEngine::WaitForVar(Variable* variable) {
  CheckNotForked("WaitForVar");
  CheckNotRecording("WaitForVar");
  DependencyVariable* checked = Checked(variable, "WaitForVar");
  Waiter waiter;
  waiter.owner = ThreadFrame::Current(id_);
  waiter.inside = ThreadFrame::Inside(id_);
  if (AcquireWait(waiter, *checked)) AwaitTurn(waiter);
  if (waiter.fence != nullptr) AwaitFence(*waiter.fence, waiter.inside);
  Report(waiter.failure != nullptr || waiter.fence == nullptr ? waiter.failure
                                                              : waiter.fence->failure);
}

/// Waits for a device, which needs nobody here to get on.
void DependencyEngine::AwaitFence(Fence& fence, bool inside) {
  if (inside) {
    HelpUntil([&] { return fence.done.load(); });
    return;
  }
  std::unique_lock<std::mutex> lock(fence.mutex);
  WaitOn(fence.condition, lock, "WaitForVar", [&] { return fence.done.load(); });
}

void DependencyEngine::AwaitTurn(Waiter& waiter) {
  // From here on the queue points to the waiter, so no exception may leave before its turn.
  const DependencyVariable& variable = *waiter.inline_edges[0].variable();
  if (waiter.owner != nullptr) {
    absl::Cleanup leave_queue = [&] {
      if (!CancelWait(waiter)) BlockOutside(waiter);
    };
    if (NeedsItsOwner(waiter)) {
      throw FailedPrecondition(
          "Engine::WaitForVar: operation \"", waiter.owner->display_name(), "\" waits for ",
          variable.ToString(),
          ", but the pending write needs it, or an operation that is suspended beneath it, to "
          "complete first; expected a wait that can end");
    }
    std::move(leave_queue).Cancel();
  }
  if (stopped_.load() && CancelWait(waiter)) {
    throw FailedPrecondition("Engine::WaitForVar: writes of ", variable.ToString(),
                             " pend and the engine is stopped; expected Start before the wait");
  }
  if (!waiter.inside) {
    BlockOutside(waiter);
    return;
  }
  DemandWhatBlocks(waiter, [this](Execution* execution) {
    std::lock_guard<FutexLock> hold(queue_lock_);
    queue_.Promote(execution);
  });
  HelpUntil([&] { return waiter.done.load(); });
  std::lock_guard<std::mutex> wake_is_over(waiter.mutex);
}

void DependencyEngine::BlockOutside(Waiter& waiter) {
  const auto spin_end = std::chrono::steady_clock::now() + kSpinTime;
  while (!waiter.done.load(std::memory_order_relaxed) &&
         std::chrono::steady_clock::now() < spin_end) {
    SpinPause();
  }
  std::unique_lock<std::mutex> lock(waiter.mutex);
  WaitOn(waiter.condition, lock, "WaitForVar", [&] { return waiter.done.load(); });
}

void DependencyEngine::HelpUntil(const std::function<bool()>& done) {
  const auto something_to_do = [&] {
    if (done()) return true;
    std::lock_guard<FutexLock> hold(queue_lock_);
    return !queue_.empty() && !stopped_.load(std::memory_order_relaxed);
  };
  Execution* const current = ThreadFrame::Current(id_);
  SuspendVisit(current);
  absl::Cleanup resume = [&] { ResumeVisit(current); };
  while (!done()) {
    if (TryRunOne()) continue;
    std::unique_lock<std::mutex> lock(park_mutex_);
    // Announced before the look at what there is to do: pairs with NotifyParked, which is called
    // after there is something and looks for the announcement.
    parked_.fetch_add(1);
    WaitOn(*park_condition_, lock, "a wait inside an operation", something_to_do);
    parked_.fetch_sub(1);
  }
}

bool DependencyEngine::Idle() const {
  // In this order: if they are equal, nothing pended when the first was read, as operations are
  // counted as pushed before they are counted as complete.
  const uint64_t completed = completed_.load();
  return completed == pushed_.load();
}

void DependencyEngine::WaitUntilIdle() {
  if (ThreadFrame::Inside(id_)) {
    HelpUntil([this] { return Idle(); });
    return;
  }
  std::unique_lock<std::mutex> lock(idle_mutex_);
  idle_waiters_.fetch_add(1);
  WaitOn(*idle_condition_, lock, "a wait for all operations", [this] { return Idle(); });
  idle_waiters_.fetch_sub(1);
}

void DependencyEngine::WaitForAll() {
  CheckNotForked("WaitForAll");
  CheckNotRecording("WaitForAll");
  CheckNotInOperation("WaitForAll");
  if (stopped_.load() && !Idle()) {
    throw FailedPrecondition(
        "Engine::WaitForAll: operations pend and the engine is stopped; expected Start before the "
        "wait");
  }
  WaitUntilIdle();
  const FailureRef failure = failures_.ReportOldest(pushed_.load());
  if (failure != nullptr) Rethrow(*failure);
}

void DependencyEngine::Throw(Variable* variable) {
  CheckNotForked("Throw");
  DependencyVariable* checked = Checked(variable, "Throw");
  FailureRef failure;
  {
    std::lock_guard<FutexLock> hold(checked->lock);
    failure = checked->failure;
    const FenceRef fence = LastIssuedWrite(*checked);
    if (failure == nullptr && fence != nullptr && fence->done.load()) failure = fence->failure;
  }
  Report(failure);
}

void DependencyEngine::Report(const FailureRef& failure) {
  if (failure == nullptr || failure->cleared.load(std::memory_order_relaxed)) return;
  if (ClaimReport(*failure, pushed_.load())) Rethrow(*failure);
}

void DependencyEngine::Throttle(uint64_t pushed) {
  const auto limit = static_cast<uint64_t>(options_.max_pending);
  // The next look at completed_ is due when the limit could be reached again.
  const auto has_room = [&] {
    const uint64_t completed = completed_.load();
    throttle_at_.store(completed + limit, std::memory_order_relaxed);
    return pushed < completed + limit;
  };
  if (has_room()) return;
  if (ThreadFrame::Inside(id_)) {
    // What pends may need this very operation to end, so it must not wait: help once, if possible.
    // Not while helping already, or a family of pushing operations would pile up on one stack.
    static thread_local bool helping = false;
    if (helping) return;
    helping = true;
    absl::Cleanup stop_helping = [] { helping = false; };
    TryRunOne();
    return;
  }
  // Sleep until a quarter of the room is free, so that pushers wake seldom.
  const uint64_t target = pushed - limit + limit / 4;
  std::unique_lock<std::mutex> lock(idle_mutex_);
  WaitOn(*room_condition_, lock, "a push waits for room", [&] {
    // Announce, then look: pairs with CountComplete, which counts and then looks for the
    // announcement (both sequentially consistent), so one of the two sees the other.
    if (wake_throttled_at_.load() > target) wake_throttled_at_.store(target);
    return completed_.load() >= target || stopped_.load();
  });
  has_room();
}

void DependencyEngine::ReportStall(std::string_view what) const {
  options_.stall_report(absl::StrCat("tessera engine: ", std::string(what),
                                     " has lasted longer than ", options_.stall_report_ms, " ms\n",
                                     DebugString()));
}

void DependencyEngine::CheckNotInOperation(std::string_view call) const {
  const Execution* current = ThreadFrame::Current(id_);
  if (current == nullptr) return;
  throw FailedPrecondition("Engine::", call, ": called inside operation \"",
                           current->display_name(),
                           "\", for whose end it would wait; expected a call from outside");
}

void DependencyEngine::CheckOutside(std::string_view call) const {
  CheckNotInOperation(call);
  if (!ThreadFrame::Inside(id_)) return;
  throw FailedPrecondition("Engine::", call,
                           ": called inside Execute or a parallel loop on the engine's workers, "
                           "which it would wait for; expected a call from outside");
}

void DependencyEngine::Stop() {
  CheckNotForked("Stop");
  CheckOutside("Stop");
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    stopped_.store(true);
  }
  {
    // Pushers must not sleep until Start: what they push is kept.
    std::lock_guard<std::mutex> hold(idle_mutex_);
    room_condition_->notify_all();
  }
  std::unique_lock<std::mutex> lock(park_mutex_);
  WaitOn(*park_condition_, lock, "Stop", [this] {
    std::lock_guard<FutexLock> hold(queue_lock_);
    return active_ == 0;
  });
}

void DependencyEngine::Start() {
  CheckNotForked("Start");
  ReadyList ready;
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    if (!stopped_.load(std::memory_order_relaxed)) return;
    stopped_.store(false);
    while (Execution* execution = queue_.Pop()) ready.PushBack(execution);
  }
  if (!ready.empty()) Dispatch(ready);
  NotifyParked();
}

void DependencyEngine::Shutdown() {
  if (forked()) return;  // what was pushed is finished in the parent
  CheckOutside("Shutdown");
  std::lock_guard<std::mutex> hold(shutdown_mutex_);
  if (shut_down_) return;
  Start();
  WaitUntilIdle();  // operations may still push
  accepting_.store(false);
  WaitUntilIdle();  // what came in between
  Stop();
  // Acquire: pairs with the release at the end of OnExecutionComplete, a matter of instructions.
  while (completing_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  DropJoins();
  shut_down_ = true;
}

/// What is left in the queue of an engine with nothing to do: help that came too late.
void DependencyEngine::DropJoins() {
  std::vector<Execution*> left;
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    while (Execution* execution = queue_.Pop()) left.push_back(execution);
  }
  // A push that overlaps with Shutdown may have come after the last wait: it stays where it was.
  std::erase_if(left, [this](Execution* execution) {
    return execution->kind == ExecutionKind::kJoin && DropJoin(execution);
  });
  std::lock_guard<FutexLock> hold(queue_lock_);
  for (Execution* execution : left) queue_.Push(execution);
}

}  // namespace tessera::engine_internal
