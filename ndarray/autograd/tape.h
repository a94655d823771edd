#ifndef TESSERA_NDARRAY_AUTOGRAD_TAPE_H_
#define TESSERA_NDARRAY_AUTOGRAD_TAPE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "tessera/graph/node.h"
#include "tessera/ndarray/call/call_plan.h"
#include "tessera/ndarray/call/operator_call.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/recorded_function.h"

namespace tessera::ndarray_internal {

/// The calls of a Trace.
struct TraceLog {
  std::unordered_set<const graph::Node*> calls;
};

/// The modes of a thread; see autograd.h.
struct ThreadModes {
  bool recording = false;
  bool training = false;
  TraceLog* trace = nullptr;  ///< null unless the thread has a Trace
};
/// Returns the calling thread's modes.
ThreadModes& Modes();
/// Returns whether the thread's calls are traced: every call is then recorded, and every array that
/// is not on the tape is a constant of the graph.
bool IsTracing();

/// Elements that Backward may read.
struct SavedArray {
  NDArray array;         ///< not on the tape itself; is_none() if Backward does not read it
  uint64_t version = 0;  ///< Variable::version() of its memory when it was saved

  static SavedArray Of(const NDArray& array);
};

/// A node of the tape: a call that was recorded, or a variable. The tape is a graph of these nodes,
/// which the arrays' entries keep alive.
struct RecordedNode final : graph::Node {
  std::shared_ptr<const CallPlan> plan = {};  ///< of an operator's call
  /// The shapes of a call's inputs and outputs; null for a variable.
  std::shared_ptr<const CallSignature> signature = {};
  CallMode mode = {};                               ///< of the call
  std::vector<SavedArray> inputs_saved = {};        ///< one for each input, or none at all
  std::vector<SavedArray> outputs_saved = {};       ///< one for each output; a variable's value
  std::shared_ptr<RecordedFunction> function = {};  ///< of a call that is no operator's
  bool is_freed = false;                            ///< whether Backward has used it up

  NDArray gradient = {};    ///< a variable's, or none
  OpReqType req = kNullOp;  ///< how Backward writes the gradient
  /// Whether Backward has written the gradient since autograd::SetGradientFresh.
  std::atomic<bool> gradient_is_fresh{false};
};

/// Returns the array's node; null if it is not on the tape.
RecordedNode* NodeOf(const NDArray& array);

/// Returns a variable without gradient that has the value of an array.
std::shared_ptr<RecordedNode> NewVariableNode(const NDArray& array);

/// Makes an array a variable with a gradient array, which is none for kNullOp.
void MakeVariable(const NDArray& array, const NDArray& gradient, OpReqType req);

/// Puts an operator's call on the tape. Requires: ShouldRecord(inputs), and the call is pushed.
void RecordOperator(const std::shared_ptr<const CallPlan>& plan, CallMode mode,
                    std::span<const NDArray> inputs, std::span<const NDArray> outputs);

/// Puts the gradient of another node on the tape: a call of a graph::BackwardProperty, which has no
/// gradient itself.
void RecordBackward(const graph::Node& node, std::span<const NDArray> inputs,
                    std::span<const NDArray> outputs);

/// Throws Error(kFailedPrecondition) if the thread records and an output that an operator is to
/// overwrite is on the tape.
void RequireOffTape(std::string_view op, std::span<const NDArray> outputs);

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_AUTOGRAD_TAPE_H_
