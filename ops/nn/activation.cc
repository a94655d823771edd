// Activation: an element-wise nonlinearity.
//
//   relu      max(x, 0)           gradient from y:  y > 0
//   sigmoid   1 / (1 + exp(-x))                     y (1 - y)
//   tanh      tanh(x)                               1 - y^2
//   softrelu  log(1 + exp(x))                       1 - exp(-y)
//   softsign  x / (1 + |x|)                         (1 - |y|)^2
//
// All gradients are written in the output y, so that x may be overwritten: with |y| = |x| / (1 +
// |x|), softsign's 1 / (1 + |x|)^2 is (1 - |y|)^2. Shapes: any; out like data. Types: float32,
// float64, float16, bfloat16.
#include <cmath>

#include "tessera/ops/kernel.h"

namespace tessera {
namespace {

enum class ActivationType { kRelu, kSigmoid, kTanh, kSoftrelu, kSoftsign };

struct ActivationParameters {
  ActivationType act_type = ActivationType::kRelu;

  static void Declare(ParameterSchema<ActivationParameters>& schema) {
    schema.Choice("act_type", &ActivationParameters::act_type,
                  {{"relu", ActivationType::kRelu},
                   {"sigmoid", ActivationType::kSigmoid},
                   {"tanh", ActivationType::kTanh},
                   {"softrelu", ActivationType::kSoftrelu},
                   {"softsign", ActivationType::kSoftsign}},
                  "which function", /*required=*/true);
  }
};

class ActivationProperty final : public ParameterizedProperty<ActivationParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], (*in_shape)[0]);
    MergeShape(*this, "data", &(*in_shape)[0], (*out_shape)[0]);
    return (*in_shape)[0].known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int> out_data) const override {
    return {out_grad[0], out_data[0]};
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

/// A packet of ones.
template <typename P>
TESSERA_HD P One() {
  return pk::pset1<P>(typename pk::unpacket_traits<P>::type(1));
}

struct SigmoidGradient : WideFunctor {
  template <typename T>
  TESSERA_HD static T Map(T y) {
    return static_cast<T>(y * (T(1) - y));
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& y) {
    return pk::pmul(y, P(pk::psub(One<P>(), y)));
  }
};
struct TanhGradient : WideFunctor {
  template <typename T>
  TESSERA_HD static T Map(T y) {
    return static_cast<T>(T(1) - y * y);
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& y) {
    return pk::psub(One<P>(), P(pk::pmul(y, y)));
  }
};
struct SoftreluGradient {
  static constexpr index_t kElementCost = op::kLibraryCost;
  template <typename T>
  TESSERA_HD static T Map(T y) {
    using std::expm1;
    return static_cast<T>(-expm1(static_cast<T>(-y)));
  }
};
struct SoftsignGradient : WideFunctor {
  template <typename T>
  TESSERA_HD static T Map(T y) {
    return op::square::Map(static_cast<T>(T(1) - op::abs::Map(y)));
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& y) {
    return op::square::PacketMap(P(pk::psub(One<P>(), op::abs::PacketMap(y))));
  }
};

template <typename Device, typename T>
class ActivationOp final : public Operator {
 public:
  explicit ActivationOp(const ActivationParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    auto* stream = context.get_stream<Device>();
    const auto data = in_data[0].FlatTo1D<Device, T>(stream);
    const auto out = out_data[0].FlatTo1D<Device, T>(stream);
    switch (param_.act_type) {
      case ActivationType::kRelu:
        return Run<op::relu>(out, req[0], data);
      case ActivationType::kSigmoid:
        return Run<op::sigmoid>(out, req[0], data);
      case ActivationType::kTanh:
        return Run<op::tanh>(out, req[0], data);
      case ActivationType::kSoftrelu:
        return Run<op::softrelu>(out, req[0], data);
      case ActivationType::kSoftsign:
        return Run<op::softsign>(out, req[0], data);
    }
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    auto* stream = context.get_stream<Device>();
    const auto grad = out_grad[0].FlatTo1D<Device, T>(stream);
    const auto out = out_data[0].FlatTo1D<Device, T>(stream);
    const auto data_grad = in_grad[0].FlatTo1D<Device, T>(stream);
    switch (param_.act_type) {
      case ActivationType::kRelu:
        return Chain<op::relu_grad>(data_grad, req[0], grad, out);
      case ActivationType::kSigmoid:
        return Chain<SigmoidGradient>(data_grad, req[0], grad, out);
      case ActivationType::kTanh:
        return Chain<TanhGradient>(data_grad, req[0], grad, out);
      case ActivationType::kSoftrelu:
        return Chain<SoftreluGradient>(data_grad, req[0], grad, out);
      case ActivationType::kSoftsign:
        return Chain<SoftsignGradient>(data_grad, req[0], grad, out);
    }
  }

 private:
  using Flat = Tensor<Device, 1, T>;

  template <typename Op>
  static void Run(Flat out, OpReqType req, const Flat& data) {
    AssignTo(out, req, F<Op>(data));
  }
  template <typename Gradient>
  static void Chain(Flat data_grad, OpReqType req, const Flat& grad, const Flat& out) {
    AssignTo(data_grad, req, grad * F<Gradient>(out));
  }

  const ActivationParameters param_;
};

TESSERA_REGISTER_OPERATOR(Activation, ActivationProperty, ActivationOp)
    .Describe("An element-wise nonlinearity: relu, sigmoid, tanh, softrelu or softsign.");

}  // namespace
}  // namespace tessera
