#ifndef TESSERA_STORAGE_POOL_BLOCK_H_
#define TESSERA_STORAGE_POOL_BLOCK_H_

#include <atomic>
#include <cstdint>

#include "tessera/storage/device/alignment.h"

namespace tessera::storage_internal {

struct Arena;
class DevicePool;
struct Tag;

/// The kind of a block. Each kind is cut from segments of its own, so that a few small blocks do
/// not prevent the use or release of a whole large segment.
enum class BlockKind : uint8_t {
  kSmall,  ///< up to kMaxSmallBytes
  kLarge,
};

inline constexpr BlockKind kBlockKinds[] = {BlockKind::kSmall, BlockKind::kLarge};

/// The pool's record of a piece of device memory. It is not stored in that memory, which the host
/// may be unable to access. Records are reused, but none is destroyed before its pool. A stale
/// handle therefore finds a record of a later generation.
struct alignas(64) Block {
  // The fields that a thread's cache reads share one cache line.
  char* ptr = nullptr;
  int64_t size_bytes = 0;       ///< the block's extent, a multiple of kAlignment
  int64_t requested_bytes = 0;  ///< the size that the caller requested, while live
  DevicePool* pool = nullptr;
  /// Each Alloc and Free adds one, so that the number is odd while the block is live. Relaxed: it
  /// only detects wrong handles, and correct callers order Alloc before Free themselves.
  std::atomic<uint64_t> generation{0};
  Tag* tag = nullptr;     ///< the block's tag while live, or null
  Block* next = nullptr;  ///< the list that holds the block while free, with prev
  bool is_free = false;   ///< true if the strategy holds it, so that neighbours may join with it
  /// The kind of segment that the block is cut from, for the best-fit strategy.
  BlockKind kind = BlockKind::kLarge;
  uint16_t list = 0;  ///< its list in a thread's cache, while live or cached

  Arena* arena = nullptr;  ///< the arena that owns the memory
  Block* prev = nullptr;
  Block* lower = nullptr;  ///< the neighbour at the lower address in the same system allocation
  Block* upper = nullptr;

  /// Returns true if the block is a whole system allocation.
  bool IsWhole() const { return lower == nullptr && upper == nullptr; }

  uint64_t CurrentGeneration() const { return generation.load(std::memory_order_relaxed); }
  /// Returns true if a handle with this generation is current.
  bool HasGeneration(uint64_t expected) const { return CurrentGeneration() == expected; }
  /// Begins the next generation, when the block is allocated or freed.
  void AdvanceGeneration() { generation.store(CurrentGeneration() + 1, std::memory_order_relaxed); }
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_BLOCK_H_
