#ifndef TESSERA_STORAGE_POOL_BLOCK_STORE_H_
#define TESSERA_STORAGE_POOL_BLOCK_STORE_H_

#include <array>
#include <memory>
#include <tuple>
#include <vector>

#include "tessera/storage/pool/block.h"

namespace tessera::storage_internal {

/// Allocates Block records from slabs. Not thread-safe.
class BlockStore {
 public:
  BlockStore(DevicePool* pool, Arena* arena) : pool_(pool), arena_(arena) {}

  /// Ensures that the next `count` calls of Get succeed. Throws std::bad_alloc.
  void Prepare(int count) {
    while (num_spare_ < count) {
      slabs_.push_back(std::make_unique<Slab>());
      for (Block& block : *slabs_.back()) Put(&block);
    }
  }

  Block* Get() {
    Prepare(1);
    Block* block = spare_;
    spare_ = block->next;
    --num_spare_;
    block->next = nullptr;
    block->pool = pool_;
    block->arena = arena_;
    return block;
  }

  void Put(Block* block) {
    block->ptr = nullptr;
    block->is_free = false;
    block->lower = block->upper = block->prev = nullptr;
    block->next = spare_;
    spare_ = block;
    ++num_spare_;
  }

  /// Moves up to `count` spare records to another store.
  void GiveSpare(BlockStore* other, int count) {
    for (; count > 0 && spare_ != nullptr; --count) {
      Block* const block = spare_;
      spare_ = block->next;
      --num_spare_;
      other->Put(block);
    }
  }

  /// The number of records made so far.
  int num_made() const { return static_cast<int>(slabs_.size() * std::tuple_size_v<Slab>); }

  /// Calls `visit(first)` with the first block of each system allocation.
  template <typename Visitor>
  void ForEachSystemAllocation(const Visitor& visit) {
    for (const auto& slab : slabs_) {
      for (Block& block : *slab) {
        if (block.ptr != nullptr && block.lower == nullptr) visit(&block);
      }
    }
  }

 private:
  using Slab = std::array<Block, 64>;

  DevicePool* const pool_;
  Arena* const arena_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  Block* spare_ = nullptr;
  int num_spare_ = 0;
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_BLOCK_STORE_H_
