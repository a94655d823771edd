#ifndef TESSERA_GRAPH_PASSES_DEAD_NODES_H_
#define TESSERA_GRAPH_PASSES_DEAD_NODES_H_

#include <vector>

#include "tessera/graph/infer.h"
#include "tessera/graph/node.h"

namespace tessera::graph {

/// Returns whether RemoveDeadNodes may have something to do: whether some operator reads an input,
/// computed by another one, only for its shape.
bool ReadsShapesAlone(const std::vector<NodeEntry>& heads);

/// Returns the graph without the values that are read for their shape alone, as far as shapes are
/// known: zeros_like and ones_like become _zeros and _ones; reshape_like, broadcast_like and
/// slice_like become Reshape, broadcast_to and slice. The nodes that only computed such a value
/// then belong to the graph no more. Gradients have many of these reads, each of which would keep a
/// value of the forward graph in memory.
///
/// An operator stays as it is if its output is empty or has rank 0, which those parameters cannot
/// state, or if a gradient's shapes are inferred from the value. `shapes` and `types` are those of
/// IndexedGraph(heads). Linear time.
std::vector<NodeEntry> RemoveDeadNodes(const std::vector<NodeEntry>& heads,
                                       const GraphShapes& shapes, const GraphTypes& types);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_DEAD_NODES_H_
