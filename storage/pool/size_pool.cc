// Implements the strategies whose blocks are whole system allocations: no pool, and one free list
// for each size.

#include <bit>
#include <cstdint>
#include <map>
#include <memory>

#include "tessera/storage/pool/pool_strategy.h"
#include "tessera/storage/pool/size_class.h"

namespace tessera::storage_internal {
namespace {

/// Returns a block that is a new system allocation, or null.
Block* NewWholeBlock(BlockStore* blocks, SystemMemory* system, int64_t size_bytes) {
  blocks->Prepare(1);
  char* ptr = system->Allocate(size_bytes);
  if (ptr == nullptr) return nullptr;
  Block* block = blocks->Get();
  block->ptr = ptr;
  block->size_bytes = size_bytes;
  return block;
}

class NoPool final : public PoolStrategy {
 public:
  using PoolStrategy::PoolStrategy;

  int64_t RoundUp(int64_t size_bytes) const override { return RoundUpTo(size_bytes, kAlignment); }
  Block* Take(int64_t) override { return nullptr; }
  Block* Grow(int64_t rounded_bytes) override {
    return NewWholeBlock(blocks_, system_, rounded_bytes);
  }
  Block* Put(Block* block) override {
    system_->Release(block->ptr, block->size_bytes);
    blocks_->Put(block);
    return nullptr;
  }
  void Remove(Block*) override {}
  void ReleaseIfWhole(Block*) override {}
  Block* FindReleasable(int64_t) override { return nullptr; }
  int64_t ReleaseUpTo(int64_t) override { return 0; }
  int64_t free_bytes() const override { return 0; }
  int64_t LargestFreeBytes() const override { return 0; }
};

/// Keeps free blocks in one list for each size, the last freed first. `Rounding` maps a request to
/// the size of its block.
template <typename Rounding>
class SizePool final : public PoolStrategy {
 public:
  SizePool(BlockStore* blocks, SystemMemory* system, Rounding rounding)
      : PoolStrategy(blocks, system), rounding_(rounding) {}

  int64_t RoundUp(int64_t size_bytes) const override { return rounding_(size_bytes); }

  Block* Take(int64_t rounded_bytes) override {
    const auto found = free_.find(rounded_bytes);
    if (found == free_.end() || found->second == nullptr) return nullptr;
    Block* block = found->second;
    found->second = block->next;
    MarkTaken(block);
    return block;
  }

  Block* Grow(int64_t rounded_bytes) override {
    free_.try_emplace(rounded_bytes, nullptr);  // so that Put needs no memory
    return NewWholeBlock(blocks_, system_, rounded_bytes);
  }

  Block* Put(Block* block) override {
    Block*& head = free_.find(block->size_bytes)->second;
    block->next = head;
    block->is_free = true;
    head = block;
    free_bytes_ += block->size_bytes;
    return block;
  }

  void Remove(Block* block) override {
    // The block is the head of its list: the one just put, or one that FindReleasable found.
    Take(block->size_bytes);
  }

  void ReleaseIfWhole(Block* block) override {
    Remove(block);
    Drop(block);
  }

  Block* FindReleasable(int64_t size_bytes) override {
    Block* smallest = nullptr;
    for (const auto& [size, head] : free_) {
      if (head != nullptr && size >= size_bytes &&
          (smallest == nullptr || size < smallest->size_bytes)) {
        smallest = head;
      }
    }
    return smallest;
  }

  int64_t ReleaseUpTo(int64_t size_bytes) override {
    int64_t released_bytes = 0;
    for (const auto& [size, head] : free_) {
      while (head != nullptr && released_bytes < size_bytes) {
        released_bytes += size;
        Drop(Take(size));
      }
    }
    return released_bytes;
  }

  int64_t free_bytes() const override { return free_bytes_; }

  int64_t LargestFreeBytes() const override {
    int64_t largest = 0;
    for (const auto& [size, head] : free_) {
      if (head != nullptr && size > largest) largest = size;
    }
    return largest;
  }

 private:
  void MarkTaken(Block* block) {
    block->next = nullptr;
    block->is_free = false;
    free_bytes_ -= block->size_bytes;
  }
  void Drop(Block* block) {
    system_->Release(block->ptr, block->size_bytes);
    blocks_->Put(block);
  }

  const Rounding rounding_;
  // Abseil's maps would break if operator new threw while they grow.
  std::map<int64_t, Block*> free_;
  int64_t free_bytes_ = 0;
};

struct ExactRounding {
  int64_t operator()(int64_t size_bytes) const { return RoundUpTo(size_bytes, kAlignment); }
};

struct PowerOfTwoRounding {
  int64_t linear_cutoff_bytes;

  int64_t operator()(int64_t size_bytes) const {
    if (size_bytes > linear_cutoff_bytes) return RoundUpTo(size_bytes, linear_cutoff_bytes);
    const int64_t power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(size_bytes)));
    return power < kAlignment ? kAlignment : power;
  }
};

}  // namespace

std::unique_ptr<PoolStrategy> MakeNoPool(BlockStore* blocks, SystemMemory* system) {
  return std::make_unique<NoPool>(blocks, system);
}

std::unique_ptr<PoolStrategy> MakeExactPool(BlockStore* blocks, SystemMemory* system) {
  return std::make_unique<SizePool<ExactRounding>>(blocks, system, ExactRounding());
}

std::unique_ptr<PoolStrategy> MakeRoundedPool(BlockStore* blocks, SystemMemory* system,
                                              int64_t linear_cutoff_bytes) {
  return std::make_unique<SizePool<PowerOfTwoRounding>>(blocks, system,
                                                        PowerOfTwoRounding{linear_cutoff_bytes});
}

}  // namespace tessera::storage_internal
