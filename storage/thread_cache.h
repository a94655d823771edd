#ifndef TESSERA_STORAGE_THREAD_CACHE_H_
#define TESSERA_STORAGE_THREAD_CACHE_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tessera/base/device.h"
#include "tessera/storage/block.h"
#include "tessera/storage/live_bytes.h"
#include "tessera/storage/owner_lock.h"
#include "tessera/storage/size_class.h"
#include "tessera/storage/tag_table.h"

namespace tessera::storage_internal {

/// What happened in one cache since the pool last collected it.
struct Counters {
  int64_t allocations = 0;
  int64_t frees = 0;
};

/// Blocks above kMaxSmallBytes that one thread keeps, in lists by a hash of their exact size: a
/// network's step asks for the same few dozen sizes again and again.
class LargeBlocks {
 public:
  static constexpr int kCapacity = 1024;
  static constexpr int64_t kMaxTotalBytes = int64_t{128} << 20;
  /// Of larger blocks a step has few of each size, and whoever writes eight megabytes does not
  /// notice a lock. The recorded steps of a perceptron, a convolutional and a recurrent network
  /// look into their arenas 16, 262 and 32 times with 1 MiB here, 13, 123 and 21 times with 4 MiB,
  /// and 13, 84 and 21 times with 8 or 16 MiB, at the same fragmentation within two points.
  static constexpr int64_t kMaxBlockBytes = int64_t{8} << 20;

  explicit LargeBlocks(int64_t max_total_bytes)
      : max_total_bytes_(std::min(max_total_bytes, kMaxTotalBytes)) {}

  bool IsOverfull() const { return count_ > kCapacity || bytes_ > max_total_bytes_; }
  int64_t bytes() const { return bytes_; }

  void Push(Block* block) {
    const size_t bucket = Bucket(block->size_bytes);
    block->next = heads_[bucket];
    heads_[bucket] = block;
    used_[bucket / 64] |= uint64_t{1} << (bucket % 64);
    bytes_ += block->size_bytes;
    ++count_;
  }

  /// The latest of that size, which is the likeliest to be in the processor's caches, or null.
  Block* Pop(int64_t size_bytes) {
    Block** link = &heads_[Bucket(size_bytes)];
    while (*link != nullptr && (*link)->size_bytes != size_bytes) link = &(*link)->next;
    return *link == nullptr ? nullptr : Unlink(link);
  }

  /// Calls `put(block)` until it returns false; returns whether it never did.
  template <typename PutBlock>
  bool DrainWhile(const PutBlock& put) {
    for (size_t i = 0; count_ > 0 && i < kNumBuckets; ++i) {
      // Each time from another list on, so that no size is always the one to go.
      cursor_ = (cursor_ + 1) % kNumBuckets;
      while (heads_[cursor_] != nullptr) {
        if (!put(Unlink(&heads_[cursor_]))) return false;
      }
    }
    return true;
  }

  /// Calls `put(block)` for every block.
  template <typename PutBlock>
  void Drain(const PutBlock& put) {
    for (size_t word = 0; word < kNumBuckets / 64; ++word) {
      for (uint64_t bits = std::exchange(used_[word], 0); bits != 0; bits &= bits - 1) {
        Block*& head = heads_[64 * word + static_cast<size_t>(std::countr_zero(bits))];
        while (head != nullptr) put(Unlink(&head));
      }
    }
  }

  /// Calls `put(block)` for some half of the blocks.
  template <typename PutBlock>
  void DropHalf(const PutBlock& put) {
    const int keep = count_ / 2;
    const int64_t keep_bytes = bytes_ / 2;
    DrainWhile([&](Block* block) {
      put(block);
      return count_ > keep || bytes_ > keep_bytes;
    });
  }

 private:
  static constexpr size_t kNumBuckets = 128;

  /// Knuth's multiplicative hash of the number of pages.
  static size_t Bucket(int64_t size_bytes) {
    const uint64_t pages = static_cast<uint64_t>(size_bytes) / kPageBytes;
    return (static_cast<uint32_t>(pages) * 0x9E3779B1u) >> 25;
  }

  Block* Unlink(Block** link) {
    Block* const block = *link;
    *link = block->next;
    bytes_ -= block->size_bytes;
    --count_;
    return block;
  }

  const int64_t max_total_bytes_;
  std::array<Block*, kNumBuckets> heads_{};
  /// A bit for each list that is not empty, or was not when Drain came by.
  std::array<uint64_t, kNumBuckets / 64> used_{};
  size_t cursor_ = 0;
  int count_ = 0;
  int64_t bytes_ = 0;
};

/// Free blocks that one thread keeps for itself, and its counters. The pool collects both from
/// other threads when memory is short or statistics are asked for, hence the lock.
class ThreadCache {
 public:
  /// Keeps up to `max_bytes` of small blocks, and large ones of up to `max_large_bytes` each and
  /// `max_total_bytes` together.
  ThreadCache(Arena* arena, int64_t max_bytes, int64_t max_large_bytes, int64_t max_total_bytes)
      : arena_(arena),
        max_bytes_(max_bytes),
        max_large_bytes_(max_large_bytes),
        max_block_bytes_(std::max(max_large_bytes, kMaxSmallBytes)),
        large_(max_total_bytes) {}

  /// False for a size of which no block is kept, as for what is not above 0.
  bool MayHave(int64_t size_bytes) const {
    return static_cast<uint64_t>(size_bytes) - 1 < static_cast<uint64_t>(max_block_bytes_);
  }
  bool Accepts(const Block& block) const {
    // On shortage a large block may come from a small one's segment, and has no list among those.
    return block.size_bytes <=
           (block.kind == BlockKind::kSmall ? kMaxSmallBytes : max_large_bytes_);
  }
  OwnerLock& lock() { return lock_; }
  /// Where the thread looks first for what its cache does not have.
  Arena* arena() const { return arena_; }

  // Everything below needs lock().

  /// A block of the size that the best-fit strategy rounds `size_bytes` > 0 to, or null.
  Block* Pop(int64_t size_bytes) {
    return size_bytes <= kMaxSmallBytes ? PopSmall(SizeClass(size_bytes))
                                        : large_.Pop(RoundUpTo(size_bytes, kPageBytes));
  }

  /// Takes a block that Accepts says yes to. Returns true if there is now too much: then Trim must
  /// be called.
  bool Push(Block* block) {
    if (block->kind != BlockKind::kSmall) {
      large_.Push(block);
      return large_.IsOverfull();
    }
    Block*& head = heads_[SizeClass(block->size_bytes)];
    block->next = head;
    head = block;
    small_bytes_ += block->size_bytes;
    return small_bytes_ > max_bytes_;
  }

  /// Calls `put(block)` for blocks that are kept no longer: half of what is too much.
  template <typename PutBlock>
  void Trim(const PutBlock& put) {
    if (large_.IsOverfull()) large_.DropHalf(put);
    if (small_bytes_ <= max_bytes_) return;
    DrainSmall([&](Block* block) {
      put(block);
      return small_bytes_ > max_bytes_ / 2;
    });
  }

  /// Calls `put(block)` for small or for large blocks until it returns false; returns whether it
  /// never did.
  template <typename PutBlock>
  bool DrainWhile(bool small, const PutBlock& put) {
    return small ? DrainSmall(put) : large_.DrainWhile(put);
  }

  /// Calls `put(block)` for every large block.
  template <typename PutBlock>
  void DrainLarge(const PutBlock& put) {
    large_.Drain(put);
  }

  /// Calls `put(block)` for every block.
  template <typename PutBlock>
  void Drain(const PutBlock& put) {
    const auto put_all = [&put](Block* block) {
      put(block);
      return true;
    };
    DrainSmall(put_all);
    large_.Drain(put);
  }

  bool HasLarge() const { return large_.bytes() > 0; }
  int64_t bytes() const { return small_bytes_ + large_.bytes(); }
  Counters& counters() { return counters_; }
  TagCounts& tags() { return tags_; }

  // What is counted is counted under a tag, too, if that is not null and HasTag says yes to it.

  bool HasTag(const Tag& tag) const { return tags_.Has(tag); }
  /// False if Report must follow a change by so much.
  bool HasRoomToCount(int64_t change_bytes, const Tag* tag) const {
    return unreported_.HasRoomFor(change_bytes) &&
           (tag == nullptr || tags_.HasRoomFor(*tag, change_bytes));
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
  Block* PopSmall(int size_class) {
    Block* block = heads_[size_class];
    if (block == nullptr) return nullptr;
    heads_[size_class] = block->next;
    small_bytes_ -= block->size_bytes;
    return block;
  }

  /// The largest first, until `put` returns false; returns whether it never did.
  template <typename PutBlock>
  bool DrainSmall(const PutBlock& put) {
    for (int size_class = kNumSmallClasses - 1; size_class >= 0; --size_class) {
      while (Block* const block = PopSmall(size_class)) {
        if (!put(block)) return false;
      }
    }
    return true;
  }

  OwnerLock lock_;
  Arena* const arena_;
  const int64_t max_bytes_;
  const int64_t max_large_bytes_;
  const int64_t max_block_bytes_;
  int64_t small_bytes_ = 0;
  UnreportedBytes unreported_;
  Counters counters_;
  std::array<Block*, kNumSmallClasses> heads_{};
  LargeBlocks large_;
  TagCounts tags_;
};

/// The cache that the calling thread used last of each of a few devices. Pools are told apart by
/// numbers that are never used again, so the entry of a pool that is gone matches nothing.
struct RecentCache {
  uint64_t pool_id = 0;
  ThreadCache* cache = nullptr;
};
inline constexpr size_t kNumRecentCaches = 4;
/// At a fixed distance from the thread's register also in a shared library: finding them by a call
/// would have each Alloc and Free save registers. All of such a library's thread-local memory has
/// to fit into the room, some 1.6 KB in glibc, that the dynamic linker keeps for those loaded
/// later.
[[gnu::tls_model(
    "initial-exec")]] extern constinit thread_local RecentCache recent_caches[kNumRecentCaches];

class DevicePool;

/// The calling thread's cache in `pool`, made at the first call, or null if the thread is about to
/// end or there is no memory for it. The pool gets it back (DevicePool::RetireCache) when the
/// thread ends.
ThreadCache* FindOrAddThreadCache(DevicePool* pool);

/// The entry for a device's pools. It does not depend on the pool: so the processor goes on with
/// the cache while the pool, and its number to compare, are still on their way from memory.
inline RecentCache& RecentCacheOf(Device device) {
  const auto type = static_cast<unsigned>(device.type);
  // Each type has another one for its first device.
  return recent_caches[((type ^ type >> 2) + static_cast<unsigned>(device.id)) % kNumRecentCaches];
}

/// As FindOrAddThreadCache, of a pool of that device, if the thread has used the pool lately, else
/// null.
inline ThreadCache* RecentCacheOfThisThread(Device device, uint64_t pool_id) {
  const RecentCache& recent = RecentCacheOf(device);
  if (recent.pool_id != pool_id) return nullptr;
  // An entry of a pool has a cache. Callers need not ask again.
  if (recent.cache == nullptr) __builtin_unreachable();
  return recent.cache;
}

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_THREAD_CACHE_H_
