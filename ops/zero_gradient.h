#ifndef TESSERA_OPS_ZERO_GRADIENT_H_
#define TESSERA_OPS_ZERO_GRADIENT_H_

#include "tessera/ops/property.h"

namespace tessera::ops_internal {

/// The property of an operator that is differentiated to 0, because its outputs are indices, counts
/// or constants between jumps. It has no Backward.
template <typename Parameters>
class ZeroGradientProperty : public ParameterizedProperty<Parameters> {
 public:
  bool ArgumentHasGradient(int) const override { return false; }
  bool HasBackward() const override { return false; }
  bool BuildGradient(GradientBuilder*) const override { return true; }
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_ZERO_GRADIENT_H_
