#include "tessera/storage/pool/arenas.h"

#include <algorithm>

namespace tessera::storage_internal {
namespace {

// The largest number of blocks that move at once. A segment of 16 MiB holds about this many of the
// smallest large blocks.
constexpr int kMaxMovedBlocks = 256;

std::unique_ptr<PoolStrategy> MakeStrategy(const StorageOptions& options, BlockStore* blocks,
                                           SystemMemory* system) {
  switch (options.pool) {
    case StoragePoolKind::kNone:
      return MakeNoPool(blocks, system);
    case StoragePoolKind::kExact:
      return MakeExactPool(blocks, system);
    case StoragePoolKind::kRounded:
      return MakeRoundedPool(blocks, system, options.round_linear_cutoff_bytes);
    case StoragePoolKind::kBestFit:
      break;
  }
  return MakeBestFitPool(blocks, system);
}

/// Moves the block's whole system allocation to another arena. Does nothing if it has too many
/// blocks, because other threads would wait for them.
void MoveToArena(Block* block, Arena* to) {
  int num_blocks = 1;
  Block* first = block;
  for (; first->lower != nullptr && num_blocks <= kMaxMovedBlocks; first = first->lower) {
    ++num_blocks;
  }
  for (; block->upper != nullptr && num_blocks <= kMaxMovedBlocks; block = block->upper) {
    ++num_blocks;
  }
  if (num_blocks > kMaxMovedBlocks) return;
  // As many spare records move the other way. Otherwise an arena that loses memory again and again
  // would make new records for ever.
  to->blocks.GiveSpare(&first->arena->blocks, num_blocks);
  for (Block* part = first; part != nullptr; part = part->upper) {
    const bool is_free = part->is_free;
    if (is_free) part->arena->strategy->Remove(part);
    part->arena = to;
    if (is_free) to->strategy->Put(part);
  }
}

}  // namespace

Arena::Arena(DevicePool* pool, const StorageOptions& options, SystemMemory* system)
    : blocks(pool, this), strategy(MakeStrategy(options, &blocks, system)) {}

Arenas::Arenas(DevicePool* pool, const StorageOptions& options, SystemMemory* system,
               int max_arenas)
    : pool_(pool),
      options_(options),
      system_(system),
      max_arenas_(static_cast<size_t>(max_arenas)),
      first_(all_.emplace_back(std::make_unique<Arena>(pool_, options_, system_)).get()) {}

Arena* Arenas::FindForThread() {
  const auto fewer = [](const auto& a, const auto& b) { return a->num_threads < b->num_threads; };
  const auto least = std::min_element(all_.begin(), all_.end(), fewer);
  if ((*least)->num_threads == 0 || all_.size() == max_arenas_) return least->get();
  return all_.emplace_back(std::make_unique<Arena>(pool_, options_, system_)).get();
}

void Arenas::lock() {
  for (const auto& arena : all_) arena->mutex.lock();
}

void Arenas::unlock() {
  for (const auto& arena : all_) arena->mutex.unlock();
}

Block* Arenas::Take(Arena* own, int64_t rounded_bytes) {
  if (Block* const block = own->strategy->Take(rounded_bytes)) return block;
  for (const auto& arena : all_) {
    if (arena.get() == own) continue;
    Block* const block = arena->strategy->Take(rounded_bytes);
    if (block == nullptr) continue;
    MoveToArena(block, own);
    return block;
  }
  return nullptr;
}

Block* Arenas::TakeFromAnyKind(int64_t rounded_bytes) {
  for (const auto& arena : all_) {
    if (Block* const block = arena->strategy->TakeFromAnyKind(rounded_bytes)) return block;
  }
  return nullptr;
}

Block* Arenas::Grow(Arena* own, int64_t rounded_bytes) {
  for (const auto& arena : all_) {
    if (arena.get() == own) continue;
    arena->strategy->ForEachTooSmall(rounded_bytes,
                                     [own](Block* block) { MoveToArena(block, own); });
  }
  return own->strategy->Grow(rounded_bytes);
}

Block* Arenas::Put(Block* block) { return block->arena->strategy->Put(block); }

void Arenas::ReleaseIfWhole(Block* block) { block->arena->strategy->ReleaseIfWhole(block); }

void Arenas::Release(int64_t size_bytes) {
  Block* smallest = nullptr;
  for (const auto& arena : all_) {
    Block* const block = arena->strategy->FindReleasable(size_bytes);
    if (block == nullptr) continue;
    if (smallest == nullptr || block->size_bytes < smallest->size_bytes) smallest = block;
  }
  if (smallest != nullptr) return ReleaseIfWhole(smallest);
  for (const auto& arena : all_) {
    if (size_bytes > 0) size_bytes -= arena->strategy->ReleaseUpTo(size_bytes);
  }
}

int64_t Arenas::free_bytes() const {
  int64_t bytes = 0;
  for (const auto& arena : all_) bytes += arena->strategy->free_bytes();
  return bytes;
}

int64_t Arenas::LargestFreeBytes() const {
  int64_t largest = 0;
  for (const auto& arena : all_) largest = std::max(largest, arena->strategy->LargestFreeBytes());
  return largest;
}

}  // namespace tessera::storage_internal
