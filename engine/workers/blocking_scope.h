#ifndef TESSERA_ENGINE_WORKERS_BLOCKING_SCOPE_H_
#define TESSERA_ENGINE_WORKERS_BLOCKING_SCOPE_H_

#include "tessera/engine/core/scheduler.h"
#include "tessera/engine/schedule/replay.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {

/// While it lives, the operation that runs on this thread may sleep or block: the engine runs one
/// operation more, on a compensating thread where that is needed, and others go on with the replay
/// that the operation belongs to. A scope inside another one of the same operation does nothing.
class BlockingScope {
 public:
  /// Requires that the thread works for the engine with that number.
  BlockingScope(Scheduler& scheduler, uint64_t engine_id)
      : scheduler_(scheduler),
        frame_(ThreadFrame::InnermostOf(engine_id)),
        nested_(frame_->blocks()) {
    if (nested_) return;
    // First, so that what the visit leaves is in the queue when the engine looks for work.
    SuspendVisit(frame_->execution(), scheduler_);
    frame_->set_blocks(scheduler_.BeginBlocking());
  }
  ~BlockingScope() {
    if (nested_) return;
    if (frame_->blocks()) scheduler_.EndBlocking();
    frame_->set_blocks(false);
    ResumeVisit(frame_->execution());
  }
  BlockingScope(const BlockingScope&) = delete;
  BlockingScope& operator=(const BlockingScope&) = delete;

  /// Returns whether another operation may run meanwhile. If not, the thread holds its worker.
  bool is_compensated() const { return frame_->blocks(); }

 private:
  Scheduler& scheduler_;
  ThreadFrame* const frame_;
  const bool nested_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_WORKERS_BLOCKING_SCOPE_H_
