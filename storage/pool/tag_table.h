#ifndef TESSERA_STORAGE_POOL_TAG_TABLE_H_
#define TESSERA_STORAGE_POOL_TAG_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/storage/pool/live_bytes.h"
#include "tessera/storage/statistics.h"

namespace tessera::storage_internal {

/// The statistics of the memory that carries one name. Thread-safe.
struct Tag {
  Tag(std::string_view tag_name, size_t tag_number) : name(tag_name), number(tag_number) {}

  const std::string name;
  const size_t number;  ///< the tag's index in its table
  /// The counts have cache lines of their own, so that reports of other threads do not invalidate
  /// the lines that this thread reads in each call.
  alignas(64) LiveBytes bytes;
  std::atomic<int64_t> allocations{0};
};

/// Maps the names that allocations carry to tags, which live as long as the table. Thread-safe.
class TagTable {
 public:
  /// Returns the tag of that name, and adds it if it is new. Takes a lock, so threads remember the
  /// tags that they found.
  /// Throws std::bad_alloc. The table is then unchanged.
  Tag* Intern(std::string_view name);

  /// Calls `visit(tag)` for every tag.
  template <typename Visitor>
  void ForEach(const Visitor& visit) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& tag : tags_) visit(tag.get());
  }

  /// Returns the tags' statistics, sorted by live bytes, largest first. Throws std::bad_alloc.
  std::vector<StorageTagStats> Stats() const;

  /// Locks the table during a fork; fork_locks.h explains it.
  void LockForFork() ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex_) { mutex_.lock(); }
  void UnlockAfterFork() ABSL_UNLOCK_FUNCTION(mutex_) { mutex_.unlock(); }

 private:
  mutable std::mutex mutex_;
  std::map<std::string_view, Tag*> by_name_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Tag>> tags_ ABSL_GUARDED_BY(mutex_);
};

/// One thread's counts for each tag that it has not yet reported, and the tags that it used
/// recently. Not thread-safe.
class TagCounts {
 public:
  /// Returns the tag of that name if this thread used it recently, else null. Compares the
  /// characters, since another name may now be stored at the same address.
  Tag* FindRecent(std::string_view name) const {
    const NameKey key(name);
    const Recent& recent = recent_[key.Slot()];
    return recent.key == key && key.HasSameMiddle(name, recent.tag->name) ? recent.tag : nullptr;
  }

  /// Adds a count for the tag and remembers the tag. Throws std::bad_alloc.
  void Add(Tag* tag) {
    if (counts_.size() <= tag->number) counts_.resize(tag->number + 1);
    const NameKey key(tag->name);
    recent_[key.Slot()] = {key, tag};
  }

  /// Returns true if there is a count for the tag, as after Add(tag).
  bool Has(const Tag& tag) const { return tag.number < counts_.size(); }

  // The functions below require Has(tag).

  // These return false if Report(tag) must follow an allocation or a free of that many bytes.
  bool HasRoomToAdd(const Tag& tag, int64_t size_bytes) const {
    return counts_[tag.number].bytes.HasRoomToAdd(size_bytes);
  }
  bool HasRoomToSubtract(const Tag& tag, int64_t size_bytes) const {
    return counts_[tag.number].bytes.HasRoomToSubtract(size_bytes);
  }
  void CountAlloc(const Tag& tag, int64_t size_bytes) {
    Count& count = counts_[tag.number];
    ++count.allocations;
    count.bytes.Add(size_bytes);
  }
  void CountFree(const Tag& tag, int64_t size_bytes) {
    counts_[tag.number].bytes.Subtract(size_bytes);
  }

  /// Adds the counts to the tag and resets them.
  void Report(Tag* tag) {
    Count& count = counts_[tag->number];
    count.bytes.Flush(&tag->bytes);
    tag->allocations.fetch_add(count.allocations, std::memory_order_relaxed);
    count.allocations = 0;
  }

 private:
  /// The size is a power of two, so that indexing needs a shift instead of a multiplication.
  struct alignas(32) Count {
    UnreportedBytes bytes;
    int64_t allocations = 0;
  };
  /// A name's length and its first and last eight bytes, which are all of a name of up to sixteen.
  struct NameKey {
    NameKey() = default;
    explicit NameKey(std::string_view name) : length(name.size()) {
      if (length >= kBytes) {
        std::memcpy(&first, name.data(), kBytes);
        std::memcpy(&last, name.data() + length - kBytes, kBytes);
      } else {
        for (const char c : name) first = first << 8 | static_cast<unsigned char>(c);
      }
    }

    /// Returns a hash of the key by Knuth's multiplicative method. Similar names such as fc1_weight
    /// and fc2_weight mostly get different slots.
    size_t Slot() const { return (first + 31 * last) * 0x9E3779B97F4A7C15u >> (64 - kSlotBits); }

    /// Returns whether two names with this key are equal. A call of memcmp would make each lookup
    /// save registers, so the loop is inline.
    bool HasSameMiddle(std::string_view a, std::string_view b) const {
      for (size_t i = kBytes; i + kBytes < length; i += kBytes) {
        uint64_t words[2];
        std::memcpy(&words[0], a.data() + i, kBytes);
        std::memcpy(&words[1], b.data() + i, kBytes);
        if (words[0] != words[1]) return false;
      }
      return true;
    }

    /// Compares with one branch, because the keys are nearly always equal.
    friend bool operator==(const NameKey& a, const NameKey& b) {
      return ((a.length ^ b.length) | (a.first ^ b.first) | (a.last ^ b.last)) == 0;
    }

    static constexpr size_t kBytes = 8;
    size_t length = 0;  ///< 0 if there is no name
    uint64_t first = 0;
    uint64_t last = 0;
  };
  struct Recent {
    NameKey key;
    Tag* tag = nullptr;
  };
  static constexpr int kSlotBits = 4;

  Recent recent_[1 << kSlotBits];
  std::vector<Count> counts_;
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_TAG_TABLE_H_
