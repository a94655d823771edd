#include "tessera/engine/core/naive_engine.h"

#include <memory>
#include <mutex>

#include "tessera/engine/workers/thread_frame.h"

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

  /// How many calls of the same engine's Dispatch are below this one.
  int depth() const { return depth_; }

 private:
  static inline thread_local DispatchFrame* top_ = nullptr;

  const uint64_t engine_id_;
  DispatchFrame* const outer_;
  int depth_ = 0;
};

class NaiveEngine final : public DependencyEngine {
 public:
  explicit NaiveEngine(const ResolvedOptions& options) : DependencyEngine(options) {}
  ~NaiveEngine() override { Shutdown(); }

  int num_workers() const override { return 1; }

 private:
  // A function that pushes or completes others has the first of them run inside itself, as at any
  // push; but not deeper than this, where all go to the queue for the outermost call, or a long
  // chain would exhaust the stack.
  static constexpr int kMaxDepth = 16;
  // How many operations that waits on a thread do not need lie on top of each other.
  static constexpr int kMaxOnTop = 64;
  static inline thread_local int on_top = 0;

  bool SynchronizesDevices() const override { return true; }
  bool ReplaysInOrder() const override { return true; }
  bool DispatchRuns() const override { return true; }
  bool RunsOnTop() const override { return true; }

  void RunOnTop() override {
    ++on_top;
    TryRun([this] { return on_top <= kMaxOnTop ? PopReady() : PopDemanded(); });
    --on_top;
  }

  bool HasWorkOnTop() override {
    std::lock_guard<FutexLock> hold(queue_lock_);
    if (on_top < kMaxOnTop) return CountReady() > 0;
    return CountReady() > 0 && queue_.best_rank() == ReadyQueue::kUrgentRank;
  }

  /// Requires queue_lock_.
  Execution* PopDemanded() {
    return stopped_.load(std::memory_order_relaxed) ? nullptr : queue_.PopDemanded();
  }

  void Dispatch(ReadyList& ready) override {
    const DispatchFrame frame(id());
    if (frame.depth() >= kMaxDepth) return Queue(ready);
    const bool outermost = frame.depth() == 0;
    // What is pushed here runs here: in the queue another thread could be the first to come to it.
    Execution* next = TakeBest(ready);
    while (next != nullptr) {
      Run(next, ready);
      if (outermost) Queue(ready);
      Deactivate();
      next = outermost ? TakeReady() : TakeBest(ready);
    }
  }

  void Queue(ReadyList& ready) {
    if (ready.empty()) return;
    {
      std::lock_guard<FutexLock> hold(queue_lock_);
      while (!ready.empty()) queue_.Push(ready.PopFront());
    }
    NotifyInside();
  }

  /// The one to run now, with this thread counted as active; null if there is none or the engine is
  /// stopped. All others go to the queue: the one that runs may wait for them, in this thread or,
  /// by way of a completion, in another.
  Execution* TakeBest(ReadyList& ready) {
    Execution* best = ready.PopBest();
    Queue(ready);
    if (best == nullptr) return nullptr;
    {
      std::lock_guard<FutexLock> hold(queue_lock_);
      if (!stopped_.load(std::memory_order_relaxed)) {
        ++active_;
        return best;
      }
      queue_.Push(best);
    }
    NotifyInside();  // a wait may need it all the same
    return nullptr;
  }
};

}  // namespace

std::unique_ptr<Engine> MakeNaiveEngine(const ResolvedOptions& options) {
  return std::make_unique<NaiveEngine>(options);
}

}  // namespace tessera::engine_internal
