#ifndef TESSERA_ENGINE_SCHEDULE_VISIT_GATE_H_
#define TESSERA_ENGINE_SCHEDULE_VISIT_GATE_H_

#include <atomic>
#include <cstdint>

#include "tessera/engine/core/futex_lock.h"

namespace tessera::engine_internal {

/// The number of threads that visit a replay, and whether one more has been called: no operation
/// that is ready may be left there with nobody on the way to it.
///
/// Sequentially consistent throughout, as is what makes operations ready and what looks for them:
/// of a visitor that leaves, or a worker that joins, and one who has just left something to take,
/// one sees the other.
///
/// Threads: every member may be called from any thread.
template <typename Memory = StdMemory>
class VisitGate {
 public:
  /// Visits once, and again while `run` has found nothing to do but there is something by the time
  /// that this thread does not count any more: the thread that left that may have counted on it.
  /// run(number), given how many were there before, returns whether it left for want of work.
  template <typename Run, typename HasReady>
  void Visit(const Run& run, const HasReady& has_ready) {
    bool found_nothing;
    do {
      found_nothing = run(visitors_.fetch_add(1, std::memory_order_seq_cst));
      visitors_.fetch_sub(1, std::memory_order_seq_cst);
    } while (found_nothing && has_ready());
  }

  /// A visitor's operation begins to wait, and goes on: in between it takes nothing, so the thread
  /// that suspends it looks for what is ready after that, and calls.
  void Suspend() { visitors_.fetch_sub(1, std::memory_order_seq_cst); }
  void Resume() { visitors_.fetch_add(1, std::memory_order_seq_cst); }

  /// The visitors, except those that are suspended.
  int32_t visitors() const { return visitors_.load(std::memory_order_seq_cst); }

  /// Called when something is ready. True for one caller, who sees to it that a worker joins; for
  /// the others one is on the way, who has yet to look.
  bool Call() {
    return !called_.load(std::memory_order_seq_cst) &&
           !called_.exchange(true, std::memory_order_seq_cst);
  }

  /// A worker has joined. It looks for what is ready after this.
  void Answer() { called_.exchange(false, std::memory_order_seq_cst); }

 private:
  typename Memory::template Atomic<bool> called_{false};
  typename Memory::template Atomic<int32_t> visitors_{0};
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_SCHEDULE_VISIT_GATE_H_
