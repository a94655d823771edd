#ifndef TESSERA_TESTS_RANDOM_GRAPHS_DOUBLE_REFERENCE_H_
#define TESSERA_TESTS_RANDOM_GRAPHS_DOUBLE_REFERENCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/tests/random_graphs/random_graph.h"

namespace tessera {

struct PhiloxState;

/// A list of arrays in double.
using DoubleArrays = std::vector<std::vector<double>>;

/// An interpreter of random graphs over Operator alone, in float64: node after node, without
/// engine, memory plan, graph passes and tape.
class DoubleReference {
 public:
  /// `graph` must outlive the object. The device's generator starts at `random_seed`.
  DoubleReference(const RandomGraph& graph, uint64_t random_seed);
  ~DoubleReference();
  DoubleReference(const DoubleReference&) = delete;
  DoubleReference& operator=(const DoubleReference&) = delete;

  /// Returns the heads for given inputs, with the generator at its start.
  DoubleArrays Forward(const DoubleArrays& inputs, bool is_train);
  /// Returns the inputs after the last Forward, which has changed states.
  DoubleArrays Inputs() const;
  /// Returns the gradients of all inputs after Forward(…, true). They are empty for those without.
  DoubleArrays Backward(const DoubleArrays& head_gradients);

 private:
  struct Call;

  const RandomGraph& graph_;
  const uint64_t random_seed_;
  std::unique_ptr<PhiloxState> random_;       // shared by all nodes
  std::vector<std::unique_ptr<Call>> calls_;  // one for each node
  DoubleArrays values_;
};

}  // namespace tessera

#endif  // TESSERA_TESTS_RANDOM_GRAPHS_DOUBLE_REFERENCE_H_
