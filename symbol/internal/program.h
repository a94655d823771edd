#ifndef TESSERA_SYMBOL_INTERNAL_PROGRAM_H_
#define TESSERA_SYMBOL_INTERNAL_PROGRAM_H_

#include <string>
#include <vector>

#include "tessera/symbol/internal/graph.h"

namespace tessera::symbol_internal {

/// The location of a value.
enum class ValueKind {
  kIntermediate,  ///< in a block of the memory plan
  kArgument,      ///< in argument array `index`
  kAuxState,      ///< in aux array `index`
  kGradient,      ///< in the gradient array of argument `index`
  kHeadGradient,  ///< in the executor's copy of head gradient `index`
  kOutput,        ///< in output array `index`
};

/// A value that a step reads or writes.
struct Value {
  ValueKind kind = ValueKind::kIntermediate;
  int index = 0;
  TShape shape;
  DType dtype = DType::kFloat32;

  int64_t SizeBytes() const { return shape.Size() * DTypeSizeBytes(dtype); }
};

/// "No value": an input that a backward step does not read, or a gradient that is not requested.
inline constexpr int kNoValue = -1;

enum class StepKind {
  kForward,   ///< Operator::Forward of the node
  kBackward,  ///< Operator::Backward of the node
  kCopy,      ///< in_data[0] into out_data[0], written or added
  kFillZero,  ///< zeros into out_data[0]
};

/// One operator call. The vectors hold value numbers in the operator's order.
struct Step {
  StepKind kind = StepKind::kForward;
  int node = kNoValue;
  std::vector<int> out_grad;
  std::vector<int> in_data;
  std::vector<int> out_data;
  std::vector<int> in_grad;
  std::vector<int> aux;
  std::vector<OpReqType> req;  ///< of out_data, or for kBackward of in_grad

  const std::vector<int>& Targets() const {
    return kind == StepKind::kBackward ? in_grad : out_data;
  }
  /// Returns the values that the step reads, without kNoValue. A value that is added to is not
  /// among them.
  std::vector<int> Reads() const;
  /// Returns the values that the step writes: requested targets, then aux states.
  std::vector<int> Writes() const;
};

/// A graph and its gradient as a list of steps over values.
struct Program {
  std::vector<Value> values;
  std::vector<Step> steps;
  int num_forward_steps = 0;
  std::vector<int> head_values;           ///< the value of each output of the symbol
  std::vector<bool> head_needs_gradient;  ///< whether Backward takes a head gradient for it
};

/// Creates forward steps in the graph's order and, if any gradient is requested, backward steps in
/// reverse order. The gradients of a value with several readers are summed in a fixed order: the
/// first is written and the others are added. `grad_requests` has one entry for each argument.
/// Throws Error(kInvalidArgument) if a gradient is requested through an operator without one.
Program BuildProgram(const IndexedGraph& graph, const GraphShapes& shapes, const GraphTypes& types,
                     const std::vector<OpReqType>& grad_requests);

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_INTERNAL_PROGRAM_H_
