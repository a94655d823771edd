#ifndef TESSERA_NDARRAY_OPERATOR_CALL_H_
#define TESSERA_NDARRAY_OPERATOR_CALL_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine/engine.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"

namespace tessera {

/// The mode of a call.
struct CallMode {
  bool is_train = false;        ///< OpContext::is_train
  bool needs_gradient = false;  ///< OpContext::needs_gradient
};

/// A prepared call of an operator, or of the gradient of one: the operator, its resources, its
/// requests and its memory. Every call in Tessera takes place here: imperative ones, those of
/// executors and those of the tape.
///
/// Threads: one engine operation at a time runs a call.
class OperatorCall {
 public:
  /// Prepares a call of `property`, a registered operator's or a graph::BackwardProperty, on a
  /// device. `in_shape` and `in_type` are those of the operator's inputs; for a gradient, those of
  /// the operator that it belongs to. `req` has one entry for each output, then one for each
  /// mutated input. `node` is the node's name for errors, or empty. Throws what
  /// OperatorProperty::CreateOperator throws.
  OperatorCall(std::string node, const OperatorProperty& property, Device device,
               std::span<const TShape> in_shape, std::span<const DType> in_type,
               std::vector<OpReqType> req);

  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;

  /// Returns the operator's name.
  const std::string& op_name() const { return op_name_; }
  /// Returns the variables of the resources, which the call writes.
  const std::vector<Variable*>& resource_vars() const { return resource_vars_; }

  /// Sets the memory of the property's inputs and outputs. A blob may be empty where the request is
  /// kNullOp.
  void SetMemory(std::span<const TBlob> inputs, std::span<const TBlob> outputs);
  /// Returns whether SetMemory has been called.
  bool has_memory() const { return has_memory_; }

  /// Runs the operator on its memory. `stream` is OpContext::stream. Throws what the operator
  /// throws, with the names of node and operator and the inputs' shapes. With the setting
  /// TESSERA_CHECK_FINITE, also throws Error(kOutOfRange) if an element of a visible output or of a
  /// mutated input is NaN or infinite afterwards.
  void Run(CallMode mode, void* stream);

 private:
  void RunOperator(const OpContext& context, std::span<const OpReqType> req,
                   std::span<const TBlob> targets);
  void RunAndAdd(const OpContext& context);
  void CheckOutputs(void* stream) const;
  std::string Where() const;

  const std::string node_;
  const std::string op_name_;
  const Device device_;
  std::unique_ptr<Operator> operator_;
  std::vector<OpReqType> req_;
  std::vector<Resource*> resources_;
  std::vector<Variable*> resource_vars_;

  /// The place of an input: a position in the list that RunOperator passes.
  struct Place {
    std::vector<TBlob>* list;
    size_t index;
  };
  bool is_backward_ = false;
  bool has_memory_ = false;
  std::vector<Place> places_;
  std::vector<TBlob> out_grad_, in_data_, out_data_;
  std::vector<TBlob> targets_;  // outputs, or the inputs' gradients

  // If outputs are checked: the names of all inputs, those of the visible outputs, and the inputs
  // that change.
  const bool checks_finite_;
  std::vector<std::string> input_names_, output_names_;
  std::vector<int> mutated_;

  // Where the operator does not accept kAddTo: one workspace for each output that is added to, and
  // the operator that adds it.
  std::vector<NDArray> workspaces_;
  std::vector<std::unique_ptr<Operator>> adders_;
};

}  // namespace tessera

#endif  // TESSERA_NDARRAY_OPERATOR_CALL_H_
