#ifndef TESSERA_GRAPH_PASSES_CONSTANTS_H_
#define TESSERA_GRAPH_PASSES_CONSTANTS_H_

#include <functional>
#include <string_view>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/graph/node.h"

namespace tessera::graph {

/// A value that is computed apart from the graph that reads it.
struct FixedValue {
  NodeEntry value;     ///< the value, an output of a node of the given graph
  NodeEntry variable;  ///< the variable that stands for it in the new graph
  /// The value's shape and element type, which RunPasses sets.
  TShape shape = {};
  DType dtype = DType::kUnknown;
};

/// A graph in two parts.
struct SplitGraph {
  std::vector<NodeEntry> heads;   ///< the outputs of the graph, which read the variables
  std::vector<FixedValue> fixed;  ///< the values to compute first, in topological order
};

/// Splits off the part of a graph that depends on no variable besides those for which `is_fixed`
/// returns true, so that it is computed again only when one of these changes. The new graph has a
/// variable called `<prefix><number>_<output>` for each value that it reads of that part.
///
/// Only functions are split off: random, mutating and synchronous operators stay, and so do readers
/// of a value that some node changes, operators without inputs whose output's shape others
/// determine, and outputs of the graph, which keep their name and array. Linear time, apart from
/// `is_fixed`, which is called once for each variable.
SplitGraph SplitOff(const std::vector<NodeEntry>& heads,
                    const std::function<bool(const Node& variable)>& is_fixed,
                    std::string_view prefix);

/// Splits off the part of a graph that depends on no variable, such as _zeros, _arange and
/// functions of these. Its variables are called `_constant<number>_<output>`.
SplitGraph SplitOffConstants(const std::vector<NodeEntry>& heads);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_CONSTANTS_H_
