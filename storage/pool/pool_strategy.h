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

/// How free blocks are kept. The pool calls it under a lock and does everything that strategies
/// have in common: threads' caches, statistics, poisoning, what to try on shortage.
class PoolStrategy {
 public:
  PoolStrategy(BlockStore* blocks, SystemMemory* system) : blocks_(blocks), system_(system) {}
  virtual ~PoolStrategy() = default;

  /// The size of the block that a request will get at least; the argument of Take and Grow.
  virtual int64_t RoundUp(int64_t size_bytes) const = 0;

  /// A block of at least that size out of what is free, or null. Throws std::bad_alloc.
  virtual Block* Take(int64_t rounded_bytes) = 0;

  /// A free block of just that size that is all of a system allocation, so that taking it keeps
  /// nothing apart; or null.
  virtual Block* TakeWhole(int64_t /*rounded_bytes*/) { return nullptr; }

  /// As Take, also from memory that is kept for other sizes. Throws std::bad_alloc.
  virtual Block* TakeFromAnyKind(int64_t rounded_bytes) { return Take(rounded_bytes); }

  /// A block of at least that size with memory from the system, or null if there is none.
  /// Throws std::bad_alloc, and what SystemAllocator throws.
  virtual Block* Grow(int64_t rounded_bytes) = 0;

  /// Calls `visit(block)` for each free piece that Grow would give back to the system before it
  /// takes a block of that size from there; visit may Remove it.
  virtual void ForEachTooSmall(int64_t /*rounded_bytes*/,
                               const std::function<void(Block*)>& /*visit*/) {}

  /// Takes a block back; returns the block that holds its memory now, or null if the system has it.
  /// Never fails.
  virtual Block* Put(Block* block) = 0;

  /// Takes a free block out, as it is.
  virtual void Remove(Block* block) = 0;

  /// Gives one block that Put or FindReleasable returned back to the system if all of its system
  /// allocation is free.
  virtual void ReleaseIfWhole(Block* block) = 0;

  /// The smallest single piece of at least `size_bytes` that could go back to the system, or null.
  virtual Block* FindReleasable(int64_t size_bytes) = 0;

  /// Gives free memory back to the system, in pieces until that much is gone or nothing more can
  /// go. Returns how much is gone.
  virtual int64_t ReleaseUpTo(int64_t size_bytes) = 0;

  /// One piece of at least that size if there is one, else as ReleaseUpTo.
  void Release(int64_t size_bytes) {
    if (Block* const block = FindReleasable(size_bytes)) return ReleaseIfWhole(block);
    ReleaseUpTo(size_bytes);
  }

  virtual int64_t free_bytes() const = 0;
  virtual int64_t LargestFreeBytes() const = 0;

  /// True if small blocks have the sizes of size_class.h and may rest in threads' caches.
  virtual bool AllowsThreadCaches() const { return false; }

 protected:
  BlockStore* const blocks_;
  SystemMemory* const system_;
};

/// StoragePoolKind::kNone.
std::unique_ptr<PoolStrategy> MakeNoPool(BlockStore* blocks, SystemMemory* system);
/// StoragePoolKind::kExact and kRounded.
std::unique_ptr<PoolStrategy> MakeExactPool(BlockStore* blocks, SystemMemory* system);
std::unique_ptr<PoolStrategy> MakeRoundedPool(BlockStore* blocks, SystemMemory* system,
                                              int64_t linear_cutoff_bytes);
/// StoragePoolKind::kBestFit.
std::unique_ptr<PoolStrategy> MakeBestFitPool(BlockStore* blocks, SystemMemory* system);

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_POOL_STRATEGY_H_
