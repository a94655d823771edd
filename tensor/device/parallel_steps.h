#ifndef TESSERA_TENSOR_DEVICE_PARALLEL_STEPS_H_
#define TESSERA_TENSOR_DEVICE_PARALLEL_STEPS_H_

#include <cstdint>

#include "tessera/base/dialect.h"

namespace tessera {

namespace tensor_internal {

/// A body of ParallelSteps without its type.
using StepFunction = void (*)(const void* context, int64_t step, int64_t part);

void RunSteps(int64_t steps, int64_t parts, StepFunction function, const void* context);

}  // namespace tensor_internal

/// Calls body(step, part) for each step in [0, steps) and each part in [0, parts), in parallel on
/// the TBB arena in which the caller runs. All parts of a step are complete, and what they wrote is
/// visible, before any part of the next step begins. It is for steps of microseconds, for which a
/// ParallelFor each would spend most of the time on waking threads: here threads that have finished
/// their part of a step wait actively for the others.
///
/// A thread takes the same part in each step, so that it finds the part's data in its own cache. It
/// also takes parts that no other thread has begun. The loop therefore needs no particular number
/// of threads, and the calling thread runs all of it if there is no other.
///
/// Requires: a body runs no parallel loop and waits for no other thread. Its thread could otherwise
/// enter this loop again, and wait for the part that it has left. An exception from a body ends the
/// loop and is rethrown here. All threads take the caller's floating-point settings.
template <typename Body>
void ParallelSteps(int64_t steps, int64_t parts, const Body& body) {
  tensor_internal::RunSteps(
      steps, parts,
      [](const void* context, int64_t step, int64_t part) {
        (*static_cast<const Body*>(context))(step, part);
      },
      &body);
}

}  // namespace tessera

#endif  // TESSERA_TENSOR_DEVICE_PARALLEL_STEPS_H_
