#include "tessera/engine/core/naive_scheduler.h"

#include <functional>
#include <mutex>
#include <utility>

#include "tessera/engine/workers/tbb_workers.h"

namespace tessera::engine_internal {
namespace {

/// A call of Dispatch on this thread. Those of several engines nest, so each counts its own.
class DispatchFrame {
 public:
  explicit DispatchFrame(uint64_t engine_id) : engine_id_(engine_id), outer_(top_) {
    for (const DispatchFrame* frame = outer_; frame != nullptr; frame = frame->outer_) {
      if (frame->engine_id_ != engine_id) continue;
      depth_ = frame->depth_ + 1;
      break;
    }
    top_ = this;
  }
  ~DispatchFrame() { top_ = outer_; }
  DispatchFrame(const DispatchFrame&) = delete;
  DispatchFrame& operator=(const DispatchFrame&) = delete;

  /// The number of calls of the same engine's Dispatch below this one.
  int depth() const { return depth_; }

 private:
  static inline thread_local DispatchFrame* top_ = nullptr;

  const uint64_t engine_id_;
  DispatchFrame* const outer_;
  int depth_ = 0;
};

}  // namespace

void NaiveScheduler::Call(const SyncFn& fn, const RunContext& context) {
  const auto call = [&] { fn(context); };
  CallInOwnContext(std::ref(call));
}

void NaiveScheduler::Call(const AsyncFn& fn, const RunContext& context, OnComplete on_complete) {
  const auto call = [&] { fn(context, std::move(on_complete)); };
  CallInOwnContext(std::ref(call));
}

void NaiveScheduler::CallIsolated(const std::function<void()>& fn) { CallInOwnContext(fn); }

void NaiveScheduler::RunOnTop() {
  ++on_top_;
  Execution* execution;
  {
    std::lock_guard<FutexLock> hold(lock_);
    if (on_top_ <= kMaxOnTop) {
      execution = PopReady();
    } else {
      execution = stopped_relaxed() ? nullptr : queue_.PopDemanded();
    }
    if (execution != nullptr) ++active_;
  }
  if (execution != nullptr) {
    ReadyList ready;
    Run(execution, ready);
    if (!ready.empty()) Dispatch(ready);
    Deactivate();
  }
  --on_top_;
}

bool NaiveScheduler::HasWorkOnTop() {
  std::lock_guard<FutexLock> hold(lock_);
  return CountReady() > 0 && (on_top_ < kMaxOnTop || queue_.best_rank() == ReadyQueue::kUrgentRank);
}

void NaiveScheduler::Dispatch(ReadyList& ready) {
  const DispatchFrame frame(engine_id_);
  if (frame.depth() >= kMaxDepth) return Queue(ready);
  const bool outermost = frame.depth() == 0;
  // An operation that is pushed here runs here: in the queue another thread could be the first to
  // come to it.
  Execution* next = TakeBest(ready);
  while (next != nullptr) {
    Run(next, ready);
    if (outermost) Queue(ready);
    Deactivate();
    next = outermost ? TakeReady() : TakeBest(ready);
  }
}

void NaiveScheduler::Queue(ReadyList& ready) {
  if (ready.empty()) return;
  {
    std::lock_guard<FutexLock> hold(lock_);
    while (!ready.empty()) queue_.Push(ready.PopFront());
  }
  woken_();
}

/// Returns the one to run now, with this thread counted as active; null if there is none or the
/// engine is stopped. All others go to the queue: the one that runs may wait for them, in this
/// thread or, by way of a completion, in another.
Execution* NaiveScheduler::TakeBest(ReadyList& ready) {
  Execution* best = ready.PopBest();
  Queue(ready);
  if (best == nullptr) return nullptr;
  std::lock_guard<FutexLock> hold(lock_);
  if (!stopped_relaxed()) {
    ++active_;
    return best;
  }
  queue_.Push(best);
  return nullptr;
}

/// Takes the best from the queue, with this thread counted as active.
Execution* NaiveScheduler::TakeReady() {
  std::lock_guard<FutexLock> hold(lock_);
  Execution* const execution = PopReady();
  if (execution != nullptr) ++active_;
  return execution;
}

}  // namespace tessera::engine_internal
