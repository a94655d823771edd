#ifndef TESSERA_NDARRAY_IMPERATIVE_H_
#define TESSERA_NDARRAY_IMPERATIVE_H_

#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"

namespace tessera {

/// Calls a registered operator on arrays: `Invoke("FullyConnected", {x, w, b}, {{"num_hidden",
/// "10"}})`. Inputs are the operator's arguments followed by its aux states, all on one device. The
/// outputs are the operator's visible ones: new arrays, computed asynchronously, whose memory
/// Storage::TagStats counts under the operator's name.
///
/// Throws Error: kNotFound for an unknown operator; kInvalidArgument for wrong parameters, a wrong
/// number of inputs, or shapes, types and devices that do not fit; kUnimplemented where the
/// operator has no code for device and type. What fails later surfaces at the first wait on an
/// output.
std::vector<NDArray> Invoke(std::string_view op, std::span<const NDArray> inputs,
                            const ParameterMap& parameters = {});
inline std::vector<NDArray> Invoke(std::string_view op, std::initializer_list<NDArray> inputs,
                                   const ParameterMap& parameters = {}) {
  return Invoke(op, std::span<const NDArray>(inputs), parameters);
}

/// The same into given outputs: the visible ones or all. An output may be an input where the
/// operator works in place over it (OperatorProperty::ForwardInplaceOption); any other overlap of
/// outputs with inputs, aux states or each other throws Error(kInvalidArgument).
void Invoke(std::string_view op, std::span<const NDArray> inputs, std::span<const NDArray> outputs,
            const ParameterMap& parameters = {}, OpReqType req = kWriteTo);
inline void Invoke(std::string_view op, std::initializer_list<NDArray> inputs,
                   std::initializer_list<NDArray> outputs, const ParameterMap& parameters = {},
                   OpReqType req = kWriteTo) {
  Invoke(op, std::span<const NDArray>(inputs), std::span<const NDArray>(outputs), parameters, req);
}

/// An operator bound to its arrays once, to be run many times: what a loop that always calls the
/// same operator on the same arrays uses (an optimizer's step). Each Run is one engine operation
/// and looks nothing up.
///
/// Threads: Run may be called from any thread; runs happen in the order of the calls.
class BoundOperator {
 public:
  /// Infers and checks as Invoke does, makes the operator and requests its resources. The property
  /// is not needed afterwards; the arrays are kept.
  BoundOperator(const OperatorProperty& property, std::span<const NDArray> inputs,
                std::span<const NDArray> outputs, OpReqType req = kWriteTo);
  BoundOperator(const OperatorProperty& property, std::initializer_list<NDArray> inputs,
                std::initializer_list<NDArray> outputs, OpReqType req = kWriteTo)
      : BoundOperator(property, std::span<const NDArray>(inputs), std::span<const NDArray>(outputs),
                      req) {}
  /// Runs that are queued still take place.
  ~BoundOperator();
  BoundOperator(BoundOperator&&) noexcept;
  BoundOperator& operator=(BoundOperator&&) noexcept;

  /// Queues one run on the arrays' contents at that point. What fails surfaces at the first wait on
  /// an output. Throws Error(kFailedPrecondition) if this has been moved from.
  void Run(bool is_train = false, int priority = 0) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera

#endif  // TESSERA_NDARRAY_IMPERATIVE_H_
