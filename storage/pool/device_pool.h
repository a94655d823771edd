#ifndef TESSERA_STORAGE_POOL_DEVICE_POOL_H_
#define TESSERA_STORAGE_POOL_DEVICE_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/thread_annotations.h"
#include "tessera/base/device.h"
#include "tessera/storage/device/fork_locks.h"
#include "tessera/storage/device/poison.h"
#include "tessera/storage/device/stream_events.h"
#include "tessera/storage/device/system_memory.h"
#include "tessera/storage/handle.h"
#include "tessera/storage/options.h"
#include "tessera/storage/pool/arenas.h"
#include "tessera/storage/pool/block.h"
#include "tessera/storage/pool/current_thread_cache.h"
#include "tessera/storage/pool/pending_frees.h"
#include "tessera/storage/pool/pool_statistics.h"
#include "tessera/storage/pool/pool_strategy.h"
#include "tessera/storage/pool/tag_table.h"
#include "tessera/storage/pool/thread_cache.h"
#include "tessera/storage/pool/thread_cache_set.h"
#include "tessera/storage/pool/timeline.h"
#include "tessera/storage/statistics.h"

namespace tessera::storage_internal {

/// Allocates one device's memory. A request goes to the thread's cache, then to the thread's arena,
/// then to all arenas and caches, then to the system. Thread-safe.
class DevicePool final : public ThreadCacheOwner {
 public:
  /// Asks other holders of memory to free some. The pool calls it without locks.
  using TrimOthers = std::function<void(Device)>;

  /// The pool only stores `owner`, which distinguishes the blocks of one Storage from another's.
  DevicePool(Device device, const StorageOptions& options, const void* owner,
             TrimOthers trim_others);
  ~DevicePool();

  const void* owner() const { return owner_; }

  // Storage documents the functions below. Calls and saved registers are a large part of the
  // nanoseconds of a cached allocation. Therefore its whole path is inline, and rare cases and
  // errors are in functions of their own.

  /// Allocates a block from the calling thread's cache. Returns null if that has no such block, or
  /// has not met the tag recently: the caller must then call Alloc. Never throws. `device` is
  /// device(), which the caller need not read from here.
  ABSL_ATTRIBUTE_ALWAYS_INLINE
  Block* AllocFromCache(int64_t size_bytes, Device device, std::string_view tag_name) {
    ThreadCache* const cache = RecentCacheOfThisThread(device, id());
    if (cache == nullptr) [[unlikely]]
      return nullptr;
    Tag* tag = nullptr;
    if (!tag_name.empty()) {
      tag = cache->tags().FindRecent(tag_name);
      if (tag == nullptr) [[unlikely]]
        return nullptr;
    }
    Block* block = nullptr;
    {
      const OwnerTryGuard guard(cache->lock());
      if (!guard.locked() || statistics_.is_recording()) [[unlikely]]
        return nullptr;
      block = cache->Allocate(size_bytes, tag);
    }
    return block == nullptr ? nullptr : MarkAllocated(block);
  }
  // Alloc and AllocOnStream return null for 0 bytes.
  Block* Alloc(int64_t size_bytes, std::string_view tag);
  Block* AllocOnStream(int64_t size_bytes, void* stream, std::string_view tag);
  /// Frees a block into the calling thread's cache and returns true. Returns false and changes
  /// nothing if the cache cannot take the block without more work: the caller must then call Free.
  /// Never throws. `device` is device().
  ABSL_ATTRIBUTE_ALWAYS_INLINE
  bool FreeToCache(const StorageHandle& handle, Device device) {
    ThreadCache* const cache = RecentCacheOfThisThread(device, id());
    Block* const block = handle.block;
    if (cache == nullptr || block->list == kNoCacheList || !block->HasGeneration(handle.generation))
        [[unlikely]]
      return false;
    {
      const OwnerTryGuard guard(cache->lock());
      if (!guard.locked() || statistics_.is_recording() || !cache->CanFree(*block)) [[unlikely]]
        return false;
      MarkFreed(block);
      if (!cache->Free(block)) [[likely]]
        return true;
    }
    TrimCache(cache);
    return true;
  }
  void Free(const StorageHandle& handle);
  void DirectFree(const StorageHandle& handle);
  void FreeOnStream(const StorageHandle& handle, void* stream);
  void ReleaseAll();
  void SetLimit(int64_t limit_bytes);
  int64_t limit_bytes();
  StorageStats Stats();
  std::vector<StorageTagStats> TagStats();
  void MarkPeak();
  void StartTimeline(Timeline::Recording empty);
  Timeline::Recording CopyTimeline() { return statistics_.timeline().Copy(); }
  void StopTimeline() { statistics_.timeline().Stop(); }

  ThreadCache* AddCache() override;
  void RetireCache(ThreadCache* cache) override;

  /// Locks the pool during a fork, so that no other thread is inside it; fork_locks.h explains it.
  void LockForFork() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void UnlockAfterFork(ForkSide side) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  /// The value of SystemAllocator::copied_by_fork.
  bool copied_by_fork() const { return copied_by_fork_; }

 private:
  [[noreturn]] void ThrowImpossibleSize(int64_t size_bytes);
  [[noreturn]] void ThrowFreedBefore(const StorageHandle& handle) const;
  void CheckSize(int64_t size_bytes) {
    if (size_bytes < 0 || size_bytes > kMaxAllocBytes) ThrowImpossibleSize(size_bytes);
  }
  void CheckLive(const StorageHandle& handle) const {
    if (!handle.block->HasGeneration(handle.generation)) [[unlikely]]
      ThrowFreedBefore(handle);
  }
  /// Returns the tag of that name, or null for an empty name. The recent tags need no lock, because
  /// only this thread reads them.
  Tag* FindTag(ThreadCache* cache, std::string_view name) {
    if (name.empty()) return nullptr;
    Tag* const recent = cache == nullptr ? nullptr : cache->tags().FindRecent(name);
    return recent != nullptr ? recent : statistics_.InternTag(cache, name);
  }
  Block* PopFromCache(ThreadCache* cache, int64_t size_bytes, Tag* tag);
  Block* AllocFromArena(ThreadCache* cache, int64_t size_bytes, Tag* tag);
  void Assign(Block* block, int64_t size_bytes, Tag* tag) const;
  enum class ArenaLocks {
    kOwn,  ///< the caller holds the lock of the thread's arena
    kAll,  ///< the caller holds the locks of all arenas
  };
  Block* TakeFromArena(ThreadCache* cache, int64_t rounded_bytes, ArenaLocks locks);
  Block* AllocFromStream(ThreadCache* cache, int64_t size_bytes, void* stream, Tag* tag);
  Block* AllocFromPool(ThreadCache* cache, int64_t size_bytes, Tag* tag);
  /// Begins the block's next life.
  Block* MarkAllocated(Block* block) const {
    if (poison_) UnpoisonMemory(block->ptr, block->requested_bytes);
    block->AdvanceGeneration();
    return block;
  }
  /// Ends the block's life.
  void MarkFreed(Block* block) const {
    block->AdvanceGeneration();
    if (poison_) PoisonMemory(block->ptr, block->size_bytes);
  }
  void FreeToPool(ThreadCache* cache, Block* block);

  Block* TakeOrGrow(ThreadCache* own, int64_t rounded_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Block* TakeAfterShortage(ThreadCache* own, int64_t rounded_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Returns true if the request exceeds the limit by itself. Nothing is then released for it.
  bool ExceedsLimit(int64_t rounded_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return rounded_bytes > system_.limit_bytes();
  }
  Block* TakeFromIdleCaches(const ThreadCache* own, int64_t rounded_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool DrainCachesUntilFits(ThreadCache* own, int64_t rounded_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Put(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReleaseAboveCachedLimit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TrimCache(ThreadCache* cache);
  void FinishPendingFrees() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DrainCache(ThreadCache* cache) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DrainCaches() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void CountEmptyAlloc(ThreadCache* cache);
  int64_t CollectAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string UsageText(int64_t size_bytes);

  Arena* ArenaOf(const ThreadCache* cache) const {
    return cache != nullptr ? cache->arena() : arenas_.first();
  }
  bool HasStreams() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return pending_.HasStreams(); }

  /// Returns the calling thread's cache, and adds it at the first call. Returns null if this pool
  /// has no caches.
  ThreadCache* Cache() {
    if (ThreadCache* const recent = RecentCacheOfThisThread(device(), id())) return recent;
    return cache_bytes_ > 0 ? FindOrAddThreadCache(this) : nullptr;
  }

  const void* const owner_;
  const int64_t cached_limit_bytes_;
  const TrimOthers trim_others_;

  // A thread takes this lock before a cache's lock, never after it.
  std::mutex mutex_;
  SystemMemory system_ ABSL_GUARDED_BY(mutex_);
  const bool poison_;  // true if the host can access the memory
  const bool copied_by_fork_;
  // Its members say which lock they require.
  PoolStatistics statistics_;
  const std::shared_ptr<StreamEvents> events_;  // null if the device has no streams
  /// True if a thread may allocate from an arena with that arena's lock alone. It may not if frees
  /// pend on streams, or if a limit on cached memory must be enforced.
  const bool arenas_suffice_;
  Arenas arenas_ ABSL_GUARDED_BY(mutex_);
  // Declared after the arenas, because its destructor reads their blocks.
  PendingFrees pending_ ABSL_GUARDED_BY(mutex_);
  /// At most one cache for each arena is idle.
  ThreadCacheSet caches_ ABSL_GUARDED_BY(mutex_);
  // The limits of a thread's cache: for small blocks together, and for a single large one.
  const int64_t cache_bytes_;
  const int64_t cache_large_bytes_;
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_DEVICE_POOL_H_
