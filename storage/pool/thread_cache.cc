#include "tessera/storage/pool/thread_cache.h"

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "tessera/storage/pool/device_pool.h"

namespace tessera::storage_internal {
namespace {

/// The caches that one thread owns in all pools.
class ThreadCaches {
 public:
  ~ThreadCaches();

  ThreadCache* FindOrAdd(DevicePool* pool) {
    for (const Entry& entry : entries_) {
      if (entry.pool_id == pool->id()) return entry.cache;
    }
    std::erase_if(entries_, [](const Entry& entry) { return entry.pool.expired(); });
    entries_.reserve(entries_.size() + 1);
    entries_.push_back({pool->id(), pool->AddCache(), pool->weak_from_this()});
    return entries_.back().cache;
  }

 private:
  struct Entry {
    uint64_t pool_id;
    ThreadCache* cache;
    std::weak_ptr<DevicePool> pool;
  };
  std::vector<Entry> entries_;
};

constinit thread_local bool thread_is_ending = false;
thread_local ThreadCaches thread_caches;

ThreadCaches::~ThreadCaches() {
  // Destructors of other thread-local objects may still free blocks: they get no cache any more.
  thread_is_ending = true;
  std::fill(std::begin(recent_caches), std::end(recent_caches), RecentCache());
  for (const Entry& entry : entries_) {
    if (const std::shared_ptr<DevicePool> pool = entry.pool.lock()) pool->RetireCache(entry.cache);
  }
}

}  // namespace

constinit thread_local RecentCache recent_caches[kNumRecentCaches];

ThreadCache* FindOrAddThreadCache(DevicePool* pool) {
  if (thread_is_ending) return nullptr;
  try {
    ThreadCache* const cache = thread_caches.FindOrAdd(pool);
    RecentCacheOf(pool->device()) = {pool->id(), cache};
    return cache;
  } catch (const std::bad_alloc&) {
    // A cache is a convenience: without one the call goes to the pool, and a Free cannot fail.
    return nullptr;
  }
}

}  // namespace tessera::storage_internal
