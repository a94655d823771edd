#ifndef TESSERA_GRAPH_TEXT_H_
#define TESSERA_GRAPH_TEXT_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/node.h"

namespace tessera::graph {

/// Facts to print beside the nodes; null for none. Shapes and types are those of
/// IndexedGraph(heads).
struct TextNotes {
  const GraphShapes* shapes = nullptr;                               ///< of the outputs
  const GraphTypes* types = nullptr;                                 ///< of the outputs
  const std::unordered_map<const Node*, Device>* devices = nullptr;  ///< of the nodes
  Device device = Device::Cpu();  ///< of the nodes without one, for the choice of implementations
  const std::unordered_map<const Node*, int>* groups = nullptr;  ///< numbers of fused nodes' groups
};

/// Returns the graph as text: a line for each node, in topological order, with its number, name,
/// operator, parameters that are not defaults, inputs, attributes, shapes, types, device and group
/// (`in group 2`); then a line with the graph's outputs. An output other than a node's first is
/// written `%3.1`. If shapes and types are given, an operator with several implementations has the
/// name of the one that is used: `Convolution[packed]`.
///
///     %0 = variable data: float32(2,3)
///     %1 = variable fc_weight: float32(4,3)
///     %2 = FullyConnected(no_bias=True, num_hidden=4) fc (%0, %1) [ctx_group=dev1]: float32(2,4)
///     return %2
std::string ToText(const std::vector<NodeEntry>& heads, const TextNotes& notes = {});

/// Returns the graph in Graphviz's language, with operators as boxes, variables as ellipses, and
/// shapes and types at the edges. The nodes of a device have one color, and those of a group its
/// number.
std::string ToGraphviz(const std::vector<NodeEntry>& heads, const TextNotes& notes = {});

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_TEXT_H_
