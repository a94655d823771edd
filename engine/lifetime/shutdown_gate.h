#ifndef TESSERA_ENGINE_LIFETIME_SHUTDOWN_GATE_H_
#define TESSERA_ENGINE_LIFETIME_SHUTDOWN_GATE_H_

#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "tessera/engine/lifetime/process_life.h"
#include "tessera/engine/observe/stall_report.h"

namespace tessera::engine_internal {

/// Lets one thread at a time shut an engine down.
///
/// Threads: every member may be called from any thread.
class ShutdownGate {
 public:
  ShutdownGate(const ForkWatch& watch, const StallReporter& stall)
      : stall_(stall), changed_(watch) {}

  /// Returns true if this thread is the one that shuts down, and has to call Leave; false when
  /// another one has done it.
  bool Enter() {
    std::unique_lock<std::mutex> lock(mutex_);
    stall_.Sleep(*changed_, lock, "Shutdown", [&] { return !entered_; });
    entered_ = !shut_down_;
    return entered_;
  }
  void Leave(bool shut_down) {
    // Under the mutex, for the next one may destroy the engine.
    std::lock_guard<std::mutex> hold(mutex_);
    shut_down_ = shut_down;
    entered_ = false;
    changed_->notify_all();
  }

 private:
  const StallReporter& stall_;
  std::mutex mutex_;
  DroppedAfterFork<std::condition_variable> changed_;
  bool entered_ ABSL_GUARDED_BY(mutex_) = false;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_LIFETIME_SHUTDOWN_GATE_H_
