#ifndef TESSERA_SYMBOL_GRAPHVIZ_H_
#define TESSERA_SYMBOL_GRAPHVIZ_H_

#include <map>
#include <string>

#include "tessera/base/tshape.h"
#include "tessera/symbol/symbol.h"

namespace tessera {

/// Options of ToGraphviz.
struct GraphvizOptions {
  std::string title = "network";              ///< the graph's name
  std::map<std::string, TShape> shapes = {};  ///< of inputs; if there are any, edges have shapes
  /// Whether to leave out the variables that an operator made for itself: weights, biases, states.
  bool hide_weights = true;
};

/// Returns a network as a directed graph in Graphviz's language, to be drawn by `dot -Tsvg`. Nodes
/// have a colour for each kind of operator and state their most important parameters. Edges lead
/// from a value to its reader. Throws what Symbol::InferShapePartial throws.
std::string ToGraphviz(const Symbol& symbol, const GraphvizOptions& options = {});

}  // namespace tessera

#endif  // TESSERA_SYMBOL_GRAPHVIZ_H_
