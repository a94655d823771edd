#ifndef TESSERA_STORAGE_POOL_BLOCK_H_
#define TESSERA_STORAGE_POOL_BLOCK_H_

#include <atomic>
#include <cstdint>

#include "tessera/storage/device/alignment.h"

namespace tessera::storage_internal {

struct Arena;
class DevicePool;
struct Tag;

/// Blocks of different kinds have segments of their own, so that a few lesser ones do not keep a
/// large segment from being used or given back as a whole.
enum class BlockKind : uint8_t {
  kSmall,  ///< up to kMaxSmallBytes
  kLarge,
};

inline constexpr BlockKind kBlockKinds[] = {BlockKind::kSmall, BlockKind::kLarge};

/// What the pool knows about a piece of device memory. It lies apart from that memory, which the
/// host may not be able to touch. Blocks are recycled but never destroyed before their pool, so a
/// stale handle finds a block whose generation has moved on.
struct alignas(64) Block {
  // In one cache line: all that a thread's cache looks at.
  char* ptr = nullptr;
  int64_t size_bytes = 0;       ///< what the block spans, a multiple of kAlignment
  int64_t requested_bytes = 0;  ///< what the caller asked for, while live
  DevicePool* pool = nullptr;
  /// Odd while the block is live; each Alloc and Free adds one. Relaxed: it only tells a correct
  /// handle from a wrong one, and correct users order Alloc before Free themselves.
  std::atomic<uint64_t> generation{0};
  Tag* tag = nullptr;     ///< while live, what it is counted under besides, or null
  Block* next = nullptr;  ///< with prev: links of whichever list holds the block while free
  bool is_free = false;   ///< in the strategy's lists, so that neighbours may join with it
  /// For the best-fit strategy: whose segments it is cut from.
  BlockKind kind = BlockKind::kLarge;
  uint16_t list = 0;  ///< while live or in a thread's cache: the list that it has there

  Arena* arena = nullptr;  ///< whose memory it is
  Block* prev = nullptr;
  Block* lower = nullptr;  ///< the neighbour at the lower address in the same system allocation
  Block* upper = nullptr;

  /// True if the block is all of what the system gave at once.
  bool IsWhole() const { return lower == nullptr && upper == nullptr; }

  uint64_t CurrentGeneration() const { return generation.load(std::memory_order_relaxed); }
  /// True while the block is in the life that Alloc gave that number.
  bool HasGeneration(uint64_t expected) const { return CurrentGeneration() == expected; }
  /// Moves to the next life or out of it.
  void AdvanceGeneration() { generation.store(CurrentGeneration() + 1, std::memory_order_relaxed); }
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_BLOCK_H_
