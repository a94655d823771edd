#ifndef TESSERA_STORAGE_POOL_POOL_STATISTICS_H_
#define TESSERA_STORAGE_POOL_POOL_STATISTICS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/storage/device/system_memory.h"
#include "tessera/storage/pool/block.h"
#include "tessera/storage/pool/live_bytes.h"
#include "tessera/storage/pool/tag_table.h"
#include "tessera/storage/pool/thread_cache.h"
#include "tessera/storage/pool/timeline.h"
#include "tessera/storage/statistics.h"

namespace tessera::storage_internal {

/// Counts one pool's allocations and frees: in the cache of the calling thread, which reports to
/// the pool now and then, or for a thread without a cache at once. Requires the pool's lock unless
/// a member says otherwise.
class PoolStatistics {
 public:
  /// `system` must outlive the object.
  explicit PoolStatistics(const SystemMemory* system) : system_(system) {}

  /// Returns the tag of that name, and lets the cache, if it is not null, count for it. Needs no
  /// lock. Throws std::bad_alloc.
  Tag* InternTag(ThreadCache* cache, std::string_view name);

  // These count in a cache, which the caller has locked. They need no other lock.
  void CountAllocInCache(ThreadCache* cache, const Block& block);
  void CountFreeInCache(ThreadCache* cache, const Block& block);

  // These lock the cache and count in it, so that the peak of one thread is exact. They need the
  // pool's lock only if `cache` is null.
  void CountAlloc(ThreadCache* cache, const Block& block);
  void CountFree(ThreadCache* cache, const Block& block);

  /// Counts an allocation of 0 bytes by a thread without a cache.
  void CountEmptyAlloc() { ++totals_.allocations; }
  /// Counts an allocation that needed memory from the system.
  void CountPoolMiss() { ++pool_misses_; }

  /// Adds the counters of a cache, which the caller has locked.
  void Collect(ThreadCache* cache);

  /// Returns all numbers but those of free memory. Requires that all caches were collected.
  StorageStats Stats() const;
  /// Returns the tags' statistics. Needs no lock. Throws std::bad_alloc.
  std::vector<StorageTagStats> TagStats() const { return tags_.Stats(); }
  void MarkPeak() { live_.MarkPeak(); }

  /// Returns whether a timeline is recorded. Needs no lock.
  bool is_recording() const { return timeline_.is_recording(); }
  /// Starts the timeline with the current state. Requires the locks of all caches, and that all
  /// were collected.
  void StartTimeline(Timeline::Recording empty);
  /// The timeline, which is thread-safe.
  Timeline& timeline() { return timeline_; }

  /// Locks the statistics during a fork; fork_locks.h explains it.
  void LockForFork() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void UnlockAfterFork() ABSL_NO_THREAD_SAFETY_ANALYSIS;

 private:
  /// Records a change of the live bytes if a timeline is recorded. Requires the lock under which
  /// the change is counted, so that a new recording has the change either in its first value or as
  /// an event.
  void RecordIfWanted(int64_t live_change_bytes) {
    if (timeline_.is_recording()) [[unlikely]]
      RecordOnTimeline(live_change_bytes);
  }
  void RecordOnTimeline(int64_t live_change_bytes) noexcept;

  const SystemMemory* const system_;
  TagTable tags_;
  /// The counts that the caches have reported, and those of calls without a cache.
  Counters totals_;
  int64_t pool_misses_ = 0;
  // The two members have cache lines of their own: each call reads whether a timeline is recorded,
  // and other threads write the live bytes.
  alignas(64) LiveBytes live_;
  alignas(64) Timeline timeline_;
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_POOL_STATISTICS_H_
