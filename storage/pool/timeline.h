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

/// Records one device's memory over time. Thread-safe. If recording is off, a call of the pool
/// costs one relaxed load.
class Timeline {
 public:
  struct Event {
    int64_t nanoseconds = 0;  ///< the time of the steady clock
    int64_t live_bytes = 0;
    int64_t reserved_bytes = 0;
  };
  struct Recording {
    std::vector<Event> events;
    int64_t dropped_events = 0;  ///< the events that had no room
  };

  /// Returns an empty recording with room for `max_events`. Throws std::bad_alloc.
  static Recording WithCapacity(int64_t max_events);

  /// Discards the earlier recording and starts to record into `empty`, until that is full. The
  /// first event is the current state.
  void Start(Recording empty, int64_t live_bytes, int64_t reserved_bytes);

  /// Returns a copy of the recording. Throws std::bad_alloc.
  Recording Copy();

  /// Stops recording and discards the recording.
  void Stop();

  /// Locks the recording during a fork; fork_locks.h explains it.
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

/// Returns a file of counter events in Chrome's trace event format. Each device has a row that
/// stacks live and cached bytes. Throws std::bad_alloc.
std::string TimelineJson(const std::vector<DeviceRecording>& recordings);

/// Returns `trace`, a JSON object in that format, with the recordings' events inserted before its
/// own. The member storage_dropped_events counts the dropped events. Returns an empty string if
/// `trace` does not have the format. Throws std::bad_alloc.
std::string AddToTrace(std::string_view trace, const std::vector<DeviceRecording>& recordings);

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_TIMELINE_H_
