#ifndef TESSERA_ENGINE_TESTING_INTERLEAVINGS_H_
#define TESSERA_ENGINE_TESTING_INTERLEAVINGS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera::engine_internal {

// A model checker for code whose atomics are a template parameter: runs a few threads under every
// order of their atomic operations that could make a difference, one operation at a time.
//
// It finds wrong results, deadlocks (a lost wake-up is one), and accesses to plain data that no
// acquire and release put in order (by vector clocks, as race detectors do). Values are those of
// sequential consistency: a load never returns an old value, so what needs a stronger order than
// acquire and release between different variables is out of its reach. Orders that differ only in
// which of two independent operations came first are run once (sleep sets: P. Godefroid,
// "Partial-Order Methods for the Verification of Concurrent Systems", 1996, chapter 5).

inline constexpr int kMaxModelThreads = 3;

/// The work of the threads of one run, and the condition that must hold after it. Made anew for
/// each run.
struct ModelProgram {
  std::vector<std::function<void()>> threads;  ///< at most kMaxModelThreads
  std::function<std::string()> check;          ///< what is wrong in the end; empty if nothing is
};

struct ModelResult {
  int64_t runs = 0;
  std::string failure;  ///< of the first run that failed; empty if none did
};

/// Runs the program in all orders, or until one fails. One exploration at a time in a process.
ModelResult ExploreInterleavings(const std::function<ModelProgram()>& make_program);

/// The progress of the others that a thread knows of; the last one is the thread that explores.
using ModelClock = std::array<uint32_t, kMaxModelThreads + 1>;

// The hooks of the templates below; outside of an exploration they do nothing.

/// Lets the explorer choose who goes on. The calling thread's next operation is on `location`.
void ModelStep(const void* location, bool writes);
/// Puts the calling thread to sleep until ModelWake with the same location. Leaves the thread's
/// function by an exception where nobody is left to call that.
void ModelSleep(const void* location);
void ModelWake(const void* location);
int ModelThread();
ModelClock& ModelThreadClock();
void ModelFail(const std::string& failure);

inline bool IsAcquire(std::memory_order order) {
  return order != std::memory_order_relaxed && order != std::memory_order_release;
}
inline bool IsRelease(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

inline void JoinClocks(ModelClock& into, const ModelClock& from) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

/// Stands for std::atomic, as far as the code under test uses it.
template <typename T>
class ModelAtomic {
 public:
  ModelAtomic(T value = T()) : value_(value) {}  // NOLINT: as std::atomic

  T load(std::memory_order order) const {
    ModelStep(this, /*writes=*/false);
    if (IsAcquire(order)) JoinClocks(ModelThreadClock(), released_);
    return value_;
  }
  void store(T value, std::memory_order order) {
    ModelStep(this, /*writes=*/true);
    // Other than a read-modify-write it hides what others released before it.
    released_ = {};
    if (IsRelease(order)) {
      JoinClocks(released_, ModelThreadClock());
      ++ModelThreadClock()[ModelThread()];
    }
    value_ = value;
  }
  T exchange(T value, std::memory_order order) {
    ModelStep(this, /*writes=*/true);
    const T old = value_;
    ReadAndWrite(value, order);
    return old;
  }
  T fetch_add(T value, std::memory_order order) {
    ModelStep(this, /*writes=*/true);
    const T old = value_;
    ReadAndWrite(old + value, order);
    return old;
  }
  T fetch_sub(T value, std::memory_order order) { return fetch_add(-value, order); }
  bool compare_exchange_weak(T& expected, T value, std::memory_order success,
                             std::memory_order failure) {
    ModelStep(this, /*writes=*/true);
    if (value_ != expected) {
      if (IsAcquire(failure)) JoinClocks(ModelThreadClock(), released_);
      expected = value_;
      return false;
    }
    ReadAndWrite(value, success);
    return true;
  }
  void wait(T old, std::memory_order order) const {
    ModelStep(this, /*writes=*/true);
    while (value_ == old) ModelSleep(this);
    if (IsAcquire(order)) JoinClocks(ModelThreadClock(), released_);
  }
  void notify_one() {
    ModelStep(this, /*writes=*/true);
    ModelWake(this);
  }

 private:
  void ReadAndWrite(T value, std::memory_order order) {
    ModelClock& clock = ModelThreadClock();
    if (IsAcquire(order)) JoinClocks(clock, released_);
    // A read-modify-write that releases nothing leaves what others released before it.
    if (IsRelease(order)) {
      JoinClocks(released_, clock);
      ++clock[ModelThread()];
    }
    value_ = value;
  }

  T value_;
  ModelClock released_{};  // what an acquiring load learns
};

/// Stands for plain data: an access that is not ordered after all others in conflict is a failure.
template <typename T>
class ModelPlain {
 public:
  ModelPlain(T value = T()) : value_(value) {}  // NOLINT: as T
  ModelPlain(const ModelPlain& other) : value_(static_cast<T>(other)) {}
  ModelPlain& operator=(const ModelPlain& other) { return *this = static_cast<T>(other); }
  ModelPlain& operator=(T value) {
    CheckAfter(written_, "a write after a write");
    CheckAfter(read_, "a write after a read");
    written_[ModelThread()] = ModelThreadClock()[ModelThread()];
    value_ = value;
    return *this;
  }
  operator T() const {  // NOLINT: as T
    CheckAfter(written_, "a read after a write");
    read_[ModelThread()] = ModelThreadClock()[ModelThread()];
    return value_;
  }

 private:
  void CheckAfter(const ModelClock& accesses, const char* what) const {
    const ModelClock& clock = ModelThreadClock();
    for (size_t i = 0; i < clock.size(); ++i) {
      if (accesses[i] > clock[i]) ModelFail(std::string("plain data: nothing orders ") + what);
    }
  }

  T value_;
  ModelClock written_{};
  mutable ModelClock read_{};
};

/// The Memory parameter of what is run under the explorer.
struct ModelMemory {
  template <typename T>
  using Atomic = ModelAtomic<T>;
  template <typename T>
  using Plain = ModelPlain<T>;
  static constexpr int kSpins = 0;  // to spin is to try again, which the explorer does anyway
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_TESTING_INTERLEAVINGS_H_
