#include "tessera/ops/order/row_order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/ops/loops/row_loop.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

// Ranges of so many elements are left to an insertion sort, as in libstdc++.
constexpr index_t kShortRange = 16;
// The elements that a partition classifies at a time.
constexpr index_t kPartitionBlock = 32;
// The parts of a long row that are sorted in parallel; a power of 2.
constexpr index_t kParts = 16;
// The largest k for which the best elements are kept in order while a row is read.
constexpr index_t kMaxFew = 32;
// The elements that are compared with the last of the best ones at a time. A loop over them is long
// enough to become one over vectors; see kReductionLanes.
constexpr index_t kChunk = 32;

/// An element's key and its position in the row. Keys are integers in the order of the elements.
struct WideEntry {
  using Key = int64_t;

  static WideEntry Of(Key key, index_t position) { return {key, position}; }
  Key key() const { return key_; }
  int64_t position() const { return position_; }

  Key key_;
  int64_t position_;
};
/// An entry with a key of 32 bits, and a position below 2^32, in one word.
struct ShortEntry {
  using Key = int32_t;

  static ShortEntry Of(Key key, index_t position) { return {(int64_t{key} << 32) | position}; }
  Key key() const { return static_cast<Key>(word_ >> 32); }
  int64_t position() const { return word_ & 0xffffffff; }

  int64_t word_;
};

template <typename T>
using EntryOf = std::conditional_t<std::is_same_v<T, float>, ShortEntry, WideEntry>;

/// Returns the integer whose order is that of x, or the opposite. Zeros of either sign have the
/// same.
template <typename T>
auto KeyOf(T x, bool is_ascend) {
  if constexpr (std::is_integral_v<T>) {
    return is_ascend ? x : ~x;
  } else {
    using Key = typename EntryOf<T>::Key;
    const Key bits = std::bit_cast<Key>(is_ascend ? T(0) + x : T(0) - x);
    // The magnitude of a negative number is turned round.
    return bits < 0 ? static_cast<Key>(bits ^ std::numeric_limits<Key>::max()) : bits;
  }
}

/// The order of entries.
struct Precedes {
  template <typename E>
  bool operator()(const E& a, const E& b) const {
    return a.key() < b.key();
  }
};

/// Moves elements so that those before the returned place are at most the pivot, and the others at
/// least. Each element from the left that is not below the pivot changes places with one from the
/// right that is not above it, as in C. A. R. Hoare's partition. Requires: an element at least, and
/// one at most the pivot, in the range or next to it.
template <typename E>
E* Partition(E* first, E* last, typename E::Key pivot) {
  uint8_t left[kPartitionBlock], right[kPartitionBlock];
  index_t num_left = 0, num_right = 0, left_at = 0, right_at = 0;
  while (last - first >= 2 * kPartitionBlock) {
    if (num_left == 0) {
      left_at = 0;
      for (index_t i = 0; i < kPartitionBlock; ++i) {
        left[num_left] = static_cast<uint8_t>(i);
        num_left += first[i].key() < pivot ? 0 : 1;
      }
    }
    if (num_right == 0) {
      right_at = 0;
      for (index_t i = 0; i < kPartitionBlock; ++i) {
        right[num_right] = static_cast<uint8_t>(i);
        num_right += pivot < last[-1 - i].key() ? 0 : 1;
      }
    }
    const index_t pairs = std::min(num_left, num_right);
    for (index_t i = 0; i < pairs; ++i) {
      std::swap(first[left[left_at + i]], last[-1 - right[right_at + i]]);
    }
    num_left -= pairs, left_at += pairs;
    num_right -= pairs, right_at += pairs;
    if (num_left == 0) first += kPartitionBlock;
    if (num_right == 0) last -= kPartitionBlock;
  }
  // The rest begins at the first element of either block that has no partner yet.
  if (num_left > 0) first += left[left_at];
  if (num_right > 0) last -= right[right_at];
  for (;; ++first) {
    while (first->key() < pivot) ++first;
    --last;
    while (pivot < last->key()) --last;
    if (!(first < last)) return first;
    std::swap(*first, *last);
  }
}

/// Partitions a range by the median of its second, middle and last elements, which goes to the
/// front. Returns where the second part begins.
template <typename E>
E* PartitionByMedian(E* first, E* last) {
  E *const a = first + 1, *const b = first + (last - first) / 2, *const c = last - 1;
  const auto precedes = [](const E* x, const E* y) { return x->key() < y->key(); };
  E* median;
  if (precedes(a, b)) {
    median = precedes(b, c) ? b : precedes(a, c) ? c : a;
  } else {
    median = precedes(a, c) ? a : precedes(b, c) ? c : b;
  }
  std::swap(*first, *median);
  return Partition(first + 1, last, first->key());
}

/// Equal elements keep their order.
template <typename E>
void InsertionSort(E* first, E* last) {
  for (E* i = first; i != last; ++i) {
    const E entry = *i;
    E* to = i;
    for (; to != first && entry.key() < to[-1].key(); --to) *to = to[-1];
    *to = entry;
  }
}

/// A part of a row, whose elements are not below those of the parts before.
template <typename E>
struct Part {
  E* first = nullptr;
  E* last = nullptr;
  int depth = 0;  ///< partitions that may follow before the part is left to a heap sort

  bool IsShort() const { return last - first <= kShortRange; }
  /// Keeps the first part of a partition, and returns the second.
  Part Split() {
    E* const cut = PartitionByMedian(first, last);
    const Part second = {cut, last, --depth};
    last = cut;
    return second;
  }
};

template <typename E>
void Sort(Part<E> part) {
  while (!part.IsShort()) {
    if (part.depth == 0) {
      std::partial_sort(part.first, part.last, part.last, Precedes());
      return;
    }
    Sort(part.Split());
  }
  InsertionSort(part.first, part.last);
}

/// Sorts a row. Its first partitions are made in parallel, too, except for the very first.
template <typename E>
void SortRow(E* first, E* last) {
  const index_t n = last - first;
  const int depth = 2 * (std::bit_width(static_cast<uint64_t>(n)) - 1);
  std::array<Part<E>, static_cast<size_t>(kParts)> parts;
  parts[0] = {first, last, depth};
  if (n < ElementsPerTask()) return Sort(parts[0]);
  for (index_t count = 1; count < kParts; count *= 2) {
    ParallelFor(count, 1, [&](index_t begin, index_t end) {
      for (index_t i = begin; i < end; ++i) {
        Part<E>& part = parts[static_cast<size_t>(i)];
        if (part.IsShort() || part.depth == 0) continue;
        parts[static_cast<size_t>(count + i)] = part.Split();
      }
    });
  }
  ParallelFor(kParts, 1, [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) Sort(parts[static_cast<size_t>(i)]);
  });
}

template <bool kAscend, typename T>
TESSERA_LOOP_BODY inline bool ComesBefore(T a, T b) {
  return kAscend ? a < b : b < a;
}

/// Returns how many elements, in whole chunks, are passed before a chunk with an element that comes
/// before the limit.
template <bool kAscend, typename T>
index_t CountPassed(const T* x, index_t n, T limit) {
  using Flag = std::conditional_t<sizeof(T) == sizeof(int32_t), int32_t, int64_t>;
  return RunLoop([=]() TESSERA_LOOP_BODY {
    index_t i = 0;
    for (; i + kChunk <= n; i += kChunk) {
      Flag any = 0;
      for (index_t k = 0; k < kChunk; ++k) {
        any |= ComesBefore<kAscend>(x[i + k], limit) ? Flag(1) : Flag(0);
      }
      if (any != 0) break;
    }
    return i;
  });
}

/// Finds the first k elements, at most kMaxFew, in one pass. Returns false, with undefined
/// positions, if one of them equals another element or the row has a NaN.
template <bool kAscend, typename T>
bool FindFew(const T* row, index_t n, index_t k, int64_t* positions) {
  T best[kMaxFew];
  index_t count = 0;
  const auto insert = [&](index_t i) {
    index_t to = count < k ? count++ : k - 1;
    for (; to > 0 && ComesBefore<kAscend>(row[i], best[to - 1]); --to) {
      best[to] = best[to - 1];
      positions[to] = positions[to - 1];
    }
    best[to] = row[i];
    positions[to] = i;
  };
  for (index_t i = 0; i < k; ++i) insert(i);
  for (index_t i = k; i < n;) {
    i += CountPassed<kAscend>(row + i, n - i, best[k - 1]);
    for (const index_t end = std::min(n, i + kChunk); i < end; ++i) {
      if (ComesBefore<kAscend>(row[i], best[k - 1])) insert(i);
    }
  }
  for (index_t j = 1; j < k; ++j) {
    if (!ComesBefore<kAscend>(best[j - 1], best[j])) return false;
  }
  const T last = best[k - 1];
  const auto is_last_or_nan = [=](index_t i) TESSERA_LOOP_BODY {
    return (row[i] == last) | (row[i] != row[i]) ? T(1) : T(0);
  };
  return last == last && SumOf<T>(n, is_last_or_nan) == 1;
}

}  // namespace

/// A row's entries, ordered by the algorithms of libstdc++.
template <typename T>
class RowOrder<T>::Entries {
 public:
  explicit Entries(index_t n) : entries_(static_cast<size_t>(n)) {}

  void Find(const T* row, index_t k, bool is_ascend, int64_t* positions) {
    using Entry = EntryOf<T>;
    const index_t n = static_cast<index_t>(entries_.size());
    Entry* const entries = entries_.data();
    bool has_nan = false;
    for (index_t i = 0; i < n; ++i) {
      has_nan |= row[i] != row[i];
      entries[i] = Entry::Of(KeyOf(row[i], is_ascend), i);
    }
    Entry* begin = entries;
    Entry* end = entries + n;
    if (has_nan) {
      const auto is_nan = [row](const Entry& entry) {
        return row[entry.position()] != row[entry.position()];
      };
      if (is_ascend) {
        end = std::stable_partition(begin, end, [&](const Entry& e) { return !is_nan(e); });
      } else {
        begin = std::stable_partition(begin, end, is_nan);
      }
    }
    const index_t wanted = std::min<index_t>(entries + k - begin, end - begin);
    if (wanted > 0 && 8 * k > n) {
      SortRow(begin, end);
    } else if (wanted > 0) {
      std::partial_sort(begin, begin + wanted, end, Precedes());
    }
    for (index_t j = 0; j < k; ++j) positions[j] = entries[j].position();
  }

 private:
  std::vector<EntryOf<T>> entries_;
};

template <typename T>
RowOrder<T>::RowOrder(index_t n, index_t k, bool is_ascend) : n_(n), k_(k), is_ascend_(is_ascend) {}

template <typename T>
RowOrder<T>::~RowOrder() = default;

template <typename T>
void RowOrder<T>::Find(const T* row, int64_t* positions) {
  if (k_ == 0) return;
  if (k_ <= kMaxFew && 8 * k_ <= n_) {
    const bool found =
        is_ascend_ ? FindFew<true>(row, n_, k_, positions) : FindFew<false>(row, n_, k_, positions);
    if (found) return;
  }
  if (entries_ == nullptr) entries_ = std::make_unique<Entries>(n_);
  entries_->Find(row, k_, is_ascend_, positions);
}

template class RowOrder<float>;
template class RowOrder<double>;
template class RowOrder<int64_t>;

}  // namespace tessera::ops_internal
