#include "tessera/storage/pool/tag_table.h"

#include <algorithm>

namespace tessera::storage_internal {

Tag* TagTable::Intern(std::string_view name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return found->second;
  auto tag = std::make_unique<Tag>(name, tags_.size());
  if (tags_.size() == tags_.capacity()) tags_.reserve(2 * tags_.size() + 8);
  // The key refers to the tag's own copy of the name, which does not move.
  by_name_.emplace(tag->name, tag.get());
  tags_.push_back(std::move(tag));
  return tags_.back().get();
}

std::vector<StorageTagStats> TagTable::Stats() const {
  std::vector<StorageTagStats> stats;
  ForEach([&stats](const Tag* tag) {
    const int64_t allocations = tag->allocations.load(std::memory_order_relaxed);
    if (allocations == 0) return;  // the only Alloc with this tag failed
    StorageTagStats& entry = stats.emplace_back();
    entry.tag = tag->name;
    entry.live_bytes = tag->bytes.live();
    entry.peak_bytes = tag->bytes.peak();
    entry.allocations = allocations;
  });
  // Equal tags are sorted by name, so that the order does not depend on the threads' timing.
  // std::stable_sort would need memory.
  std::sort(stats.begin(), stats.end(), [](const auto& a, const auto& b) {
    return a.live_bytes != b.live_bytes ? a.live_bytes > b.live_bytes : a.tag < b.tag;
  });
  return stats;
}

}  // namespace tessera::storage_internal
