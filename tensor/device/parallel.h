#ifndef TESSERA_TENSOR_DEVICE_PARALLEL_H_
#define TESSERA_TENSOR_DEVICE_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "tessera/base/dialect.h"

namespace tessera {

namespace tensor_internal {

/// A loop body without its type: it is called with its context and the range [begin, end).
using RangeFunction = void (*)(const void* context, int64_t begin, int64_t end);

/// The indices before which a loop may be cut: each multiple of `size`, minus `before`.
struct RangeUnits {
  int64_t size = 1;    ///< indices in a unit
  int64_t before = 0;  ///< indices that the first unit lacks, below `size`
};

/// Returns units that end where a cache line ends, so that no two threads write one line. The
/// elements or rows of the loop lie `step_bytes` apart, which may be negative, from `first` on.
RangeUnits UnitsOfLines(const void* first, int64_t step_bytes);

void RunRanges(int64_t n, int64_t grain, const RangeUnits& units, RangeFunction function,
               const void* context);

/// The value of ElementsPerTask() unless the environment sets another one.
inline constexpr int64_t kDefaultElementsPerTask = int64_t{1} << 15;
inline std::atomic<int64_t> elements_per_task{0};  // 0 until the setting is read
int64_t ReadElementsPerTask();

}  // namespace tensor_internal

/// Returns the number of elements of a cheap loop that one task should have at least. Below this
/// number, waking a second worker costs more than the work that it takes over (docs/performance.md:
/// where two threads overtake one). The environment variable TESSERA_ELEMENTS_PER_TASK sets it and
/// is read at the first call. Throws Error(kInvalidArgument) if the variable is no number from 1024
/// to 2^40. Results do not depend on it, except for the sign of a NaN: if a sum meets several NaNs,
/// any of them may give its sign.
inline int64_t ElementsPerTask() {
  const int64_t known = tensor_internal::elements_per_task.load(std::memory_order_relaxed);
  return known != 0 ? known : tensor_internal::ReadElementsPerTask();
}

/// Returns the number of elements that one task should have at least if each element costs as much
/// as 1 + cost elements of a cheap loop; see CostOf.
inline int64_t ElementsPerTask(int64_t cost) {
  return std::max<int64_t>(1, ElementsPerTask() / (1 + cost));
}

/// Returns the number of steps that a task should take if each step does as much as a loop over
/// `work` elements of cost `cost`.
inline int64_t StepsPerTask(int64_t work, int64_t cost = 0) {
  return std::max<int64_t>(1, ElementsPerTask(cost) / std::max<int64_t>(1, work));
}

/// Calls body(begin, end) on disjoint ranges that together cover [0, n), in parallel on the TBB
/// arena in which the caller runs. The loops of an engine operation thereby share the engine's
/// workers.
///
/// A range is about `grain` long, and at least half of it. If n <= grain, the body runs at once on
/// the calling thread, without any TBB call. The thread that runs a range is not defined, so a sum
/// over ranges must combine the results of the ranges in the order of the ranges. The calling
/// thread runs all ranges in the child of a fork in which TBB's threads are missing
/// (ThreadsLostInFork). An exception from a body is rethrown here.
///
/// The loop has a TBB context of its own: it runs completely even if the caller is a task of a
/// tbb::task_group that is cancelled, or in which another task throws. All threads take the
/// caller's floating-point settings. Throws Error(kFailedPrecondition) if a body cancels the loop
/// by tbb::task::current_context().
template <typename Body>
void ParallelFor(int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) return;
  if (n <= grain) {
    body(int64_t{0}, n);
    return;
  }
  tensor_internal::RunRanges(
      n, grain, tensor_internal::RangeUnits(),
      [](const void* context, int64_t begin, int64_t end) {
        (*static_cast<const Body*>(context))(begin, end);
      },
      &body);
}

/// Returns the number of threads that a ParallelFor can use if it is called from here.
int ParallelWidth();
/// Returns the number of threads that a ParallelFor over [0, n) with `grain` can use if it is
/// called from here. It is at most the number of ranges.
int64_t ParallelWidth(int64_t n, int64_t grain);

namespace tensor_internal {

/// The arguments of a ParallelFor: the number of steps, and the steps that one task takes.
struct TaskPlan {
  int64_t count;  ///< the number of steps
  int64_t grain;  ///< the steps of a task

  /// Returns the plan for steps that each take `work` elements of cost `cost`. A loop that fits one
  /// task is recognized without a division, whose time a small loop would notice.
  static TaskPlan Of(int64_t count, int64_t work, int64_t cost) {
    int64_t elements;
    if (!__builtin_mul_overflow(count, work, &elements) && elements <= ElementsPerTask(cost)) {
      return {count, std::max<int64_t>(1, count)};
    }
    return {count, StepsPerTask(work, cost)};
  }
};

/// Calls function(context, begin, end) on disjoint ranges that cover [0, n), as ParallelFor does.
/// It is for a function of which a program should contain one copy only. The ranges are cut at the
/// units of UnitsOfLines(first, step_bytes), if such a unit is no longer than the grain.
inline void ParallelForRange(int64_t n, int64_t grain, const void* first, int64_t step_bytes,
                             RangeFunction function, const void* context) {
  if (n <= 0) return;
  if (n <= grain) {
    function(context, 0, n);
  } else {
    RunRanges(n, grain, UnitsOfLines(first, step_bytes), function, context);
  }
}

/// Calls body(begin, end) on disjoint ranges that cover [0, n), as ParallelFor does. It is for a
/// body that writes elements or rows which lie `step_bytes` apart from `first` on. The ranges are
/// cut as ParallelForRange cuts them.
template <typename Body>
void ParallelForLines(int64_t n, int64_t grain, const void* first, int64_t step_bytes,
                      const Body& body) {
  ParallelForRange(
      n, grain, first, step_bytes,
      [](const void* context, int64_t begin, int64_t end) {
        (*static_cast<const Body*>(context))(begin, end);
      },
      &body);
}

}  // namespace tensor_internal
}  // namespace tessera

#endif  // TESSERA_TENSOR_DEVICE_PARALLEL_H_
