#include "tessera/tensor/device/scratch.h"

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "tessera/base/error.h"

namespace tessera::tensor_internal {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kSmallestBlockBytes = int64_t{64} << 10;

struct FreeAligned {
  void operator()(std::byte* memory) const {
    ::operator delete (memory, std::align_val_t{kAlignment});
  }
};

struct Block {
  std::unique_ptr<std::byte, FreeAligned> memory;
  int64_t size_bytes;
};

/// A thread's memory: blocks that are filled one after the other. Scopes are destroyed in the
/// reverse order of their construction. This holds even if a waiting thread runs other work
/// meanwhile, since that work is done before the wait returns. A scope therefore only has to
/// remember a position.
struct Arena {
  std::vector<Block> blocks;
  size_t block = 0;
  int64_t used_bytes = 0;
  int64_t next_block_bytes = kSmallestBlockBytes;
  int64_t allocations = 0;
};

Arena& ThreadArena() {
  thread_local Arena arena;
  return arena;
}

}  // namespace

Scratch<cpu>::Scratch(Stream<cpu>* stream) : stream_(stream) {
  const Arena& arena = ThreadArena();
  block_ = arena.block;
  used_bytes_ = arena.used_bytes;
}

Scratch<cpu>::~Scratch() {
  Arena& arena = ThreadArena();
  arena.block = block_;
  arena.used_bytes = used_bytes_;
  if (block_ > 0 || used_bytes_ > 0 || arena.blocks.empty()) return;
  int64_t total_bytes = 0;
  for (const Block& block : arena.blocks) total_bytes += block.size_bytes;
  if (arena.blocks.size() == 1 && total_bytes <= kKeptBytes) return;
  // The next evaluation shall find all that this one needed in one block.
  arena.next_block_bytes = std::min(total_bytes, kKeptBytes);
  arena.blocks.clear();
}

void* Scratch<cpu>::Allocate(int64_t size_bytes) {
  Arena& arena = ThreadArena();
  const int64_t rounded = (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  while (arena.block < arena.blocks.size()) {
    const Block& block = arena.blocks[arena.block];
    if (block.size_bytes - arena.used_bytes >= rounded) {
      std::byte* const memory = block.memory.get() + arena.used_bytes;
      arena.used_bytes += rounded;
      return memory;
    }
    ++arena.block;
    arena.used_bytes = 0;
  }
  const int64_t block_bytes = std::max(rounded, arena.next_block_bytes);
  auto* const memory = static_cast<std::byte*>(::operator new (
      static_cast<size_t>(block_bytes), std::align_val_t{kAlignment}, std::nothrow));
  if (memory == nullptr) {
    throw ResourceExhausted("tensor expression: no memory for a temporary of ", size_bytes,
                            " bytes");
  }
  arena.blocks.push_back({std::unique_ptr<std::byte, FreeAligned>(memory), block_bytes});
  ++arena.allocations;
  arena.used_bytes = rounded;
  return memory;
}

int64_t ScratchAllocations() { return ThreadArena().allocations; }

}  // namespace tessera::tensor_internal
