#ifndef TESSERA_GRAPH_PASSES_REWRITE_H_
#define TESSERA_GRAPH_PASSES_REWRITE_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/graph/node.h"
#include "tessera/ops/parameter.h"

namespace tessera::graph {

/// Returns the nodes on which the heads depend, each after its inputs and, if it computes a
/// gradient, after the node whose gradient that is. Linear time.
std::vector<std::shared_ptr<Node>> TopologicalOrder(const std::vector<NodeEntry>& heads);

/// Returns the node's attribute `ctx_group`, the name of a group of nodes on one device; empty
/// without it.
std::string DeviceGroup(const Node& node);

/// The part of a new graph that takes the place of a node.
struct Replacement {
  /// The node whose outputs take the place of the old node's outputs.
  std::shared_ptr<Node> node;
  /// One entry for each of the old node's outputs, to take their place instead of those of `node`;
  /// empty for no such entries.
  std::vector<NodeEntry> outputs = {};
};

/// Returns the replacement of `node`. `rebuilt` reads the new graph; it is the node itself if
/// nothing that it reads has changed, and else a copy of it.
using ReplaceNode =
    std::function<Replacement(const Node& node, const std::shared_ptr<Node>& rebuilt)>;

/// Return the heads of a graph in which each node is replaced, in TopologicalOrder, which `order`
/// is if it is given. Nodes that do not change are shared with the old graph, whose nodes are not
/// written. Linear time, apart from `replace`.
std::vector<NodeEntry> RewriteGraph(const std::vector<NodeEntry>& heads,
                                    const ReplaceNode& replace);
std::vector<NodeEntry> RewriteGraph(const std::vector<NodeEntry>& heads,
                                    const std::vector<std::shared_ptr<Node>>& order,
                                    const ReplaceNode& replace);

/// The facts about a graph on which it depends whether a node may be merged or left out.
class GraphFacts {
 public:
  /// `order` is TopologicalOrder(heads).
  GraphFacts(const std::vector<NodeEntry>& heads, const std::vector<std::shared_ptr<Node>>& order);

  /// Returns whether an output of the node is an output of the graph.
  bool IsHead(const Node& node) const { return heads_.contains(&node); }
  /// Returns whether some node changes one of the values that the node reads or computes. Then its
  /// results, or those of its readers, depend on the order of the calls.
  bool TouchesMutated(const Node& node) const;
  /// Returns whether the node's outputs are a function of its inputs alone, no matter when it is
  /// called: it is pure, TouchesMutated(node) is false, and its inputs determine its outputs'
  /// shapes and types, which readers may do for an operator without inputs. A variable is no
  /// function.
  bool IsFunction(const Node& node) const;

 private:
  std::unordered_set<const Node*> heads_;
  std::set<std::pair<const Node*, int>> mutated_;  // node and output
};

/// Returns an operator's node with all its inputs, and the attributes of `like`; that of an
/// implementation only if the operator is the same. Throws what OperatorRegistry::FindOrCreate
/// throws.
NodeEntry MakeOperatorLike(const Node& like, std::string_view op, std::string name,
                           const std::vector<NodeEntry>& inputs,
                           const ParameterMap& parameters = {});

/// Returns those of the values known by name whose variable is in the graph.
template <typename T>
std::map<std::string, T> KnownIn(const IndexedGraph& graph, const std::map<std::string, T>& known) {
  std::map<std::string, T> present;
  for (const auto* list : {&graph.arguments(), &graph.aux_states()}) {
    for (const int id : *list) {
      const auto found = known.find(graph.node(id).name);
      if (found != known.end()) present.insert(*found);
    }
  }
  return present;
}

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_REWRITE_H_
