#ifndef TESSERA_ENGINE_INTERNAL_INDEX_STACK_H_
#define TESSERA_ENGINE_INTERNAL_INDEX_STACK_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "tessera/engine/internal/futex_lock.h"

namespace tessera::engine_internal {

/// Numbers below a fixed count, last in, first out, each at most once at a time; without locks.
/// (R. K. Treiber, "Systems programming: coping with parallelism", IBM RJ 5118, 1986, with a count
/// of removals beside the head: a thread that slept through exactly 2^32 of them between its load
/// and its exchange would be deceived.)
///
/// Push and Pop may overlap in any number of threads. What a thread did before it pushed a number
/// is visible to whoever pops it.
template <typename Memory = StdMemory>
class IndexStack {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit IndexStack(uint32_t count)
      : next_(std::make_unique<typename Memory::template Atomic<uint32_t>[]>(count)) {}

  /// Chains a number before its push: `below` comes out after it.
  void Link(uint32_t index, uint32_t below) {
    // Relaxed: published by the exchange in Push. A thread that still holds an old head may be
    // reading it, and finds in its own exchange that it did so in vain.
    next_[index].store(below, std::memory_order_relaxed);
  }

  /// Pushes numbers that are linked from `top` down to `bottom`.
  void Push(uint32_t top, uint32_t bottom) {
    uint64_t head = head_.load(std::memory_order_relaxed);
    do {
      Link(bottom, IndexOf(head));
      // Releases for the acquire in Pop. A later push leaves the order in place, because an
      // exchange continues what the one before has released. Sequentially consistent for those who
      // push and then look whether somebody is there to pop, who in turn looks at empty() before it
      // goes.
    } while (!head_.compare_exchange_weak(head, WithIndex(head, top), std::memory_order_seq_cst,
                                          std::memory_order_relaxed));
  }

  /// The last one pushed; kNone if there is none.
  uint32_t Pop() {
    uint64_t head = head_.load(std::memory_order_acquire);
    for (;;) {
      const uint32_t index = IndexOf(head);
      if (index == kNone) return kNone;
      // What stands here is this head's only if the exchange finds it unchanged.
      const uint32_t below = next_[index].load(std::memory_order_relaxed);
      if (head_.compare_exchange_weak(head, WithIndex(head + kOneRemoval, below),
                                      std::memory_order_acquire, std::memory_order_acquire)) {
        return index;
      }
    }
  }

  /// May be out of date when it returns.
  bool empty() const { return IndexOf(head_.load(std::memory_order_seq_cst)) == kNone; }

 private:
  static constexpr uint64_t kOneRemoval = uint64_t{1} << 32;

  static uint32_t IndexOf(uint64_t head) { return static_cast<uint32_t>(head); }
  static uint64_t WithIndex(uint64_t head, uint32_t index) {
    return (head & ~uint64_t{UINT32_MAX}) | index;
  }

  std::unique_ptr<typename Memory::template Atomic<uint32_t>[]> next_;
  typename Memory::template Atomic<uint64_t> head_{uint64_t{kNone}};
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_INTERNAL_INDEX_STACK_H_
