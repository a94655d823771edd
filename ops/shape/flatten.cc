// Flatten: (batch, d1, d2, …) to (batch, d1 * d2 * …), the same elements in the same order.
// The gradient is the output's gradient in the input's shape. Types: float32, float64, float16,
// bfloat16.
#include "tessera/ops/kernel.h"

namespace tessera {
namespace {

class FlattenProperty final : public ParameterizedProperty<NoParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    if (!data.rank_known()) return false;
    if (data.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": data is a scalar, expected at least one dimension");
    }
    const TShape out = {data[0], ProductOfExtents(*this, "data", data, 1, data.ndim())};
    MergeShape(*this, "output", &(*out_shape)[0], out);
    data[0] = (*out_shape)[0][0];
    return data.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int>) const override {
    return {out_grad[0]};
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
};

template <typename Device, typename T>
class FlattenOp final : public Operator {
 public:
  explicit FlattenOp(const NoParameters&) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    CopyFlat(context, in_data[0], req[0], out_data[0]);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    CopyFlat(context, out_grad[0], req[0], in_grad[0]);
  }

 private:
  static void CopyFlat(const OpContext& context, const TBlob& from, OpReqType req,
                       const TBlob& to) {
    if (req == kWriteInplace && from.dptr_ == to.dptr_) return;
    auto* stream = context.get_stream<Device>();
    AssignTo(to.FlatTo1D<Device, T>(stream), req,
             F<op::identity>(from.FlatTo1D<Device, T>(stream)));
  }
};

TESSERA_REGISTER_OPERATOR(Flatten, FlattenProperty, FlattenOp)
    .Describe("All dimensions after the first as one.");

}  // namespace
}  // namespace tessera
