#include "tessera/storage/pool/device_pool.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/base/config.h"
#include "tessera/base/error.h"
#include "tessera/storage/pool/owner_lock.h"
#include "tessera/storage/pool/size_class.h"

namespace tessera::storage_internal {
namespace {

// The share of the limit on cached memory that a thread keeps in small blocks. It may keep as much
// in large ones.
constexpr int64_t kCachePart = 64;

// The maximum number of arenas; more threads share them. A thread in the pool takes the locks of
// all arenas, and a fork takes those of all pools. ThreadSanitizer allows 64 locks at a time.
#if defined(ABSL_HAVE_THREAD_SANITIZER)
constexpr int kMaxArenas = 8;
#else
constexpr int kMaxArenas = 16;
#endif

// The maximum that is taken of one size from another thread's cache at once. More than one block is
// taken, since each look into the cache costs a system call.
constexpr int kBlocksAtOnce = 16;
constexpr int64_t kBytesAtOnce = int64_t{256} << 10;

/// Returns the limit of small blocks in a thread's cache. They count as cached memory: if its limit
/// is low, threads keep nothing.
int64_t CacheBytes(const StorageOptions& options, const Arenas& arenas) {
  if (!arenas.AllowThreadCaches()) return 0;
  const int64_t share_bytes = options.cached_limit_bytes / kCachePart;
  return share_bytes < kMaxSmallBytes ? 0 : std::min(options.thread_cache_bytes, share_bytes);
}

int64_t CacheLargeBytes(const StorageOptions& options) {
  return std::min(kMaxCacheBlockBytes, options.cached_limit_bytes / kCachePart / 64);
}

std::shared_ptr<StreamEvents> Events(const StorageOptions& options, Device device) {
  return options.stream_events != nullptr ? options.stream_events : MakeStreamEvents(device);
}

}  // namespace

DevicePool::DevicePool(Device device, const StorageOptions& options, const void* owner,
                       TrimOthers trim_others)
    : ThreadCacheOwner(device),
      owner_(owner),
      cached_limit_bytes_(options.cached_limit_bytes),
      trim_others_(std::move(trim_others)),
      system_(options.system_allocator != nullptr ? options.system_allocator
                                                  : MakeSystemAllocator(device),
              options.limit_bytes),
      poison_(system_.poison()),
      copied_by_fork_(system_.copied_by_fork()),
      statistics_(&system_),
      events_(Events(options, device)),
      arenas_suffice_(events_ == nullptr && options.cached_limit_bytes == kNoLimit),
      arenas_(this, options, &system_, arenas_suffice_ ? kMaxArenas : 1),
      pending_(events_),
      cache_bytes_(CacheBytes(options, arenas_)),
      cache_large_bytes_(CacheLargeBytes(options)) {}

DevicePool::~DevicePool() {
  pending_.WaitForAll([](Block*) {});
  arenas_.ForEachSystemAllocation([this](Block* first) {
    int64_t size_bytes = 0;
    for (const Block* block = first; block != nullptr; block = block->upper) {
      size_bytes += block->size_bytes;
    }
    system_.Release(first->ptr, size_bytes);
  });
}

void DevicePool::ThrowImpossibleSize(int64_t size_bytes) {
  throw InvalidArgument("Storage::Alloc: no block can have this size: ", UsageText(size_bytes));
}

void DevicePool::ThrowFreedBefore(const StorageHandle& handle) const {
  throw FailedPrecondition("Storage::Free: the block of ", handle.size_bytes, " bytes on ",
                           device(), " was freed before");
}

Block* DevicePool::Alloc(int64_t size_bytes, std::string_view tag_name) {
  CheckSize(size_bytes);
  ThreadCache* const cache = Cache();
  if (size_bytes == 0) {
    CountEmptyAlloc(cache);
    return nullptr;
  }
  Tag* const tag = FindTag(cache, tag_name);
  Block* block = nullptr;
  if (cache != nullptr) {
    // The cache comes first, without the arena's lock, which another thread holds while the pool
    // grows.
    block = PopFromCache(cache, size_bytes, tag);
    if (block == nullptr && arenas_suffice_) block = AllocFromArena(cache, size_bytes, tag);
  }
  if (block == nullptr) block = AllocFromPool(cache, size_bytes, tag);
  return MarkAllocated(block);
}

Block* DevicePool::AllocOnStream(int64_t size_bytes, void* stream, std::string_view tag_name) {
  CheckSize(size_bytes);
  if (!HasStreams() || size_bytes == 0) return Alloc(size_bytes, tag_name);
  ThreadCache* const cache = Cache();
  Tag* const tag = FindTag(cache, tag_name);
  Block* const block = AllocFromStream(cache, size_bytes, stream, tag);
  return block != nullptr ? MarkAllocated(block) : Alloc(size_bytes, tag_name);
}

/// Allocates a block of the thread's cache; returns null if it has none.
Block* DevicePool::PopFromCache(ThreadCache* cache, int64_t size_bytes, Tag* tag) {
  const OwnerGuard guard(cache->lock());
  Block* const block = cache->Pop(size_bytes);
  if (block == nullptr) return nullptr;
  Assign(block, size_bytes, tag);
  statistics_.CountAllocInCache(cache, *block);
  return block;
}

/// Allocates a block of the thread's arena; returns null if it has none.
Block* DevicePool::AllocFromArena(ThreadCache* cache, int64_t size_bytes, Tag* tag) {
  const std::lock_guard<std::mutex> lock(cache->arena()->mutex);
  const OwnerGuard guard(cache->lock());
  Block* const block = TakeFromArena(cache, RoundUpForBestFit(size_bytes), ArenaLocks::kOwn);
  if (block == nullptr) return nullptr;
  Assign(block, size_bytes, tag);
  statistics_.CountAllocInCache(cache, *block);
  return block;
}

/// Sets the fields of a block that a request gets.
void DevicePool::Assign(Block* block, int64_t size_bytes, Tag* tag) const {
  block->requested_bytes = size_bytes;
  block->tag = tag;
  block->list = static_cast<uint16_t>(CacheList(*block, cache_large_bytes_));
}

/// Takes a free block of the thread's arena; returns null if there is none. The cache is locked.
///
/// For a large request the cache first returns all its large blocks, which join with their
/// neighbours, and the request gets the best fit among the results. Otherwise cached blocks would
/// be reused at scattered addresses, the memory between them would never join, and a step would
/// need a tenth more. A system allocation of exactly the size is taken without that.
Block* DevicePool::TakeFromArena(ThreadCache* cache, int64_t rounded_bytes, ArenaLocks locks) {
  Arena* const own = cache->arena();
  if (KindOf(rounded_bytes) == BlockKind::kLarge && cache->bytes(BlockKind::kLarge) > 0) {
    if (Block* const block = own->strategy->TakeWhole(rounded_bytes)) return block;
    Block* kept = nullptr;
    cache->Drain(BlockKind::kLarge, [&](Block* block) {
      Arena* const arena = block->arena;
      if (arena == own || locks == ArenaLocks::kAll) {
        arena->strategy->Put(block);
      } else if (arena->mutex.try_lock()) {
        arena->strategy->Put(block);
        arena->mutex.unlock();
      } else {
        block->next = std::exchange(kept, block);
      }
    });
    while (kept != nullptr) cache->Push(std::exchange(kept, kept->next));
  }
  return own->strategy->Take(rounded_bytes);
}

/// Allocates a block that was freed on the same stream; returns null if there is none.
Block* DevicePool::AllocFromStream(ThreadCache* cache, int64_t size_bytes, void* stream, Tag* tag) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Block* const block = pending_.TakeOnStream(stream, arenas_.RoundUp(size_bytes));
  if (block == nullptr) return nullptr;
  Assign(block, size_bytes, tag);
  statistics_.CountAlloc(cache, *block);
  return block;
}

/// Allocates a block from any arena, any cache or the system.
Block* DevicePool::AllocFromPool(ThreadCache* cache, int64_t size_bytes, Tag* tag) {
  std::unique_lock<std::mutex> lock(mutex_);
  std::unique_lock<Arenas> arenas_lock(arenas_);
  const int64_t rounded_bytes = arenas_.RoundUp(size_bytes);
  int64_t system_allocations = system_.allocations();
  Block* block = TakeOrGrow(cache, rounded_bytes);
  if (block == nullptr && !ExceedsLimit(rounded_bytes)) {
    arenas_lock.unlock();
    lock.unlock();
    trim_others_(device());
    lock.lock();
    arenas_lock.lock();
    system_allocations = system_.allocations();
    block = TakeOrGrow(cache, rounded_bytes);
  }
  // Blocks from threads' caches may have raised the pool's cached memory above its limit.
  ReleaseAboveCachedLimit();
  if (block == nullptr) {
    arenas_lock.unlock();
    lock.unlock();
    throw ResourceExhausted("Storage::Alloc: out of memory: ", UsageText(size_bytes));
  }
  if (system_.allocations() != system_allocations) statistics_.CountPoolMiss();
  Assign(block, size_bytes, tag);
  statistics_.CountAlloc(cache, *block);
  return block;
}

/// Takes a block from the arenas, the threads' caches or the system, and on shortage after waiting
/// for streams or releasing cached memory. Returns null if all of that is not enough.
Block* DevicePool::TakeOrGrow(ThreadCache* own, int64_t rounded_bytes) {
  pending_.CollectDone([this](Block* block) { Put(block); });
  if (own != nullptr) {
    const OwnerGuard guard(own->lock());
    if (Block* block = TakeFromArena(own, rounded_bytes, ArenaLocks::kAll)) return block;
  }
  if (Block* block = TakeFromIdleCaches(own, rounded_bytes)) return block;
  if (Block* block = arenas_.Take(ArenaOf(own), rounded_bytes)) return block;
  // Blocks from the threads' caches may fit or join to a block that fits. So cached blocks never
  // make the pool grow.
  if (DrainCachesUntilFits(own, rounded_bytes)) {
    if (Block* block = arenas_.Take(ArenaOf(own), rounded_bytes)) return block;
  }
  if (!ExceedsLimit(rounded_bytes)) {
    if (Block* block = arenas_.Grow(ArenaOf(own), rounded_bytes)) return block;
  }
  return TakeAfterShortage(own, rounded_bytes);
}

/// Takes a block after waiting for streams, or after releasing cached memory to the system.
Block* DevicePool::TakeAfterShortage(ThreadCache* own, int64_t rounded_bytes) {
  Block* found = nullptr;
  pending_.WaitUntil([&](Block* block) {
    Put(block);
    found = arenas_.Take(ArenaOf(own), rounded_bytes);
    return found != nullptr;
  });
  if (found != nullptr) return found;
  // The system cannot serve the request, so nothing is released for it.
  if (ExceedsLimit(rounded_bytes)) return arenas_.TakeFromAnyKind(rounded_bytes);
  DrainCaches();
  // Releasing one cached segment of enough size leaves the rest of the pool as it is.
  arenas_.Release(rounded_bytes);
  if (Block* block = arenas_.Grow(ArenaOf(own), rounded_bytes)) return block;
  arenas_.Release(kNoLimit);
  if (Block* block = arenas_.Grow(ArenaOf(own), rounded_bytes)) return block;
  return arenas_.TakeFromAnyKind(rounded_bytes);
}

/// Returns the blocks in the caches of ended threads to the arenas, the oldest cache first, until
/// the request fits. The pool's lock is enough, because these caches have no owner.
Block* DevicePool::TakeFromIdleCaches(const ThreadCache* own, int64_t rounded_bytes) {
  const BlockKind kind = KindOf(rounded_bytes);
  for (ThreadCache* const cache : caches_.idle()) {
    if (cache->bytes(kind) == 0) continue;
    cache->Drain(kind, [this](Block* block) { Put(block); });
    if (Block* block = arenas_.Take(ArenaOf(own), rounded_bytes)) return block;
  }
  return nullptr;
}

/// Returns blocks from the threads' caches to the arenas, this thread's first, until one fits,
/// alone or joined with its neighbours. Taking more would only empty the caches. Other threads wait
/// for about one step at most.
bool DevicePool::DrainCachesUntilFits(ThreadCache* own, int64_t rounded_bytes) {
  const BlockKind kind = KindOf(rounded_bytes);
  bool fits = false;
  const auto put = [&](Block* block) {
    const Block* const joined = arenas_.Put(block);
    fits = joined->kind == kind && joined->size_bytes >= rounded_bytes;
    return !fits;
  };
  if (own != nullptr) {
    const OwnerGuard guard(own->lock());
    own->DrainWhile(kind, put);
  }
  if (fits || caches_.size() <= size_t{own != nullptr}) return fits;
  // Blocks that fit by themselves come first, from all caches at once, because one fence serves all
  // of them. This thread's cache has none of the kind left.
  caches_.ForEachLocked([&](ThreadCache* cache) {
    if (fits) return;
    int64_t bytes = 0;
    for (int count = 0; count < kBlocksAtOnce && bytes < kBytesAtOnce; ++count) {
      Block* const block = cache->Pop(rounded_bytes);
      if (block == nullptr) break;
      bytes += block->size_bytes;
      put(block);
    }
  });
  if (!fits) caches_.DrainInSteps(kind, put);
  return fits;
}

void DevicePool::Free(const StorageHandle& handle) {
  CheckLive(handle);
  Block* const block = handle.block;
  MarkFreed(block);
  ThreadCache* const cache = Cache();
  if (cache == nullptr || block->list == kNoCacheList) return FreeToPool(cache, block);
  bool overfull = false;
  {
    const OwnerGuard guard(cache->lock());
    statistics_.CountFreeInCache(cache, *block);
    overfull = cache->Push(block);
  }
  if (overfull) TrimCache(cache);
}

void DevicePool::FreeToPool(ThreadCache* cache, Block* block) {
  if (cache != nullptr && arenas_suffice_) {
    Arena* const own = cache->arena();
    const std::lock_guard<std::mutex> lock(own->mutex);
    if (block->arena == own) {
      statistics_.CountFree(cache, *block);
      own->strategy->Put(block);
      return;
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::lock_guard<Arenas> arenas_lock(arenas_);
  statistics_.CountFree(cache, *block);
  Put(block);
}

void DevicePool::DirectFree(const StorageHandle& handle) {
  CheckLive(handle);
  MarkFreed(handle.block);
  ThreadCache* const cache = Cache();
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::lock_guard<Arenas> arenas_lock(arenas_);
  statistics_.CountFree(cache, *handle.block);
  Block* const freed = arenas_.Put(handle.block);
  if (freed != nullptr) arenas_.ReleaseIfWhole(freed);
  // A part of a system allocation cannot be released, and counts as cached.
  ReleaseAboveCachedLimit();
}

void DevicePool::FreeOnStream(const StorageHandle& handle, void* stream) {
  if (!HasStreams()) return Free(handle);
  CheckLive(handle);
  ThreadCache* const cache = Cache();
  const std::lock_guard<std::mutex> lock(mutex_);
  // Add comes first, because only it may throw.
  pending_.Add(handle.block, stream);
  MarkFreed(handle.block);
  statistics_.CountFree(cache, *handle.block);
}

/// Counts an allocation of 0 bytes. A thread with a cache does not take the pool's lock for it.
void DevicePool::CountEmptyAlloc(ThreadCache* cache) {
  if (cache != nullptr) {
    const OwnerGuard guard(cache->lock());
    ++cache->counters().allocations;
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  statistics_.CountEmptyAlloc();
}

void DevicePool::Put(Block* block) {
  arenas_.Put(block);
  ReleaseAboveCachedLimit();
}

void DevicePool::ReleaseAboveCachedLimit() {
  if (cached_limit_bytes_ == kNoLimit) return;
  const int64_t excess_bytes = arenas_.free_bytes() - cached_limit_bytes_;
  if (excess_bytes > 0) arenas_.Release(excess_bytes);
}

void DevicePool::TrimCache(ThreadCache* cache) {
  // The pool's lock comes first, so that another thread that is short of memory finds every block.
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::lock_guard<Arenas> arenas_lock(arenas_);
  const OwnerGuard guard(cache->lock());
  cache->Trim([this](Block* block) { Put(block); });
}

void DevicePool::DrainCaches() {
  const auto put = [this](Block* block) {
    Put(block);
    return true;
  };
  for (const BlockKind kind : kBlockKinds) caches_.DrainInSteps(kind, put);
  // Threads may have freed a few blocks meanwhile. They are taken from all caches at once.
  caches_.ForEachLocked([this](ThreadCache* cache) { DrainCache(cache); });
}

/// Returns all blocks of a locked cache to the arenas.
void DevicePool::DrainCache(ThreadCache* cache) {
  for (const BlockKind kind : kBlockKinds) {
    cache->Drain(kind, [this](Block* block) { Put(block); });
  }
}

/// Adds the counters of all caches to the pool's. Returns the bytes in the caches.
int64_t DevicePool::CollectAll() {
  int64_t bytes = 0;
  caches_.ForEachLocked([&](ThreadCache* cache) {
    statistics_.Collect(cache);
    bytes += cache->bytes();
  });
  return bytes;
}

ThreadCache* DevicePool::AddCache() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ThreadCache* cache = caches_.TakeIdle();
  if (cache == nullptr) {
    cache = caches_.Add(arenas_.FindForThread(), cache_bytes_,
                        std::min(kMaxLargeCacheBytes, cached_limit_bytes_ / kCachePart));
  }
  ++cache->arena()->num_threads;
  return cache;
}

void DevicePool::RetireCache(ThreadCache* cache) {
  const std::lock_guard<std::mutex> lock(mutex_);
  {
    const OwnerGuard guard(cache->lock());
    statistics_.Collect(cache);
  }
  // The next thread gets this cache with its blocks. Threads that run one after the other and do
  // the same work then need no arena, and do not delay other threads by taking all arenas' locks.
  if (--cache->arena()->num_threads == 0 && arenas_suffice_) return caches_.AddIdle(cache);
  const std::lock_guard<Arenas> arenas_lock(arenas_);
  DrainCache(cache);
  caches_.Remove(cache);
}

void DevicePool::LockForFork() {
  // The call initializes a static variable. The child would wait for ever for a thread that was
  // initializing it during the fork.
  CanFenceAllThreads();
  mutex_.lock();
  arenas_.lock();
  // No thread is changing its cache now. The child keeps the caches of threads that it does not
  // have, as if these slept: their counts are collected, and their blocks are taken on shortage.
  caches_.LockAll();
  statistics_.LockForFork();
}

void DevicePool::UnlockAfterFork(ForkSide side) {
  statistics_.UnlockAfterFork();
  if (side == ForkSide::kChild) {
    caches_.ForEach([](ThreadCache* cache) { cache->lock().ResetOwner(); });
  }
  caches_.UnlockAll();
  arenas_.unlock();
  mutex_.unlock();
}

void DevicePool::FinishPendingFrees() {
  pending_.WaitForAll([this](Block* block) { Put(block); });
}

void DevicePool::ReleaseAll() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::lock_guard<Arenas> arenas_lock(arenas_);
  FinishPendingFrees();
  DrainCaches();
  arenas_.Release(kNoLimit);
}

void DevicePool::SetLimit(int64_t limit_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::lock_guard<Arenas> arenas_lock(arenas_);
  system_.set_limit_bytes(limit_bytes);
  if (system_.reserved_bytes() <= limit_bytes) return;
  FinishPendingFrees();
  DrainCaches();
  arenas_.Release(system_.reserved_bytes() - limit_bytes);
}

int64_t DevicePool::limit_bytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return system_.limit_bytes();
}

void DevicePool::MarkPeak() {
  const std::lock_guard<std::mutex> lock(mutex_);
  CollectAll();
  statistics_.MarkPeak();
}

void DevicePool::StartTimeline(Timeline::Recording empty) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // All caches are locked at once, so that no change falls between the first value and the first
  // event.
  caches_.LockAll();
  caches_.ForEach([this](ThreadCache* cache) { statistics_.Collect(cache); });
  statistics_.StartTimeline(std::move(empty));
  caches_.UnlockAll();
}

std::vector<StorageTagStats> DevicePool::TagStats() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    CollectAll();
  }
  return statistics_.TagStats();
}

StorageStats DevicePool::Stats() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::lock_guard<Arenas> arenas_lock(arenas_);
  const int64_t cache_bytes = CollectAll();
  StorageStats stats = statistics_.Stats();
  stats.pending_bytes = pending_.bytes();
  stats.cached_bytes = arenas_.free_bytes() + cache_bytes + stats.pending_bytes;
  stats.in_use_bytes = stats.reserved_bytes - stats.cached_bytes;
  stats.largest_cached_bytes = arenas_.LargestFreeBytes();
  return stats;
}

/// Returns the text with which the errors of Alloc end.
std::string DevicePool::UsageText(int64_t size_bytes) {
  const StorageStats stats = Stats();
  return "requested " + std::to_string(size_bytes) + " bytes on " + device().ToString() +
         "; in use " + std::to_string(stats.in_use_bytes) + ", cached " +
         std::to_string(stats.cached_bytes) + ", limit " +
         (stats.limit_bytes == kNoLimit ? "none" : std::to_string(stats.limit_bytes));
}

}  // namespace tessera::storage_internal
