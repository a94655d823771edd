#ifndef TESSERA_STORAGE_TAG_TABLE_H_
#define TESSERA_STORAGE_TAG_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/storage/live_bytes.h"
#include "tessera/storage/statistics.h"

namespace tessera::storage_internal {

/// The memory that carries one name. Thread-safe.
struct Tag {
  Tag(std::string_view tag_name, size_t tag_number) : name(tag_name), number(tag_number) {}

  const std::string name;
  const size_t number;  ///< the tags of a table are counted from 0
  LiveBytes bytes;
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
    Tag* const tag = recent_[Slot(name)];
    return tag != nullptr && tag->name == name ? tag : nullptr;
  }

  /// Makes room to count under the tag and remembers it. Throws std::bad_alloc.
  void Add(Tag* tag) {
    if (counts_.size() <= tag->number) counts_.resize(tag->number + 1);
    recent_[Slot(tag->name)] = tag;
  }

  /// After Add(tag).
  void CountAlloc(Tag* tag, int64_t size_bytes) {
    Count& count = counts_[tag->number];
    ++count.allocations;
    count.bytes.Add(size_bytes, &tag->bytes);
  }
  void CountFree(Tag* tag, int64_t size_bytes) {
    if (tag->number < counts_.size()) {
      counts_[tag->number].bytes.Subtract(size_bytes, &tag->bytes);
    } else {
      tag->bytes.Report(-size_bytes, 0);
    }
  }

  /// Gives the tag what was counted here.
  void Report(Tag* tag) {
    if (tag->number >= counts_.size()) return;
    Count& count = counts_[tag->number];
    count.bytes.Flush(&tag->bytes);
    tag->allocations.fetch_add(count.allocations, std::memory_order_relaxed);
    count.allocations = 0;
  }

 private:
  struct Count {
    UnreportedBytes bytes;
    int64_t allocations = 0;
  };
  static constexpr size_t kNumRecent = 16;

  /// Cheap, and different for names such as fc1_weight and fc2_weight more often than not.
  static size_t Slot(std::string_view name) {
    size_t slot = name.size();
    for (size_t i = 0; i < 4; ++i) {
      slot = slot * 31 + static_cast<unsigned char>(name[i * (name.size() - 1) / 3]);
    }
    return (slot ^ (slot >> 4)) % kNumRecent;
  }

  Tag* recent_[kNumRecent] = {};
  std::vector<Count> counts_;
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_TAG_TABLE_H_
