#ifndef TESSERA_NDARRAY_AUTOGRAD_H_
#define TESSERA_NDARRAY_AUTOGRAD_H_

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/operator.h"

/// Gradients of imperative calls. While a thread records, calls of operators that use a variable,
/// or an array computed from one, are noted on the tape. Backward then follows the tape from its
/// heads to the variables:
///
///     x.AttachGrad();
///     NDArray loss;
///     {
///       const autograd::Record record;
///       loss = x * x;
///     }
///     loss.Backward();  // x.grad() is 2 x
///
/// Arrays that Backward still needs must not be written in between: Backward throws
/// Error(kFailedPrecondition) if one was.
///
/// Threads: the modes belong to a thread. Several threads may record with the same variables, and
/// call Backward on graphs that share no calls.
namespace tessera::autograd {

/// Return the calling thread's modes: whether calls are recorded, and whether operators behave as
/// in training. Both are off at first.
bool IsRecording();
bool IsTraining();
/// Set a mode and return its previous value.
bool SetRecording(bool recording);
bool SetTraining(bool training);

/// Sets the calling thread's modes for a scope, and restores them at its end.
class Scope {
 public:
  /// A mode without a value stays as it is.
  Scope(std::optional<bool> recording, std::optional<bool> training);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const bool recording_;
  const bool training_;
};
/// Records, and sets the training mode.
class Record : public Scope {
 public:
  explicit Record(bool train_mode = true) : Scope(true, train_mode) {}
};
/// Does not record, and sets the training mode.
class Pause : public Scope {
 public:
  explicit Pause(bool train_mode = false) : Scope(false, train_mode) {}
};
/// Turns the training mode on.
class TrainMode : public Scope {
 public:
  TrainMode() : Scope(std::nullopt, true) {}
};
/// Turns the training mode off.
class PredictMode : public Scope {
 public:
  PredictMode() : Scope(std::nullopt, false) {}
};

/// Makes arrays variables, as NDArray::AttachGrad does, with the given gradient arrays. The lists
/// have one length. Throws Error(kInvalidArgument) if lengths differ, or if a gradient that is
/// requested is none or differs from its variable in shape or type.
void MarkVariables(std::span<const NDArray> variables, std::span<const NDArray> gradients,
                   std::span<const OpReqType> requests);

/// Computes the gradient of the sum of all elements of `heads`, each weighted with the element of
/// its head gradient, and writes it to the gradient arrays of the variables that the heads depend
/// on, or adds it (AttachGrad). `head_grads` is empty, or has one array for each head, which may be
/// none: weights are 1 then. The gradient of a variable that the heads do not depend on is
/// unchanged. Returns at once; later errors are thrown by the first wait on a gradient.
///
/// Frees the values on the tape that only these heads need, unless `retain_graph` is set. A later
/// call through freed values throws.
///
/// Throws Error(kFailedPrecondition) if a head is not on the tape, if the tape was freed, or if an
/// array that the gradient needs was written after it was recorded. Throws Error(kInvalidArgument)
/// for a head gradient whose shape, type or device does not fit, and for a call without gradient.
void Backward(std::span<const NDArray> heads, std::span<const NDArray> head_grads = {},
              BackwardOptions options = {});
inline void Backward(std::initializer_list<NDArray> heads,
                     std::initializer_list<NDArray> head_grads = {}, BackwardOptions options = {}) {
  Backward(std::span<const NDArray>(heads.begin(), heads.size()),
           std::span<const NDArray>(head_grads.begin(), head_grads.size()), options);
}

/// Returns whether Backward has written the gradient of a variable since SetGradientFresh(variable,
/// false), which a trainer calls after it has used the gradient. False for other arrays. Throws
/// Error(kFailedPrecondition) if the array is_none().
bool IsGradientFresh(const NDArray& variable);
/// Sets what IsGradientFresh returns. Throws Error(kFailedPrecondition) if the array is no
/// variable.
void SetGradientFresh(const NDArray& variable, bool fresh);

/// Options of Grad.
struct GradOptions {
  /// Records the gradients' own calls, so that they have gradients; the gradient of a constant
  /// gradient, such as a linear function's, is 0. Requires that the calls on the tape have
  /// gradients that are graphs of operators.
  bool create_graph = false;
  /// See BackwardOptions; by default as create_graph.
  std::optional<bool> retain_graph = std::nullopt;
};

/// Returns the gradients of `heads` with respect to `variables`, which are variables or any arrays
/// on the tape, as new arrays. Gradient arrays of variables stay unchanged. A variable that the
/// heads do not depend on has gradient 0. Throws as Backward does, and Error(kFailedPrecondition)
/// if one of `variables` is not on the tape.
std::vector<NDArray> Grad(std::span<const NDArray> heads, std::span<const NDArray> variables,
                          std::span<const NDArray> head_grads = {}, GradOptions options = {});
inline std::vector<NDArray> Grad(std::initializer_list<NDArray> heads,
                                 std::initializer_list<NDArray> variables,
                                 std::initializer_list<NDArray> head_grads = {},
                                 GradOptions options = {}) {
  return Grad(std::span<const NDArray>(heads.begin(), heads.size()),
              std::span<const NDArray>(variables.begin(), variables.size()),
              std::span<const NDArray>(head_grads.begin(), head_grads.size()), options);
}

/// A function of arrays with its own gradient, written in C++:
///
///     class Square final : public autograd::Function {
///       std::vector<NDArray> Forward(const std::vector<NDArray>& x) override { … }
///       std::vector<NDArray> Backward(const std::vector<NDArray>& g) override { … }
///     };
///     const NDArray y = autograd::Call(std::make_shared<Square>(), {x})[0];
///
/// An object is called once; it may keep arrays from Forward for Backward. Recording is off inside
/// both.
class Function {
 public:
  virtual ~Function() = default;
  /// Computes the outputs.
  virtual std::vector<NDArray> Forward(const std::vector<NDArray>& inputs) = 0;
  /// Computes the gradients of the inputs for those of the outputs. One that is_none() is 0.
  virtual std::vector<NDArray> Backward(const std::vector<NDArray>& out_grads) = 0;
  /// Returns the name for errors.
  virtual std::string name() const { return "autograd::Function"; }
};

/// Calls a function, and records the call if an input is on the tape. Throws what the function
/// throws; Backward throws Error(kInvalidArgument) if the number of gradients, a shape or a type
/// does not fit.
std::vector<NDArray> Call(std::shared_ptr<Function> function, const std::vector<NDArray>& inputs);

}  // namespace tessera::autograd

#endif  // TESSERA_NDARRAY_AUTOGRAD_H_
