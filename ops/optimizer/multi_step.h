#ifndef TESSERA_OPS_OPTIMIZER_MULTI_STEP_H_
#define TESSERA_OPS_OPTIMIZER_MULTI_STEP_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/optimizer/step.h"
#include "tessera/ops/property.h"

// Operators that take a step for each of several weights, or for one by numbers in an array.
namespace tessera::ops_internal {

/// The inputs of such an operator: weight, gradient, states and, with master copies, the float32
/// copy of the first weight, then those of the second, …, and at the end arrays of float32 numbers
/// that all weights share. The outputs are the new weights.
struct MultiStepLayout {
  int num_weights = 1;
  bool numbered = true;                   ///< whether names end in the weight's number: weight_0
  std::span<const char* const> states{};  ///< the names of a weight's states
  bool master = false;                    ///< whether there are master copies, "weight32"
  std::span<const char* const> shared{};  ///< the names of the shared arrays
  TShape shared_shape{};                  ///< the shape of each of them

  int num_states() const { return static_cast<int>(states.size()) + (master ? 1 : 0); }
  int arrays_of_weight() const { return 2 + num_states(); }

  /// Return what OperatorProperty's functions of these names return.
  std::vector<std::string> ListArguments() const;
  std::vector<std::string> ListOutputs() const;
  std::vector<int> MutatedInputs() const;
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const;
  bool InferShape(const OperatorProperty& property, std::vector<TShape>* in_shape,
                  std::vector<TShape>* out_shape) const;
  bool InferType(const OperatorProperty& property, std::vector<DType>* in_type,
                 std::vector<DType>* out_type) const;

  /// Returns the arrays of each weight's step. Among numbered weights a float32 one needs no copy:
  /// as in MXNet, its step computes with the weight itself, and its copy does not change.
  std::vector<StepArguments> Arguments(std::span<const TBlob> in_data,
                                       std::span<const OpReqType> req,
                                       std::span<const TBlob> out_data) const;
};

/// The property of an operator whose parameters are a struct P with
/// - MultiStepLayout Layout() const,
/// - void Check(const OperatorProperty&) const, which throws Error(kInvalidArgument) for parameters
///   that do not fit together.
template <typename P>
class MultiStepProperty final : public ParameterizedProperty<P> {
 public:
  std::vector<std::string> ListArguments() const override { return Layout().ListArguments(); }
  std::vector<std::string> ListOutputs() const override { return Layout().ListOutputs(); }
  std::vector<int> MutatedInputs() const override { return Layout().MutatedInputs(); }
  bool HasGradient() const override { return false; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return Layout().InferShape(*this, in_shape, out_shape);
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    return Layout().InferType(*this, in_type, out_type);
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return Layout().ForwardInplaceOption(in_data, out_data);
  }

 private:
  MultiStepLayout Layout() const { return this->param_.Layout(); }
  void CheckParameters() override { this->param_.Check(*this); }
};

/// Throws Error(kInvalidArgument) that names the operator and the parameter unless `given` is
/// `count`, the value of the parameter `count_name`.
void CheckNumberOf(const OperatorProperty& property, std::string_view parameter, size_t given,
                   std::string_view count_name, int count);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_OPTIMIZER_MULTI_STEP_H_
