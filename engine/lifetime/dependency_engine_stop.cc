// How a DependencyEngine stops and ends.

#include <mutex>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tessera/engine/core/dependency_engine.h"

namespace tessera::engine_internal {

void DependencyEngine::Stop() {
  CheckNotForked("Stop");
  CheckNotInOperation("Stop");
  HoldOperations(/*at_end=*/false);
}

/// Lets no operation begin. Returns when none runs, or when
/// somebody has called Start. From Shutdown on, does nothing but at the end of that or of the
/// process.
void DependencyEngine::HoldOperations(bool at_end) {
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    if (ending_ && !at_end) return;
    stopped_.store(true);
    ++stop_waiters_;
  }
  {
    // Pushers must not sleep until Start: what they push is kept.
    std::lock_guard<std::mutex> hold(idle_mutex_);
    room_condition_->notify_all();
  }
  NotifyInside();  // waits for what does not begin end with an error
  std::unique_lock<std::mutex> lock(park_mutex_);
  stall_.Sleep(*park_condition_, lock, "Stop", [&] {
    std::lock_guard<FutexLock> hold(queue_lock_);
    return active_ == 0 || !stopped_.load(std::memory_order_relaxed);
  });
  std::lock_guard<FutexLock> hold(queue_lock_);
  --stop_waiters_;
}

void DependencyEngine::Start() {
  CheckNotForked("Start");
  LetOperationsBegin();
}

void DependencyEngine::LetOperationsBegin() {
  ReadyList ready;
  {
    // Both, so that those who wait in Stop look again.
    std::lock_guard<std::mutex> hold_park(park_mutex_);
    std::lock_guard<FutexLock> hold(queue_lock_);
    // At the end of Shutdown and of the process the engine stays as it is.
    if (!accepting_.load() || abandoned_.load()) return;
    if (!stopped_.load(std::memory_order_relaxed)) return;
    stopped_.store(false);
    while (Execution* execution = queue_.Pop()) ready.PushBack(execution);
    if (stop_waiters_ > 0) park_condition_->notify_all();
  }
  if (!ready.empty()) Dispatch(ready);
  NotifyInside();
}

void DependencyEngine::Shutdown() {
  if (forked()) return;  // what was pushed is finished in the parent
  CheckNotInOperation("Shutdown");
  // A static object's destructor: what exit() has dropped never comes to an end.
  if (abandoned_.load() && std::this_thread::get_id() == ending_thread_) return;
  if (!BeginShutdown()) return;
  absl::Cleanup let_others = [this] { EndShutdown(/*shut_down=*/false); };
  {
    std::lock_guard<FutexLock> hold_queue(queue_lock_);
    ending_ = true;
  }
  LetOperationsBegin();
  WaitUntilIdle();  // operations may still push
  // Idle between two operations of a replay, a matter of instructions.
  while (PushesInOrder()) {
    std::this_thread::yield();
    WaitUntilIdle();
  }
  accepting_.store(false);
  do {
    WaitUntilIdle();  // what came in between
  } while (!pushed_.CloseAt(completed_.load()));
  HoldOperations(/*at_end=*/true);
  // Acquire: pairs with the release at the end of OnExecutionComplete, a matter of instructions.
  while (completing_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  DropJoins();
  std::move(let_others).Cancel();
  EndShutdown(/*shut_down=*/true);
}

/// Returns true when this thread is the one that is in Shutdown, and false when another one has
/// come to its end.
bool DependencyEngine::BeginShutdown() {
  std::unique_lock<std::mutex> lock(park_mutex_);
  stall_.Sleep(*park_condition_, lock, "Shutdown", [&] { return !shutting_down_; });
  shutting_down_ = !shut_down_;
  return shutting_down_;
}

void DependencyEngine::EndShutdown(bool shut_down) {
  // Under the mutex, for the next one may destroy the engine.
  std::lock_guard<std::mutex> hold(park_mutex_);
  shut_down_ = shut_down;
  shutting_down_ = false;
  park_condition_->notify_all();
}

void DependencyEngine::EndWithProcess() {
  CheckNotForked("Stop");
  CheckNotInOperation("Stop");
  ending_thread_ = std::this_thread::get_id();
  abandoned_.store(true);
  NotifyInside();
  HoldOperations(/*at_end=*/true);
}

/// What is left in the queue of an engine that takes no pushes and has done all: help that came too
/// late. Nothing else can be, whatever a program does: the counter of pushes was closed at the
/// number of operations that are complete, an operation or replay in the queue would not be, and
/// deletions and waits never stand there.
void DependencyEngine::DropJoins() {
  const auto next = [this] {
    std::lock_guard<FutexLock> hold(queue_lock_);
    return queue_.Pop();
  };
  // Each without the lock: it may be the last to hold its schedule, and a program's objects in it.
  while (Execution* join = next()) DropJoin(join);
}

}  // namespace tessera::engine_internal
