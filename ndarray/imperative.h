#ifndef TESSERA_NDARRAY_IMPERATIVE_H_
#define TESSERA_NDARRAY_IMPERATIVE_H_

#include <concepts>
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
/// "10"}})`. Inputs are the operator's arguments, all on one device; those that it changes
/// (OperatorProperty::MutatedInputs), such as running means, are changed in place.
/// Returns the operator's visible outputs as new arrays, which are computed asynchronously.
/// Storage::TagStats counts their memory under the operator's name.
///
/// Throws Error(kNotFound) for an unknown operator. Throws Error(kInvalidArgument) for wrong
/// parameters, a wrong number of inputs, or shapes, types and devices that do not fit. Throws
/// Error(kUnimplemented) if the operator has no code for device and type. Later errors are thrown
/// by the first wait on an output.
std::vector<NDArray> Invoke(std::string_view op, std::span<const NDArray> inputs,
                            const ParameterMap& parameters = {});
inline std::vector<NDArray> Invoke(std::string_view op, std::initializer_list<NDArray> inputs,
                                   const ParameterMap& parameters = {}) {
  return Invoke(op, std::span<const NDArray>(inputs), parameters);
}

/// Calls the operator of a property, such as that of a graph's node, by the implementation of that
/// name unless the name is empty (OperatorProperty::CreateImplementation). The parameters are those
/// of the property, which the call shares. Throws Error(kNotFound) for a property that the registry
/// has not created. Otherwise as Invoke with a name.
std::vector<NDArray> Invoke(const std::shared_ptr<const OperatorProperty>& property,
                            std::span<const NDArray> inputs, std::string_view implementation = {});

/// Calls a registered operator and writes given outputs: the visible ones or all. `{}` in their
/// place stands for no parameters, and calls the form that returns new arrays. An output may be
/// an input if the operator works in place on it (OperatorProperty::ForwardInplaceOption). Any
/// other overlap of outputs with inputs or each other throws Error(kInvalidArgument).
/// Other errors are those of Invoke without outputs.
void Invoke(std::string_view op, std::span<const NDArray> inputs, std::span<const NDArray> outputs,
            const ParameterMap& parameters = {}, OpReqType req = kWriteTo);
/// Calls the form above with lists. `{}` in the place of the outputs stands for no parameters.
template <std::same_as<NDArray> Output>
void Invoke(std::string_view op, std::initializer_list<NDArray> inputs,
            std::initializer_list<Output> outputs, const ParameterMap& parameters = {},
            OpReqType req = kWriteTo) {
  Invoke(op, std::span<const NDArray>(inputs), std::span<const NDArray>(outputs), parameters, req);
}

/// An operator bound once to its arrays, to be run many times. It suits a loop that always calls
/// the same operator on the same arrays, such as an optimizer's step. Each Run is one engine
/// operation without lookups.
///
/// Threads: Run may be called from any thread; runs happen in the order of the calls.
class BoundOperator {
 public:
  /// Infers and checks as Invoke does, creates the operator and requests its resources. The arrays
  /// are kept; the property is not needed afterwards.
  BoundOperator(const OperatorProperty& property, std::span<const NDArray> inputs,
                std::span<const NDArray> outputs, OpReqType req = kWriteTo);
  BoundOperator(const OperatorProperty& property, std::initializer_list<NDArray> inputs,
                std::initializer_list<NDArray> outputs, OpReqType req = kWriteTo)
      : BoundOperator(property, std::span<const NDArray>(inputs), std::span<const NDArray>(outputs),
                      req) {}
  /// Destroys the object; enqueued runs still take place.
  ~BoundOperator();
  BoundOperator(BoundOperator&&) noexcept;
  BoundOperator& operator=(BoundOperator&&) noexcept;

  /// Enqueues one run on the arrays' contents at that point. Later errors are thrown by the first
  /// wait on an output. Throws Error(kFailedPrecondition) if the object has been moved from, and in
  /// the child of a fork if it was bound before.
  void Run(bool is_train = false, int priority = 0) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera

#endif  // TESSERA_NDARRAY_IMPERATIVE_H_
