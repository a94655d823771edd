#ifndef TESSERA_ENGINE_WORKERS_WAITER_H_
#define TESSERA_ENGINE_WORKERS_WAITER_H_

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "tessera/engine/core/dependency.h"
#include "tessera/engine/core/dependency_engine.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {

/// A call of WaitForVar, on the caller's stack. `done` is set under the mutex, and the waiter takes
/// the mutex once more before it returns: so it cannot vanish while it is being woken.
struct DependencyEngine::Waiter final : WaitExecution {
  bool inside = false;  // it parks with the engine instead of on its own condition
  std::condition_variable* sleeping = nullptr;  // what it sleeps on then; guarded by park_mutex_
  std::atomic<bool> done{false};
  std::mutex mutex;
  std::condition_variable condition;
};

/// While it lives, the function that the innermost operation of this thread calls may block: others
/// work in its place, and run what is left of its visit if it is one.
class DependencyEngine::Blocked {
 public:
  explicit Blocked(DependencyEngine* engine)
      : engine_(engine), frame_(ThreadFrame::InnermostOf(engine->id_)) {
    // First, so that what the visit leaves is in the queue when a thread for it is looked for.
    engine_->SuspendVisit(current_);
    frame_->set_blocks(engine_->LendPlace(Lender::kBlocked));
  }
  ~Blocked() {
    if (frame_->blocks()) engine_->TakeBackPlace(Lender::kBlocked);
    frame_->set_blocks(false);
    engine_->ResumeVisit(current_);
  }
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;

 private:
  DependencyEngine* const engine_;
  ThreadFrame* const frame_;
  Execution* const current_ = ThreadFrame::Current(engine_->id_);
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_WORKERS_WAITER_H_
