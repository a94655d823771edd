#ifndef TESSERA_GRAPH_NODE_H_
#define TESSERA_GRAPH_NODE_H_

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/base/guarded.h"
#include "tessera/ops/property.h"

namespace tessera::graph {

struct Node;

/// One output of a node. Without a node it is no value.
struct NodeEntry {
  std::shared_ptr<Node> node;  ///< null for no value
  int index = 0;               ///< which of the node's outputs

  friend bool operator==(const NodeEntry&, const NodeEntry&) = default;
};

/// The number of a node's outputs, counted at its first use. A copy counts for itself, because its
/// node may get another property. Threads: calls may overlap.
class OutputCount {
 public:
  OutputCount() = default;
  OutputCount(const OutputCount&) {}
  OutputCount& operator=(const OutputCount&) {
    value_.store(kUnknown, std::memory_order_relaxed);
    return *this;
  }

  /// Returns the number of the property's outputs, which must not change after the first call.
  int Get(const OperatorProperty& property) const;

 private:
  static constexpr int kUnknown = -1;
  // Relaxed, because all threads store the same number and nothing else depends on it.
  mutable std::atomic<int> value_{kUnknown};
};

/// The attributes of a node by AttributeName, which stay changeable. Threads: calls may overlap.
class Attributes {
 public:
  /// Returns the attributes as they are now.
  std::map<std::string, std::string> All() const { return texts_.Get(); }
  /// Returns an attribute; nothing if there is none of that name.
  std::optional<std::string> Find(const std::string& name) const;
  void Set(std::string name, std::string value);
  /// Sets an attribute that is not there yet.
  void Add(std::string name, std::string value);

 private:
  Guarded<std::map<std::string, std::string>> texts_;
};

/// A variable or an operator in a graph. Once it is part of a Symbol it is immutable, except for
/// attributes and for parameters that an operator ignores. Threads: members that read may be called
/// while another thread changes these.
struct Node {
  std::shared_ptr<const OperatorProperty> property;  ///< null for a variable
  std::string name;                                  ///< unique among the variables that are bound
  std::vector<NodeEntry> inputs;                     ///< one for each of the operator's arguments
  Attributes attributes = {};
  /// The outputs of graphs that the operator runs, such as the body of a loop.
  std::vector<std::vector<NodeEntry>> subgraphs = {};
  /// The node whose gradient this node computes, if its property is a BackwardProperty.
  std::shared_ptr<Node> forward;
  /// An operator's parameters as they were written. A node of an operator without parameters has
  /// the texts that it ignores.
  struct GivenParameters {
    std::shared_ptr<const OperatorProperty> property;  ///< made of them
    ParameterMap parameters;                           ///< without defaults
  };
  Guarded<std::shared_ptr<const GivenParameters>> given;  ///< for given_parameters()
  OutputCount output_count;                               ///< for num_outputs()

  ~Node();

  /// Returns whether the node is a variable, which has one output and no inputs.
  bool is_variable() const { return property == nullptr; }
  /// Return the numbers of outputs, hidden ones included, and of inputs.
  int num_outputs() const { return is_variable() ? 1 : output_count.Get(*property); }
  int num_inputs() const { return static_cast<int>(inputs.size()); }
  /// Keeps the parameters of `property` as they were written.
  void SetGivenParameters(ParameterMap parameters);
  /// Changes the text of a parameter that was given. Returns false if it was not.
  bool ReplaceGivenParameter(const std::string& name, std::string value);
  /// Returns the parameters as they were written, without defaults; null for a variable, and if
  /// they are unknown or were those of another property.
  std::shared_ptr<const ParameterMap> given_parameters() const;
  /// Returns the operator's parameters as they were written, or all of them with defaults if that
  /// is unknown. A variable has none.
  ParameterMap Parameters() const;
  /// Returns "fc1_output", or a variable's name. The operator lists all of its outputs for that:
  /// see OutputNames for many.
  std::string OutputName(int index) const;
};

/// Names outputs of many nodes, in any order, in time linear in these outputs.
class OutputNames {
 public:
  /// Returns node.OutputName(index).
  std::string Of(const Node& node, int index);

 private:
  std::unordered_map<const Node*, std::vector<std::string>>
      lists_;  // of nodes with several outputs
};

/// Returns a variable of that name.
NodeEntry MakeVariable(std::string name);

/// Returns an operator's node. `inputs` are its first inputs; variables called
/// `<name>_<argument>` are created for entries without a node and for the others. Throws
/// Error(kInvalidArgument) if there are too many.
NodeEntry MakeNode(std::shared_ptr<const OperatorProperty> property, std::string name,
                   const std::vector<NodeEntry>& inputs);

/// Returns the attributes that MXNet once wrote without underscores and now writes as `__name__`.
std::span<const std::string_view> AnnotationNames();

/// Returns the name under which a node keeps the attribute `key`. An operator's attributes may all
/// be spelled `name` or `__name__`; a variable's only if they are in AnnotationNames. MXNet copies
/// parameters of operators to variables, whose "shape" is not their `__shape__`.
std::string_view AttributeName(const Node& node, std::string_view key);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_NODE_H_
