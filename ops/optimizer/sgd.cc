// Steps of stochastic gradient descent, each one tensor expression over weight, gradient and state:
//
//   g  = clip(rescale_grad * grad, clip_gradient)
//   sgd_update      weight -= lr * (g + wd * weight)
//   sgd_mom_update  mom = momentum * mom - lr * (g + wd * weight);  weight += mom
//
// clip_gradient < 0 turns clipping off. Shapes: any; grad, mom and the output like weight. The
// output is usually weight itself. Types: float32, float64, float16, bfloat16.
#include "tessera/ops/kernel.h"

namespace tessera {
namespace {

struct SgdParameters {
  double lr = 0;
  double momentum = 0;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  bool lazy_update = true;

  static void Declare(ParameterSchema<SgdParameters>& schema) {
    using P = SgdParameters;
    schema.Required("lr", &P::lr, "learning rate");
    schema.Optional("momentum", &P::momentum, "how much of the last step goes on; sgd_mom_update");
    schema.Optional("wd", &P::wd, "weight decay");
    schema.Optional("rescale_grad", &P::rescale_grad, "factor of the gradient");
    schema.Optional("clip_gradient", &P::clip_gradient, "bound of a gradient's element; -1: none");
    schema.Optional("lazy_update", &P::lazy_update, "accepted for sparse graphs; not used");
  }
};

template <bool kMomentum>
class SgdProperty final : public ParameterizedProperty<SgdParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (kMomentum) return {"weight", "grad", "mom"};
    return {"weight", "grad"};
  }
  std::vector<int> MutatedInputs() const override {
    if (kMomentum) return {2};
    return {};
  }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& weight = (*in_shape)[0];
    TShape& grad = (*in_shape)[1];
    TShape& out = (*out_shape)[0];
    MergeShape(*this, "grad", &grad, weight);
    MergeShape(*this, "output", &out, grad);
    if (kMomentum) {
      MergeShape(*this, "mom", &(*in_shape)[2], out);
      out = (*in_shape)[2];
    }
    weight = grad = out;
    return weight.known();
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
};

template <bool kMomentum, typename Device, typename T>
class SgdOp final : public Operator {
 public:
  explicit SgdOp(const SgdParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    auto* stream = context.get_stream<Device>();
    const auto grad = in_data[1].FlatTo1D<Device, T>(stream) * static_cast<T>(param_.rescale_grad);
    const auto step = [&](const auto& g) {
      const auto weight = in_data[0].FlatTo1D<Device, T>(stream);
      const auto descent = static_cast<T>(param_.lr) * (g + static_cast<T>(param_.wd) * weight);
      const auto out = out_data[0].FlatTo1D<Device, T>(stream);
      if constexpr (kMomentum) {
        const auto mom = in_data[2].FlatTo1D<Device, T>(stream);
        const auto next = static_cast<T>(param_.momentum) * mom - descent;
        if (req[1] == kNullOp) {
          AssignTo(out, req[0], weight + next);
        } else if (req[0] == kNullOp) {
          auto changed = mom;
          changed = next;
        } else {
          AssignTo(out, req[0], weight + Store(mom, next));
        }
      } else {
        AssignTo(out, req[0], weight - descent);
      }
    };
    if (param_.clip_gradient >= 0) {
      const T bound = static_cast<T>(param_.clip_gradient);
      step(clamp(grad, static_cast<T>(-bound), bound));
    } else {
      step(grad);
    }
  }

 private:
  const SgdParameters param_;
};

template <typename Device, typename T>
using PlainSgdOp = SgdOp<false, Device, T>;
template <typename Device, typename T>
using MomentumSgdOp = SgdOp<true, Device, T>;

TESSERA_REGISTER_OPERATOR(sgd_update, SgdProperty<false>, PlainSgdOp)
    .Describe("One step of gradient descent.");
TESSERA_REGISTER_OPERATOR(sgd_mom_update, SgdProperty<true>, MomentumSgdOp)
    .Describe("One step of gradient descent with momentum.");

}  // namespace
}  // namespace tessera
