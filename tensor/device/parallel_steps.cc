#include "tessera/tensor/device/parallel_steps.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "tessera/tensor/device/parallel.h"

namespace tessera::tensor_internal {
namespace {

// The turns of a wait, about 20 us, after which a thread offers its core to others.
constexpr int kTurnsBeforeYield = 1000;

// Tells the core that this is a spin loop.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The step of a part that is to be taken next, on a cache line of its own.
struct alignas(64) NextStep {
  std::atomic<int64_t> step{0};
};

class StepLoop {
 public:
  StepLoop(int64_t steps, int64_t parts, StepFunction function, const void* context)
      : parts_(parts),
        total_(steps * parts),
        function_(function),
        context_(context),
        next_(static_cast<size_t>(parts)) {}

  // Takes part in all steps that are not complete, in part `own` before others.
  void Join(int64_t own) {
    // Pairs with the releases in Run: a step begins after all that earlier ones wrote.
    int64_t done = done_.load(std::memory_order_acquire);
    while (done < total_) {
      const int64_t step = done / parts_;
      for (int64_t i = 0; i < parts_; ++i) {
        const int64_t part = own + i < parts_ ? own + i : own + i - parts_;
        if (Take(step, part)) Run(step, part);
      }
      done = WaitUntilDone((step + 1) * parts_);
    }
  }

 private:
  // Returns whether the part was to be taken. A thread that is late finds that it was taken, or
  // that it already is at a later step. Relaxed, since done_ orders what the parts read and write.
  bool Take(int64_t step, int64_t part) {
    std::atomic<int64_t>& next = next_[static_cast<size_t>(part)].step;
    int64_t expected = step;
    return next.load(std::memory_order_relaxed) == step &&
           next.compare_exchange_strong(expected, step + 1, std::memory_order_relaxed);
  }

  void Run(int64_t step, int64_t part) {
    try {
      function_(context_, step, part);
    } catch (...) {
      // Every other thread then leaves after the part that it runs.
      done_.store(total_, std::memory_order_release);
      throw;
    }
    // Pairs with the acquires in Join and WaitUntilDone.
    done_.fetch_add(1, std::memory_order_release);
  }

  int64_t WaitUntilDone(int64_t count) const {
    for (int turn = 0;; ++turn) {
      const int64_t done = done_.load(std::memory_order_acquire);
      if (done >= count) return done;
      if (turn < kTurnsBeforeYield) {
        Pause();
      } else {
        std::this_thread::yield();
      }
    }
  }

  const int64_t parts_, total_;
  const StepFunction function_;
  const void* const context_;
  std::vector<NextStep> next_;                // of each part
  alignas(64) std::atomic<int64_t> done_{0};  // the parts of all steps that are complete
};

}  // namespace

void RunSteps(int64_t steps, int64_t parts, StepFunction function, const void* context) {
  if (steps <= 0 || parts <= 0) return;
  if (parts == 1 || ParallelWidth() == 1) {
    for (int64_t step = 0; step < steps; ++step) {
      for (int64_t part = 0; part < parts; ++part) function(context, step, part);
    }
    return;
  }
  StepLoop loop(steps, parts, function, context);
  ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) loop.Join(part);
  });
}

}  // namespace tessera::tensor_internal
