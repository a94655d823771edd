#include "tessera/tensor/parallel.h"

#include <algorithm>

#include "tbb/blocked_range.h"
#include "tbb/parallel_for.h"
#include "tbb/partitioner.h"
#include "tbb/task_arena.h"
#include "tessera/base/environment.h"
#include "tessera/base/fork.h"

namespace tessera {
namespace {

/// The same ranges as TBB's, for where that must not be used.
void RunSerially(int64_t begin, int64_t end, int64_t grain, RangeFunction function,
                 const void* context) {
  if (end - begin <= grain) return function(context, begin, end);
  const int64_t middle = begin + (end - begin) / 2;
  RunSerially(begin, middle, grain, function, context);
  RunSerially(middle, end, grain, function, context);
}

}  // namespace

namespace tensor_internal {

int64_t ReadElementsPerTask() {
  const int64_t elements = EnvironmentInt("TESSERA_ELEMENTS_PER_TASK", kDefaultElementsPerTask,
                                          int64_t{1} << 10, int64_t{1} << 40);
  elements_per_task.store(elements, std::memory_order_relaxed);
  return elements;
}

void RunRanges(int64_t n, int64_t grain, RangeFunction function, const void* context) {
  const int64_t longest = std::max<int64_t>(grain, 1);
  // One thread calls no TBB either: a task costs it a quarter of a microsecond, 3 % of a range that
  // comes from memory.
  if (ParallelWidth() == 1) return RunSerially(0, n, longest, function, context);
  tbb::parallel_for(
      tbb::blocked_range<int64_t>(0, n, longest),
      [function, context](const tbb::blocked_range<int64_t>& range) {
        function(context, range.begin(), range.end());
      },
      tbb::simple_partitioner());
}

}  // namespace tensor_internal

int ParallelWidth() { return ThreadsLostInFork() ? 1 : tbb::this_task_arena::max_concurrency(); }

int64_t ParallelWidth(int64_t n, int64_t grain) {
  if (n <= grain) return 1;
  const int64_t longest = std::max<int64_t>(grain, 1);
  int64_t ranges = 1;  // each is halved while it is longer than the grain
  while (n / ranges > longest) ranges *= 2;
  // Now n % ranges of them are one longer than n / ranges.
  if (n / ranges == longest) ranges += n % ranges;
  return std::min<int64_t>(ranges, ParallelWidth());
}

}  // namespace tessera
