#ifndef TESSERA_GRAPH_PASSES_COMMON_SUBEXPRESSIONS_H_
#define TESSERA_GRAPH_PASSES_COMMON_SUBEXPRESSIONS_H_

#include <vector>

#include "tessera/graph/node.h"

namespace tessera::graph {

/// Returns the graph with one node in place of all nodes that compute the same: equal operators
/// with equal parameters, inputs and `ctx_group`. Random, mutating and synchronous operators stay
/// as they are, in their order, and so do readers of a value that some node changes, and operators
/// without inputs whose shape others determine. Losses stay too: each of them starts a gradient.
///
/// The node that stays has the name of the graph's output among them, if there is one. Two outputs
/// of the graph from different nodes stay two nodes, so that each keeps its name and array.
/// Expected time: linear.
std::vector<NodeEntry> MergeCommonSubexpressions(const std::vector<NodeEntry>& heads);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_COMMON_SUBEXPRESSIONS_H_
