#ifndef TESSERA_STORAGE_POOL_LIVE_BYTES_H_
#define TESSERA_STORAGE_POOL_LIVE_BYTES_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tessera::storage_internal {

/// Bytes that callers hold, and their highest count. Threads report to it in steps. Thread-safe.
class LiveBytes {
 public:
  /// Adds `change`, on the way to which the count went up by `peak` >= 0 at most.
  void Report(int64_t change, int64_t peak);
  void MarkPeak() { peak_since_mark_.store(live(), std::memory_order_relaxed); }

  int64_t live() const { return live_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  int64_t peak_since_mark() const { return peak_since_mark_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> live_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> peak_since_mark_{0};
};

/// What one thread has not yet reported to a LiveBytes. Not thread-safe.
class UnreportedBytes {
 public:
  /// Peaks may be too low by this much for each thread, and too high by as much, or by what the
  /// thread has just given back of what it took itself, up to kMaxGivenBytes. With less, threads
  /// that take and give blocks of a feature map's size would write the same cache line at each
  /// call. Where eight of them trained on two cores, a sixth of their time went there.
  static constexpr int64_t kMaxBytes = int64_t{4} << 20;
  static constexpr int64_t kMaxGivenBytes = int64_t{16} << 20;

  // False if Flush must follow Add or Subtract of so much.
  bool HasRoomToAdd(int64_t size_bytes) const { return size_bytes <= kMaxBytes - bytes_; }
  bool HasRoomToSubtract(int64_t size_bytes) const { return size_bytes <= max_given_ + bytes_; }
  void Add(int64_t size_bytes) {
    bytes_ += size_bytes;
    peak_bytes_ = std::max(peak_bytes_, bytes_);
  }
  void Subtract(int64_t size_bytes) { bytes_ -= size_bytes; }
  void Flush(LiveBytes* live);

 private:
  int64_t bytes_ = 0;
  int64_t peak_bytes_ = 0;
  /// Grows with what the thread has reported as taken: that much it will give back, and soon take
  /// again, as a training step does.
  int64_t max_given_ = kMaxBytes;
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_LIVE_BYTES_H_
