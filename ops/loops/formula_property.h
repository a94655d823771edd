#ifndef TESSERA_OPS_LOOPS_FORMULA_PROPERTY_H_
#define TESSERA_OPS_LOOPS_FORMULA_PROPERTY_H_

#include <optional>
#include <span>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/typed_operator.h"

namespace tessera::ops_internal {

/// The value, besides the head gradient, that an element-wise operator's gradient reads.
enum class GradientOf { kInput, kOutput };

/// The formula of a gradient, from the head gradient g, the input x and the output y.
template <typename Parameters>
using ParameterizedGraph = Term (*)(const Parameters& param, const Term& g, const Term& x,
                                    const Term& y);

/// The forms of a value: of the output, or if `is_gradient` of the gradient.
template <typename Parameters>
using ParameterizedForm = std::optional<MapForm> (*)(const Parameters& param, bool is_gradient);

/// The ParameterizedForm of an operator that tells none.
template <typename Parameters>
std::optional<MapForm> NoForm(const Parameters&, bool) {
  return std::nullopt;
}

/// The property of an element-wise operator with parameters: one input, one output like it. kReads
/// is the value that Backward reads, kGraph gives the same gradient as a graph, and kForm the forms
/// of both.
template <typename Parameters, GradientOf kReads, ParameterizedGraph<Parameters> kGraph,
          ParameterizedForm<Parameters> kForm = NoForm<Parameters>>
class FormulaProperty final : public ParameterizedProperty<Parameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeEqualShapes(*this, {{"data", &(*in_shape)[0]}, {"output", &(*out_shape)[0]}});
    return (*in_shape)[0].known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    return {out_grad[0], kReads == GradientOf::kInput ? in_data[0] : out_data[0]};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    return {{out_grad[0], in_grad[0]}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    const Term g(builder, builder->OutGrad(0)), x(builder, builder->Input(0)),
        y(builder, builder->Output(0));
    SetInGrad(builder, 0, kGraph(this->param_, g, x, y));
    return true;
  }
  std::optional<MapForm> ForwardForm() const override { return kForm(this->param_, false); }
  std::optional<MapForm> GradientForm(int) const override { return kForm(this->param_, true); }
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_FORMULA_PROPERTY_H_
