#ifndef TESSERA_NDARRAY_RECORDED_FUNCTION_H_
#define TESSERA_NDARRAY_RECORDED_FUNCTION_H_

#include <memory>
#include <span>
#include <string>

#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/operator.h"

namespace tessera {

/// A function of arrays that the tape holds as one node, with its own gradient: a compiled graph,
/// or a function of the user.
class RecordedFunction {
 public:
  virtual ~RecordedFunction() = default;

  /// Returns the name for errors.
  virtual const std::string& name() const = 0;

  /// Writes or adds (`req`) the gradients of the inputs to `in_grads`. `out_grads` has one array
  /// for each output. An array whose request is kNullOp is_none(). Backward is called with
  /// recording off. No other call follows one with `is_last`; the others are those that retain the
  /// graph. Throws what the function throws.
  virtual void Backward(std::span<const NDArray> out_grads, std::span<const OpReqType> req,
                        std::span<const NDArray> in_grads, bool is_last) = 0;
};

/// Returns whether a call with these inputs is to be recorded: the thread records, and an input is
/// on the tape.
bool ShouldRecord(std::span<const NDArray> inputs);

/// Puts a call on the tape: the outputs become those of one node. The tape holds `function` until
/// the node is freed or used up by Backward. Throws Error(kFailedPrecondition) if an output is on
/// the tape already.
void RecordCall(std::shared_ptr<RecordedFunction> function, std::span<const NDArray> inputs,
                std::span<const NDArray> outputs);

}  // namespace tessera

#endif  // TESSERA_NDARRAY_RECORDED_FUNCTION_H_
