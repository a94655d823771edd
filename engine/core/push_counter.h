#ifndef TESSERA_ENGINE_CORE_PUSH_COUNTER_H_
#define TESSERA_ENGINE_CORE_PUSH_COUNTER_H_

#include <atomic>
#include <cstdint>

namespace tessera::engine_internal {

/// Counts the operations that are pushed on an engine and gives each its place in push order, 1, 2,
/// and so on, until it is closed. Both are one atomic: each push comes before the end or is
/// refused.
///
/// Threads: every member may be called from any thread.
class PushCounter {
 public:
  /// The first of so many places one after another; 0 if the counter is closed.
  uint64_t Take(uint64_t operations) {
    // Relaxed: the caller holds the locks of the operations' variables, which order all else.
    uint64_t count = count_.load(std::memory_order_relaxed);
    do {
      if ((count & kClosed) != 0) return 0;
    } while (!count_.compare_exchange_weak(count, count + operations, std::memory_order_relaxed));
    return count + 1;
  }

  /// The number of pushed operations.
  uint64_t count(std::memory_order order = std::memory_order_seq_cst) const {
    return count_.load(order) & ~kClosed;
  }

  /// Closes the counter if that many have been pushed. Returns whether it is closed; if not,
  /// another number has been pushed.
  bool CloseAt(uint64_t count) {
    // Relaxed: says only whether there was another push.
    return count_.compare_exchange_strong(count, count | kClosed, std::memory_order_relaxed) ||
           (count & kClosed) != 0;
  }

 private:
  static constexpr uint64_t kClosed = uint64_t{1} << 63;

  std::atomic<uint64_t> count_{0};
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_PUSH_COUNTER_H_
