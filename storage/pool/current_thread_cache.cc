#include "tessera/storage/pool/current_thread_cache.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

namespace tessera::storage_internal {
namespace {

uint64_t NextOwnerId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

/// The caches of one thread in all pools.
class CachesOfThread {
 public:
  ~CachesOfThread();

  ThreadCache* FindOrAdd(ThreadCacheOwner* owner) {
    for (const Entry& entry : entries_) {
      if (entry.owner_id == owner->id()) return entry.cache;
    }
    std::erase_if(entries_, [](const Entry& entry) { return entry.owner.expired(); });
    entries_.reserve(entries_.size() + 1);
    entries_.push_back({owner->id(), owner->AddCache(), owner->weak_from_this()});
    return entries_.back().cache;
  }

 private:
  struct Entry {
    uint64_t owner_id;
    ThreadCache* cache;
    std::weak_ptr<ThreadCacheOwner> owner;
  };
  std::vector<Entry> entries_;
};

constinit thread_local bool thread_is_ending = false;
thread_local CachesOfThread caches_of_this_thread;

CachesOfThread::~CachesOfThread() {
  // Destructors of other thread-local objects may still free blocks. They get no cache.
  thread_is_ending = true;
  std::fill(std::begin(recent_caches), std::end(recent_caches), RecentCache());
  for (const Entry& entry : entries_) {
    if (const std::shared_ptr<ThreadCacheOwner> owner = entry.owner.lock()) {
      owner->RetireCache(entry.cache);
    }
  }
}

}  // namespace

constinit thread_local RecentCache recent_caches[kNumRecentCaches];

ThreadCacheOwner::ThreadCacheOwner(Device device) : device_(device), id_(NextOwnerId()) {}

ThreadCache* FindOrAddThreadCache(ThreadCacheOwner* owner) {
  if (thread_is_ending) return nullptr;
  try {
    ThreadCache* const cache = caches_of_this_thread.FindOrAdd(owner);
    RecentCacheOf(owner->device()) = {owner->id(), cache};
    return cache;
  } catch (const std::bad_alloc&) {
    // A call without a cache goes to the pool. So Free never fails.
    return nullptr;
  }
}

}  // namespace tessera::storage_internal
