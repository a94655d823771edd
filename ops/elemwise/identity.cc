// _copy: out = data, gradient g.
// Types: float32, float64, float16, bfloat16.
#include "tessera/ops/kernel.h"

namespace tessera {
namespace {

class LikeProperty : public ParameterizedProperty<NoParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], (*in_shape)[0]);
    MergeShape(*this, "data", &(*in_shape)[0], (*out_shape)[0]);
    return (*in_shape)[0].known();
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
};

class CopyProperty final : public LikeProperty {
 public:
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int>) const override {
    return {out_grad[0]};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    return {{out_grad[0], in_grad[0]}};
  }
};

template <typename Device, typename T>
class CopyOp final : public Operator {
 public:
  explicit CopyOp(const NoParameters&) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    Run(context, in_data[0], req[0], out_data[0]);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    Run(context, out_grad[0], req[0], in_grad[0]);
  }

 private:
  static void Run(const OpContext& context, const TBlob& from, OpReqType req, const TBlob& to) {
    if (req == kWriteInplace && from.dptr_ == to.dptr_) return;
    auto* stream = context.get_stream<Device>();
    AssignTo(to.FlatTo1D<Device, T>(stream), req,
             F<op::identity>(from.FlatTo1D<Device, T>(stream)));
  }
};

TESSERA_REGISTER_OPERATOR(_copy, CopyProperty, CopyOp)
    .Describe("The same elements in another array.");

}  // namespace
}  // namespace tessera
