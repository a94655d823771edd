#ifndef TESSERA_STORAGE_POOL_CURRENT_THREAD_CACHE_H_
#define TESSERA_STORAGE_POOL_CURRENT_THREAD_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tessera/base/device.h"
#include "tessera/storage/pool/thread_cache.h"

namespace tessera::storage_internal {

/// A pool that gives each thread a cache. Held by shared_ptr, because a thread that ends returns
/// its cache to the pool if the pool still exists.
class ThreadCacheOwner : public std::enable_shared_from_this<ThreadCacheOwner> {
 public:
  explicit ThreadCacheOwner(Device device);
  ThreadCacheOwner(const ThreadCacheOwner&) = delete;
  ThreadCacheOwner& operator=(const ThreadCacheOwner&) = delete;

  Device device() const { return device_; }
  /// A number that is not 0 and that no other owner of this process has had or will have.
  uint64_t id() const { return id_; }

  /// Returns a cache for the calling thread. Throws std::bad_alloc.
  virtual ThreadCache* AddCache() = 0;
  /// Takes back the cache of the calling thread, which is about to end.
  virtual void RetireCache(ThreadCache* cache) = 0;

 protected:
  ~ThreadCacheOwner() = default;

 private:
  const Device device_;
  const uint64_t id_;
};

/// Returns the calling thread's cache in the pool. The first call adds it. Returns null if the
/// thread is about to end or there is no memory for a cache.
ThreadCache* FindOrAddThreadCache(ThreadCacheOwner* owner);

/// The cache that the calling thread used last for some devices. An entry of a pool that no longer
/// exists matches no other pool, since the pools' numbers are unique.
struct RecentCache {
  uint64_t pool_id = 0;
  ThreadCache* cache = nullptr;
};
inline constexpr size_t kNumRecentCaches = 4;
/// The entries lie at a fixed offset from the thread's register, in a shared library too. Finding
/// them by a call would make each Alloc and Free save registers. All thread-local memory of such a
/// library must fit into about 1.6 KB, which glibc's dynamic linker reserves for libraries that are
/// loaded later.
[[gnu::tls_model(
    "initial-exec")]] extern constinit thread_local RecentCache recent_caches[kNumRecentCaches];

/// Returns the entry for pools of a device. The address does not depend on the pool, so that the
/// processor can read the cache before the pool's number has arrived from memory.
inline RecentCache& RecentCacheOf(Device device) {
  const auto type = static_cast<unsigned>(device.type);
  // The first devices of all types have different entries.
  return recent_caches[((type ^ type >> 2) + static_cast<unsigned>(device.id)) % kNumRecentCaches];
}

/// Returns the calling thread's cache in the pool with that number, or null if the thread has not
/// used that pool recently.
inline ThreadCache* RecentCacheOfThisThread(Device device, uint64_t pool_id) {
  const RecentCache& recent = RecentCacheOf(device);
  if (recent.pool_id != pool_id) return nullptr;
  // An entry of a pool has a cache. Callers need not ask again.
  if (recent.cache == nullptr) __builtin_unreachable();
  return recent.cache;
}

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_CURRENT_THREAD_CACHE_H_
