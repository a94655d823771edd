#ifndef TESSERA_SYMBOL_INTERNAL_PROGRAM_H_
#define TESSERA_SYMBOL_INTERNAL_PROGRAM_H_

#include <string>
#include <vector>

#include "tessera/symbol/internal/graph.h"

namespace tessera::symbol_internal {

/// Where a value lives.
enum class ValueKind {
  kIntermediate,  ///< in a block of the memory plan
  kArgument,      ///< in argument array `index`
  kAuxState,      ///< in aux array `index`
  kGradient,      ///< in the gradient array of argument `index`
  kHeadGradient,  ///< in the executor's copy of head gradient `index`
  kOutput,        ///< in output array `index`
};

/// Something that a step reads or writes.
struct Value {
  ValueKind kind = ValueKind::kIntermediate;
  int index = 0;
  TShape shape;
  DType dtype = DType::kFloat32;

  int64_t SizeBytes() const { return shape.Size() * DTypeSizeBytes(dtype); }
};

/// "No value": an input that a backward step does not read, a gradient that nobody wants.
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
  std::vector<OpReqType> req;  ///< of out_data, for kBackward of in_grad

  const std::vector<int>& Targets() const {
    return kind == StepKind::kBackward ? in_grad : out_data;
  }
  /// The values that it reads, kNoValue left out; a value to be added to is not among them.
  std::vector<int> Reads() const;
  /// The values that it writes: targets that are wanted, then aux states.
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

/// Lays out forward steps in the graph's order and, if any gradient is requested, backward steps in
/// reverse. Gradients of a value with several readers are summed by writing the first and adding
/// the others, in that fixed order. `grad_requests` has one entry for each argument. Throws
/// Error(kInvalidArgument) where a gradient is asked for through an operator without one.
Program BuildProgram(const IndexedGraph& graph, const GraphShapes& shapes, const GraphTypes& types,
                     const std::vector<OpReqType>& grad_requests);

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_INTERNAL_PROGRAM_H_
