#ifndef TESSERA_SYMBOL_TESTING_STEP_MEMORY_H_
#define TESSERA_SYMBOL_TESTING_STEP_MEMORY_H_

#include <cstdint>
#include <functional>

namespace tessera::symbol_testing {

/// Returns the bytes that Storage reports for the CPU at the peak of step(), less those that lay
/// before it outside of graphs' memory for intermediate results: the peak with the arrays that the
/// step makes. Memory for intermediate results is the one that is counted under the tag "graph", so
/// that it does not matter whether a graph allocates it for the step or has it before.
///
/// Bytes are those that callers requested, before the pool rounds them up. They are exact if the
/// calling thread makes all allocations, and `step` frees nothing: use
/// CachedOpOptions::static_alloc and keep what it returns. Requires: nothing else is running. Waits
/// until the step is done.
int64_t BytesHeldAtPeak(const std::function<void()>& step);

}  // namespace tessera::symbol_testing

#endif  // TESSERA_SYMBOL_TESTING_STEP_MEMORY_H_
