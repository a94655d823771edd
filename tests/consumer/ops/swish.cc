// Swish: y = x / (1 + exp(-beta x)), any shape. With s = 1 / (1 + exp(-beta x)),
// dy/dx = s + beta y (1 - s). P. Ramachandran, B. Zoph, Q. Le, "Searching for activation
// functions" (2017).
#include <cmath>

#include "tessera/ops/kernel.h"

namespace tessera {
namespace {

struct SwishParameters {
  float beta = 1.0f;

  static void Declare(ParameterSchema<SwishParameters>& schema) {
    schema.Optional("beta", &SwishParameters::beta, "slope of the sigmoid");
  }
};

class SwishProperty final : public ParameterizedProperty<SwishParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], (*in_shape)[0]);
    MergeShape(*this, "data", &(*in_shape)[0], (*out_shape)[0]);
    return (*in_shape)[0].known();
  }
};

template <typename Device, typename T>
class SwishOp final : public Operator {
 public:
  explicit SwishOp(const SwishParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    auto* stream = context.get_stream<Device>();
    const auto x = in_data[0].FlatTo1D<Device, T>(stream);
    AssignTo(out_data[0].FlatTo1D<Device, T>(stream), req[0],
             x * F<op::sigmoid>(x * T(param_.beta)));
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    auto* stream = context.get_stream<Device>();
    const auto g = out_grad[0].FlatTo1D<Device, T>(stream);
    const auto x = in_data[0].FlatTo1D<Device, T>(stream);
    const auto y = out_data[0].FlatTo1D<Device, T>(stream);
    const auto s = F<op::sigmoid>(x * T(param_.beta));
    AssignTo(in_grad[0].FlatTo1D<Device, T>(stream), req[0],
             g * (s + T(param_.beta) * y * (T(1) - s)));
  }

 private:
  const SwishParameters param_;
};

TESSERA_REGISTER_OPERATOR(Swish, SwishProperty, SwishOp).Describe("x sigmoid(beta x)");

}  // namespace
}  // namespace tessera
