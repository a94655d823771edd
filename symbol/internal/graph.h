#ifndef TESSERA_SYMBOL_INTERNAL_GRAPH_H_
#define TESSERA_SYMBOL_INTERNAL_GRAPH_H_

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/symbol/symbol.h"

namespace tessera::symbol_internal {

/// Returns the attributes that MXNet once wrote without underscores and now writes as `__name__`.
std::span<const std::string_view> AnnotationNames();

/// A variable or an operator in a graph. It is immutable once it is part of a Symbol, except for
/// attributes.
struct Node {
  std::shared_ptr<const OperatorProperty> property;  ///< null for a variable
  std::string name;
  std::vector<NodeEntry> inputs;                  ///< arguments, then aux states
  std::map<std::string, std::string> attributes;  ///< by AttributeName

  ~Node();

  bool is_variable() const { return property == nullptr; }
  int num_outputs() const;
  int num_arguments() const;
  std::string OutputName(int index) const;
};

/// Returns the name under which a node keeps the attribute `key`. An operator's attributes may all
/// be spelled `name` or `__name__`; a variable's only if they are in AnnotationNames. MXNet copies
/// parameters of operators to variables, whose "shape" is not their `__shape__`.
std::string_view AttributeName(const Node& node, std::string_view key);

/// A graph in topological order, with all nodes and entries numbered.
class IndexedGraph {
 public:
  /// Throws Error(kInvalidArgument) if two different variables have the same name.
  explicit IndexedGraph(const std::vector<NodeEntry>& heads);

  /// Returns the nodes, each after its inputs: depth first from the outputs, inputs in order.
  const std::vector<const Node*>& nodes() const { return nodes_; }
  int num_entries() const { return entry_begin_.back(); }
  /// Returns the number of output `index` of node i among all outputs of all nodes.
  int EntryId(int node, int index) const { return entry_begin_[static_cast<size_t>(node)] + index; }
  int EntryId(const NodeEntry& entry) const {
    return EntryId(node_ids_.at(entry.node.get()), entry.index);
  }
  /// Returns the entries that node i reads: arguments, then aux states.
  std::vector<int> InputIds(int node) const;

  /// Return the node numbers of the variables, in order.
  const std::vector<int>& arguments() const { return arguments_; }
  const std::vector<int>& aux_states() const { return aux_states_; }
  /// Returns the entry numbers of the graph's outputs.
  const std::vector<int>& heads() const { return heads_; }

 private:
  std::vector<const Node*> nodes_;
  std::unordered_map<const Node*, int> node_ids_;
  std::vector<int> entry_begin_;
  std::vector<int> arguments_;
  std::vector<int> aux_states_;
  std::vector<int> heads_;
};

/// Shapes or element types of every entry of a graph.
struct GraphShapes {
  std::vector<TShape> entries;
  bool complete = false;
};
struct GraphTypes {
  std::vector<DType> entries;
  bool complete = false;
};

/// Infer from the known shapes or types of variables, by name; see Symbol::InferShape.
GraphShapes InferShapes(const IndexedGraph& graph, const std::map<std::string, TShape>& known);
GraphTypes InferTypes(const IndexedGraph& graph, const std::map<std::string, DType>& known);

/// Creates an operator's node. The inputs are its first arguments; variables are created for the
/// others.
NodeEntry MakeNode(std::shared_ptr<const OperatorProperty> property, std::string name,
                   const std::vector<NodeEntry>& arguments);

NodeEntry MakeVariable(std::string name);

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_INTERNAL_GRAPH_H_
