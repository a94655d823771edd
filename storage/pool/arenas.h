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

/// The free memory of one pool for one or a few threads, with its own lock. Each system allocation
/// belongs to one arena, with all blocks that are cut from it, free or live.
struct Arena {
  Arena(DevicePool* pool, const StorageOptions& options, SystemMemory* system);

  std::mutex mutex;
  BlockStore blocks ABSL_GUARDED_BY(mutex);
  const std::unique_ptr<PoolStrategy> strategy ABSL_PT_GUARDED_BY(mutex);
  int num_threads = 0;  ///< the threads that look here first; guarded by the pool's lock
};

/// All arenas of a pool. The pool calls this while it holds its own lock and, unless a member says
/// otherwise, the locks of all arenas.
///
/// A thread that holds any arena's lock may read which arena a block belongs to, since that changes
/// only while a thread holds all of them. A thread takes all locks in one order. A thread that
/// holds one may only try others.
class Arenas {
 public:
  /// Makes the first arena. `options` choose the strategy of all arenas.
  Arenas(DevicePool* pool, const StorageOptions& options, SystemMemory* system, int max_arenas);

  /// The arena of threads without a cache. Needs no lock.
  Arena* first() const { return first_; }
  // PoolStrategy describes RoundUp and AllowsThreadCaches. These need no lock.
  int64_t RoundUp(int64_t size_bytes) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return first_->strategy->RoundUp(size_bytes);
  }
  bool AllowThreadCaches() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return first_->strategy->AllowsThreadCaches();
  }

  /// Returns the arena for a new thread: a new one if each arena has threads and there is room for
  /// one more, otherwise the one with the fewest threads.
  /// Needs no arena's lock. Throws std::bad_alloc.
  Arena* FindForThread();

  /// Takes and releases the locks of all arenas.
  void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // PoolStrategy describes these members, which look into the thread's own arena first. Only that
  // arena grows.

  /// Takes a block from any arena. If another arena has it, the block's whole system allocation
  /// moves to the thread's own arena, unless it is cut into hundreds of blocks. A thread therefore
  /// soon finds the memory that it needs in each step without the pool's lock.
  Block* Take(Arena* own, int64_t rounded_bytes);
  Block* TakeFromAnyKind(int64_t rounded_bytes);
  /// Moves to the thread's own arena all free segments that the others would release for a block of
  /// that size, and grows it.
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
