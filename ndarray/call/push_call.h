#ifndef TESSERA_NDARRAY_CALL_PUSH_CALL_H_
#define TESSERA_NDARRAY_CALL_PUSH_CALL_H_

#include <memory>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "tessera/ndarray/call/call_plan.h"
#include "tessera/ndarray/call/operator_call.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera::ndarray_internal {

/// Lists of the length that most operators have need no memory of their own.
using CallArrays = absl::InlinedVector<NDArray, 3>;
using CallVariableList = absl::InlinedVector<Variable*, 4>;

/// A call with its arrays, to be pushed to the engine.
struct ArrayCall {
  std::shared_ptr<const CallPlan> plan;  ///< owns `call`
  const OperatorCall* call = nullptr;
  Device device;
  CallMode mode;
  CallArrays inputs;
  CallArrays outputs;  ///< is_none() where the request is kNullOp

  /// Runs the call on the arrays' memory, inside an engine operation.
  void Run(CallMode run_mode) const;
};

/// The variables of an engine operation, which merges duplicates: memory of which one part is read
/// and another one written is updated.
struct CallVariables {
  CallVariableList reads;
  CallVariableList writes;
  CallVariableList updates;  ///< written, but their old contents are used or kept

  /// Lists the variables of a call. `requests` are the outputs'; inputs in `mutated` change.
  CallVariables(const ArrayCall& call, std::span<const OpReqType> requests,
                std::span<const int> mutated);
};

/// Pushes a call.
void PushCall(ArrayCall call, std::span<const OpReqType> requests, std::span<const int> mutated);

/// Calls an operator as its plan says, and records the call if the thread records and an input is
/// on the tape. `outputs` are the caller's, or empty. Returns the visible outputs.
std::vector<NDArray> CallOperator(const std::shared_ptr<const CallPlan>& plan,
                                  std::span<const NDArray> inputs, std::span<const NDArray> outputs,
                                  OpReqType req);

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_CALL_PUSH_CALL_H_
