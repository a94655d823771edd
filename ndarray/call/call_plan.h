#ifndef TESSERA_NDARRAY_CALL_CALL_PLAN_H_
#define TESSERA_NDARRAY_CALL_CALL_PLAN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/base/device.h"
#include "tessera/engine/engine.h"
#include "tessera/graph/backward_property.h"
#include "tessera/ndarray/call/operator_call.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/sparse.h"

namespace tessera::ndarray_internal {

/// The device, shapes and types of a call.
struct CallSignature {
  Device device;
  std::vector<TShape> in_shape;
  std::vector<DType> in_type;
  std::vector<TShape> out_shape;
  std::vector<DType> out_type;

  friend bool operator==(const CallSignature&, const CallSignature&) = default;
};

/// An operator with its parameters, for inputs of given shapes and types: everything about calls
/// that depends neither on the arrays nor on their elements.
///
/// Threads: every member may be called from any thread.
class CallPlan {
 public:
  /// Infers and checks. `outputs` are the caller's, possibly none. `implementation` is the one to
  /// use, or empty. Throws what Invoke throws.
  CallPlan(std::shared_ptr<const OperatorProperty> property, std::string implementation,
           std::span<const NDArray> inputs, std::span<const NDArray> outputs);

  /// Returns a plan of a registered operator. Each thread keeps its recent ones, except those of
  /// operators with Purity::kSynchronous: each call of these has an operator of its own, whose
  /// Backward may use what its Forward has kept. Throws what Invoke throws.
  static std::shared_ptr<const CallPlan> Find(std::string_view op, const ParameterMap& parameters,
                                              std::span<const NDArray> inputs,
                                              std::span<const NDArray> outputs);
  /// Returns a plan of the operator of a property, by the implementation of that name unless the
  /// name is empty; see the other Find. Throws what Invoke throws: Error(kNotFound) for a property
  /// that the registry has not created.
  static std::shared_ptr<const CallPlan> Find(
      const std::shared_ptr<const OperatorProperty>& property, std::string_view implementation,
      std::span<const NDArray> inputs, std::span<const NDArray> outputs);

  const std::shared_ptr<const OperatorProperty>& property() const { return property_; }
  const std::string& name() const { return property_->TypeString(); }
  const CallSignature& signature() const { return signature_; }
  /// Returns the device of the new arrays of an operator without inputs: its parameter ctx names
  /// it.
  Device created_on() const { return created_on_; }
  size_t num_inputs() const { return signature_.in_shape.size(); }
  size_t num_outputs() const { return signature_.out_shape.size(); }
  size_t num_visible_outputs() const { return num_visible_; }
  /// Returns the positions of the inputs that a call changes.
  const std::vector<int>& mutated() const { return mutated_; }

  /// Returns the operator's form for sparse arrays, or null, and whether dense inputs can give
  /// sparse outputs.
  const SparseForm* sparse_form() const { return sparse_form_; }
  bool makes_sparse() const { return makes_sparse_; }

  /// Returns the requests of a call that writes `outputs`, `num_given` of which are the caller's
  /// and get the request `req`. Throws Error(kInvalidArgument) for outputs that overlap an array
  /// that the operator still needs.
  std::vector<OpReqType> Requests(std::span<const NDArray> inputs, std::span<const NDArray> outputs,
                                  size_t num_given, OpReqType req) const;
  /// Returns the requests of a call that writes new arrays.
  const std::vector<OpReqType>& write_requests() const { return write_requests_; }

  /// Returns the operator's call with these requests; see OperatorCall.
  const OperatorCall& Call(const std::vector<OpReqType>& requests) const;

  /// Returns the call of the operator's gradient with one request for each input; see
  /// graph::BackwardProperty.
  const OperatorCall& BackwardCall(const std::vector<OpReqType>& requests) const;

  /// Returns whether Backward, or the graph of the gradient, reads an input or an output.
  bool SavesInput(size_t input) const { return Saved().inputs[input]; }
  bool SavesOutput(size_t output) const { return Saved().outputs[output]; }

 private:
  struct SavedValues {
    std::vector<bool> inputs, outputs;
  };

  /// Returns the calling thread's recent plan for a hash, to be replaced; null for none.
  static std::shared_ptr<const CallPlan>& Recent(size_t hash);
  /// Makes a plan that Find may return again.
  static std::shared_ptr<CallPlan> Make(size_t hash,
                                        std::shared_ptr<const OperatorProperty> property,
                                        std::string implementation, std::span<const NDArray> inputs,
                                        std::span<const NDArray> outputs);
  /// Returns whether Find made the plan for this hash and arrays like these.
  bool Matches(size_t hash, std::span<const NDArray> inputs,
               std::span<const NDArray> outputs) const;
  void TakeInputs(std::span<const NDArray> inputs);
  void TakeContext();
  void InferOutputs(std::span<const NDArray> outputs);
  const SavedValues& Saved() const;

  const std::shared_ptr<const OperatorProperty> property_;
  const std::string implementation_;
  Engine* const engine_;  // whose variables the resources have
  const SparseForm* const sparse_form_;
  const bool makes_sparse_;
  std::vector<int> mutated_;
  size_t num_visible_;
  CallSignature signature_;
  Device created_on_;
  std::vector<OpReqType> write_requests_;

  // The arguments of Find.
  size_t hash_ = 0;
  std::string asked_op_;  // empty if it was asked for a property
  ParameterMap asked_parameters_;
  std::vector<std::pair<TShape, DType>> asked_outputs_;

  /// Calls by their requests.
  using Calls = std::vector<std::pair<std::vector<OpReqType>, std::unique_ptr<OperatorCall>>>;
  /// Requires: mutex_ is held.
  const OperatorCall& FindOrMake(const std::shared_ptr<const OperatorProperty>& property,
                                 const std::vector<OpReqType>& requests, Calls* calls) const;

  mutable std::mutex mutex_;  // also guards the writes to write_call_
  mutable std::shared_ptr<Operator> operator_ ABSL_GUARDED_BY(mutex_);  // of all calls
  mutable Calls calls_ ABSL_GUARDED_BY(mutex_);
  mutable Calls backward_calls_ ABSL_GUARDED_BY(mutex_);
  mutable std::shared_ptr<const graph::BackwardProperty> backward_property_ ABSL_GUARDED_BY(mutex_);
  mutable std::atomic<const OperatorCall*> write_call_{nullptr};
  mutable std::once_flag saved_once_;
  mutable SavedValues saved_;
};

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_CALL_CALL_PLAN_H_
