#include "tessera/storage/tag_table.h"

#include <algorithm>

namespace tessera::storage_internal {

int32_t TagTable::InternNonEmpty(std::string_view tag) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = numbers_.find(tag);
  if (found != numbers_.end()) return found->second;
  const auto number = static_cast<int32_t>(stats_.size());
  stats_.push_back({.tag = std::string(tag)});
  try {
    numbers_.emplace(tag, number);
  } catch (...) {
    stats_.pop_back();
    throw;
  }
  return number;
}

void TagTable::CountAlloc(int32_t tag, int64_t size_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  StorageTagStats& stats = stats_[static_cast<size_t>(tag)];
  ++stats.allocations;
  stats.live_bytes += size_bytes;
  stats.peak_bytes = std::max(stats.peak_bytes, stats.live_bytes);
}

void TagTable::CountFree(int32_t tag, int64_t size_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  stats_[static_cast<size_t>(tag)].live_bytes -= size_bytes;
}

std::vector<StorageTagStats> TagTable::Stats() const {
  std::vector<StorageTagStats> stats;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stats = stats_;
  }
  std::stable_sort(stats.begin(), stats.end(),
                   [](const auto& a, const auto& b) { return a.live_bytes > b.live_bytes; });
  return stats;
}

}  // namespace tessera::storage_internal
