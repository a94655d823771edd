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

/// What happened in one cache since the pool last collected it.
struct Counters {
  int64_t allocations = 0;
  int64_t frees = 0;
};

/// The lists of a thread's cache: one for each class of small blocks, and for large ones some by a
/// hash of their exact size, since a network's step asks for the same few dozen sizes again and
/// again. A block that is handed out knows its list (Block::list).
inline constexpr int kNumLargeLists = 128;
inline constexpr int kNumCacheLists = kNumSmallClasses + kNumLargeLists;
/// Of a block that no cache keeps.
inline constexpr int kNoCacheList = kNumCacheLists;

/// The list of large blocks of a size in whole pages: Knuth's multiplicative hash of their number.
constexpr int LargeList(uint64_t size_bytes) {
  const auto pages = static_cast<uint32_t>(size_bytes / kPageBytes);
  constexpr int kShift = 32 - std::countr_zero(unsigned{kNumLargeLists});
  return kNumSmallClasses + static_cast<int>(pages * 0x9E3779B1u >> kShift);
}

/// The list of a block if caches keep large ones of up to `max_large_bytes`.
constexpr int CacheList(const Block& block, int64_t max_large_bytes) {
  if (block.kind == BlockKind::kLarge) {
    return block.size_bytes <= max_large_bytes ? LargeList(block.size_bytes) : kNoCacheList;
  }
  // On shortage a large block may come from a small one's segment.
  return block.size_bytes <= kMaxSmallBytes ? SizeClass(block.size_bytes) : kNoCacheList;
}

/// Large blocks that a thread may keep, together.
inline constexpr int64_t kMaxLargeCacheBytes = int64_t{128} << 20;
/// The largest of them. Of larger ones a step has few of each size, and whoever writes eight
/// megabytes does not notice a lock. The recorded steps of a perceptron, a convolutional and a
/// recurrent network look into their arenas 16, 262 and 32 times with 1 MiB here, 13, 123 and 21
/// times with 4 MiB, and 13, 84 and 21 times with 8 or 16 MiB, at the same fragmentation within two
/// points.
inline constexpr int64_t kMaxCacheBlockBytes = int64_t{8} << 20;

/// Free blocks that one thread keeps for itself, and its counters. The pool collects both from
/// other threads when memory is short or statistics are asked for, hence the lock.
class ThreadCache {
 public:
  /// Keeps up to so many bytes of small blocks together, and of large ones.
  ThreadCache(Arena* arena, int64_t max_small_bytes, int64_t max_large_bytes)
      : arena_(arena), max_bytes_{max_small_bytes, max_large_bytes} {}

  OwnerLock& lock() { return lock_; }
  /// Where the thread looks first for what its cache does not have.
  Arena* arena() const { return arena_; }

  // Everything below needs lock().

  /// Hands out a cached block: the newest of the size to which the best-fit strategy rounds
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

  /// A block of the size that the best-fit strategy rounds `size_bytes` to, or null, as for any
  /// size that no block has. It is the latest of that size, which is the likeliest to be in the
  /// processor's caches.
  Block* Pop(int64_t size_bytes) {
    // Without a sign, so that what is negative or overflows is no list's size either.
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

  /// Takes a block that has a list. Returns true if there is now too much: then Trim must be
  /// called.
  bool Push(Block* block) {
    const size_t list = block->list;
    block->next = heads_[list];
    heads_[list] = block;
    used_[list / 64] |= uint64_t{1} << (list % 64);
    const auto kind = static_cast<size_t>(block->kind);
    bytes_[kind] += block->size_bytes;
    return bytes_[kind] > max_bytes_[kind];
  }

  /// Calls `put(block)` for blocks that are kept no longer: half of what is too much.
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

  /// Calls `put(block)` for blocks of one kind until it returns false; returns whether it never
  /// did. The largest small ones come first; of the large ones those of another list each time, so
  /// that no size is always the one to go.
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

  /// Calls `put(block)` for every block of one kind.
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

  // What is counted is counted under a tag, too, if that is not null and HasTag says yes to it.

  bool HasTag(const Tag& tag) const { return tags_.Has(tag); }
  // False if Report must follow an allocation or a free of so much.
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
  /// A bit for each list that is not empty, or was not when Drain came by.
  std::array<uint64_t, kNumCacheLists / 64> used_{};
  int cursor_ = 0;
  TagCounts tags_;
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_THREAD_CACHE_H_
