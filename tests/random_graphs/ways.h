#ifndef TESSERA_TESTS_RANDOM_GRAPHS_WAYS_H_
#define TESSERA_TESTS_RANDOM_GRAPHS_WAYS_H_

#include <cstdint>

#include "tessera/tests/random_graphs/double_reference.h"
#include "tessera/tests/random_graphs/random_graph.h"

namespace tessera {

/// The seed of the CPU's generator for every run of a graph.
inline constexpr uint64_t kMaskSeed = 20261127;

/// The results of a graph's run.
struct RunResult {
  DoubleArrays heads;      ///< in the order of RandomGraph::heads
  DoubleArrays gradients;  ///< of the inputs; empty for those without
  DoubleArrays inputs;     ///< the inputs afterwards: states have changed
};

/// The forward results that a gradient computes once more.
struct Recomputation {
  bool marks_all = false;  ///< those of all nodes, by the attribute `force_mirroring`
  /// BindArguments::memory_budget_bytes and CachedOpOptions::memory_budget_bytes.
  int64_t memory_budget_bytes = 0;
};

/// Return the results of a training step, forward and backward, by calls on arrays that the tape
/// records, by an Executor and by a CachedOp that the tape records.
RunResult TrainImperatively(const RandomGraph& graph);
RunResult TrainByExecutor(const RandomGraph& graph, const Recomputation& recomputation = {});
RunResult TrainByCachedOp(const RandomGraph& graph, const Recomputation& recomputation = {});

/// Return the heads outside of training. In place, a call writes over an input that it may replace
/// and that nobody reads afterwards.
DoubleArrays PredictImperatively(const RandomGraph& graph, bool in_place);
DoubleArrays PredictByExecutor(const RandomGraph& graph);
DoubleArrays PredictByCachedOp(const RandomGraph& graph);

}  // namespace tessera

#endif  // TESSERA_TESTS_RANDOM_GRAPHS_WAYS_H_
