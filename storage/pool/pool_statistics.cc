#include "tessera/storage/pool/pool_statistics.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "tessera/storage/pool/owner_lock.h"

namespace tessera::storage_internal {

Tag* PoolStatistics::InternTag(ThreadCache* cache, std::string_view name) {
  Tag* const tag = tags_.Intern(name);
  if (cache == nullptr) return tag;
  const OwnerGuard guard(cache->lock());
  cache->tags().Add(tag);
  return tag;
}

void PoolStatistics::CountAllocInCache(ThreadCache* cache, const Block& block) {
  RecordIfWanted(block.requested_bytes);
  cache->CountAlloc(block.requested_bytes, block.tag);
  if (!cache->HasRoomToAdd(0, block.tag)) cache->Report(block.tag, &live_);
}
void PoolStatistics::CountFreeInCache(ThreadCache* cache, const Block& block) {
  RecordIfWanted(-block.requested_bytes);
  Tag* tag = block.tag;
  if (tag != nullptr && !cache->HasTag(*tag)) {
    tag->bytes.Report(-block.requested_bytes, 0);
    tag = nullptr;
  }
  cache->CountFree(block.requested_bytes, tag);
  if (!cache->HasRoomToSubtract(0, tag)) cache->Report(tag, &live_);
}

void PoolStatistics::CountAlloc(ThreadCache* cache, const Block& block) {
  if (cache != nullptr) {
    const OwnerGuard guard(cache->lock());
    return CountAllocInCache(cache, block);
  }
  RecordIfWanted(block.requested_bytes);
  ++totals_.allocations;
  live_.Report(block.requested_bytes, block.requested_bytes);
  if (block.tag == nullptr) return;
  block.tag->bytes.Report(block.requested_bytes, block.requested_bytes);
  block.tag->allocations.fetch_add(1, std::memory_order_relaxed);
}

void PoolStatistics::CountFree(ThreadCache* cache, const Block& block) {
  if (cache != nullptr) {
    const OwnerGuard guard(cache->lock());
    return CountFreeInCache(cache, block);
  }
  RecordIfWanted(-block.requested_bytes);
  ++totals_.frees;
  live_.Report(-block.requested_bytes, 0);
  if (block.tag != nullptr) block.tag->bytes.Report(-block.requested_bytes, 0);
}

void PoolStatistics::RecordOnTimeline(int64_t live_change_bytes) noexcept {
  timeline_.Record(live_change_bytes, system_->reserved_bytes());
}

void PoolStatistics::Collect(ThreadCache* cache) {
  cache->Report(nullptr, &live_);
  const Counters counters = std::exchange(cache->counters(), Counters());
  totals_.allocations += counters.allocations;
  totals_.frees += counters.frees;
  tags_.ForEach([cache](Tag* tag) {
    if (cache->HasTag(*tag)) cache->tags().Report(tag);
  });
}

StorageStats PoolStatistics::Stats() const {
  StorageStats stats;
  stats.live_bytes = live_.live();
  stats.reserved_bytes = system_->reserved_bytes();
  stats.limit_bytes = system_->limit_bytes();
  stats.peak_reserved_bytes = system_->peak_reserved_bytes();
  // Threads report late, so the peak may add up bytes that were live at different times.
  stats.peak_bytes = std::min(live_.peak(), stats.peak_reserved_bytes);
  stats.peak_since_mark_bytes = std::min(live_.peak_since_mark(), stats.peak_reserved_bytes);
  stats.allocations = totals_.allocations;
  stats.frees = totals_.frees;
  stats.pool_hits = totals_.allocations - pool_misses_;
  stats.system_allocations = system_->allocations();
  stats.system_failures = system_->failures();
  return stats;
}

void PoolStatistics::StartTimeline(Timeline::Recording empty) {
  timeline_.Start(std::move(empty), live_.live(), system_->reserved_bytes());
}

void PoolStatistics::LockForFork() {
  tags_.LockForFork();
  timeline_.LockForFork();
}

void PoolStatistics::UnlockAfterFork() {
  timeline_.UnlockAfterFork();
  tags_.UnlockAfterFork();
}

}  // namespace tessera::storage_internal
