#ifndef TESSERA_TENSOR_TESTING_THREAD_MEETING_H_
#define TESSERA_TENSOR_TESTING_THREAD_MEETING_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "tbb/global_control.h"
#include "tbb/task_arena.h"

namespace tessera {

/// For tests that work is shared out: a functor of elements in whose calls two threads meet. The
/// first one waits for another, half a minute at most in all. It says that it costs kCost.
template <int64_t kCost>
struct ThreadMeeting {
  static constexpr int64_t kElementCost = kCost;  ///< see cost.h

  /// Whether they met while `evaluate` ran, for which two threads are there.
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

  /// The element as it is.
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
