#ifndef TESSERA_STORAGE_POOL_THREAD_CACHE_H_
#define TESSERA_STORAGE_POOL_THREAD_CACHE_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/attributes.h"
#include "tessera/storage/pool/block.h"
#include "tessera/storage/pool/live_bytes.h"
#include "tessera/storage/pool/owner_lock.h"
#include "tessera/storage/pool/size_class.h"
#include "tessera/storage/pool/tag_table.h"

namespace tessera::storage_internal {

/// The calls counted by one cache since the pool last collected its counters.
struct Counters {
  int64_t allocations = 0;
  int64_t frees = 0;
};

/// The lists of a thread's cache. Each class of small blocks has one list. Large blocks are hashed
/// by their exact size, since a network's step requests the same few dozen sizes again and again.
/// Block::list stores the list of a live block.
inline constexpr int kNumLargeLists = 128;
inline constexpr int kNumCacheLists = kNumSmallClasses + kNumLargeLists;
/// The value of Block::list for a block that no cache keeps.
inline constexpr int kNoCacheList = kNumCacheLists;

/// Returns the list of large blocks of a size, by Knuth's multiplicative hash of the number of
/// pages.
constexpr int LargeList(uint64_t size_bytes) {
  const auto pages = static_cast<uint32_t>(size_bytes / kPageBytes);
  constexpr int kShift = 32 - std::countr_zero(unsigned{kNumLargeLists});
  return kNumSmallClasses + static_cast<int>(pages * 0x9E3779B1u >> kShift);
}

/// Returns the list of a block. Caches keep large blocks of up to `max_large_bytes`.
constexpr int CacheList(const Block& block, int64_t max_large_bytes) {
  if (block.kind == BlockKind::kLarge) {
    return block.size_bytes <= max_large_bytes ? LargeList(block.size_bytes) : kNoCacheList;
  }
  // On shortage a large request may be served from a segment of small blocks.
  return block.size_bytes <= kMaxSmallBytes ? SizeClass(block.size_bytes) : kNoCacheList;
}

/// The maximum that a thread keeps in large blocks, together.
inline constexpr int64_t kMaxLargeCacheBytes = int64_t{128} << 20;
/// The largest block that a thread keeps. A step has few larger blocks of each size, and the time
/// to write eight megabytes hides that of a lock. The recorded steps of a perceptron, a
/// convolutional and a recurrent network look into their arenas 16, 262 and 32 times with 1 MiB
/// here, 13, 123 and 21 times with 4 MiB, and 13, 84 and 21 times with 8 or 16 MiB. Their
/// fragmentation stays the same within two percentage points.
inline constexpr int64_t kMaxCacheBlockBytes = int64_t{8} << 20;

/// Keeps free blocks of one thread to allocate them again, and holds the thread's counters. The
/// lock lets the pool take blocks from another thread's cache when memory is short, and collect the
/// counters.
class ThreadCache {
 public:
  /// Makes an empty cache. The limits hold for all small and for all large blocks together.
  ThreadCache(Arena* arena, int64_t max_small_bytes, int64_t max_large_bytes)
      : arena_(arena), max_bytes_{max_small_bytes, max_large_bytes} {}

  OwnerLock& lock() { return lock_; }
  /// The arena that serves the thread's requests when its cache has no block.
  Arena* arena() const { return arena_; }

  // The members below require lock().

  /// Allocates a cached block: the newest of the size to which the best-fit strategy rounds
  /// `size_bytes`. Counts it under `tag`, which may be null. Returns null and changes nothing if
  /// the cache has no such block, or no room to count it.
  ABSL_ATTRIBUTE_ALWAYS_INLINE
  Block* Allocate(int64_t size_bytes, Tag* tag) {
    if (!HasRoomToAdd(size_bytes, tag)) [[unlikely]]
      return nullptr;
    Block* const block = Pop(size_bytes);
    if (block == nullptr) [[unlikely]]
      return nullptr;
    block->requested_bytes = size_bytes;
    block->tag = tag;
    CountAlloc(size_bytes, tag);
    return block;
  }

  /// Returns whether the cache has room to count that a block was freed.
  bool CanFree(const Block& block) const {
    return (block.tag == nullptr || HasTag(*block.tag)) &&
           HasRoomToSubtract(block.requested_bytes, block.tag);
  }

  /// Keeps a block for which CanFree holds, and counts that it was freed. Returns true if the cache
  /// now holds too much: the caller must then call Trim.
  ABSL_ATTRIBUTE_ALWAYS_INLINE
  bool Free(Block* block) {
    CountFree(block->requested_bytes, block->tag);
    return Push(block);
  }

  /// Removes the newest block of the size to which the best-fit strategy rounds `size_bytes`, and
  /// returns it, or null. The newest is the likeliest to be in the processor's caches. Any value is
  /// allowed: a size that no block can have gives null.
  Block* Pop(int64_t size_bytes) {
    // The unsigned type makes negative and overflowing sizes match no block.
    const auto size = static_cast<uint64_t>(size_bytes);
    if (size - 1 < kMaxSmallBytes) {
      Block** const head = &heads_[SizeClass(size_bytes)];
      return *head == nullptr ? nullptr : Unlink(head, BlockKind::kSmall);
    }
    const uint64_t rounded = (size + kPageBytes - 1) / kPageBytes * kPageBytes;
    Block** link = &heads_[LargeList(rounded)];
    while (*link != nullptr && static_cast<uint64_t>((*link)->size_bytes) != rounded) {
      link = &(*link)->next;
    }
    return *link == nullptr ? nullptr : Unlink(link, BlockKind::kLarge);
  }

  /// Adds a block that has a list. Returns true if the cache now exceeds its limit: the caller must
  /// then call Trim.
  bool Push(Block* block) {
    const size_t list = block->list;
    block->next = heads_[list];
    heads_[list] = block;
    used_[list / 64] |= uint64_t{1} << (list % 64);
    const auto kind = static_cast<size_t>(block->kind);
    bytes_[kind] += block->size_bytes;
    return bytes_[kind] > max_bytes_[kind];
  }

  /// Removes blocks of each kind that exceeds its limit until half of the limit is left, and calls
  /// `put(block)` for each.
  template <typename PutBlock>
  void Trim(const PutBlock& put) {
    for (const BlockKind kind : kBlockKinds) {
      const int64_t max_bytes = max_bytes_[static_cast<size_t>(kind)];
      if (bytes(kind) <= max_bytes) continue;
      DrainWhile(kind, [&](Block* block) {
        put(block);
        return bytes(kind) > max_bytes / 2;
      });
    }
  }

  /// Removes blocks of one kind and calls `put(block)` for each until it returns false. Returns
  /// whether it never did. The largest small blocks come first. Each call continues with another
  /// list of large blocks, so that no size is always removed first.
  template <typename PutBlock>
  bool DrainWhile(BlockKind kind, const PutBlock& put) {
    if (kind == BlockKind::kSmall) {
      for (int list = kNumSmallClasses - 1; list >= 0; --list) {
        if (!DrainListWhile(list, kind, put)) return false;
      }
      return true;
    }
    for (int i = 0; i < kNumLargeLists && bytes(kind) > 0; ++i) {
      cursor_ = (cursor_ + 1) % kNumLargeLists;
      if (!DrainListWhile(kNumSmallClasses + cursor_, kind, put)) return false;
    }
    return true;
  }

  /// Removes every block of one kind and calls `put(block)` for each.
  template <typename PutBlock>
  void Drain(BlockKind kind, const PutBlock& put) {
    static_assert(kNumSmallClasses == 64 && kNumLargeLists % 64 == 0, "words of one kind each");
    const bool small = kind == BlockKind::kSmall;
    for (size_t word = small ? 0 : 1; word < (small ? 1 : used_.size()); ++word) {
      for (uint64_t bits = std::exchange(used_[word], 0); bits != 0; bits &= bits - 1) {
        Block** const head = &heads_[64 * word + static_cast<size_t>(std::countr_zero(bits))];
        while (*head != nullptr) put(Unlink(head, kind));
      }
    }
  }

  int64_t bytes(BlockKind kind) const { return bytes_[static_cast<size_t>(kind)]; }
  int64_t bytes() const { return bytes(BlockKind::kSmall) + bytes(BlockKind::kLarge); }
  Counters& counters() { return counters_; }
  TagCounts& tags() { return tags_; }

  // The functions below count for the thread, and for a tag if it is not null. They require HasTag
  // of that tag.

  bool HasTag(const Tag& tag) const { return tags_.Has(tag); }
  // These return false if Report must follow an allocation or a free of that many bytes.
  bool HasRoomToAdd(int64_t size_bytes, const Tag* tag) const {
    return unreported_.HasRoomToAdd(size_bytes) &&
           (tag == nullptr || tags_.HasRoomToAdd(*tag, size_bytes));
  }
  bool HasRoomToSubtract(int64_t size_bytes, const Tag* tag) const {
    return unreported_.HasRoomToSubtract(size_bytes) &&
           (tag == nullptr || tags_.HasRoomToSubtract(*tag, size_bytes));
  }
  void CountAlloc(int64_t size_bytes, const Tag* tag) {
    ++counters_.allocations;
    unreported_.Add(size_bytes);
    if (tag != nullptr) tags_.CountAlloc(*tag, size_bytes);
  }
  void CountFree(int64_t size_bytes, const Tag* tag) {
    ++counters_.frees;
    unreported_.Subtract(size_bytes);
    if (tag != nullptr) tags_.CountFree(*tag, size_bytes);
  }
  void Report(Tag* tag, LiveBytes* live) {
    unreported_.Flush(live);
    if (tag != nullptr) tags_.Report(tag);
  }

 private:
  Block* Unlink(Block** link, BlockKind kind) {
    Block* const block = *link;
    *link = block->next;
    bytes_[static_cast<size_t>(kind)] -= block->size_bytes;
    return block;
  }

  template <typename PutBlock>
  bool DrainListWhile(int list, BlockKind kind, const PutBlock& put) {
    Block** const head = &heads_[list];
    while (*head != nullptr) {
      if (!put(Unlink(head, kind))) return false;
    }
    return true;
  }

  OwnerLock lock_;
  Arena* const arena_;
  const std::array<int64_t, 2> max_bytes_;  // by kind
  std::array<int64_t, 2> bytes_{};
  UnreportedBytes unreported_;
  Counters counters_;
  std::array<Block*, kNumCacheLists> heads_{};
  /// A bit for each list. It is set if the list has become non-empty since Drain last cleared it.
  std::array<uint64_t, kNumCacheLists / 64> used_{};
  int cursor_ = 0;
  TagCounts tags_;
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_THREAD_CACHE_H_
