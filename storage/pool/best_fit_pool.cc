#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/storage/pool/pool_strategy.h"
#include "tessera/storage/pool/size_class.h"

namespace tessera::storage_internal {
namespace {

// Large blocks are cut from segments of at least two huge pages. A block that fills a quarter of a
// segment or more gets a segment of its own size, since the rest would fit few blocks of its kind.
// The sizes come from a simulation of the recorded training steps: with segments of 2 MiB the
// perceptron's step reserves a tenth more, and with 8 MiB small networks reserve far more than they
// use.
constexpr int64_t kSegmentBytes = int64_t{4} << 20;
constexpr int64_t kOwnSegmentBytes = kSegmentBytes / 4;
// A growing pool allocates at least this share of the memory that it holds, so that the number of
// system calls grows with the logarithm of the memory. The share is small because unused memory
// counts as fragmentation.
constexpr int64_t kGrowthShare = 96;
constexpr int64_t kMaxGrowthBytes = int64_t{32} << 20;
// Segments of small blocks have at least this size, and at most kSegmentBytes.
constexpr int64_t kMinSmallSegmentBytes = int64_t{128} << 10;
// The number of fitting blocks that a search compares.
constexpr int kMaxScan = 64;

/// Keeps free blocks in bins of similar size, with a bitmap of the bins that are not empty. Source:
/// Wilson et al., Dynamic Storage Allocation: A Survey and Critical Review (1995), section 3.6
/// (segregated fits). Bin b holds the sizes whose class, rounded down, is b.
class Bins {
 public:
  void Insert(Block* block) {
    const int bin = Bin(block->size_bytes);
    block->prev = nullptr;
    block->next = heads_[bin];
    if (block->next != nullptr) block->next->prev = block;
    heads_[bin] = block;
    bitmap_[bin / 64] |= uint64_t{1} << (bin % 64);
    block->is_free = true;
  }

  void Remove(Block* block) {
    if (block->next != nullptr) block->next->prev = block->prev;
    if (block->prev != nullptr) {
      block->prev->next = block->next;
    } else {
      const int bin = Bin(block->size_bytes);
      heads_[bin] = block->next;
      if (block->next == nullptr) bitmap_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
    }
    block->next = block->prev = nullptr;
    block->is_free = false;
  }

  /// Returns a block of at least `size_bytes`, or null if there is none. Searches the whole bin of
  /// `size_bytes` for the smallest block that fits. If none fits, returns the smallest of the first
  /// kMaxScan blocks of the next bin that is not empty, where all blocks fit.
  Block* FindBest(int64_t size_bytes) const {
    const int first_bin = Bin(size_bytes);
    Block* best = nullptr;
    for (Block* block = heads_[first_bin]; block != nullptr; block = block->next) {
      if (block->size_bytes == size_bytes) return block;
      if (block->size_bytes > size_bytes && Better(block, best)) best = block;
    }
    if (best != nullptr) return best;
    const int bin = NextBin(first_bin + 1);
    if (bin < 0) return nullptr;
    int scanned = 0;
    for (Block* block = heads_[bin]; block != nullptr && scanned < kMaxScan; block = block->next) {
      if (Better(block, best)) best = block;
      ++scanned;
    }
    return best;
  }

  /// Returns a block of exactly that size that is a whole system allocation, or null.
  Block* FindWhole(int64_t size_bytes) const {
    Block* block = heads_[Bin(size_bytes)];
    while (block != nullptr && !(block->size_bytes == size_bytes && block->IsWhole())) {
      block = block->next;
    }
    return block;
  }

  /// Calls `visit(block)` for every block. `visit` may remove the block.
  template <typename Visitor>
  void ForEach(const Visitor& visit) const {
    for (int bin = NextBin(0); bin >= 0; bin = NextBin(bin + 1)) {
      for (Block* block = heads_[bin]; block != nullptr;) {
        Block* next = block->next;
        visit(block);
        block = next;
      }
    }
  }

 private:
  static int Bin(int64_t size_bytes) { return SizeClass(size_bytes + 1) - 1; }

  static bool Better(const Block* block, const Block* best) {
    return best == nullptr || block->size_bytes < best->size_bytes;
  }

  /// Returns the first bin from `bin` on that holds a block, or -1.
  int NextBin(int bin) const {
    size_t word = static_cast<size_t>(bin) / 64;
    if (word >= bitmap_.size()) return -1;
    uint64_t bits = bitmap_[word] & (~uint64_t{0} << (bin % 64));
    while (bits == 0) {
      if (++word == bitmap_.size()) return -1;
      bits = bitmap_[word];
    }
    return static_cast<int>(word * 64) + std::countr_zero(bits);
  }

  std::array<Block*, kNumClasses> heads_{};
  std::array<uint64_t, (kNumClasses + 63) / 64> bitmap_{};
};

/// Cuts blocks from segments. Each segment holds blocks of one kind.
class BestFitPool final : public PoolStrategy {
 public:
  using PoolStrategy::PoolStrategy;

  int64_t RoundUp(int64_t size_bytes) const override { return RoundUpForBestFit(size_bytes); }

  Block* Take(int64_t rounded_bytes) override {
    return TakeFrom(&BinsOf(KindOf(rounded_bytes)), rounded_bytes);
  }

  Block* TakeWhole(int64_t rounded_bytes) override {
    Block* const block = BinsOf(KindOf(rounded_bytes)).FindWhole(rounded_bytes);
    if (block != nullptr) RemoveFree(block);
    return block;
  }

  Block* TakeFromAnyKind(int64_t rounded_bytes) override {
    for (Bins& bins : bins_) {
      if (Block* block = TakeFrom(&bins, rounded_bytes)) return block;
    }
    return nullptr;
  }

  Block* Grow(int64_t rounded_bytes) override {
    blocks_->Prepare(2);  // for the segment and the rest of its split
    int64_t segment_bytes = PreferredSegmentBytes(rounded_bytes);
    // One new segment replaces all free segments that are too small and is as large as they
    // together, so that they do not stay idle. The replacement ends, because each one leaves fewer
    // segments or more memory.
    int64_t unfit_bytes = 0;
    ForEachTooSmall(rounded_bytes, [&](Block* block) {
      unfit_bytes += block->size_bytes;
      ReleaseWhole(block);
    });
    segment_bytes = std::max(segment_bytes, unfit_bytes);
    char* ptr = system_->Allocate(segment_bytes);
    if (ptr == nullptr && segment_bytes > rounded_bytes) {
      segment_bytes = rounded_bytes;
      ptr = system_->Allocate(segment_bytes);
    }
    if (ptr == nullptr) return nullptr;
    Block* segment = blocks_->Get();
    segment->ptr = ptr;
    segment->size_bytes = segment_bytes;
    segment->kind = KindOf(rounded_bytes);
    return Split(segment, rounded_bytes);
  }

  /// Visits the free segments of large blocks, none of which is large enough.
  void ForEachTooSmall(int64_t rounded_bytes, const std::function<void(Block*)>& visit) override {
    if (KindOf(rounded_bytes) != BlockKind::kLarge || whole_free_bytes_ == 0) return;
    BinsOf(BlockKind::kLarge).ForEach([&](Block* block) {
      if (block->IsWhole()) visit(block);
    });
  }

  Block* Put(Block* block) override {
    if (block->upper != nullptr && block->upper->is_free) {
      RemoveFree(block->upper);
      Join(block, block->upper);
    }
    if (block->lower != nullptr && block->lower->is_free) {
      Block* lower = block->lower;
      RemoveFree(lower);
      Join(lower, block);
      block = lower;
    }
    InsertFree(block);
    return block;
  }

  void Remove(Block* block) override { RemoveFree(block); }

  void ReleaseIfWhole(Block* block) override {
    if (block->IsWhole()) ReleaseWhole(block);
  }

  Block* FindReleasable(int64_t size_bytes) override {
    Block* smallest = nullptr;
    ForEachWhole([&](Block* block) {
      if (block->size_bytes >= size_bytes &&
          (smallest == nullptr || block->size_bytes < smallest->size_bytes)) {
        smallest = block;
      }
    });
    return smallest;
  }

  int64_t ReleaseUpTo(int64_t size_bytes) override {
    int64_t released_bytes = 0;
    ForEachWhole([&](Block* block) {
      if (released_bytes >= size_bytes) return;
      released_bytes += block->size_bytes;
      ReleaseWhole(block);
    });
    return released_bytes;
  }

  int64_t free_bytes() const override { return free_bytes_; }

  int64_t LargestFreeBytes() const override {
    int64_t largest = 0;
    for (const Bins& bins : bins_) {
      bins.ForEach([&](Block* block) { largest = std::max(largest, block->size_bytes); });
    }
    return largest;
  }

  bool AllowsThreadCaches() const override { return true; }

 private:
  Bins& BinsOf(BlockKind kind) { return bins_[static_cast<size_t>(kind)]; }

  Block* TakeFrom(Bins* bins, int64_t rounded_bytes) {
    blocks_->Prepare(1);  // for the rest of a split
    Block* block = bins->FindBest(rounded_bytes);
    if (block == nullptr) return nullptr;
    RemoveFree(block);
    return Split(block, rounded_bytes);
  }

  int64_t PreferredSegmentBytes(int64_t rounded_bytes) const {
    const int64_t growth_bytes =
        std::min(kMaxGrowthBytes, system_->reserved_bytes() / kGrowthShare);
    if (KindOf(rounded_bytes) == BlockKind::kSmall) {
      return std::clamp(RoundUpTo(growth_bytes, kMinSmallSegmentBytes), kMinSmallSegmentBytes,
                        kSegmentBytes);
    }
    if (rounded_bytes >= kOwnSegmentBytes) return rounded_bytes;
    return RoundUpTo(std::max(rounded_bytes, growth_bytes), kSegmentBytes);
  }

  void InsertFree(Block* block) {
    BinsOf(block->kind).Insert(block);
    free_bytes_ += block->size_bytes;
    if (block->IsWhole()) whole_free_bytes_ += block->size_bytes;
  }
  void RemoveFree(Block* block) {
    BinsOf(block->kind).Remove(block);
    free_bytes_ -= block->size_bytes;
    if (block->IsWhole()) whole_free_bytes_ -= block->size_bytes;
  }

  /// Splits a block that is in no list: keeps `size_bytes` of it and frees the rest. Requires a
  /// prepared record.
  Block* Split(Block* block, int64_t size_bytes) {
    const int64_t rest_bytes = block->size_bytes - size_bytes;
    TESSERA_DCHECK(rest_bytes >= 0);
    if (rest_bytes == 0) return block;
    Block* rest = blocks_->Get();
    rest->ptr = block->ptr + size_bytes;
    rest->size_bytes = rest_bytes;
    rest->kind = block->kind;
    rest->lower = block;
    rest->upper = block->upper;
    if (rest->upper != nullptr) rest->upper->lower = rest;
    block->upper = rest;
    block->size_bytes = size_bytes;
    InsertFree(rest);
    return block;
  }

  /// Joins `upper` to its lower neighbour and destroys `upper`. Neither may be in a list.
  void Join(Block* lower, Block* upper) {
    lower->size_bytes += upper->size_bytes;
    lower->upper = upper->upper;
    if (lower->upper != nullptr) lower->upper->lower = lower;
    blocks_->Put(upper);
  }

  void ReleaseWhole(Block* block) {
    RemoveFree(block);
    system_->Release(block->ptr, block->size_bytes);
    blocks_->Put(block);
  }

  template <typename Visitor>
  void ForEachWhole(const Visitor& visit) {
    if (whole_free_bytes_ == 0) return;
    for (Bins& bins : bins_) {
      bins.ForEach([&](Block* block) {
        if (block->IsWhole()) visit(block);
      });
    }
  }

  std::array<Bins, 2> bins_;  // by kind
  int64_t free_bytes_ = 0;
  int64_t whole_free_bytes_ = 0;
};

}  // namespace

std::unique_ptr<PoolStrategy> MakeBestFitPool(BlockStore* blocks, SystemMemory* system) {
  return std::make_unique<BestFitPool>(blocks, system);
}

}  // namespace tessera::storage_internal
