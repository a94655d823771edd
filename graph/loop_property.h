#ifndef TESSERA_GRAPH_LOOP_PROPERTY_H_
#define TESSERA_GRAPH_LOOP_PROPERTY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/graph/node.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"

namespace tessera::graph {

/// A value of a graph that its gradient reads, kept in an output of the loop's node.
struct LoopSaved {
  NodeEntry entry;  ///< a value of the graph; a variable stands for a state before the step
  int output = 0;   ///< the node's output that holds the values of all steps
};

/// A graph that a node runs at each step, or the graph of a condition.
struct LoopGraph {
  std::vector<NodeEntry> heads;               ///< different outputs of operators' nodes
  std::shared_ptr<const IndexedGraph> index;  ///< the graph with these heads
  /// For each of the variables of `index`, the node's input that it stands for: the input itself,
  /// or one step of it.
  std::vector<int> inputs;

  /// Whether each argument of `index` has a gradient.
  std::vector<bool> has_gradient = {};
  /// The gradients of these arguments, in order, and the variables that they read: one for each
  /// head.
  std::vector<NodeEntry> gradients = {}, head_gradients = {};
  std::vector<LoopSaved> saved = {};  ///< besides inputs, the values that the gradients read
};

/// The kinds of nodes that run graphs.
enum class LoopKind {
  kForeach,  ///< one step for each row of the data
  kWhile,    ///< steps while a condition holds
  kBranch,   ///< one step of one of two graphs, or of the only one
};

/// The use that a step makes of an input of the node.
enum class LoopInput {
  kData,      ///< the step reads one row
  kState,     ///< the first step reads the input, a later one the result of the step before
  kCaptured,  ///< each step reads the whole
};

/// The description of a node that runs graphs. Its visible outputs are the results of the steps,
/// one row for each step, and then the last states. A branch has no states, and its results have no
/// rows. The hidden outputs are the count, unless the kind is kForeach, and then the saved values.
/// The count has the shape (1) and the type int64: the number of steps, or the number of the
/// branch.
struct LoopDescription {
  std::string op;           ///< the operator's name
  ParameterMap parameters;  ///< as text, without defaults
  LoopKind kind = LoopKind::kForeach;
  std::vector<LoopInput> inputs;  ///< the use of each of the node's inputs
  std::vector<int> states;        ///< the input of each state
  int num_results = 0;            ///< the number of outputs that are results of steps
  int num_outputs = 0;            ///< the number of outputs, hidden ones included
  int64_t max_steps = 0;          ///< the limit of a kWhile, whose results have as many rows
  LoopGraph condition;            ///< has one head; none for kForeach and for an only branch
  std::vector<LoopGraph> bodies;  ///< one, or the branches for true and false
  std::vector<bool> gradient_reads = {};  ///< whether the gradient reads each of the inputs
  std::vector<int> mutated = {};          ///< the inputs that the graphs change, in order
  Purity purity = Purity::kPure;          ///< the strictest one of the graphs' operators
  std::string gradient_error = {};        ///< why there is no gradient; empty if there is one

  /// Return the number of visible outputs, and the position of the first output that is a saved
  /// value.
  int num_visible() const { return num_results + static_cast<int>(states.size()); }
  int first_saved() const { return num_visible() + (kind == LoopKind::kForeach ? 0 : 1); }
};

/// The property of a node that runs graphs: MXNet's _foreach, _while_loop, _cond and _CachedOp.
/// Inference in both directions goes through the graphs. The gradient is a loop over the steps in
/// reverse order, whose node has a BackwardProperty. MakeLoop makes the property. Such a node is
/// called by what runs programs: CreateOperator throws.
class LoopProperty final : public OperatorProperty {
 public:
  explicit LoopProperty(LoopDescription loop) : loop_(std::move(loop)) {}

  /// Returns the description.
  const LoopDescription& loop() const { return loop_; }
  /// Returns the shape of one step's part of an input whose shape is known.
  TShape StepShape(int input, const TShape& shape) const;

  void Init(const ParameterMap&) override {}
  ParameterMap GetParams() const override { return loop_.parameters; }
  std::vector<std::string> ListArguments() const override;
  std::vector<std::string> ListOutputs() const override;
  std::vector<int> MutatedInputs() const override { return loop_.mutated; }
  int NumVisibleOutputs() const override { return loop_.num_visible(); }
  bool IsSequenceState(int argument) const override;
  Purity purity() const override { return loop_.purity; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override;
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override;
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override;
  bool HasGradient() const override { return loop_.gradient_error.empty(); }
  bool ArgumentHasGradient(int argument) const override;
  std::unique_ptr<Operator> CreateOperator(Device device, std::span<const TShape> in_shape,
                                           std::span<const DType> in_type) const override;
  const std::string& TypeString() const override { return loop_.op; }

 private:
  const LoopDescription loop_;
};

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_LOOP_PROPERTY_H_
