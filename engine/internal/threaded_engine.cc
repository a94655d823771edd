#include "tessera/engine/internal/threaded_engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tbb/task_arena.h"
#include "tessera/base/error.h"
#include "tessera/engine/internal/arena_pool.h"
#include "tessera/engine/internal/process_life.h"
#include "tessera/engine/internal/runner_orders.h"
#include "tessera/engine/internal/spare_threads.h"
#include "tessera/engine/internal/tbb_workers.h"
#include "tessera/engine/internal/thread_frame.h"

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

/// In an arena for this thread alone, in which loops ask for no other.
void CallAlone(const std::function<void()>& fn) {
  tbb::task_arena(1, /*reserved_for_masters=*/1).execute(fn);
}

// What is ready stands in our own queue; a TBB task (a "runner") is only the order to work on that
// queue, at most one for each worker. Priorities and first-come order are thus ours, and no data
// goes through TBB except the engine's address. Enqueued tasks are taken by TBB's threads between
// other work and never by a thread that waits inside a parallel loop. Where the system refuses TBB
// a thread the order is withdrawn, and goes to a thread of the engine's own if there is one later
// on; until then waits from outside run what is ready.
//
// While a thread sleeps in a wait inside an operation one runner more may work. It may find no
// thread and no place with TBB, which knows of no sleep, so it has a thread of the engine's own.
class ThreadedEngine final : public DependencyEngine {
 public:
  explicit ThreadedEngine(const ResolvedOptions& options)
      : DependencyEngine(options), workers_(fork_watch(), options.workers, this) {
    PublishThroughTbb(this);
    PublishThroughTbb(orders_.get());
  }

  ~ThreadedEngine() override { Shutdown(); }

  void Execute(const std::function<void()>& fn) override {
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
      case Place::kOwnArena:
        CallInOwnArena(body);
        break;
      case Place::kNoThread:
        CallAlone(body);
        break;
      case Place::kTaken:
        AwaitEnd(call);
        break;
    }
  }

  int num_workers() const override { return options().workers; }

 private:
  // After so many operations in a row that were made ready by the one before, a runner looks at the
  // queue again: a chain without end must not keep others from their turn.
  static constexpr int kMaxDirectRuns = 64;
  // How often an idle runner looks at the queue before it lets its thread go; about 5 us, less than
  // it takes to wake a thread.
  static constexpr int kIdleLooks = 100;

  // So many threads may sleep in waits inside operations with another one in their place. Beyond
  // that waits run other operations on top.
  static constexpr int kMaxAsleep = 1024;
  // So many may block before the system is asked whether it has threads for more, and for so many
  // more each time.
  static constexpr int kFirstMaxBlocked = 1024;
  static constexpr int kMoreBlocked = 256;

  bool LendPlace(Lender lender) override;
  bool Restart() override;
  void LookAfterOrders() override;
  void TakeBackPlace(Lender lender) override {
    std::lock_guard<FutexLock> hold(queue_lock_);
    --(lender == Lender::kWait ? asleep_ : blocked_);
  }

  std::string DescribePlaces() const override {
    std::string text;
    if (lent() > 0) {
      absl::StrAppend(&text, ", ", lent(),
                      " of them asleep or blocked with another one in their place");
    }
    if (blocked_ >= max_blocked_ && no_more_blocked_) {
      absl::StrAppend(&text, " (the system has no threads for more: others hold a worker)");
    }
    if (!calls_.empty()) {
      absl::StrAppend(&text, "; calls of Execute that wait for a place: ", calls_.size());
    }
    return text;
  }

  int WorkerIndex() const override { return RunnerPlace::IndexIn(id()); }
  void Dispatch(ReadyList& ready) override;
  void Call(const SyncFn& fn, const RunContext& context) override {
    tbb::this_task_arena::isolate([&] { fn(context); });
  }
  void Call(const AsyncFn& fn, const RunContext& context, OnComplete on_complete) override {
    tbb::this_task_arena::isolate([&] { fn(context, std::move(on_complete)); });
  }

  void CallIsolated(const std::function<void()>& fn) override { tbb::this_task_arena::isolate(fn); }
  void CallInstead(const std::function<void()>& fn) override;

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

  /// What goes through TBB to order a runner.
  class Runner {
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

  /// A call of Execute from outside. It waits until it has a place in the arena, where the calling
  /// thread then works, or a thread of the engine's takes it.
  struct OutsideCall {
    explicit OutsideCall(const std::function<void()>& function) : body(function) {}

    const std::function<void()>& body;
    // Guarded by queue_lock_.
    bool has_place = false;
    bool begun = false;  // in its place
    bool taken = false;
    // Guarded by the mutex of Calls.
    bool ended = false;        // if it was taken
    std::exception_ptr error;  // of such a one
  };

  /// What those who have a call wait for: a change of any.
  struct Calls {
    void Notify() {
      std::lock_guard<std::mutex> hold(mutex);
      changed.notify_all();
    }

    std::mutex mutex;
    std::condition_variable changed;
  };

  /// Where a call of Execute is to run its function.
  enum class Place {
    kInArena,
    kOwnArena,  // those who sleep hold places in the arena, and may wait for this very call
    kNoThread,  // in one for this thread alone
    kTaken,     // nowhere, for a thread of the engine's does
  };
  Place AwaitPlace(OutsideCall& call);
  bool ReservePlace(OutsideCall& call);
  void LeavePlace();
  void CallInArena(OutsideCall& call, const std::function<void()>& mine);
  void CallInOwnArena(const std::function<void()>& body);
  bool BeginCall(OutsideCall& call);
  bool IsTaken(const OutsideCall& call);
  OutsideCall* TakeCall();
  void RunCall(OutsideCall& call);
  void AwaitEnd(OutsideCall& call);
  bool MakeWay();

  /// What a runner does next: either of them.
  struct Work {
    Execution* execution = nullptr;
    OutsideCall* call = nullptr;
  };
  void RunnerLoop();
  void SpareLoop();
  bool NextOrRetire(Work& work);
  void Do(const Work& work);
  Execution* RunAndPickNext(Execution* execution, int direct_runs);
  /// How many threads may be in the arena. (For one worker TBB makes a second place, but has no
  /// thread for the worker while a call has that.)
  int Places() const { return options().workers; }
  /// How many runners may work, sleep or block. Requires queue_lock_.
  int MaxRunners() const { return options().workers + lent(); }
  /// So many runners that StartRunners is to find threads for.
  struct Start {
    int count = 0;
    bool spare = false;  // not from TBB
  };
  Start OrderRunners(int64_t count);
  /// Whether TBB has refused threads. Relaxed: whoever sees it late finds out for itself.
  bool WithoutTbb() const {
    return orders_->refused() || arena_is_broken_.load(std::memory_order_relaxed);
  }
  int lent() const { return asleep_ + blocked_; }
  bool BeginToLend(Lender lender, Start& start);
  bool AllowMoreBlocked();
  bool StartRunners(const Start& start);
  bool StartSpares(int count);
  void GiveUpRunners(int count);
  int EnqueueRunners(int count);
  bool ArenaIsOccupied();

  struct Workers {
    Workers(int count, ThreadedEngine* engine)
        : reservation(count),
          arena(count, /*reserved_for_masters=*/0),
          observer(Initialized(arena), engine->id(), ArenaThreads::kReserved),
          arenas(count, engine->id()),
          spares(arenas, engine->id(), [engine] { engine->SpareLoop(); }) {}

    WorkerReservation reservation;
    tbb::task_arena arena;
    ArenaObserver observer;
    ArenaPool arenas;
    SpareThreads spares;
    Calls calls;
  };

  const RunnerOrdersOwner orders_;
  std::atomic<bool> arena_is_broken_{false};
  DroppedAfterFork<Workers> workers_;
  int runners_ = 0;                     // ordered or at work; guarded by queue_lock_
  int asleep_ = 0;                      // whose places are lent; guarded by queue_lock_
  int blocked_ = 0;                     // the same of those that block; guarded by queue_lock_
  int max_blocked_ = kFirstMaxBlocked;  // guarded by queue_lock_
  bool no_more_blocked_ = false;  // the system had no threads for more; guarded by queue_lock_
  uint64_t orders_placed_ = 0;    // with TBB, so far; guarded by queue_lock_
  // How many were placed when a wait first saw that none of those left had begun, or 0, and when
  // that was; guarded by queue_lock_.
  uint64_t orders_seen_ = 0;
  std::chrono::steady_clock::time_point orders_seen_at_;
  std::vector<OutsideCall*> calls_;  // neither begun nor taken; guarded by queue_lock_
  int guests_ = 0;                   // calls that have a place; guarded by queue_lock_
  std::atomic<int> entering_{0};     // those of them that have not begun; written under queue_lock_
  bool spinning_ = false;            // a runner looks out for work; guarded by queue_lock_
};

/// Counts one place more as lent, with a runner for it if there is work. Returns false if too many
/// are.
bool ThreadedEngine::BeginToLend(Lender lender, Start& start) {
  std::lock_guard<FutexLock> hold(queue_lock_);
  const bool waits = lender == Lender::kWait;
  int& count = waits ? asleep_ : blocked_;
  if (count >= (waits ? kMaxAsleep : max_blocked_)) return false;
  ++count;
  const bool ready = !queue_.empty() && !stopped_.load(std::memory_order_relaxed);
  if (ready || !calls_.empty()) start = OrderRunners(1);
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
  const int free = std::max(0, MaxRunners() - runners_);
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
    int count = 0;
    if (spinning_) {  // it will take one of these; whoever comes next must not count on it too
      spinning_ = false;
      --count;
    }
    while (!ready.empty()) {
      queue_.Push(ready.PopFront());
      ++count;
    }
    if (!stopped_.load(std::memory_order_relaxed)) start = OrderRunners(count);
  }
  StartRunners(start);
  NotifyHelpers();
}

bool ThreadedEngine::Restart() {
  Start start;
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    const bool stopped = stopped_.load(std::memory_order_relaxed);
    start = OrderRunners((stopped ? 0 : queue_.size()) + static_cast<int64_t>(calls_.size()));
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

/// Whether TBB's threads find no place in the arena: for what Execute runs, or its loops, has taken
/// all of them, and they come to the orders in the end.
bool ThreadedEngine::ArenaIsOccupied() {
  const ArenaObserver& inside = workers_->observer;
  return inside.workers() + inside.guests() >= Places();
}

/// TBB does not tell if it has no thread for an order, because another user of it has been refused
/// one before.
void ThreadedEngine::LookAfterOrders() {
  const auto now = std::chrono::steady_clock::now();
  int withdrawn;
  bool needless;
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    needless = stopped_.load(std::memory_order_relaxed) && calls_.empty();
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
    if (now - orders_seen_at_ < kLookTime) return;  // another wait has looked
    withdrawn = orders_->Withdraw();
    orders_seen_ = 0;
  }
  if (needless) {
    GiveUpRunners(withdrawn);
  } else {
    StartSpares(withdrawn);
  }
}

void ThreadedEngine::CallInstead(const std::function<void()>& fn) {
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

/// Waits until the call has a place, or needs none.
ThreadedEngine::Place ThreadedEngine::AwaitPlace(OutsideCall& call) {
  Start start;
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    if (lent() > 0) return Place::kOwnArena;
    calls_.push_back(&call);
    if (ReservePlace(call)) return Place::kInArena;
    // Whoever comes to it, when those who have the places leave them.
    start = OrderRunners(1);
  }
  StartRunners(start);
  SleepUntil(workers_->calls.mutex, workers_->calls.changed, "Execute", [&] {
    std::lock_guard<FutexLock> hold(queue_lock_);
    return call.ended || (!call.taken && (ReservePlace(call) || starved_.load()));
  });
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    if (!call.taken) {
      if (call.has_place) return Place::kInArena;
      std::erase(calls_, &call);
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
  return std::erase(calls_, &call) != 0;
}

bool ThreadedEngine::IsTaken(const OutsideCall& call) {
  std::lock_guard<FutexLock> hold(queue_lock_);
  return call.taken;
}

/// A call that waits, for a runner to make; null if there is none. Requires queue_lock_.
ThreadedEngine::OutsideCall* ThreadedEngine::TakeCall() {
  const auto found = std::find_if(calls_.begin(), calls_.end(), [this](const OutsideCall* call) {
    return !call->has_place || lent() > 0;
  });
  if (found == calls_.end()) return nullptr;
  OutsideCall* const call = *found;
  calls_.erase(found);
  call->taken = true;
  return call;
}

/// In a runner that has taken it. Like its caller, it does not count for Stop meanwhile.
void ThreadedEngine::RunCall(OutsideCall& call) {
  Deactivate();
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
  call.ended = true;
  workers_->calls.changed.notify_all();
}

/// In the caller, when somebody else has taken it. Throws what the function threw there.
void ThreadedEngine::AwaitEnd(OutsideCall& call) {
  SleepUntil(workers_->calls.mutex, workers_->calls.changed, "Execute",
             [&call] { return call.ended; });
  if (call.error != nullptr) std::rethrow_exception(call.error);
}

/// Where TBB keeps a call that it has found no place for, it has one of its threads make it between
/// two tasks. So that there is an end of this one the runner has another one ordered in its stead,
/// and leaves. Returns whether it has to, without a look at the engine.
bool ThreadedEngine::MakeWay() {
  // Beside one worker there is a place in any case. Relaxed: whoever sees it late makes way one
  // turn later.
  if (options().workers == 1 || entering_.load(std::memory_order_relaxed) == 0) return false;
  {
    std::lock_guard<FutexLock> hold(queue_lock_);
    orders_->Order(1);
    ++orders_placed_;
  }
  StartSpares(EnqueueRunners(1));
  return true;
}

void ThreadedEngine::RunnerLoop() {
  // Of the two places of an arena for one thread TBB uses either.
  const int index = std::min(tbb::this_task_arena::current_thread_index(), options().workers - 1);
  const RunnerPlace place(id(), index);
  Work work;
  while (NextOrRetire(work)) {
    Do(work);
    if (MakeWay()) return;
  }
  Deactivate();
}

/// The same in a thread of the engine's own. A loop for which TBB is refused a thread fails, or the
/// process ends: so once TBB has been refused one, loops stay on this thread.
void ThreadedEngine::SpareLoop() {
  Work work;
  while (NextOrRetire(work)) {
    // Asked when the threads of another engine have come to those that TBB may start.
    if (WithoutTbb() || !SystemGivesThreadsAgain()) {
      CallInstead([&] { Do(work); });
    } else {
      Do(work);
    }
  }
  Deactivate();
}

/// Makes a call, or runs an execution and what it makes ready by turns.
void ThreadedEngine::Do(const Work& work) {
  if (work.call != nullptr) return RunCall(*work.call);
  Execution* execution = work.execution;
  for (int direct_runs = 0; execution != nullptr; ++direct_runs) {
    execution = RunAndPickNext(execution, direct_runs);
  }
}

/// What comes after `work`: a call that waits or the next execution from the queue, after a short
/// look-out for one. Returns false if this runner must end; it does not count in runners_ any more.
bool ThreadedEngine::NextOrRetire(Work& work) {
  const bool after_call = work.call != nullptr;
  std::unique_lock<FutexLock> hold(queue_lock_);
  for (bool looked_out = false;; looked_out = true) {
    // One more than may be, where somebody has come back from a wait: those that stay do the work.
    const bool leave = stopped_.load(std::memory_order_relaxed) || runners_ > MaxRunners();
    const bool ready = !leave && !queue_.empty();
    // By turns, so that neither calls nor executions wait for ever for the others.
    work.call = ready && after_call ? nullptr : TakeCall();
    if (work.call != nullptr) return true;
    if (ready) {
      work.execution = queue_.Pop();
      return true;
    }
    if (leave || looked_out || spinning_) {
      --runners_;
      return false;
    }
    // One runner at a time: more would only take time from those who push.
    spinning_ = true;
    hold.unlock();
    for (int looks = 0; looks < kIdleLooks && queue_.best_rank() == ReadyQueue::kEmptyRank;
         ++looks) {
      SpinPause();
    }
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

}  // namespace

std::unique_ptr<Engine> MakeThreadedEngine(const ResolvedOptions& options) {
  return std::make_unique<ThreadedEngine>(options);
}

}  // namespace tessera::engine_internal
