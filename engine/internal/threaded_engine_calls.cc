// Execute, and how calls of it from outside find a thread.
#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tbb/task_arena.h"
#include "tessera/engine/internal/arena_pool.h"
#include "tessera/engine/internal/failure.h"
#include "tessera/engine/internal/tbb_workers.h"
#include "tessera/engine/internal/thread_frame.h"
#include "tessera/engine/internal/threaded_engine.h"

namespace tessera::engine_internal {
namespace {

/// What Execute gives to TBB, which has a worker call it if the arena has no place for more.
class Delegate {
 public:
  explicit Delegate(const std::function<void()>* body) : body_(body) {}
  void operator()() const {
    const std::function<void()>* const body = Body();
    ReceiveThroughTbb(body);
    const absl::Cleanup publish = [body] { PublishThroughTbb(body); };
    (*body)();
  }

 private:
  const std::function<void()>* Body() const {
    const HiddenFromTsan hidden;
    return body_;
  }

  const std::function<void()>* const body_;
};

}  // namespace

void ThreadedEngine::Execute(const std::function<void()>& fn) {
  CheckNotForked("Execute");
  Execution* const current = ThreadFrame::Current(id());
  const std::function<void()> body = [&] {
    const ThreadFrame frame(this, id(), current);
    tbb::this_task_arena::isolate(fn);
  };
  // It is in the arena already, or in one of its own.
  if (ThreadFrame::HasFrame(id())) return body();
  // A piece of an operation's loop stays one, for whose operation `fn` must not wait.
  if (ThreadFrame::IsWorker(id())) return tbb::this_task_arena::isolate(fn);
  // Where the system refuses threads TBB may wait for one that never comes.
  if (WithoutTbb() || !SystemGivesThreads()) return CallAlone(body);
  if (WorksForAny()) {
    // Who works for another engine must not sleep here while a worker calls `body`: that may wait
    // for the other engine, which has one thread less and does not know. And so may a piece of a
    // loop.
    CallLending([&] { CallInOwnArena(body); });
    return;
  }
  OutsideCall call(body);
  const auto caller = std::this_thread::get_id();
  const uint64_t arena = ThreadFrame::Arena();
  // Before others know of `call`, for it takes memory.
  const std::function<void()> mine = [&] {
    if (!BeginCall(call)) return;
    // The caller is from outside again, see CallInArena.
    const ArenaMark mark(std::this_thread::get_id() == caller ? arena : ThreadFrame::Arena());
    body();
  };
  switch (AwaitPlace(call)) {
    case Place::kInArena:
      CallInArena(call, mine);
      break;
    case Place::kNoThread:
      CallAlone(body);
      break;
    case Place::kTaken:
      AwaitEnd(call);
      break;
  }
}

/// Waits until the call has a place, or needs none.
ThreadedEngine::Place ThreadedEngine::AwaitPlace(OutsideCall& call) {
  Start start;
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    AddCall(call);
    if (ReservePlace(call)) return Place::kInArena;
    // Whoever comes to it, when those who have the places leave them, or in the place of one who
    // sleeps, perhaps until this very call has ended.
    start = OrderRunners(1);
  }
  StartRunners(start);
  SleepUntil(workers_->calls.mutex, workers_->calls.changed, "Execute", [&] {
    std::lock_guard<FutexLock> hold(queue_lock_);
    // Beyond that many nobody comes in the place of who sleeps.
    const bool no_thread = starved_.load() || asleep_ == kMaxAsleep;
    return call.ended || (!call.taken && (ReservePlace(call) || no_thread));
  });
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    if (!call.taken) {
      if (call.has_place) return Place::kInArena;
      RemoveCall(call);
      return Place::kNoThread;
    }
  }
  if (call.has_place) {  // and was taken all the same
    BeginCall(call);
    LeavePlace();
  }
  return Place::kTaken;
}

/// Whether the call has a place, or has got it here. Requires queue_lock_.
bool ThreadedEngine::ReservePlace(OutsideCall& call) {
  if (call.has_place) return true;
  // Those that are ordered have a place too. Threads that come to loops only the observer sees.
  if (runners_ + guests_ >= Places() || ArenaIsOccupied()) return false;
  call.has_place = true;
  ++guests_;
  entering_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void ThreadedEngine::LeavePlace() {
  bool others_wait;
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    --guests_;
    others_wait = !calls_.empty();
  }
  if (others_wait) workers_->calls.Notify();
}

/// For a call that has a place there. Only where threads have come to loops at this moment it is
/// none, and TBB keeps this thread until one of the workers has called `mine`: see MakeWay. All of
/// them may begin to wait for that before they get to it; then a spare thread takes the call.
void ThreadedEngine::CallInArena(OutsideCall& call, const std::function<void()>& mine) {
  const absl::Cleanup leave = [this] { LeavePlace(); };
  PublishThroughTbb(&mine);
  const absl::Cleanup receive = [&mine] { ReceiveThroughTbb(&mine); };  // on exceptions too
  try {
    const ArenaMark mark(id());  // TBB has a thread that it keeps run pieces of loops meanwhile
    workers_->arena.execute(Delegate(&mine));
  } catch (...) {
    // Where it comes from TBB nobody has called `mine`, and a spare thread must not begin now.
    if (BeginCall(call) || !IsTaken(call)) throw;
  }
  if (IsTaken(call)) AwaitEnd(call);
}

/// In one that others may only come to for loops. They are marked: their pieces would otherwise
/// wait for room, and for all operations, as threads outside do.
void ThreadedEngine::CallInOwnArena(const std::function<void()>& body) {
  const ArenaPool::Lease lease(workers_->arenas);
  lease.arena().execute(body);
}

/// In the call's place in the arena: whether nobody else has taken it.
bool ThreadedEngine::BeginCall(OutsideCall& call) {
  std::lock_guard<FutexLock> hold(queue_lock_);
  if (!std::exchange(call.begun, true)) entering_.fetch_sub(1, std::memory_order_relaxed);
  return RemoveCall(call);
}

bool ThreadedEngine::IsTaken(const OutsideCall& call) {
  std::lock_guard<FutexLock> hold(queue_lock_);
  return call.taken;
}

ThreadedEngine::OutsideCall* ThreadedEngine::TakeWaitingCall() {
  const auto found = std::find_if(calls_.begin(), calls_.end(), [this](const OutsideCall* call) {
    return !call->has_place || lent() > 0;
  });
  if (found == calls_.end()) return nullptr;
  OutsideCall* const call = *found;
  RemoveCall(*call);
  call->taken = true;
  return call;
}

/// Both require queue_lock_.
void ThreadedEngine::AddCall(OutsideCall& call) {
  calls_.push_back(&call);
  calls_wait_.store(true, std::memory_order_relaxed);
}

/// Returns false if it has been taken.
bool ThreadedEngine::RemoveCall(const OutsideCall& call) {
  const bool removed = std::erase(calls_, &call) != 0;
  calls_wait_.store(!calls_.empty(), std::memory_order_relaxed);
  return removed;
}

/// In a runner that has taken it. Like its caller, it does not count for Stop meanwhile.
void ThreadedEngine::RunCall(OutsideCall& call) {
  Deactivate();
  ExchangeLastFailure(std::nullopt);  // of what this thread has done before
  std::exception_ptr error;
  try {
    call.body();
  } catch (...) {
    error = std::current_exception();
  }
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    ++active_;  // before the caller goes on, who may end the engine
  }
  std::lock_guard<std::mutex> hold(workers_->calls.mutex);
  call.error = std::move(error);
  call.last_failure = ExchangeLastFailure(std::nullopt);
  call.ended = true;
  workers_->calls.changed.notify_all();
}

/// In the caller, when somebody else has taken it. Throws what the function threw there.
void ThreadedEngine::AwaitEnd(OutsideCall& call) {
  SleepUntil(workers_->calls.mutex, workers_->calls.changed, "Execute",
             [&call] { return call.ended; });
  if (call.last_failure.has_value()) ExchangeLastFailure(std::move(call.last_failure));
  if (call.error != nullptr) std::rethrow_exception(call.error);
}

void ThreadedEngine::OrderInStead() {
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    orders_->Order(1);
    ++orders_placed_;
  }
  StartSpares(EnqueueRunners(1));
}

}  // namespace tessera::engine_internal
