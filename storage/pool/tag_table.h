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

/// The memory that carries one name. Thread-safe.
struct Tag {
  Tag(std::string_view tag_name, size_t tag_number) : name(tag_name), number(tag_number) {}

  const std::string name;
  const size_t number;  ///< the tags of a table are counted from 0
  /// In cache lines of their own: what other threads report is not to take from this thread what
  /// it reads at each call.
  alignas(64) LiveBytes bytes;
  std::atomic<int64_t> allocations{0};
};

/// The names that allocations carry. Tags live as long as the table. Thread-safe.
class TagTable {
 public:
  /// The tag of that name, new or known. Takes a lock: threads remember what they found.
  /// Throws std::bad_alloc; the table is then unchanged.
  Tag* Intern(std::string_view name);

  /// Calls `visit(tag)` for every tag.
  template <typename Visitor>
  void ForEach(const Visitor& visit) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& tag : tags_) visit(tag.get());
  }

  /// The largest live ones first. Throws std::bad_alloc.
  std::vector<StorageTagStats> Stats() const;

  /// For the time of a fork, see fork_locks.h.
  void LockForFork() ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex_) { mutex_.lock(); }
  void UnlockAfterFork() ABSL_UNLOCK_FUNCTION(mutex_) { mutex_.unlock(); }

 private:
  mutable std::mutex mutex_;
  std::map<std::string_view, Tag*> by_name_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Tag>> tags_ ABSL_GUARDED_BY(mutex_);
};

/// What one thread has counted under each tag and not yet reported, and the tags that it used last.
/// Not thread-safe.
class TagCounts {
 public:
  /// The tag of that name if this thread used it lately, else null. Names are compared, not only
  /// their addresses, since another name may have come to lie there.
  Tag* FindRecent(std::string_view name) const {
    const NameKey key(name);
    const Recent& recent = recent_[key.Slot()];
    return recent.key == key && key.HasSameMiddle(name, recent.tag->name) ? recent.tag : nullptr;
  }

  /// Makes room to count under the tag and remembers it. Throws std::bad_alloc.
  void Add(Tag* tag) {
    if (counts_.size() <= tag->number) counts_.resize(tag->number + 1);
    const NameKey key(tag->name);
    recent_[key.Slot()] = {key, tag};
  }

  /// True if there is room to count under the tag, as after Add(tag).
  bool Has(const Tag& tag) const { return tag.number < counts_.size(); }

  // The rest is for a tag that Has says yes to.

  // False if Report(tag) must follow an allocation or a free of so much.
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

  /// Gives the tag what was counted here.
  void Report(Tag* tag) {
    Count& count = counts_[tag->number];
    count.bytes.Flush(&tag->bytes);
    tag->allocations.fetch_add(count.allocations, std::memory_order_relaxed);
    count.allocations = 0;
  }

 private:
  /// Of a size by which an index multiplies, and a vector divides, with a shift.
  struct alignas(32) Count {
    UnreportedBytes bytes;
    int64_t allocations = 0;
  };
  /// A name's length and its first and last eight bytes: all of a name of up to sixteen.
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

    /// Different for names such as fc1_weight and fc2_weight more often than not: Knuth's
    /// multiplicative hash.
    size_t Slot() const { return (first + 31 * last) * 0x9E3779B97F4A7C15u >> (64 - kSlotBits); }

    /// Whether two names with these key are the same. Not by memcmp: the call would have all who
    /// look a name up save registers.
    bool HasSameMiddle(std::string_view a, std::string_view b) const {
      for (size_t i = kBytes; i + kBytes < length; i += kBytes) {
        uint64_t words[2];
        std::memcpy(&words[0], a.data() + i, kBytes);
        std::memcpy(&words[1], b.data() + i, kBytes);
        if (words[0] != words[1]) return false;
      }
      return true;
    }

    /// With one branch, for it is nearly always true.
    friend bool operator==(const NameKey& a, const NameKey& b) {
      return ((a.length ^ b.length) | (a.first ^ b.first) | (a.last ^ b.last)) == 0;
    }

    static constexpr size_t kBytes = 8;
    size_t length = 0;  ///< 0 where there is no name
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
