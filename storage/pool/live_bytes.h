#ifndef TESSERA_STORAGE_POOL_LIVE_BYTES_H_
#define TESSERA_STORAGE_POOL_LIVE_BYTES_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tessera::storage_internal {

/// Counts the bytes that callers hold, and keeps the highest count. Threads report to it in steps.
/// Thread-safe.
class LiveBytes {
 public:
  /// Adds `change`. `peak` >= 0 is the highest value of the partial sums that make up the change.
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

/// Counts the bytes that one thread has not yet reported to a LiveBytes. Not thread-safe.
class UnreportedBytes {
 public:
  /// The error of peaks for each thread. They may be too low by this, and too high by this or by
  /// the bytes that the thread has just freed of its own allocations, up to kMaxGivenBytes. With a
  /// lower value, threads that allocate and free blocks of a feature map's size would write a
  /// shared cache line in each call. That cost eight threads that trained on two cores a sixth of
  /// their time.
  static constexpr int64_t kMaxBytes = int64_t{4} << 20;
  static constexpr int64_t kMaxGivenBytes = int64_t{16} << 20;

  // These return false if Flush must follow Add or Subtract of that many bytes.
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
  /// Grows with the bytes that the thread has reported as allocated. A thread that repeats a
  /// training step frees as many, and allocates them again.
  int64_t max_given_ = kMaxBytes;
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_LIVE_BYTES_H_
