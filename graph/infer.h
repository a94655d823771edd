#ifndef TESSERA_GRAPH_INFER_H_
#define TESSERA_GRAPH_INFER_H_

#include <map>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/graph/graph.h"

namespace tessera::graph {

/// Shapes of every entry of a graph.
struct GraphShapes {
  std::vector<TShape> entries;  ///< by number, see IndexedGraph
  bool complete = false;        ///< whether every shape is known
};
/// Element types of every entry of a graph.
struct GraphTypes {
  std::vector<DType> entries;  ///< by number, see IndexedGraph
  bool complete = false;       ///< whether every type is known
};

/// Infer from the known shapes or types of variables, by name; see Symbol::InferShape. The shapes
/// of a node's gradients are those of the inputs of the node that it belongs to. Throw what
/// RequireImplemented throws.
GraphShapes InferShapes(const IndexedGraph& graph, const std::map<std::string, TShape>& known);
GraphTypes InferTypes(const IndexedGraph& graph, const std::map<std::string, DType>& known);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_INFER_H_
