#ifndef TESSERA_GRAPH_PROGRAM_H_
#define TESSERA_GRAPH_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/node.h"
#include "tessera/graph/passes.h"
#include "tessera/ops/operator.h"

namespace tessera::graph {

/// The location of a value.
enum class ValueKind {
  kIntermediate,  ///< in an arena of the memory plan
  kArgument,      ///< in argument array `index`
  kAuxState,      ///< in aux array `index`
  kGradient,      ///< in the gradient array of argument `index`
  kHeadGradient,  ///< in the caller's array for the gradient of output `index`
  kOutput,        ///< in output array `index`
  kFixed,         ///< in the array of fixed value `index`: constants, then parameters
};

/// A value that a step reads or writes.
struct Value {
  ValueKind kind = ValueKind::kIntermediate;  ///< where it lies
  int index = 0;                              ///< see ValueKind
  TShape shape;                               ///< fully known
  DType dtype = DType::kFloat32;              ///< the element type
  int device = 0;                             ///< the position in Program::devices

  /// Returns the size of the elements.
  int64_t SizeBytes() const { return shape.Size() * DTypeSizeBytes(dtype); }
};

/// "No value": an output that nobody reads.
inline constexpr int kNoValue = -1;

/// One operator call. The vectors hold value numbers in the operator's order.
struct Step {
  std::shared_ptr<const Node> node;  ///< an operator's node
  std::vector<int> inputs;           ///< the node's inputs
  std::vector<int> outputs;          ///< kNoValue where the request is kNullOp
  std::vector<OpReqType> req;        ///< of the outputs, then of the mutated inputs
  std::vector<int> mutated = {};     ///< positions in `inputs` of those that change
  /// The shapes and types of the node's inputs; for a gradient (Node::forward), those of the
  /// operator that it belongs to.
  std::vector<TShape> in_shapes = {};
  std::vector<DType> in_types = {};
  int device = 0;  ///< the position in Program::devices
  /// An intermediate value whose bytes the call uses as workspace, or kNoValue.
  int workspace = kNoValue;
  /// The position of an output that the step writes whether or not anybody reads it, since a layer
  /// with element-wise steps behind it computes its own result there (MapProducer); -1 for none.
  int held_output = -1;

  /// Returns the values that the step reads. A value that is added to is not among them.
  const std::vector<int>& Reads() const { return inputs; }
  /// Returns the values that the step writes: requested outputs, then mutated inputs, then the
  /// workspace.
  std::vector<int> Writes() const;
};

/// A graph and its gradient as a list of steps over values. It knows no arrays: steps hold numbers
/// of values, so that one program serves many sets of arrays.
struct Program {
  /// By number. The first ones are the graph's arguments, then its auxiliary states, in order.
  std::vector<Value> values;
  std::vector<Step> steps;                ///< in the order of execution
  int num_forward_steps = 0;              ///< the steps of the graph itself; its gradient follows
  int num_fused_steps = 0;                ///< those that FuseMaps has made
  std::vector<int> head_values;           ///< the value of each output of the graph
  std::vector<bool> head_needs_gradient;  ///< whether the gradient reads a head gradient for it
  std::vector<Device> devices = {Device::Cpu()};  ///< where steps run and values lie
  bool has_workspaces = false;  ///< whether the steps that are to have a workspace have it
  /// Whether a gradient may repeat steps that change an input (OperatorProperty::IsRepeatable).
  bool repeats_mutating = true;

  /// Return the numbers of steps and of values.
  int num_steps() const { return static_cast<int>(steps.size()); }
  int num_values() const { return static_cast<int>(values.size()); }
};

/// The treatment of a graph before a program is made of it.
struct ProgramOptions {
  /// The device of all steps and values to which `prepared` gives none.
  Device device = Device::Cpu();
  /// The result of the passes for the graph, with the gradients of the arguments that are
  /// requested. Null for the graph as it is, with BuildGradients.
  const PreparedGraph* prepared = nullptr;
  /// Computes results and gradients that nothing reads, too, to be looked at.
  bool keeps_unread = false;
};

/// Creates a step for each operator of the graph with these heads, in the graph's order, and, if
/// any gradient is requested, for each operator of its gradient (BuildGradients). A gradient that
/// is a sum is not computed by an operator of its own if that can be avoided: the first part is
/// written and the others are added, in the order of the steps.
///
/// `shapes` and `types` are those of IndexedGraph(heads). `grad_requests` has one entry for each
/// argument. Throws Error(kInvalidArgument) if a gradient is requested through an operator without
/// one. Takes time linear in the graph.
Program BuildProgram(const std::vector<NodeEntry>& heads, const GraphShapes& shapes,
                     const GraphTypes& types, const std::vector<OpReqType>& grad_requests,
                     const ProgramOptions& options = {});

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PROGRAM_H_
