#ifndef TESSERA_STORAGE_POOL_TIMELINE_H_
#define TESSERA_STORAGE_POOL_TIMELINE_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/base/device.h"

namespace tessera::storage_internal {

/// One device's memory over time. Thread-safe. While nobody records it costs its users one relaxed
/// load a call.
class Timeline {
 public:
  struct Event {
    int64_t nanoseconds = 0;  ///< of the steady clock
    int64_t live_bytes = 0;
    int64_t reserved_bytes = 0;
  };
  struct Recording {
    std::vector<Event> events;
    int64_t dropped_events = 0;  ///< those for which there was no room
  };

  /// A recording without events, with room for so many. Throws std::bad_alloc.
  static Recording WithCapacity(int64_t max_events);

  /// Forgets what was recorded before and records from now on for as long as `empty` has room,
  /// first of all the state now.
  void Start(Recording empty, int64_t live_bytes, int64_t reserved_bytes);

  /// What was recorded so far. Throws std::bad_alloc.
  Recording Copy();

  /// Stops recording and forgets what was recorded.
  void Stop();

  /// For the time of a fork, see fork_locks.h.
  void LockForFork() ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex_) { mutex_.lock(); }
  void UnlockAfterFork() ABSL_UNLOCK_FUNCTION(mutex_) { mutex_.unlock(); }

  bool is_recording() const { return is_recording_.load(std::memory_order_relaxed); }
  void Record(int64_t live_change_bytes, int64_t reserved_bytes);

 private:
  void Append(int64_t reserved_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> is_recording_{false};
  std::mutex mutex_;
  Recording recording_ ABSL_GUARDED_BY(mutex_);
  int64_t live_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

struct DeviceRecording {
  Device device;
  Timeline::Recording recording;
};

/// Counter events in Chrome's trace event format, one row for each device, in which live and cached
/// bytes are stacked. Throws std::bad_alloc.
std::string TimelineJson(const std::vector<DeviceRecording>& recordings);

/// The same events in front of those of `trace`, a JSON object in that format; what was dropped is
/// its member storage_dropped_events. Empty if `trace` is no such object. Throws std::bad_alloc.
std::string AddToTrace(std::string_view trace, const std::vector<DeviceRecording>& recordings);

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_TIMELINE_H_
