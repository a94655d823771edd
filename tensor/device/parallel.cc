#include "tessera/tensor/device/parallel.h"

#include <algorithm>
#include <numeric>

#include "tbb/blocked_range.h"
#include "tbb/parallel_for.h"
#include "tbb/partitioner.h"
#include "tbb/task_arena.h"
#include "tbb/task_group.h"
#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/base/fork.h"

namespace tessera {
namespace tensor_internal {
namespace {

constexpr int64_t kLineBytes = 64;

/// A loop over units, which calls `function` with the range of indices in each range of units.
struct UnitLoop {
  int64_t n;
  RangeUnits units;
  RangeFunction function;
  const void* context;

  void Run(int64_t begin, int64_t end) const {
    function(context, std::max<int64_t>(0, begin * units.size - units.before),
             std::min(n, end * units.size - units.before));
  }
};

/// Cuts [begin, end) into the ranges that TBB would make, and runs them on the calling thread. It
/// is for loops that must not use TBB.
void RunSerially(int64_t begin, int64_t end, int64_t grain, const UnitLoop& loop) {
  if (end - begin <= grain) return loop.Run(begin, end);
  const int64_t middle = begin + (end - begin) / 2;
  RunSerially(begin, middle, grain, loop);
  RunSerially(middle, end, grain, loop);
}

}  // namespace

int64_t ReadElementsPerTask() {
  const int64_t elements = EnvironmentInt("TESSERA_ELEMENTS_PER_TASK", kDefaultElementsPerTask,
                                          int64_t{1} << 10, int64_t{1} << 40);
  elements_per_task.store(elements, std::memory_order_relaxed);
  return elements;
}

void RunRanges(int64_t n, int64_t grain, const RangeUnits& units, RangeFunction function,
               const void* context) {
  const bool fits = units.size <= grain;
  const UnitLoop loop{n, fits ? units : RangeUnits(), function, context};
  const int64_t size = loop.units.size;
  const int64_t count = (n + loop.units.before + size - 1) / size;
  const int64_t longest = std::max<int64_t>(grain / size, 1);
  // A single thread runs the loop without TBB too. A TBB task costs it a quarter of a microsecond,
  // which is 3 % of a range that comes from memory.
  if (ParallelWidth() == 1) return RunSerially(0, count, longest, loop);
  // Without a context of its own, the loop would skip ranges and return if the caller is a task of
  // a group that is cancelled, or in which another task throws. The threads take the caller's
  // floating-point settings, such as the rounding mode, as a loop in one thread does.
  tbb::task_group_context isolated(tbb::task_group_context::isolated,
                                   tbb::task_group_context::fp_settings);
  tbb::parallel_for(
      tbb::blocked_range<int64_t>(0, count, longest),
      [&loop](const tbb::blocked_range<int64_t>& range) { loop.Run(range.begin(), range.end()); },
      tbb::simple_partitioner(), isolated);
  if (isolated.is_group_execution_cancelled()) {
    throw FailedPrecondition(
        "ParallelFor: a range of the loop has cancelled the loop's TBB context, so some of its ", n,
        " steps were skipped; expected all of them to run");
  }
}

RangeUnits UnitsOfLines(const void* first, int64_t step_bytes) {
  const int64_t common = std::gcd(step_bytes, kLineBytes);
  // A unit begins with the first index in a line if the step is positive, and with the last one if
  // it is negative.
  const int64_t offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(first) % kLineBytes) +
                         (step_bytes < 0 ? common : 0);
  RangeUnits units{kLineBytes / common, 0};
  const auto place = [&](int64_t index) {
    return ((offset + index % units.size * (step_bytes % kLineBytes)) % kLineBytes + kLineBytes) %
           kLineBytes;
  };
  while (units.before + 1 < units.size && place(-units.before) >= common) ++units.before;
  return units;
}

}  // namespace tensor_internal

int ParallelWidth() { return ThreadsLostInFork() ? 1 : tbb::this_task_arena::max_concurrency(); }

int64_t ParallelWidth(int64_t n, int64_t grain) {
  if (n <= grain) return 1;
  const int64_t longest = std::max<int64_t>(grain, 1);
  int64_t ranges = 1;  // each is halved while it is longer than the grain
  while (n / ranges > longest) ranges *= 2;
  // Now n % ranges of the ranges are one longer than n / ranges.
  if (n / ranges == longest) ranges += n % ranges;
  return std::min<int64_t>(ranges, ParallelWidth());
}

}  // namespace tessera
