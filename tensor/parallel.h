#ifndef TESSERA_TENSOR_PARALLEL_H_
#define TESSERA_TENSOR_PARALLEL_H_

#include <cstdint>

#include "tessera/base/dialect.h"

namespace tessera {

/// What ParallelFor runs, without its type.
using RangeFunction = void (*)(const void* context, int64_t begin, int64_t end);

namespace tensor_internal {
void RunRanges(int64_t n, int64_t grain, RangeFunction function, const void* context);
}  // namespace tensor_internal

/// ParallelFor for a function of which there should be one copy only: function(context, begin, end)
/// on each range.
inline void ParallelForRange(int64_t n, int64_t grain, RangeFunction function,
                             const void* context) {
  if (n <= 0) return;
  if (n <= grain) {
    function(context, 0, n);
  } else {
    tensor_internal::RunRanges(n, grain, function, context);
  }
}

/// Calls body(begin, end) on disjoint ranges that together cover [0, n), in parallel on the TBB
/// arena that the caller runs in; an engine operation's loops thereby share the engine's workers.
///
/// Ranges are about `grain` long, at least half of it; if n <= grain the body runs at once on the
/// calling thread, without any TBB call. Which thread runs a range is not defined, so a sum over
/// ranges must combine per-range results in range order. An exception from a body is rethrown here.
template <typename Body>
void ParallelFor(int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) return;
  if (n <= grain) {
    body(int64_t{0}, n);
    return;
  }
  tensor_internal::RunRanges(
      n, grain,
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

#endif  // TESSERA_TENSOR_PARALLEL_H_
