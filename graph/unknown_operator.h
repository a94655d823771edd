#ifndef TESSERA_GRAPH_UNKNOWN_OPERATOR_H_
#define TESSERA_GRAPH_UNKNOWN_OPERATOR_H_

#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/ops/property.h"

namespace tessera::graph {

/// An operator that a saved graph names and the registry does not have: no family has it, or the
/// program does not link the family. Its parameters are kept as text, so that the graph can be
/// saved again. Arguments have the names that MXNet gives them, if MXNet has the operator, and are
/// called arg0, arg1, … otherwise. Inference throws OperatorRegistry::UnknownOperator.
class UnknownOperatorProperty final : public OperatorProperty {
 public:
  /// Makes the property of a node with that many inputs.
  UnknownOperatorProperty(std::string name, int num_inputs);

  /// States that a graph uses the output, so that there are at least `output` + 1 of them. At first
  /// there is one.
  void AddOutputsUpTo(int output);

  void Init(const ParameterMap& parameters) override { parameters_ = parameters; }
  ParameterMap GetParams() const override { return parameters_; }
  std::vector<std::string> ListArguments() const override { return arguments_; }
  std::vector<std::string> ListOutputs() const override;
  int NumVisibleOutputs() const override { return num_outputs_; }
  Purity purity() const override { return Purity::kSynchronous; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override;
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override;
  bool HasGradient() const override { return false; }
  const std::string& TypeString() const override { return name_; }

 private:
  const std::string name_;
  std::vector<std::string> arguments_;
  int num_outputs_ = 1;
  ParameterMap parameters_;
};

/// Returns whether the registry has the node's operator and the node holds no subgraphs, or it is a
/// loop (LoopProperty).
bool IsImplemented(const Node& node);

/// Throws for a graph that can be loaded and saved, but neither inferred nor run: one
/// Error(kNotFound) for all unknown operators, each with the first node that uses it, of at most
/// ten operators; Error(kUnimplemented) for a node that holds subgraphs and is no loop. What the
/// graphs of a loop hold is an error that begins with the loop's node.
void RequireImplemented(const IndexedGraph& graph);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_UNKNOWN_OPERATOR_H_
