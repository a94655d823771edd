#ifndef TESSERA_ENGINE_CORE_FUTEX_LOCK_H_
#define TESSERA_ENGINE_CORE_FUTEX_LOCK_H_

#include <atomic>
#include <cstdint>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace tessera::engine_internal {

/// Tells the core that this is a spin loop, so that it spares power and its sibling.
inline void SpinPause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// The atomics of lock-free code: these, or those of a model checker.
struct StdMemory {
  template <typename T>
  using Atomic = std::atomic<T>;
  template <typename T>
  using Plain = T;                   ///< data that the atomics put in order
  static constexpr int kSpins = 64;  ///< about 1 us, longer than any section takes undisturbed
};

/// A four-byte mutex for sections of some dozen instructions: one compare-and-swap where nobody
/// contends, a short spin where the owner runs, and a sleep in the kernel where it was preempted.
/// Every variable has one, where a std::mutex would take 40 bytes and twice the time.
///
/// Its atomics are in this header so that ThreadSanitizer sees the order that they make, whatever
/// the libraries were compiled with. (Three states after U. Drepper, "Futexes are tricky", 2011.)
template <typename Memory>
class BasicFutexLock {
 public:
  void lock() {
    uint32_t expected = kFree;
    // Acquire: pairs with the release in unlock(), so the section sees all earlier sections.
    if (!state_.compare_exchange_weak(expected, kHeld, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
      LockSlowly();
    }
  }

  /// May fail though nobody holds the lock.
  bool try_lock() {
    uint32_t expected = kFree;
    return state_.compare_exchange_weak(expected, kHeld, std::memory_order_acquire,
                                        std::memory_order_relaxed);
  }

  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kContended) state_.notify_one();
  }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kContended = 2;

  void LockSlowly() {
    for (int i = 0; i < Memory::kSpins; ++i) {
      uint32_t expected = kFree;
      if (state_.load(std::memory_order_relaxed) == kFree &&
          state_.compare_exchange_weak(expected, kHeld, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return;
      }
      SpinPause();
    }
    // Taking it as contended may cost one needless wake-up later, but never loses one.
    while (state_.exchange(kContended, std::memory_order_acquire) != kFree) {
      state_.wait(kContended, std::memory_order_relaxed);
    }
  }

  typename Memory::template Atomic<uint32_t> state_{kFree};
};

using FutexLock = BasicFutexLock<StdMemory>;

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_FUTEX_LOCK_H_
