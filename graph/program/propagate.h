#ifndef TESSERA_GRAPH_PROGRAM_PROPAGATE_H_
#define TESSERA_GRAPH_PROGRAM_PROPAGATE_H_

#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"

namespace tessera::graph {

/// Completes shapes and types in one pass: those of each node's outputs from those of its inputs,
/// unless they are known. This suffices where all variables are known; InferShapes and InferTypes
/// also infer variables. The vectors have an entry for each one of the graph. Sets `complete`.
///
/// Throws Error(kInvalidArgument) that names the node if its inputs do not fit.
void PropagateForward(const IndexedGraph& graph, GraphShapes* shapes, GraphTypes* types);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PROGRAM_PROPAGATE_H_
