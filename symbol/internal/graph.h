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

/// The attributes that MXNet once wrote without underscores and now writes as `__name__`.
std::span<const std::string_view> AnnotationNames();

/// A variable or an operator in a graph; immutable once it is part of a Symbol, but for attributes.
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

/// The name under which a node keeps the attribute `key`. At an operator every attribute may be
/// spelt `name` or `__name__`, at a variable those of AnnotationNames: MXNet copies parameters of
/// operators to variables, where a "shape" is not the variable's `__shape__`.
std::string_view AttributeName(const Node& node, std::string_view key);

/// A graph in an order in which it can be run, with everything numbered.
class IndexedGraph {
 public:
  /// Throws Error(kInvalidArgument) if two different variables have the same name.
  explicit IndexedGraph(const std::vector<NodeEntry>& heads);

  /// Every node after its inputs; depth first from the outputs, inputs in order.
  const std::vector<const Node*>& nodes() const { return nodes_; }
  int num_entries() const { return entry_begin_.back(); }
  /// The number of output `index` of node i, among all outputs of all nodes.
  int EntryId(int node, int index) const { return entry_begin_[static_cast<size_t>(node)] + index; }
  int EntryId(const NodeEntry& entry) const {
    return EntryId(node_ids_.at(entry.node.get()), entry.index);
  }
  /// The entries that node i reads: arguments, then aux states.
  std::vector<int> InputIds(int node) const;

  /// Node numbers of the variables, in order.
  const std::vector<int>& arguments() const { return arguments_; }
  const std::vector<int>& aux_states() const { return aux_states_; }
  /// Entry numbers of the graph's outputs.
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

/// Infer from what is known of variables by name; see Symbol::InferShape.
GraphShapes InferShapes(const IndexedGraph& graph, const std::map<std::string, TShape>& known);
GraphTypes InferTypes(const IndexedGraph& graph, const std::map<std::string, DType>& known);

/// Makes an operator's node; inputs are its first arguments, and variables are made for the rest.
NodeEntry MakeNode(std::shared_ptr<const OperatorProperty> property, std::string name,
                   const std::vector<NodeEntry>& arguments);

NodeEntry MakeVariable(std::string name);

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_INTERNAL_GRAPH_H_
