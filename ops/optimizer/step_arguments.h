#ifndef TESSERA_OPS_OPTIMIZER_STEP_ARGUMENTS_H_
#define TESSERA_OPS_OPTIMIZER_STEP_ARGUMENTS_H_

#include <array>
#include <span>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/ops/operator.h"
#include "tessera/tensor/tblob.h"

// The arrays of an optimizer's step.
namespace tessera::ops_internal {

/// The largest number of states of a step, the master copy of the weight included.
inline constexpr int kMaxStepStates = 4;

/// An array of a step: contiguous elements.
struct StepArray {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
};

/// The arrays of one weight's step.
struct StepArguments {
  index_t size = 0;
  StepArray weight;
  StepArray grad;
  std::array<StepArray, kMaxStepStates> states{};
  std::array<bool, kMaxStepStates> keeps{};  ///< whether a state is to change
  StepArray out;
  OpReqType req = kNullOp;  ///< of `out`

  /// Returns whether the step has no effect.
  bool IsNothing() const;
};

/// Returns the arrays of a step whose inputs are the weight, the gradient and `num_states` states,
/// which are the mutated inputs.
StepArguments MakeStepArguments(std::span<const TBlob> in_data, OpReqType out_req, const TBlob& out,
                                std::span<const OpReqType> state_req, int num_states);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_OPTIMIZER_STEP_ARGUMENTS_H_
