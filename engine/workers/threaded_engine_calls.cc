// Execute, and how calls of it from outside come to a place.
#include <functional>
#include <mutex>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tbb/task_arena.h"
#include "tessera/engine/workers/arena_pool.h"
#include "tessera/engine/workers/lent_places.h"
#include "tessera/engine/workers/tbb_workers.h"
#include "tessera/engine/workers/thread_frame.h"
#include "tessera/engine/workers/threaded_engine.h"

namespace tessera::engine_internal {

void ThreadedEngine::Execute(const std::function<void()>& fn) {
  CheckExecute(fn);
  Execution* const current = ThreadFrame::Current(id());
  const std::function<void()> body = [&] {
    const ThreadFrame frame(this, id(), current);
    tbb::this_task_arena::isolate(fn);
  };
  const PlaceTakenBack place_taken_back(this);
  const bool has_frame = ThreadFrame::HasFrame(id());
  // It is in an arena of the engine's already.
  if (has_frame && ThreadFrame::Innermost()->engine() == this) return body();
  // A piece of an operation's loop stays one, for whose operation `fn` must not wait.
  if (!has_frame && ThreadFrame::IsWorker(id())) return tbb::this_task_arena::isolate(fn);
  // Where the system refuses threads TBB may wait for one that never comes.
  if (WithoutTbb() || !SystemGivesThreads()) return CallAlone(body);
  // It has its place, from where it has called another engine.
  if (has_frame) return CallInOwnArena(body);
  // Who works for another engine must not wait for a place here: what holds it may wait for that
  // other engine, which would have one thread less and not know.
  if (WorksForAny()) {
    CallLending([&] { CallInOwnArena(body); });
    return;
  }
  AwaitPlace();
  const absl::Cleanup leave = [this] { LeavePlace(); };
  CallInOwnArena(body);
}

/// In one that others may only come to for loops: in the workers' arena TBB might have a thread
/// that comes wait, where loops have just taken the last place, for whatever their pieces wait for.
/// They are marked: their pieces would otherwise wait for room, and for all operations, as threads
/// outside do.
void ThreadedEngine::CallInOwnArena(const std::function<void()>& body) {
  const ArenaPool::Lease lease(workers_->arenas);
  lease.arena().execute(body);
}

/// Returns when the calling thread has a place.
void ThreadedEngine::AwaitPlace() {
  WaitingCall call;
  WaitingCall* granted;
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    if (waiting_calls_ == 0 && FreePlaces() > 0) {
      ++guests_;
      return;
    }
    *calls_end_ = &call;
    calls_end_ = &call.next;
    ++waiting_calls_;
    calls_wait_.store(true, std::memory_order_relaxed);
    granted = GrantPlaces();
  }
  Wake(granted);
  SleepUntil(workers_->calls_mutex, call.woken, "Execute", [&] { return call.has_place; });
}

/// Gives places that are free to calls that wait, the first ones first. Returns these, as a list,
/// to be woken without the lock. Requires queue_lock_.
ThreadedEngine::WaitingCall* ThreadedEngine::GrantPlaces() {
  WaitingCall* const first = first_call_;
  WaitingCall** end = &first_call_;
  // Where one who sleeps could not lend its place it may wait for the very call.
  while (*end != nullptr && (FreePlaces() > 0 || too_many_asleep_)) {
    end = &(*end)->next;
    --waiting_calls_;
    ++guests_;
  }
  if (end == &first_call_) return nullptr;
  first_call_ = std::exchange(*end, nullptr);
  if (first_call_ == nullptr) {
    calls_end_ = &first_call_;
    calls_wait_.store(false, std::memory_order_relaxed);
  }
  return first;
}

/// Called without queue_lock_. With the mutex the calls stay until they are told.
void ThreadedEngine::Wake(WaitingCall* granted) {
  if (granted == nullptr) return;
  std::lock_guard<std::mutex> hold(workers_->calls_mutex);
  while (granted != nullptr) {
    WaitingCall* const call = std::exchange(granted, granted->next);
    call->has_place = true;
    call->woken.notify_one();
  }
}

/// Operations that are ready have the next turn.
void ThreadedEngine::LeavePlace() {
  if (forked()) return;  // `fn` has forked, and its child returns from it
  Start start;
  WaitingCall* granted;
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    --guests_;
    start = OrderRunners(CountForRunners());
    granted = GrantPlaces();
  }
  StartRunners(start);
  Wake(granted);
}

}  // namespace tessera::engine_internal
