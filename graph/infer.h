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

/// The treatment of values that nothing determines.
enum class Inference {
  kComplete,  ///< an operator without inference is an error; types are float32
  kPartial,   ///< they stay unknown
};

/// Infer from the known shapes or types of variables, by name; see Symbol::InferShape. A name
/// stands for all variables that have it. The shapes of a node's gradients are those of the inputs
/// of the node that it belongs to. Complete inference throws what RequireImplemented throws.
GraphShapes InferShapes(const IndexedGraph& graph, const std::map<std::string, TShape>& known,
                        Inference inference = Inference::kComplete);
GraphTypes InferTypes(const IndexedGraph& graph, const std::map<std::string, DType>& known,
                      Inference inference = Inference::kComplete);

/// Complete shapes and types of which some are known, by entry. Operators without inputs may take
/// theirs from who reads them. Set `complete`, and throw Error(kInvalidArgument) that names the
/// node if its values do not fit.
void CompleteShapes(const IndexedGraph& graph, GraphShapes* shapes);
void CompleteTypes(const IndexedGraph& graph, GraphTypes* types);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_INFER_H_
