#ifndef TESSERA_ENGINE_SCHEDULE_INDEX_STACKS_H_
#define TESSERA_ENGINE_SCHEDULE_INDEX_STACKS_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "tessera/engine/core/futex_lock.h"

namespace tessera::engine_internal {

/// Stacks of numbers below a fixed count, each number in one of them and once at most; without
/// locks. Who has a stack of its own shares no cache line with others until these take from it.
/// (R. K. Treiber, "Systems programming: coping with parallelism", IBM RJ 5118, 1986, with a count
/// of removals beside the head: a thread that slept through exactly 2^32 of them between its load
/// and its exchange would be deceived.)
///
/// Push and Pop may overlap in any number of threads. A thread that pops a number sees everything
/// that was done before its push.
template <typename Memory = StdMemory>
class IndexStacks {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  IndexStacks(uint32_t count, uint32_t stacks)
      : next_(std::make_unique<typename Memory::template Atomic<uint32_t>[]>(count)),
        stacks_(stacks),
        heads_(std::make_unique<Head[]>(stacks)) {}

  uint32_t stacks() const { return stacks_; }

  /// Chains a number before its push: `below` comes out after it.
  void Link(uint32_t index, uint32_t below) {
    // Relaxed: published by the exchange in Push. A thread that still holds an old head may be
    // reading it, and finds in its own exchange that it did so in vain.
    next_[index].store(below, std::memory_order_relaxed);
  }

  /// Pushes numbers that are linked from `top` down to `bottom`.
  void Push(uint32_t stack, uint32_t top, uint32_t bottom) {
    auto& own = heads_[stack].head;
    uint64_t head = own.load(std::memory_order_relaxed);
    do {
      Link(bottom, IndexOf(head));
      // Releases for the acquire in Pop. A later push leaves the order in place, because an
      // exchange continues what the one before has released. Sequentially consistent for those who
      // push and then look whether somebody is there to pop, who in turn looks at empty() before it
      // goes.
    } while (!own.compare_exchange_weak(head, WithIndex(head, top), std::memory_order_seq_cst,
                                        std::memory_order_relaxed));
  }

  /// The last one pushed to the stack; kNone if there is none.
  uint32_t Pop(uint32_t stack) {
    auto& own = heads_[stack].head;
    uint64_t head = own.load(std::memory_order_acquire);
    for (;;) {
      const uint32_t index = IndexOf(head);
      if (index == kNone) return kNone;
      // The value here is this head's only if the exchange finds it unchanged.
      const uint32_t below = next_[index].load(std::memory_order_relaxed);
      if (own.compare_exchange_weak(head, WithIndex(head + kOneRemoval, below),
                                    std::memory_order_acquire, std::memory_order_acquire)) {
        return index;
      }
    }
  }

  /// May be out of date when it returns.
  bool empty(uint32_t stack) const {
    return IndexOf(heads_[stack].head.load(std::memory_order_seq_cst)) == kNone;
  }

 private:
  static constexpr uint64_t kOneRemoval = uint64_t{1} << 32;

  static uint32_t IndexOf(uint64_t head) { return static_cast<uint32_t>(head); }
  static uint64_t WithIndex(uint64_t head, uint32_t index) {
    return (head & ~uint64_t{UINT32_MAX}) | index;
  }

  struct alignas(64) Head {
    typename Memory::template Atomic<uint64_t> head{uint64_t{kNone}};
  };

  const std::unique_ptr<typename Memory::template Atomic<uint32_t>[]> next_;
  const uint32_t stacks_;
  const std::unique_ptr<Head[]> heads_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_SCHEDULE_INDEX_STACKS_H_
