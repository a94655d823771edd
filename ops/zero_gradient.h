#ifndef TESSERA_OPS_ZERO_GRADIENT_H_
#define TESSERA_OPS_ZERO_GRADIENT_H_

#include <span>
#include <vector>

#include "tessera/ops/loops/elements.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"

/// Operators through which no gradient flows.
namespace tessera::ops_internal {

/// The property of an operator whose inputs have no gradient, which counts as 0.
template <typename Parameters>
class ZeroGradientProperty : public ParameterizedProperty<Parameters> {
 public:
  bool ArgumentHasGradient(int) const override { return false; }
  std::vector<int> DeclareBackwardDependency(std::span<const int>, std::span<const int>,
                                             std::span<const int>) const override {
    return {};
  }
};

/// An operator whose gradients of all inputs are 0.
class ZeroGradientOperator : public Operator {
 public:
  void Backward(const OpContext&, std::span<const TBlob>, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    for (size_t i = 0; i < req.size(); ++i) StoreZeros(req[i], in_grad[i]);
  }
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_ZERO_GRADIENT_H_
