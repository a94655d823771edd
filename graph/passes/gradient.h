#ifndef TESSERA_GRAPH_PASSES_GRADIENT_H_
#define TESSERA_GRAPH_PASSES_GRADIENT_H_

#include <vector>

#include "tessera/graph/node.h"

namespace tessera::graph {

/// The gradients of a graph, as a graph.
struct Gradients {
  /// A variable for each head: the gradient of the final result with respect to it.
  std::vector<NodeEntry> head_gradients;
  /// The gradient of each wanted value. It has no node if no head depends on the value: 0.
  std::vector<NodeEntry> gradients;
};

/// The form of the gradient.
enum class GradientForm {
  kBackward,        ///< each operator's Backward where it has one
  kDifferentiable,  ///< graphs of operators where there are some, so that it has a gradient itself
};

/// Returns the gradients of `heads`, each weighted with its head gradient, with respect to the
/// wanted values, by reverse accumulation. Each operator with a wanted input gets one node with a
/// BackwardProperty, or the nodes that OperatorProperty::BuildGradient makes. The gradients of a
/// value with several readers are summed by one add_n, in the reverse order of the readers.
///
/// Throws Error(kInvalidArgument) that names the node if a gradient is wanted through an operator
/// without one.
Gradients BuildGradients(const std::vector<NodeEntry>& heads, const std::vector<NodeEntry>& wanted,
                         GradientForm form = GradientForm::kBackward);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_GRADIENT_H_
