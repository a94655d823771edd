#ifndef TESSERA_STORAGE_POOL_ARENAS_H_
#define TESSERA_STORAGE_POOL_ARENAS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/storage/device/system_memory.h"
#include "tessera/storage/options.h"
#include "tessera/storage/pool/block.h"
#include "tessera/storage/pool/block_store.h"
#include "tessera/storage/pool/pool_strategy.h"

namespace tessera::storage_internal {

/// Free memory of one pool for one thread or a few, with a lock of its own. A system allocation is
/// in one arena as a whole, and so are all blocks that are cut from it, free or not.
struct Arena {
  Arena(DevicePool* pool, const StorageOptions& options, SystemMemory* system);

  std::mutex mutex;
  BlockStore blocks ABSL_GUARDED_BY(mutex);
  const std::unique_ptr<PoolStrategy> strategy ABSL_PT_GUARDED_BY(mutex);
  int num_threads = 0;  ///< which look here first; under the pool's lock
};

/// All arenas of a pool, which calls this with its lock, as well as with the locks of all arenas
/// where nothing else is said.
///
/// Whoever has any arena's lock may read which arena a block is in, since that changes only while
/// somebody has them all. The locks are taken in one order; with a single one others may be tried.
class Arenas {
 public:
  /// Makes the first arena. The options say how free blocks are kept in each.
  Arenas(DevicePool* pool, const StorageOptions& options, SystemMemory* system, int max_arenas);

  /// For threads without a cache. Needs no lock.
  Arena* first() const { return first_; }
  /// As PoolStrategy::RoundUp and AllowsThreadCaches. Need no lock.
  int64_t RoundUp(int64_t size_bytes) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return first_->strategy->RoundUp(size_bytes);
  }
  bool AllowThreadCaches() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return first_->strategy->AllowsThreadCaches();
  }

  /// One for a thread that comes: of those with the fewest threads, or new while each has some.
  /// Needs no arena's lock. Throws std::bad_alloc.
  Arena* FindForThread();

  /// All arenas' locks.
  void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // As in PoolStrategy. Of all arenas the thread's own comes first, and is the one to grow.

  /// Another arena that has the block gives all of its system allocation to the thread's own,
  /// unless that is in hundreds of blocks: what a thread needs step after step is soon where it
  /// finds it without the pool's lock.
  Block* Take(Arena* own, int64_t rounded_bytes);
  Block* TakeFromAnyKind(int64_t rounded_bytes);
  /// What other arenas have and would give back for a block of that size comes to the thread's own
  /// first.
  Block* Grow(Arena* own, int64_t rounded_bytes);
  Block* Put(Block* block);
  void ReleaseIfWhole(Block* block);
  void Release(int64_t size_bytes);
  int64_t free_bytes() const;
  int64_t LargestFreeBytes() const;

  /// Calls `visit(first)` with the first block of each system allocation.
  template <typename Visitor>
  void ForEachSystemAllocation(const Visitor& visit) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const auto& arena : all_) arena->blocks.ForEachSystemAllocation(visit);
  }

 private:
  DevicePool* const pool_;
  const StorageOptions options_;
  SystemMemory* const system_;
  const size_t max_arenas_;
  std::vector<std::unique_ptr<Arena>> all_;
  Arena* const first_;
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_ARENAS_H_
