#include "tessera/engine/core/scheduler.h"

#include "absl/strings/str_cat.h"

namespace tessera::engine_internal {
namespace {

// A few names keep a report readable, however much is ready.
constexpr int kMaxListed = 8;

}  // namespace

void Scheduler::Promote(Execution* execution) {
  std::lock_guard<FutexLock> hold(lock_);
  queue_.Promote(execution);
}

void Scheduler::PromoteJoins() {
  std::lock_guard<FutexLock> hold(lock_);
  queue_.PromoteJoins();
}

void Scheduler::Activate() {
  std::lock_guard<FutexLock> hold(lock_);
  ++active_;
}

void Scheduler::Deactivate() {
  {
    std::lock_guard<FutexLock> hold(lock_);
    if (stop_waiters_ == 0 && !stopped_relaxed()) {
      --active_;
      return;
    }
  }
  // Someone waits in Stop or Shutdown: under its mutex, so that it cannot destroy the engine before
  // the notification is over.
  std::lock_guard<std::mutex> hold_quiet(quiet_mutex_);
  std::lock_guard<FutexLock> hold(lock_);
  if (--active_ == 0) quiet_->notify_all();
}

bool Scheduler::Stop(bool at_end) {
  std::lock_guard<FutexLock> hold(lock_);
  if (ending_ && !at_end) return false;
  ended_ |= at_end;
  stopped_.store(true);
  ++stop_waiters_;
  return true;
}

void Scheduler::AwaitStop() {
  std::unique_lock<std::mutex> quiet(quiet_mutex_);
  stall_.Sleep(*quiet_, quiet, "Stop", [&] {
    std::lock_guard<FutexLock> hold(lock_);
    return active_ == 0 || !stopped_relaxed();
  });
  std::lock_guard<FutexLock> hold(lock_);
  --stop_waiters_;
}

void Scheduler::Start() {
  ReadyList ready;
  {
    // Both, so that those who wait in AwaitStop look again.
    std::lock_guard<std::mutex> hold_quiet(quiet_mutex_);
    std::lock_guard<FutexLock> hold(lock_);
    if (ended_ || !stopped_relaxed()) return;
    stopped_.store(false);
    while (Execution* execution = queue_.Pop()) ready.PushBack(execution);
    if (stop_waiters_ > 0) quiet_->notify_all();
  }
  if (!ready.empty()) Dispatch(ready);
}

void Scheduler::BeginEnd() {
  std::lock_guard<FutexLock> hold(lock_);
  ending_ = true;
}

bool Scheduler::BeginPushes(bool in_operation) {
  std::lock_guard<FutexLock> hold(lock_);
  if (ending_ && !in_operation) return false;
  ++pushes_;
  return true;
}

void Scheduler::EndPushes() {
  std::lock_guard<FutexLock> hold(lock_);
  --pushes_;
}

bool Scheduler::HasPushes() {
  std::lock_guard<FutexLock> hold(lock_);
  return pushes_ > 0;
}

Execution* Scheduler::TakeLeft() {
  std::lock_guard<FutexLock> hold(lock_);
  return queue_.Pop();
}

std::string Scheduler::Describe(
    const std::function<std::string(const Execution&)>& describe) const {
  std::lock_guard<FutexLock> hold(lock_);
  int64_t ready = 0;
  std::string names;
  queue_.ForEach([&](const Execution& execution) {
    if (execution.kind == ExecutionKind::kJoin || ++ready > kMaxListed) return;
    absl::StrAppend(&names, names.empty() ? "" : ", ", describe(execution));
  });
  return absl::StrCat("  at work: ", active_, " thread(s) and issued operations", DescribeThreads(),
                      "; ready: ", ready, ready == 0 ? "" : ": ", names,
                      ready > kMaxListed ? ", …" : "", "\n");
}

}  // namespace tessera::engine_internal
