#ifndef TESSERA_GRAPH_GRAPH_H_
#define TESSERA_GRAPH_GRAPH_H_

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/graph/node.h"

namespace tessera::graph {

/// A graph in topological order, with all nodes and entries numbered. An entry is one output of one
/// node. It keeps its nodes alive. Different variables may have the same name.
class IndexedGraph {
 public:
  /// Numbers the nodes on which `heads` depend, in linear time.
  explicit IndexedGraph(const std::vector<NodeEntry>& heads);

  /// Returns the nodes, each after its inputs: depth first from the outputs, inputs in order.
  const std::vector<const Node*>& nodes() const { return nodes_; }
  const Node& node(int id) const { return *nodes_[static_cast<size_t>(id)]; }
  /// Returns node `id` to be shared.
  const std::shared_ptr<Node>& Owner(int id) const { return owners_[static_cast<size_t>(id)]; }
  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  /// Returns the number of a node of the graph.
  int NodeId(const Node* node) const { return node_ids_.at(node); }
  /// Returns whether the graph has the node.
  bool Contains(const Node* node) const { return node_ids_.contains(node); }

  /// Returns the number of outputs of all nodes.
  int num_entries() const { return entry_begin_.back(); }
  /// Returns the number of output `index` of node `id` among all outputs of all nodes.
  int EntryId(int id, int index) const { return entry_begin_[static_cast<size_t>(id)] + index; }
  int EntryId(const NodeEntry& entry) const {
    return EntryId(node_ids_.at(entry.node.get()), entry.index);
  }
  /// Returns the number of outputs of node `id`.
  int NumOutputs(int id) const { return EntryId(id + 1, 0) - EntryId(id, 0); }
  /// Returns the entries that node `id` reads.
  const std::vector<int>& InputIds(int id) const { return input_ids_[static_cast<size_t>(id)]; }

  /// Return the node numbers of the variables, in order. Variables that some node mutates are
  /// auxiliary states; the others are arguments.
  const std::vector<int>& arguments() const { return arguments_; }
  const std::vector<int>& aux_states() const { return aux_states_; }
  /// Returns the node numbers of all variables, in order.
  const std::vector<int>& variables() const { return variables_; }
  /// Returns the entry numbers of the graph's outputs.
  const std::vector<int>& heads() const { return heads_; }

  /// Throws Error(kInvalidArgument), which begins with `caller`, if two variables have one name.
  void RequireUniqueNames(std::string_view caller) const;

 private:
  std::vector<const Node*> nodes_;
  std::vector<std::shared_ptr<Node>> owners_;
  std::unordered_map<const Node*, int> node_ids_;
  std::vector<int> entry_begin_;
  std::vector<std::vector<int>> input_ids_;
  std::vector<int> variables_;
  std::vector<int> arguments_;
  std::vector<int> aux_states_;
  std::vector<int> heads_;
};

/// Returns a copy of the graph with these heads, in linear time. Values of a node in `replaced`,
/// which has one output, are replaced by the given entry, which is not copied.
std::vector<NodeEntry> CopyGraph(const std::vector<NodeEntry>& heads,
                                 const std::unordered_map<const Node*, NodeEntry>& replaced = {});

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_GRAPH_H_
