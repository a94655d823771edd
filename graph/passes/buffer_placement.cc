#include "tessera/graph/passes/buffer_placement.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

namespace tessera::graph {
namespace {

// Placing this many buffers by size takes some tens of milliseconds.
constexpr size_t kMaxBuffersBySize = 4096;

int64_t Aligned(int64_t size_bytes) { return BufferPlacement::Aligned(size_bytes); }

/// Returns the numbers of the buffers in the order of `key`, those with equal keys in ascending
/// order.
template <typename Key>
std::vector<size_t> Ordered(std::span<const BufferUse> buffers, const Key& key) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return key(buffers[a]) < key(buffers[b]); });
  return order;
}

/// The free ranges of a block that grows. No range lies on both sides of `border`.
class FreeRanges {
 public:
  /// Begins with a block of `border` bytes without a free range.
  explicit FreeRanges(int64_t border) : border_(border), end_(border) {}

  /// Returns the offset of `size` bytes: in the smallest free range that is large enough, else at
  /// the end.
  int64_t Take(int64_t size) {
    const auto best = by_size_.lower_bound({size, 0});
    if (best != by_size_.end()) {
      const auto [range_size, offset] = *best;
      Remove(offset, range_size);
      if (range_size > size) Insert(offset + size, range_size - size);
      return offset;
    }
    int64_t offset = end_;
    if (!by_offset_.empty()) {
      const auto [last, last_size] = *std::prev(by_offset_.end());
      if (last + last_size == end_ && last >= border_) {
        Remove(last, last_size);
        offset = last;
      }
    }
    end_ = offset + size;
    return offset;
  }

  /// Frees a range, which joins its neighbours.
  void Give(int64_t offset, int64_t size) {
    const auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin() && offset != border_) {
      const auto [before, before_size] = *std::prev(next);
      if (before + before_size == offset) {
        Remove(before, before_size);
        offset = before;
        size += before_size;
      }
    }
    const auto after = by_offset_.find(offset + size);
    if (after != by_offset_.end() && after->first != border_) {
      const int64_t after_size = after->second;
      Remove(offset + size, after_size);
      size += after_size;
    }
    Insert(offset, size);
  }

  /// Returns the block's size.
  int64_t end() const { return end_; }

 private:
  void Insert(int64_t offset, int64_t size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  void Remove(int64_t offset, int64_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }

  const int64_t border_;
  int64_t end_;
  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
};

/// The buffers in use while the steps go by, those that end first in front.
class LiveBuffers {
 public:
  void Add(const BufferUse& use, int64_t offset) {
    queue_.push({use.last_step, offset, Aligned(use.size_bytes)});
  }

  /// Frees the buffers whose last step comes before `step`.
  void FreeBefore(int step, FreeRanges* ranges) {
    while (!queue_.empty() && std::get<0>(queue_.top()) < step) {
      const auto [last_step, offset, size] = queue_.top();
      ranges->Give(offset, size);
      queue_.pop();
    }
  }

 private:
  using Live = std::tuple<int, int64_t, int64_t>;  // last step, offset, size
  std::priority_queue<Live, std::vector<Live>, std::greater<>> queue_;
};

/// Notes the earlier buffers that are in use at `step`, and frees the bytes between them.
void AddEarlier(const PlacedBuffers& earlier, int step, LiveBuffers* live, FreeRanges* ranges) {
  std::vector<std::pair<int64_t, int64_t>> used;  // begin and end
  for (size_t i = 0; i < earlier.uses.size(); ++i) {
    const BufferUse& use = earlier.uses[i];
    if (use.size_bytes == 0 || use.last_step < step) continue;
    live->Add(use, earlier.offsets[i]);
    used.emplace_back(earlier.offsets[i], earlier.offsets[i] + Aligned(use.size_bytes));
  }
  used.emplace_back(earlier.size_bytes, earlier.size_bytes);
  std::sort(used.begin(), used.end());
  int64_t end = 0;
  for (const auto& [range_begin, range_end] : used) {
    if (range_begin > end) ranges->Give(end, range_begin - end);
    end = range_end;
  }
}

BufferPlacement PlaceByTime(std::span<const BufferUse> buffers, const PlacedBuffers& earlier) {
  BufferPlacement placement{.offsets = std::vector<int64_t>(buffers.size(), 0)};
  FreeRanges ranges(earlier.size_bytes);
  LiveBuffers live;
  bool is_first = true;
  for (const size_t i : Ordered(buffers, [](const BufferUse& use) { return use.first_step; })) {
    const BufferUse& use = buffers[i];
    if (std::exchange(is_first, false)) AddEarlier(earlier, use.first_step, &live, &ranges);
    live.FreeBefore(use.first_step, &ranges);
    if (use.size_bytes == 0) continue;
    placement.offsets[i] = ranges.Take(Aligned(use.size_bytes));
    live.Add(use, placement.offsets[i]);
  }
  placement.size_bytes = ranges.end();
  return placement;
}

/// Bytes that are used from the first step to the last one.
struct UsedBytes {
  int64_t begin, end;
  int first_step, last_step;
};

bool BeginsBefore(const UsedBytes& a, const UsedBytes& b) { return a.begin < b.begin; }

/// Returns the offset for a buffer among others, which are ordered by begin.
int64_t FindOffset(const BufferUse& use, const std::vector<UsedBytes>& placed) {
  const int64_t size = Aligned(use.size_bytes);
  int64_t best = 0, best_size = std::numeric_limits<int64_t>::max();
  int64_t end = 0;
  for (const UsedBytes& other : placed) {
    if (other.first_step > use.last_step || other.last_step < use.first_step) continue;
    const int64_t gap = other.begin - end;
    if (gap >= size && gap < best_size) {
      best = end;
      best_size = gap;
    }
    end = std::max(end, other.end);
  }
  return best_size == std::numeric_limits<int64_t>::max() ? end : best;
}

BufferPlacement PlaceBySize(std::span<const BufferUse> buffers, const PlacedBuffers& earlier) {
  BufferPlacement placement{.offsets = std::vector<int64_t>(buffers.size(), 0),
                            .size_bytes = earlier.size_bytes};
  std::vector<UsedBytes> placed;
  placed.reserve(earlier.uses.size() + buffers.size() + 1);
  for (size_t i = 0; i < earlier.uses.size(); ++i) {
    const BufferUse& use = earlier.uses[i];
    if (use.size_bytes == 0) continue;
    placed.push_back({earlier.offsets[i], earlier.offsets[i] + Aligned(use.size_bytes),
                      use.first_step, use.last_step});
  }
  // An empty buffer of all steps, which no gap spans.
  placed.push_back({earlier.size_bytes, earlier.size_bytes, 0, std::numeric_limits<int>::max()});
  std::sort(placed.begin(), placed.end(), BeginsBefore);
  const auto order = Ordered(buffers, [](const BufferUse& use) {
    return std::pair(-Aligned(use.size_bytes), use.first_step);
  });
  for (const size_t i : order) {
    const BufferUse& use = buffers[i];
    if (use.size_bytes == 0) continue;
    const int64_t offset = FindOffset(use, placed);
    const UsedBytes bytes{offset, offset + Aligned(use.size_bytes), use.first_step, use.last_step};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), bytes, BeginsBefore), bytes);
    placement.offsets[i] = offset;
    placement.size_bytes = std::max(placement.size_bytes, bytes.end);
  }
  return placement;
}

/// Returns the bound for all buffers together.
int64_t BoundWith(std::span<const BufferUse> buffers, const PlacedBuffers& earlier) {
  if (earlier.uses.empty()) return LivenessBound(buffers);
  std::vector<BufferUse> all(earlier.uses.begin(), earlier.uses.end());
  all.insert(all.end(), buffers.begin(), buffers.end());
  return std::max(earlier.size_bytes, LivenessBound(all));
}

}  // namespace

BufferPlacement PlaceBuffers(std::span<const BufferUse> buffers, const PlacedBuffers& earlier) {
  BufferPlacement by_time = PlaceByTime(buffers, earlier);
  if (buffers.size() + earlier.uses.size() > kMaxBuffersBySize ||
      by_time.size_bytes == BoundWith(buffers, earlier)) {
    return by_time;
  }
  BufferPlacement by_size = PlaceBySize(buffers, earlier);
  return by_size.size_bytes < by_time.size_bytes ? by_size : by_time;
}

int64_t LivenessBound(std::span<const BufferUse> buffers) {
  std::vector<std::pair<int64_t, int64_t>> changes;  // step and bytes, those of ends first
  changes.reserve(2 * buffers.size());
  for (const BufferUse& use : buffers) {
    changes.emplace_back(use.first_step, Aligned(use.size_bytes));
    changes.emplace_back(int64_t{use.last_step} + 1, -Aligned(use.size_bytes));
  }
  std::sort(changes.begin(), changes.end());
  int64_t live = 0, bound = 0;
  for (const auto& [step, bytes] : changes) {
    live += bytes;
    bound = std::max(bound, live);
  }
  return bound;
}

}  // namespace tessera::graph
