#include "tessera/engine/internal/naive_engine.h"

#include <memory>
#include <mutex>

#include "tessera/engine/internal/thread_frame.h"

namespace tessera::engine_internal {
namespace {

class NaiveEngine final : public DependencyEngine {
 public:
  explicit NaiveEngine(const ResolvedOptions& options) : DependencyEngine(options) {}
  ~NaiveEngine() override { Shutdown(); }

  void Execute(const std::function<void()>& fn) override {
    const ThreadFrame frame(id(), ThreadFrame::Current(id()));
    fn();
  }

  int num_workers() const override { return 1; }

 private:
  // A function that pushes or completes others has them run inside itself, as at any push; but not
  // deeper than this, where they go to the queue for the outermost call, or a long chain would
  // exhaust the stack.
  static constexpr int kMaxDepth = 16;

  void Dispatch(ReadyList& ready) override {
    static thread_local int depth = 0;
    if (depth >= kMaxDepth) {
      {
        std::lock_guard<FutexLock> hold(queue_lock_);
        while (!ready.empty()) queue_.Push(ready.PopFront());
      }
      NotifyParked();
      return;
    }
    const bool outermost = depth == 0;
    ++depth;
    while (!ready.empty()) {
      Execution* execution = ready.PopBest();
      if (Activate(execution)) {
        Run(execution, ready);
        Deactivate();
      }
    }
    while (outermost && TryRunOne()) {
    }
    --depth;
  }

  /// Counts this thread as active, or queues the execution if the engine is stopped.
  bool Activate(Execution* execution) {
    std::lock_guard<FutexLock> hold(queue_lock_);
    if (stopped_.load(std::memory_order_relaxed)) {
      queue_.Push(execution);
      return false;
    }
    ++active_;
    return true;
  }
};

}  // namespace

std::unique_ptr<Engine> MakeNaiveEngine(const ResolvedOptions& options) {
  return std::make_unique<NaiveEngine>(options);
}

}  // namespace tessera::engine_internal
