// FullyConnected: out = data * weight^T + bias.
//
//   out[i][j]  = sum_k data[i][k] * weight[j][k] + bias[j]
//   d data     = d out * weight
//   d weight   = d out^T * data
//   d bias[j]  = sum_i d out[i][j]
//
// Shapes: data (batch, …), read as (batch, k) if flatten, else (…, k); weight (num_hidden, k); bias
// (num_hidden); out (batch, num_hidden) or (…, num_hidden).
// Types: float32, float64, float16, bfloat16; the last two accumulate in float32.
#include <algorithm>

#include "tessera/ops/kernel.h"

namespace tessera {
namespace {

struct FullyConnectedParameters {
  int64_t num_hidden = 0;
  bool no_bias = false;
  bool flatten = true;

  static void Declare(ParameterSchema<FullyConnectedParameters>& schema) {
    using P = FullyConnectedParameters;
    schema.Required("num_hidden", &P::num_hidden, "number of outputs for each row");
    schema.Range(1);
    schema.Optional("no_bias", &P::no_bias, "leave the bias out");
    schema.Optional("flatten", &P::flatten, "treat all dimensions after the first as one");
  }
};

class FullyConnectedProperty final : public ParameterizedProperty<FullyConnectedParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (param_.no_bias) return {"data", "weight"};
    return {"data", "weight", "bias"};
  }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    if (!param_.no_bias) MergeShape(*this, "bias", &(*in_shape)[2], {param_.num_hidden});
    MergeShape(*this, "weight", &(*in_shape)[1], {param_.num_hidden, TShape::kUnknown});
    if (!data.rank_known()) return false;
    if (data.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": data is a scalar, expected at least one dimension");
    }
    // The output determines the leading dimensions, which both share.
    const int leading = param_.flatten ? 1 : data.ndim() - 1;
    MergeShape(*this, "output", &out, WithLast(data, leading, param_.num_hidden));
    for (int i = 0; i < leading; ++i) data[i] = out[i];
    const index_t columns = ProductOfExtents(*this, "data", data, leading, data.ndim());
    MergeShape(*this, "weight", &(*in_shape)[1], {param_.num_hidden, columns});
    return data.known();
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0], in_data[1]};
  }

 private:
  /// Returns the first `leading` dimensions of `shape`, followed by `last`.
  static TShape WithLast(const TShape& shape, int leading, index_t last) {
    TShape result = TShape::OfRank(leading + 1);
    std::copy_n(shape.begin(), leading, &result[0]);
    result[leading] = last;
    return result;
  }
};

template <typename Device, typename T>
class FullyConnectedOp final : public Operator {
 public:
  explicit FullyConnectedOp(const FullyConnectedParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    auto* stream = context.get_stream<Device>();
    const auto data = Rows(in_data[0], stream);
    const auto weight = in_data[1].get<Device, 2, T>(stream);
    auto out = out_data[0].FlatTo2D<Device, T>(stream);
    AssignTo(out, req[0], dot(data, weight.T()));
    if (!param_.no_bias && req[0] != kNullOp) {
      out += repmat(in_data[2].get<Device, 1, T>(stream), out.size(0));
    }
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    auto* stream = context.get_stream<Device>();
    const auto grad = out_grad[0].FlatTo2D<Device, T>(stream);
    if (req[1] != kNullOp) {
      AssignTo(in_grad[1].get<Device, 2, T>(stream), req[1],
               dot(grad.T(), Rows(in_data[0], stream)));
    }
    if (!param_.no_bias && req[2] != kNullOp) {
      AssignTo(in_grad[2].get<Device, 1, T>(stream), req[2], sum_rows(grad));
    }
    if (req[0] != kNullOp) {
      AssignTo(Rows(in_grad[0], stream), req[0], dot(grad, in_data[1].get<Device, 2, T>(stream)));
    }
  }

 private:
  Tensor<Device, 2, T> Rows(const TBlob& blob, Stream<Device>* stream) const {
    if (!param_.flatten) return blob.FlatTo2D<Device, T>(stream);
    const TShape& shape = blob.shape_;
    return blob.get_with_shape<Device, 2, T>(Shape2(shape[0], shape.ProdShape(1, shape.ndim())),
                                             stream);
  }

  const FullyConnectedParameters param_;
};

TESSERA_REGISTER_OPERATOR(FullyConnected, FullyConnectedProperty, FullyConnectedOp)
    .Describe("A dense layer: data * weight^T + bias.");

}  // namespace
}  // namespace tessera
