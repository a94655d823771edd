#ifndef TESSERA_ENGINE_CORE_PROGRESS_H_
#define TESSERA_ENGINE_CORE_PROGRESS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "tessera/engine/core/push_counter.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/lifetime/process_life.h"
#include "tessera/engine/observe/stall_report.h"

namespace tessera::engine_internal {

/// Counts the operations that are pushed and complete, and has threads wait until none pends, or
/// until fewer do (back-pressure).
///
/// Threads: every member may be called from any thread.
class Progress {
 public:
  /// Pushes wait while so many operations pend and is_stopped() is false; 0 never waits.
  Progress(int64_t max_pending, const ForkWatch& watch, const StallReporter& stall,
           std::function<bool()> is_stopped);

  /// Gives each push its place in push order.
  PushCounter& pushed() { return pushed_; }
  /// The number of operations that were pushed.
  uint64_t pushes(std::memory_order order = std::memory_order_seq_cst) const {
    return pushed_.count(order);
  }

  /// Counts operations that were skipped; before they are counted as complete.
  void CountSkipped(uint64_t operations = 1) {
    skipped_.fetch_add(operations, std::memory_order_relaxed);
  }
  void CountComplete(uint64_t operations = 1);

  /// Called after the push with that place, without locks: waits for room if there is too little.
  void AwaitRoom(uint64_t pushed) {
    if (pushed >= throttle_at_.load(std::memory_order_relaxed)) Throttle(pushed);
  }
  /// Has pushes that wait for room ask is_stopped() again.
  void WakePushers();

  /// Returns whether nothing pended when the call began.
  bool is_idle() const;
  /// Returns when nothing has pended at some moment since the call.
  void AwaitIdle();
  /// Takes no pushes any more, if nothing pends. Returns false if something does.
  bool Close() { return pushed_.CloseAt(completed_.load()); }

  EngineCounters counters() const;

 private:
  void Throttle(uint64_t pushed);
  bool HasMuchRoom(uint64_t pushed, uint64_t free);

  const uint64_t max_pending_;
  const StallReporter& stall_;
  const std::function<bool()> is_stopped_;
  std::mutex mutex_;  // of the conditions; those who complete operations look at the atomics
  DroppedAfterFork<std::condition_variable> idle_;
  DroppedAfterFork<std::condition_variable> room_;
  std::atomic<int64_t> idle_waiters_{0};
  std::atomic<uint64_t> wake_throttled_at_{UINT64_MAX};
  std::atomic<uint64_t> skipped_{0};
  mutable std::atomic<uint64_t> most_run_{0};  // that counters() has told of

  // The pushers' counter and the workers', each on a line of its own; operations pend while they
  // differ. throttle_at_ is the place from which on a pusher looks at the workers' one.
  alignas(64) PushCounter pushed_;
  std::atomic<uint64_t> throttle_at_{UINT64_MAX};
  alignas(64) std::atomic<uint64_t> completed_{0};
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_PROGRESS_H_
