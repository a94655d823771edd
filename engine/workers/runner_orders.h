#ifndef TESSERA_ENGINE_WORKERS_RUNNER_ORDERS_H_
#define TESSERA_ENGINE_WORKERS_RUNNER_ORDERS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "tessera/engine/core/futex_lock.h"

namespace tessera::engine_internal {

/// The runners that an engine has ordered from TBB and that have not begun. Where the system gives
/// TBB no thread they never do, or long after the engine has ended: so the engine may withdraw
/// them, and a runner asks here, by what outlives the engine, whether it may still begin.
///
/// Order publishes what was done before it to the runners that begin by it.
///
/// Threads: every member may be called from any thread, apart from End.
template <typename Memory>
class BasicRunnerOrders {
 public:
  /// Counts so many orders. Called before TBB has the tasks.
  void Order(int count) {
    // Release: pairs with the acquire in Begin.
    state_.fetch_add(static_cast<uint64_t>(count), std::memory_order_release);
  }

  /// A task begins. Returns whether its order stands, and with it the engine; else it has to return
  /// without a look at that.
  bool Begin() {
    uint64_t state = state_.load(std::memory_order_relaxed);
    uint64_t next;
    do {
      // Of several tasks any may begin by any order. Whichever begins, TBB has a thread.
      next = (state & ~kRefused) - (Open(state) > 0 ? kOneOpen : kOneWithdrawn);
    } while (!state_.compare_exchange_weak(state, next, std::memory_order_acq_rel,
                                           std::memory_order_relaxed));
    return Open(state) > 0;
  }

  /// Takes back orders whose tasks TBB has not got. Returns for how many of them nobody has
  /// withdrawn one meanwhile.
  int TakeBack(int count) {
    uint64_t state = state_.load(std::memory_order_relaxed);
    uint64_t next, open;
    do {
      open = std::min<uint64_t>(Open(state), static_cast<uint64_t>(count));
      next = state - open * kOneOpen - (static_cast<uint64_t>(count) - open) * kOneWithdrawn;
    } while (!state_.compare_exchange_weak(state, next, std::memory_order_relaxed,
                                           std::memory_order_relaxed));
    return static_cast<int>(open);
  }

  /// Withdraws all that stand, and returns how many. If there were any TBB counts as refusing
  /// threads from here on, until one of its tasks begins.
  int Withdraw() {
    uint64_t state = state_.load(std::memory_order_relaxed);
    uint64_t next;
    do {
      if (Open(state) == 0) return 0;
      next = (state + Open(state) * (kOneWithdrawn - kOneOpen)) | kRefused;
    } while (!state_.compare_exchange_weak(state, next, std::memory_order_relaxed,
                                           std::memory_order_relaxed));
    return static_cast<int>(Open(state));
  }

  /// TBB refuses threads, until one of its tasks begins.
  void MarkRefused() { state_.fetch_or(kRefused, std::memory_order_relaxed); }

  /// How many stand.
  int open() const { return static_cast<int>(Open(state_.load(std::memory_order_relaxed))); }

  /// Whether TBB has refused threads. A hint, for where to order the next ones.
  bool refused() const { return (state_.load(std::memory_order_relaxed) & kRefused) != 0; }

  /// Whether no task will look here any more. Asked by the engine's end, when none stands.
  bool IsOver() const {
    // Acquire: pairs with the release of the last task that has looked.
    return (state_.load(std::memory_order_acquire) & ~kRefused) == 0;
  }

 private:
  static constexpr uint64_t kOneOpen = 1;
  static constexpr uint64_t kOneWithdrawn = uint64_t{1} << 31;
  static constexpr uint64_t kRefused = uint64_t{1} << 62;

  static uint64_t Open(uint64_t state) { return state & (kOneWithdrawn - 1); }

  // Both counts and the mark in one word, so that each task is counted once, whoever is first.
  typename Memory::template Atomic<uint64_t> state_{0};
};

using RunnerOrders = BasicRunnerOrders<StdMemory>;

/// What holds an engine's orders. At its end they go, or stay for good where TBB still has tasks
/// that ask for them: some bytes for each engine that ended without threads.
class RunnerOrdersOwner {
 public:
  RunnerOrdersOwner() = default;
  ~RunnerOrdersOwner();
  RunnerOrdersOwner(const RunnerOrdersOwner&) = delete;
  RunnerOrdersOwner& operator=(const RunnerOrdersOwner&) = delete;

  RunnerOrders* get() const { return &record_->orders; }
  RunnerOrders* operator->() const { return get(); }

 private:
  struct alignas(64) Record {
    RunnerOrders orders;
    Record* next = nullptr;  // of those that stay
  };

  Record* const record_ = new Record;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_WORKERS_RUNNER_ORDERS_H_
