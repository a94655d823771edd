#ifndef TESSERA_OPS_INDEX_INDEXED_PROPERTY_H_
#define TESSERA_OPS_INDEX_INDEXED_PROPERTY_H_

#include <span>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/property.h"

namespace tessera::ops_internal {

/// The property of an operator that takes elements of its first input from the places that its
/// second one tells. The output has the first input's type, and the second input any type. The
/// first input alone has a gradient, in which the operator is linear.
template <typename Parameters>
class IndexedProperty : public ParameterizedProperty<Parameters> {
 public:
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeType(*this, "output", &(*out_type)[0], (*in_type)[0]);
    MergeType(*this, this->ListArguments()[0], &(*in_type)[0], (*out_type)[0]);
    return (*in_type)[0] != DType::kUnknown && (*in_type)[1] != DType::kUnknown;
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[1]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildLinearGradient(*this, builder);
  }
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_INDEX_INDEXED_PROPERTY_H_
