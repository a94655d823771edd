#include "tessera/storage/device_pool.h"

#include <algorithm>
#include <atomic>
#include <sstream>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/storage/poison.h"
#include "tessera/storage/size_class.h"

namespace tessera::storage_internal {
namespace {

// How many full caches of threads fit into the limit on cached memory.
constexpr int64_t kCachesWithinLimit = 64;
// Larger blocks always go through the pool, where they join with their neighbours.
constexpr int64_t kMaxCachedBlockBytes = int64_t{16} << 20;

uint64_t NextPoolId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

std::unique_ptr<PoolStrategy> MakeStrategy(const StorageOptions& options, BlockStore* blocks,
                                           SystemMemory* system) {
  switch (options.pool) {
    case StoragePoolKind::kNone:
      return MakeNoPool(blocks, system);
    case StoragePoolKind::kExact:
      return MakeExactPool(blocks, system);
    case StoragePoolKind::kRounded:
      return MakeRoundedPool(blocks, system, options.round_linear_cutoff_bytes);
    case StoragePoolKind::kBestFit:
      break;
  }
  return MakeBestFitPool(blocks, system);
}

/// What one thread may keep of small blocks. Theirs counts as cached too: where little may be
/// cached, threads keep nothing.
int64_t CacheBytes(const StorageOptions& options, const PoolStrategy& strategy) {
  if (!strategy.AllowsThreadCaches()) return 0;
  const int64_t share_bytes = options.cached_limit_bytes / kCachesWithinLimit;
  return share_bytes < kMaxSmallBytes ? 0 : std::min(options.thread_cache_bytes, share_bytes);
}

int64_t CacheLargeBytes(const StorageOptions& options) {
  return std::min(kMaxCachedBlockBytes, options.cached_limit_bytes / kCachesWithinLimit / 8);
}

}  // namespace

DevicePool::DevicePool(Device device, const StorageOptions& options, const void* owner,
                       TrimOthers trim_others)
    : device_(device),
      id_(NextPoolId()),
      owner_(owner),
      cached_limit_bytes_(options.cached_limit_bytes),
      trim_others_(std::move(trim_others)),
      system_(options.system_allocator != nullptr ? options.system_allocator
                                                  : MakeSystemAllocator(device),
              options.limit_bytes),
      poison_(system_.poison()),
      blocks_(this),
      strategy_(MakeStrategy(options, &blocks_, &system_)),
      cache_bytes_(CacheBytes(options, *strategy_)),
      cache_large_bytes_(CacheLargeBytes(options)) {}

DevicePool::~DevicePool() {
  blocks_.ForEachSystemAllocation([this](Block* first) {
    int64_t size_bytes = 0;
    for (const Block* block = first; block != nullptr; block = block->upper) {
      size_bytes += block->size_bytes;
    }
    system_.Release(first->ptr, size_bytes);
  });
}

StorageHandle DevicePool::Alloc(int64_t size_bytes, std::string_view tag) {
  if (size_bytes < 0 || size_bytes > kMaxAllocBytes) {
    throw InvalidArgument("Storage::Alloc: no block can have this size: ", Figures(size_bytes));
  }
  const int32_t tag_number = tags_.Intern(tag);
  ThreadCache* const cache = Cache();
  Block* block = nullptr;
  if (cache != nullptr && size_bytes > 0 && size_bytes <= cache->max_large_bytes()) {
    block = AllocFromCache(cache, size_bytes);
  }
  if (block == nullptr) block = AllocFromPool(cache, size_bytes);
  if (block == nullptr) return {.device = device_};
  if (poison_) UnpoisonMemory(block->ptr, size_bytes);
  block->tag = tag_number;
  if (tag_number >= 0) tags_.CountAlloc(tag_number, size_bytes);
  return {block->ptr, size_bytes, device_, block, block->Advance()};
}

Block* DevicePool::AllocFromCache(ThreadCache* cache, int64_t size_bytes) {
  const int64_t rounded_bytes = strategy_->RoundUp(size_bytes);
  const std::lock_guard<SpinLock> lock(cache->lock());
  Block* block = cache->Pop(rounded_bytes);
  if (block == nullptr) return nullptr;
  block->requested_bytes = size_bytes;
  cache->CountAlloc(*block, &live_);
  return block;
}

/// Null only for a block of no bytes.
Block* DevicePool::AllocFromPool(ThreadCache* cache, int64_t size_bytes) {
  if (cache != nullptr) ReportLive(cache);
  std::unique_lock<std::mutex> lock(mutex_);
  const int64_t system_allocations = system_.allocations();
  Block* block = nullptr;
  if (size_bytes > 0) {
    const int64_t rounded_bytes = strategy_->RoundUp(size_bytes);
    block = TakeOrGrow(rounded_bytes);
    if (block == nullptr) {
      lock.unlock();
      trim_others_(device_);
      lock.lock();
      block = TakeOrGrow(rounded_bytes);
    }
    if (block == nullptr) {
      lock.unlock();
      throw ResourceExhausted("Storage::Alloc: out of memory: ", Figures(size_bytes));
    }
    block->requested_bytes = size_bytes;
    totals_.in_use_bytes += block->size_bytes;
    live_.Report(size_bytes, size_bytes);
  }
  ++totals_.allocations;
  if (system_.allocations() == system_allocations) ++totals_.pool_hits;
  return block;
}

/// What the pool has, what the threads have, what the system gives, and on shortage what it gives
/// after getting something back; null if all of that is not enough.
Block* DevicePool::TakeOrGrow(int64_t rounded_bytes) {
  if (Block* block = strategy_->Take(rounded_bytes)) return block;
  // Blocks from the threads' caches may fit, or join to something that does. So a cache never makes
  // the pool grow.
  DrainCaches();
  if (Block* block = strategy_->Take(rounded_bytes)) return block;
  if (Block* block = strategy_->Grow(rounded_bytes)) return block;
  // One cached piece of enough size, if there is one, leaves the rest of the pool as it is.
  strategy_->Release(rounded_bytes);
  if (Block* block = strategy_->Grow(rounded_bytes)) return block;
  strategy_->Release(kNoLimit);
  return strategy_->Grow(rounded_bytes);
}

void DevicePool::ThrowFreedBefore(const StorageHandle& handle) const {
  throw FailedPrecondition("Storage::Free: the block of ", handle.size_bytes, " bytes on ", device_,
                           " was freed before");
}

void DevicePool::Free(const StorageHandle& handle, bool direct) {
  if (!handle.block->IsIn(handle.generation)) ThrowFreedBefore(handle);
  Block* const block = handle.block;
  block->Advance();
  if (poison_) PoisonMemory(block->ptr, block->size_bytes);
  if (block->tag >= 0) tags_.CountFree(block->tag, block->requested_bytes);
  ThreadCache* const cache = Cache();
  if (cache != nullptr && cache->Accepts(*block) && !direct) {
    FreeToCache(cache, block);
  } else {
    FreeToPool(cache, block, direct);
  }
}

void DevicePool::FreeToCache(ThreadCache* cache, Block* block) {
  bool overfull = false;
  {
    const std::lock_guard<SpinLock> lock(cache->lock());
    cache->CountFree(*block, &live_);
    cache->Push(block);
    overfull = cache->IsOverfull();
  }
  if (overfull) TrimCache(cache);
}

void DevicePool::FreeToPool(ThreadCache* cache, Block* block, bool direct) {
  if (cache != nullptr) ReportLive(cache);
  live_.Report(-block->requested_bytes, 0);
  const std::lock_guard<std::mutex> lock(mutex_);
  ++totals_.frees;
  totals_.in_use_bytes -= block->size_bytes;
  if (direct) {
    Block* freed = strategy_->Put(block);
    if (freed != nullptr) strategy_->ReleaseIfWhole(freed);
  } else {
    Put(block);
  }
}

/// Before the count changes elsewhere: so that its peak on one thread is exact.
void DevicePool::ReportLive(ThreadCache* cache) {
  const std::lock_guard<SpinLock> lock(cache->lock());
  cache->Report(&live_);
}

void DevicePool::Put(Block* block) {
  strategy_->Put(block);
  const int64_t excess_bytes = strategy_->free_bytes() - cached_limit_bytes_;
  if (excess_bytes > 0) strategy_->Release(excess_bytes);
}

void DevicePool::TrimCache(ThreadCache* cache) {
  // The pool's lock first, so that no block is ever on its way where a shortage would not find it.
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::lock_guard<SpinLock> cache_lock(cache->lock());
  cache->Trim([this](Block* block) { Put(block); });
}

void DevicePool::DrainCaches() {
  for (const auto& cache : caches_) {
    const std::lock_guard<SpinLock> lock(cache->lock());
    cache->Drain([this](Block* block) { Put(block); });
  }
}

void DevicePool::Collect(ThreadCache* cache) {
  const std::lock_guard<SpinLock> lock(cache->lock());
  cache->Report(&live_);
  const Counters counters = std::exchange(cache->counters(), Counters());
  totals_.allocations += counters.allocations;
  totals_.frees += counters.frees;
  totals_.pool_hits += counters.pool_hits;
  totals_.in_use_bytes += counters.in_use_bytes;
}

/// Returns the bytes in the threads' caches.
int64_t DevicePool::CollectAll() {
  int64_t bytes = 0;
  for (const auto& cache : caches_) {
    Collect(cache.get());
    const std::lock_guard<SpinLock> lock(cache->lock());
    bytes += cache->bytes();
  }
  return bytes;
}

ThreadCache* DevicePool::AddCache() {
  auto cache = std::make_unique<ThreadCache>(cache_bytes_, cache_large_bytes_);
  const std::lock_guard<std::mutex> lock(mutex_);
  caches_.push_back(std::move(cache));
  return caches_.back().get();
}

void DevicePool::RetireCache(ThreadCache* cache) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Collect(cache);
  {
    const std::lock_guard<SpinLock> cache_lock(cache->lock());
    cache->Drain([this](Block* block) { Put(block); });
  }
  std::erase_if(caches_, [cache](const auto& owned) { return owned.get() == cache; });
}

void DevicePool::ReleaseAll() {
  const std::lock_guard<std::mutex> lock(mutex_);
  DrainCaches();
  strategy_->Release(kNoLimit);
}

void DevicePool::SetLimit(int64_t limit_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  system_.set_limit_bytes(limit_bytes);
  if (system_.reserved_bytes() <= limit_bytes) return;
  DrainCaches();
  strategy_->Release(system_.reserved_bytes() - limit_bytes);
}

void DevicePool::MarkPeak() {
  const std::lock_guard<std::mutex> lock(mutex_);
  CollectAll();
  live_.MarkPeak();
}

StorageStats DevicePool::Stats() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int64_t cache_bytes = CollectAll();
  return {.live_bytes = live_.live(),
          .in_use_bytes = totals_.in_use_bytes,
          .cached_bytes = strategy_->free_bytes() + cache_bytes,
          .reserved_bytes = system_.reserved_bytes(),
          .limit_bytes = system_.limit_bytes(),
          .peak_bytes = live_.peak(),
          .peak_since_mark_bytes = live_.peak_since_mark(),
          .peak_reserved_bytes = system_.peak_reserved_bytes(),
          .allocations = totals_.allocations,
          .frees = totals_.frees,
          .pool_hits = totals_.pool_hits,
          .system_allocations = system_.allocations(),
          .system_failures = system_.failures(),
          .largest_cached_bytes = strategy_->LargestFreeBytes()};
}

/// What every error of Alloc ends with.
std::string DevicePool::Figures(int64_t size_bytes) {
  const StorageStats stats = Stats();
  std::ostringstream text;
  text << "requested " << size_bytes << " bytes on " << device_ << "; in use " << stats.in_use_bytes
       << ", cached " << stats.cached_bytes << ", limit ";
  if (stats.limit_bytes == kNoLimit) {
    text << "none";
  } else {
    text << stats.limit_bytes;
  }
  return text.str();
}

}  // namespace tessera::storage_internal
