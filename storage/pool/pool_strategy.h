#ifndef TESSERA_STORAGE_POOL_POOL_STRATEGY_H_
#define TESSERA_STORAGE_POOL_POOL_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "tessera/storage/device/system_memory.h"
#include "tessera/storage/options.h"
#include "tessera/storage/pool/block.h"
#include "tessera/storage/pool/block_store.h"

namespace tessera::storage_internal {

/// A way to keep free blocks. The pool calls it under a lock, and does what all strategies share:
/// threads' caches, statistics, poisoning, and the steps on shortage.
class PoolStrategy {
 public:
  PoolStrategy(BlockStore* blocks, SystemMemory* system) : blocks_(blocks), system_(system) {}
  virtual ~PoolStrategy() = default;

  /// Rounds a requested size up to a size that Take and Grow accept.
  virtual int64_t RoundUp(int64_t size_bytes) const = 0;

  /// Removes a free block of at least that size and returns it, or null. Throws std::bad_alloc.
  virtual Block* Take(int64_t rounded_bytes) = 0;

  /// Removes a free block that is a whole system allocation of exactly that size and returns it, or
  /// null. Such a block separates no free neighbours.
  virtual Block* TakeWhole(int64_t /*rounded_bytes*/) { return nullptr; }

  /// Takes a block like Take, or from memory that is kept for other sizes. Throws std::bad_alloc.
  virtual Block* TakeFromAnyKind(int64_t rounded_bytes) { return Take(rounded_bytes); }

  /// Allocates memory from the system and returns a block of at least that size, or null if the
  /// system has none. Throws std::bad_alloc and the errors of SystemAllocator.
  virtual Block* Grow(int64_t rounded_bytes) = 0;

  /// Calls `visit(block)` for each free segment that Grow would release before it allocates a block
  /// of that size. `visit` may call Remove.
  virtual void ForEachTooSmall(int64_t /*rounded_bytes*/,
                               const std::function<void(Block*)>& /*visit*/) {}

  /// Adds a free block. Returns the block that now holds its memory, possibly joined with its
  /// neighbours, or null if the memory went back to the system. Never fails.
  virtual Block* Put(Block* block) = 0;

  /// Removes a free block without splitting it.
  virtual void Remove(Block* block) = 0;

  /// Releases a block that Put or FindReleasable returned to the system, if it is a whole system
  /// allocation.
  virtual void ReleaseIfWhole(Block* block) = 0;

  /// Returns the smallest free block of at least `size_bytes` that is a whole system allocation, or
  /// null.
  virtual Block* FindReleasable(int64_t size_bytes) = 0;

  /// Releases free system allocations until `size_bytes` are released or none is left. Returns the
  /// number of bytes released.
  virtual int64_t ReleaseUpTo(int64_t size_bytes) = 0;

  /// Releases one system allocation of at least that size. Calls ReleaseUpTo if there is none.
  void Release(int64_t size_bytes) {
    if (Block* const block = FindReleasable(size_bytes)) return ReleaseIfWhole(block);
    ReleaseUpTo(size_bytes);
  }

  virtual int64_t free_bytes() const = 0;
  virtual int64_t LargestFreeBytes() const = 0;

  /// Returns true if threads' caches may keep blocks. Small blocks then have the sizes of
  /// size_class.h.
  virtual bool AllowsThreadCaches() const { return false; }

 protected:
  BlockStore* const blocks_;
  SystemMemory* const system_;
};

/// Makes the strategy of StoragePoolKind::kNone.
std::unique_ptr<PoolStrategy> MakeNoPool(BlockStore* blocks, SystemMemory* system);
/// Makes the strategies of StoragePoolKind::kExact and kRounded.
std::unique_ptr<PoolStrategy> MakeExactPool(BlockStore* blocks, SystemMemory* system);
std::unique_ptr<PoolStrategy> MakeRoundedPool(BlockStore* blocks, SystemMemory* system,
                                              int64_t linear_cutoff_bytes);
/// Makes the strategy of StoragePoolKind::kBestFit.
std::unique_ptr<PoolStrategy> MakeBestFitPool(BlockStore* blocks, SystemMemory* system);

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_POOL_STRATEGY_H_
