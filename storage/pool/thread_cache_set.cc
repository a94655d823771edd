#include "tessera/storage/pool/thread_cache_set.h"

#include "tessera/storage/pool/owner_lock.h"

namespace tessera::storage_internal {

ThreadCache* ThreadCacheSet::Add(Arena* arena, int64_t max_small_bytes, int64_t max_large_bytes) {
  idle_.reserve(all_.size() + 1);
  all_.push_back(std::make_unique<ThreadCache>(arena, max_small_bytes, max_large_bytes));
  return all_.back().get();
}

void ThreadCacheSet::Remove(ThreadCache* cache) {
  std::erase_if(all_, [cache](const auto& owned) { return owned.get() == cache; });
}

ThreadCache* ThreadCacheSet::TakeIdle() {
  if (idle_.empty()) return nullptr;
  ThreadCache* const cache = idle_.back();
  idle_.pop_back();
  return cache;
}

void ThreadCacheSet::LockAll() {
  Announce(all_);
  for (const auto& cache : all_) cache->lock().AwaitOwner();
}

void ThreadCacheSet::UnlockAll() {
  for (const auto& cache : all_) cache->lock().UnlockAsOther();
}

void ThreadCacheSet::Announce(Caches caches) {
  bool needs_fence = false;
  for (const auto& cache : caches) {
    cache->lock().AnnounceOther();
    needs_fence |= cache->lock().asymmetric();
  }
  if (needs_fence) FenceAllThreads();
}

}  // namespace tessera::storage_internal
