// _CrossDeviceCopy: the same elements in an array on another device. Graphs have it where a node
// reads a value from another device; an executor then copies between the devices, and the operator
// itself only computes where both are one. Its gradient is the head gradient, copied back. Shapes:
// any; out like data. Types: all.
#include "tessera/ops/gradient_builder.h"
#include "tessera/ops/loops/movement.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: movement and registration

/// Input and output lie on different devices, so that neither may use the other's memory.
class CrossDeviceCopyProperty final : public MoveProperty<NoParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferSameShape(*this, "data", &(*in_shape)[0], &(*out_shape)[0]);
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    builder->SetInGrad(0, builder->Apply1("_CrossDeviceCopy", {builder->OutGrad(0)}));
    return true;
  }
};

const bool kCrossDeviceCopy = RegisterMove<CrossDeviceCopyProperty>(
    TESSERA_TABLE_PLACE, "_CrossDeviceCopy", "The same elements in an array on another device.",
    MoveFirst, MoveFirst);

}  // namespace
}  // namespace tessera
