#ifndef TESSERA_STORAGE_THREAD_CACHE_H_
#define TESSERA_STORAGE_THREAD_CACHE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "tessera/storage/block.h"
#include "tessera/storage/size_class.h"

namespace tessera::storage_internal {

/// Guards what one thread uses nearly always: taking it costs a single atomic exchange, and whoever
/// finds it taken yields, because its owner may have been put aside by the scheduler.
class SpinLock {
 public:
  void lock() {
    // Pairs with the release in unlock.
    while (taken_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

/// What happened in one cache since the pool last collected it.
struct Counters {
  int64_t allocations = 0;
  int64_t frees = 0;
  int64_t pool_hits = 0;
  int64_t in_use_bytes = 0;
};

/// Bytes that callers hold, and their highest count. Threads report to it in steps.
class LiveBytes {
 public:
  /// Adds `change`, on the way to which the count went up by `peak` >= 0 at most.
  void Report(int64_t change, int64_t peak) {
    // Relaxed: a figure that orders nothing.
    const int64_t highest = live_.fetch_add(change, std::memory_order_relaxed) + peak;
    Raise(&peak_, highest);
    Raise(&peak_since_mark_, highest);
  }
  void MarkPeak() { peak_since_mark_.store(live(), std::memory_order_relaxed); }

  int64_t live() const { return live_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  int64_t peak_since_mark() const { return peak_since_mark_.load(std::memory_order_relaxed); }

 private:
  static void Raise(std::atomic<int64_t>* peak, int64_t value) {
    int64_t known = peak->load(std::memory_order_relaxed);
    while (value > known && !peak->compare_exchange_weak(known, value, std::memory_order_relaxed)) {
    }
  }

  std::atomic<int64_t> live_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> peak_since_mark_{0};
};

/// Free blocks that one thread keeps for itself, and its counters. The pool collects both from
/// other threads when memory is short or statistics are asked for, hence the lock.
class ThreadCache {
 public:
  /// Keeps up to `max_bytes` of small blocks and some large ones of up to `max_large_bytes` each.
  ThreadCache(int64_t max_bytes, int64_t max_large_bytes)
      : max_bytes_(max_bytes), max_large_bytes_(max_large_bytes) {}

  int64_t max_large_bytes() const { return max_large_bytes_; }
  SpinLock& lock() { return lock_; }

  // Everything below needs lock().

  /// A block of exactly that size, as the pool rounds it, or null.
  Block* Pop(int64_t rounded_bytes) {
    return rounded_bytes <= kMaxSmallBytes ? PopSmall(SizeClass(rounded_bytes))
                                           : PopLarge(rounded_bytes);
  }

  /// Takes a block that Accepts says yes to. Afterwards IsOverfull must be asked.
  void Push(Block* block) {
    if (block->is_small) {
      Block*& head = heads_[SizeClass(block->size_bytes)];
      block->next = head;
      head = block;
      bytes_ += block->size_bytes;
    } else {
      large_[num_large_++] = block;
      large_bytes_ += block->size_bytes;
    }
  }

  bool Accepts(const Block& block) const {
    return block.is_small || block.size_bytes <= max_large_bytes_;
  }

  bool IsOverfull() const {
    return bytes_ > max_bytes_ || num_large_ == kMaxLarge || large_bytes_ > kMaxLargeTotalBytes;
  }

  /// Calls `put(block)` for blocks that are kept no longer: half of what is too much.
  template <typename PutBlock>
  void Trim(const PutBlock& put) {
    if (bytes_ > max_bytes_) DrainSmall(max_bytes_ / 2, put);
    if (num_large_ == kMaxLarge || large_bytes_ > kMaxLargeTotalBytes) DrainLarge(put);
  }

  /// Calls `put(block)` for every block.
  template <typename PutBlock>
  void Drain(const PutBlock& put) {
    DrainSmall(0, put);
    DrainLarge(put);
  }

  int64_t bytes() const { return bytes_ + large_bytes_; }
  Counters& counters() { return counters_; }

  void CountAlloc(const Block& block, LiveBytes* live) {
    ++counters_.allocations;
    ++counters_.pool_hits;
    counters_.in_use_bytes += block.size_bytes;
    unreported_bytes_ += block.requested_bytes;
    unreported_peak_bytes_ = std::max(unreported_peak_bytes_, unreported_bytes_);
    if (unreported_bytes_ > kMaxUnreportedBytes) Report(live);
  }
  void CountFree(const Block& block, LiveBytes* live) {
    ++counters_.frees;
    counters_.in_use_bytes -= block.size_bytes;
    unreported_bytes_ -= block.requested_bytes;
    if (unreported_bytes_ < -kMaxUnreportedBytes) Report(live);
  }
  void Report(LiveBytes* live) {
    if (unreported_bytes_ == 0 && unreported_peak_bytes_ == 0) return;
    live->Report(unreported_bytes_, unreported_peak_bytes_);
    unreported_bytes_ = unreported_peak_bytes_ = 0;
  }

 private:
  static constexpr int64_t kMaxUnreportedBytes = int64_t{64} << 10;
  static constexpr int kMaxLarge = 8;
  static constexpr int64_t kMaxLargeTotalBytes = int64_t{32} << 20;

  Block* PopSmall(int size_class) {
    Block* block = heads_[size_class];
    if (block == nullptr) return nullptr;
    heads_[size_class] = block->next;
    bytes_ -= block->size_bytes;
    return block;
  }

  /// The latest first: it is the likeliest to be in the processor's caches.
  Block* PopLarge(int64_t rounded_bytes) {
    for (int i = num_large_ - 1; i >= 0; --i) {
      Block* block = large_[i];
      if (block->size_bytes != rounded_bytes) continue;
      large_[i] = large_[--num_large_];
      large_bytes_ -= rounded_bytes;
      return block;
    }
    return nullptr;
  }

  /// The largest first.
  template <typename PutBlock>
  void DrainSmall(int64_t keep_bytes, const PutBlock& put) {
    for (int size_class = kNumSmallClasses - 1; size_class >= 0; --size_class) {
      while (bytes_ > keep_bytes && heads_[size_class] != nullptr) put(PopSmall(size_class));
    }
  }
  template <typename PutBlock>
  void DrainLarge(const PutBlock& put) {
    while (num_large_ > 0) put(large_[--num_large_]);
    large_bytes_ = 0;
  }

  SpinLock lock_;
  const int64_t max_bytes_;
  const int64_t max_large_bytes_;
  int64_t bytes_ = 0;
  int64_t unreported_bytes_ = 0;
  int64_t unreported_peak_bytes_ = 0;
  Counters counters_;
  std::array<Block*, kNumSmallClasses> heads_{};
  int num_large_ = 0;
  int64_t large_bytes_ = 0;
  std::array<Block*, kMaxLarge> large_{};
};

/// The cache that the calling thread used last in each of a few pools. Pools are told apart by
/// numbers that are never used again, so the entry of a pool that is gone matches nothing.
struct RecentCache {
  uint64_t pool_id = 0;
  ThreadCache* cache = nullptr;
};
inline constexpr size_t kNumRecentCaches = 4;
extern constinit thread_local RecentCache recent_caches[kNumRecentCaches];

class DevicePool;

/// The calling thread's cache in `pool`, made at the first call, or null if the thread is about to
/// end. The pool gets it back (DevicePool::RetireCache) when the thread ends.
ThreadCache* FindOrAddThreadCache(DevicePool* pool, uint64_t pool_id);

/// The same, quick where the thread has used the pool lately.
inline ThreadCache* CacheOfThisThread(DevicePool* pool, uint64_t pool_id) {
  const RecentCache& recent = recent_caches[pool_id % kNumRecentCaches];
  if (recent.pool_id == pool_id) [[likely]]
    return recent.cache;
  return FindOrAddThreadCache(pool, pool_id);
}

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_THREAD_CACHE_H_
