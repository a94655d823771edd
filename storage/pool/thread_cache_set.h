#ifndef TESSERA_STORAGE_POOL_THREAD_CACHE_SET_H_
#define TESSERA_STORAGE_POOL_THREAD_CACHE_SET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "tessera/storage/pool/block.h"
#include "tessera/storage/pool/thread_cache.h"

namespace tessera::storage_internal {

/// The thread caches of one pool, and the ways to look into all of them. Not thread-safe: the pool
/// calls it under its lock. The owners of the caches may use them meanwhile.
class ThreadCacheSet {
 public:
  size_t size() const { return all_.size(); }

  /// Adds a cache. Throws std::bad_alloc.
  ThreadCache* Add(Arena* arena, int64_t max_small_bytes, int64_t max_large_bytes);

  /// Destroys a cache, which must be empty.
  void Remove(ThreadCache* cache);

  /// Keeps a cache whose thread has ended, with its blocks, for the next thread. Needs no memory.
  void AddIdle(ThreadCache* cache) { idle_.push_back(cache); }

  /// Removes the newest idle cache from the idle ones and returns it, or null. The newest is the
  /// likeliest to hold what the next thread needs.
  ThreadCache* TakeIdle();

  /// The caches whose threads have ended, the oldest first.
  std::span<ThreadCache* const> idle() const { return idle_; }

  /// Locks all caches at once.
  void LockAll();
  void UnlockAll();

  /// Calls `visit(cache)` for all caches, which the caller has locked by LockAll.
  template <typename Visitor>
  void ForEach(const Visitor& visit) const {
    for (const auto& cache : all_) visit(cache.get());
  }

  /// Calls `visit(cache)` for all caches, each one locked during its call.
  template <typename Visitor>
  void ForEachLocked(const Visitor& visit) {
    Announce(all_);
    for (const auto& cache : all_) {
      cache->lock().AwaitOwner();
      visit(cache.get());
      cache->lock().UnlockAsOther();
    }
  }

  /// Removes blocks of one kind from the caches and calls `put(block)` for each until it returns
  /// false. An owner waits for one step at most, and may continue between two steps.
  template <typename PutBlock>
  void DrainInSteps(BlockKind kind, const PutBlock& put);

 private:
  using Caches = std::span<const std::unique_ptr<ThreadCache>>;

  // After this many blocks the owners may continue for a moment. Removing them takes about as long
  // as the system call with which a step begins.
  static constexpr int kBlocksInStep = 128;

  /// Does the first step towards the locks of these caches, with one fence for all.
  static void Announce(Caches caches);

  std::vector<std::unique_ptr<ThreadCache>> all_;
  std::vector<ThreadCache*> idle_;  // a part of all_, with capacity for all of it
};

template <typename PutBlock>
void ThreadCacheSet::DrainInSteps(BlockKind kind, const PutBlock& put) {
  constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  const Caches caches = all_;
  size_t num_done = 0;
  // The bytes that the next cache held when its first step began, less what was removed since. The
  // loop ends there although the owner may free more blocks meanwhile.
  int64_t bytes_left = kUnknown;
  for (bool wanted = true; wanted && num_done < caches.size();) {
    // One fence serves all caches that a step reaches; most hold little. If a cache needs another
    // step, only that cache's owner has to wait.
    const bool continued = bytes_left != kUnknown;
    const Caches announced = caches.subspan(num_done, continued ? 1 : std::dynamic_extent);
    Announce(announced);
    int blocks_left = kBlocksInStep;
    for (const auto& cache : announced) {
      if (wanted && blocks_left > 0) {
        cache->lock().AwaitOwner();
        bytes_left = std::min(bytes_left, cache->bytes());
        const bool empty = cache->DrainWhile(kind, [&](Block* block) {
          bytes_left -= block->size_bytes;
          wanted = put(block);
          return wanted && --blocks_left > 0;
        });
        if (empty || bytes_left <= 0) {
          ++num_done;
          bytes_left = kUnknown;
        }
      }
      cache->lock().UnlockAsOther();
    }
    for (const auto& cache : announced) cache->lock().YieldToOwner();
  }
}

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_THREAD_CACHE_SET_H_
