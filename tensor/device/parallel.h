#ifndef TESSERA_TENSOR_DEVICE_PARALLEL_H_
#define TESSERA_TENSOR_DEVICE_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "tessera/base/dialect.h"

namespace tessera {

/// What ParallelFor runs, without its type.
using RangeFunction = void (*)(const void* context, int64_t begin, int64_t end);

/// Where a loop may be cut: before each index that is `size` times something less `before`.
struct RangeUnits {
  int64_t size = 1;    ///< indices of a unit
  int64_t before = 0;  ///< by how many the first unit is shorter, below `size`
};

/// Units at whose ends a cache line ends too, of elements or rows that lie `step_bytes` apart
/// (which may be negative) from `first` on: no two threads then write one line.
RangeUnits UnitsOfLines(const void* first, int64_t step_bytes);

namespace tensor_internal {
void RunRanges(int64_t n, int64_t grain, const RangeUnits& units, RangeFunction function,
               const void* context);

inline std::atomic<int64_t> elements_per_task{0};  // 0 until the setting is read
int64_t ReadElementsPerTask();
}  // namespace tensor_internal

/// ElementsPerTask() where the environment does not say otherwise.
inline constexpr int64_t kDefaultElementsPerTask = int64_t{1} << 15;

/// Elements of a cheap loop that one task should at least have: below it, waking a second worker
/// costs more than the work that it takes over (docs/performance.md: where two threads overtake
/// one). The setting TESSERA_ELEMENTS_PER_TASK, read at the first call; throws
/// Error(kInvalidArgument) if that is no number from 1024 to 2^40. Results do not depend on it,
/// except that of several NaNs that a sum meets either may give its sign.
inline int64_t ElementsPerTask() {
  const int64_t known = tensor_internal::elements_per_task.load(std::memory_order_relaxed);
  return known != 0 ? known : tensor_internal::ReadElementsPerTask();
}

/// The same of a loop whose elements cost as much each as 1 + cost of a cheap one; see CostOf.
inline int64_t ElementsPerTask(int64_t cost) {
  return std::max<int64_t>(1, ElementsPerTask() / (1 + cost));
}

/// Steps that a task should take where each does as much as a loop over `work` elements of a cost.
inline int64_t StepsPerTask(int64_t work, int64_t cost = 0) {
  return std::max<int64_t>(1, ElementsPerTask(cost) / std::max<int64_t>(1, work));
}

/// What ParallelFor is given: steps, and how many of them a task takes.
struct TaskPlan {
  int64_t count;  ///< steps
  int64_t grain;  ///< steps of a task

  /// For steps that each take `work` elements of a cost. Where one task takes all, no division
  /// tells so: a small loop would pay for it.
  static TaskPlan Of(int64_t count, int64_t work, int64_t cost) {
    int64_t elements;
    if (!__builtin_mul_overflow(count, work, &elements) && elements <= ElementsPerTask(cost)) {
      return {count, std::max<int64_t>(1, count)};
    }
    return {count, StepsPerTask(work, cost)};
  }
};

/// ParallelFor for a function of which there should be one copy only: function(context, begin, end)
/// on each range. These are cut where UnitsOfLines(first, step_bytes) says, if such a unit is no
/// longer than the grain.
inline void ParallelForRange(int64_t n, int64_t grain, const void* first, int64_t step_bytes,
                             RangeFunction function, const void* context) {
  if (n <= 0) return;
  if (n <= grain) {
    function(context, 0, n);
  } else {
    tensor_internal::RunRanges(n, grain, UnitsOfLines(first, step_bytes), function, context);
  }
}

/// Calls body(begin, end) on disjoint ranges that together cover [0, n), in parallel on the TBB
/// arena that the caller runs in; an engine operation's loops thereby share the engine's workers.
///
/// Ranges are about `grain` long, at least half of it; if n <= grain the body runs at once on the
/// calling thread, without any TBB call. Which thread runs a range is not defined, so a sum over
/// ranges must combine per-range results in range order. In the child of a fork where TBB's threads
/// are missing (ThreadsLostInFork) it is the calling one. An exception from a body is rethrown
/// here.
template <typename Body>
void ParallelFor(int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) return;
  if (n <= grain) {
    body(int64_t{0}, n);
    return;
  }
  tensor_internal::RunRanges(
      n, grain, RangeUnits(),
      [](const void* context, int64_t begin, int64_t end) {
        (*static_cast<const Body*>(context))(begin, end);
      },
      &body);
}

/// ParallelFor for a body that writes elements or rows which lie `step_bytes` apart from `first`
/// on, cut as by ParallelForRange.
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

/// How many threads a ParallelFor from here can use; and one over [0, n) with that grain, which has
/// no more of them than ranges.
int ParallelWidth();
int64_t ParallelWidth(int64_t n, int64_t grain);

}  // namespace tessera

#endif  // TESSERA_TENSOR_DEVICE_PARALLEL_H_
