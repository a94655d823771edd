#ifndef TESSERA_GRAPH_PROPAGATE_H_
#define TESSERA_GRAPH_PROPAGATE_H_

#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"

namespace tessera::graph {

/// Completes shapes and types of the entries of nodes from `first_node` on, each node's outputs
/// from its inputs, in one pass. This suffices where all variables are known; InferShapes and
/// InferTypes also infer variables. The vectors have an entry for each one of the graph, and those
/// of variables and of nodes before `first_node` are given. Sets `complete`.
///
/// Throws Error(kInvalidArgument) that names the node if its inputs do not fit.
void PropagateForward(const IndexedGraph& graph, int first_node, GraphShapes* shapes,
                      GraphTypes* types);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PROPAGATE_H_
