#ifndef TESSERA_TENSOR_TESTING_THREAD_MEETING_H_
#define TESSERA_TENSOR_TESTING_THREAD_MEETING_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "tbb/global_control.h"
#include "tbb/task_arena.h"

namespace tessera {

/// A functor of elements that shows whether work is shared: two threads meet in its calls. The
/// first one waits for another, at most half a minute in all. Its declared cost is kCost.
template <int64_t kCost>
struct ThreadMeeting {
  static constexpr int64_t kElementCost = kCost;  ///< see cost.h

  /// Returns whether two threads met while `evaluate` ran in an arena of two threads.
  template <typename Evaluate>
  static bool In(const Evaluate& evaluate) {
    const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 2);
    tbb::task_arena arena(2);
    first = std::thread::id();
    waits = true;
    met = false;
    arena.execute(evaluate);
    return met;
  }

  /// Returns the element unchanged.
  template <typename T>
  static T Map(T a) {
    if (waits) Come();
    return a;
  }

 private:
  static void Come() {
    const auto own = std::this_thread::get_id();
    std::thread::id nobody;
    if (!first.compare_exchange_strong(nobody, own) && first.load() != own) {
      met = true;
      waits = false;
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (waits && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    waits = false;
  }

  static inline std::atomic<std::thread::id> first;
  static inline std::atomic<bool> waits, met;
};

}  // namespace tessera

#endif  // TESSERA_TENSOR_TESTING_THREAD_MEETING_H_
