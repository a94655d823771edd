#ifndef TESSERA_NDARRAY_CALL_OPERATOR_CALL_H_
#define TESSERA_NDARRAY_CALL_OPERATOR_CALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/engine/engine.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"

namespace tessera {

namespace graph {
class BackwardProperty;
}  // namespace graph

namespace ndarray_internal {

/// Returns the name of the thread's innermost CallerScope, or null without one.
const std::string* CallerOfThread();

}  // namespace ndarray_internal

/// The mode of a call.
struct CallMode {
  bool is_train = false;        ///< OpContext::is_train
  bool needs_gradient = false;  ///< OpContext::needs_gradient
  /// The name of the caller, for the observer; null for none.
  const std::string* caller = ndarray_internal::CallerOfThread();
};

/// A prepared call of an operator, or of the gradient of one: the operator, its resources and its
/// requests, for arrays of given shapes and types. Every call in Tessera takes place here:
/// imperative ones, those of executors and those of the tape.
///
/// Threads: calls of Run may overlap, except that resource_vars() orders those that use resources.
class OperatorCall {
 public:
  /// Prepares a call of `property`, a registered operator's or a graph::BackwardProperty, on a
  /// device. `in_shape` and `in_type` are those of the operator's inputs; for a gradient, those of
  /// the operator that it belongs to. `req` has one entry for each output, then one for each
  /// mutated input. `node` is the node's name for errors, or empty. `op` is the operator of another
  /// call with the same device, shapes and types, such as the one whose gradient this is, or null
  /// to create one: by the implementation called `implementation`, if that is not empty. Throws
  /// what OperatorProperty::CreateImplementation throws, with the name of the node.
  OperatorCall(std::string node, std::shared_ptr<const OperatorProperty> property, Device device,
               std::span<const TShape> in_shape, std::span<const DType> in_type,
               std::vector<OpReqType> req, std::shared_ptr<Operator> op = nullptr,
               std::string_view implementation = {});

  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;

  /// Returns a call that differs from this one in its requests alone: it has the same operator and
  /// resources.
  std::shared_ptr<const OperatorCall> WithRequests(std::vector<OpReqType> req) const;

  /// Lets the callers of Run provide workspace, if the operator states how much it needs. The blobs
  /// are like those that Run will have, but need no memory. Returns the bytes; 0 if the operator
  /// needs none, or states nothing and uses a shared resource. The bytes suffice if Run is called
  /// where no more threads are than the engine has workers or the caller of this function has.
  int64_t PlanWorkspace(std::span<const TBlob> inputs, std::span<const TBlob> outputs);

  /// Returns whether Run checks outputs: the setting TESSERA_CHECK_FINITE. A call should then be of
  /// one operator alone, which errors name. Throws Error(kInvalidArgument) for a value that is no
  /// bool.
  static bool ChecksOutputs();

  /// Returns the operator's name, and the implementation's if there is a choice:
  /// "Convolution[packed]". A gradient's begins with "_backward_".
  const std::string& op_name() const { return op_name_; }
  /// Returns the operator, for other calls.
  const std::shared_ptr<Operator>& op() const { return operator_; }
  /// Returns the requests.
  const std::vector<OpReqType>& req() const { return req_; }
  /// Returns the kind of the engine operation that runs the call: kAsync for an operator of
  /// Purity::kSynchronous, whose calls may block, and therefore run in operations of their own.
  FnProperty fn_property() const { return fn_property_; }
  /// Returns the variables of the resources, which the call writes. One of them is shared by calls
  /// that may block, so that few of these run at once.
  const std::vector<Variable*>& resource_vars() const { return resource_vars_; }

  /// Runs the operator on memory: the blobs of the property's inputs and outputs. The blob of an
  /// output whose request is kNullOp may be empty. `stream` is OpContext::stream, and `prepared`
  /// OpContext::prepared, with forms that op() has asked for. Throws what the
  /// operator throws, with the names of node and operator and the inputs' shapes; Error::op() is
  /// then the operator, for a gradient the one that it belongs to. With the setting
  /// TESSERA_CHECK_FINITE, also throws Error(kOutOfRange) if an element of a visible output or of a
  /// mutated input is NaN or infinite afterwards. After PlanWorkspace, `workspace` has that many
  /// bytes, aligned to 64; if the operator requests more, this is allocated for the call.
  void Run(CallMode mode, void* stream, std::span<const TBlob> inputs,
           std::span<const TBlob> outputs, std::span<const void* const> prepared = {},
           std::span<std::byte> workspace = {}) const;

 private:
  OperatorCall(const OperatorCall& other, std::vector<OpReqType> req);
  void FindAdder();
  void RunOperator(const OpContext& context, std::span<const TBlob> inputs,
                   std::span<const OpReqType> req, std::span<const TBlob> outputs) const;
  void RunAndAdd(const OpContext& context, std::span<const TBlob> inputs,
                 std::span<const TBlob> outputs) const;
  void CheckOutputs(void* stream, std::span<const TBlob> inputs,
                    std::span<const TBlob> outputs) const;
  std::string Where(std::span<const TBlob> inputs) const;

  const std::string node_;
  const std::shared_ptr<const OperatorProperty> property_;
  const graph::BackwardProperty* const backward_;  // property_, or null for a forward call
  const Device device_;
  std::shared_ptr<Operator> operator_;
  std::string op_name_;
  const std::vector<OpReqType> req_;
  std::vector<Resource*> resources_;  // null for a workspace that the callers provide
  std::vector<Variable*> resource_vars_;
  const bool checks_finite_;
  FnProperty fn_property_ = FnProperty::kNormal;
  /// The property of the operator that adds to outputs, if operator_ does not accept kAddTo and
  /// some request is kAddTo.
  std::shared_ptr<const OperatorProperty> adder_;
};

}  // namespace tessera

#endif  // TESSERA_NDARRAY_CALL_OPERATOR_CALL_H_
