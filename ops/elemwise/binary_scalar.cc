// Element-wise arithmetic of an array and a number s:
//
//   _plus_scalar    x + s    gradient  g
//   _minus_scalar   x - s              g
//   _rminus_scalar  s - x              -g
//   _mul_scalar     x * s              g s
//   _div_scalar     x / s              g / s
//   _rdiv_scalar    s / x              -g s / x^2
//
// Types: float32, float64, float16, bfloat16; s is converted to the array's type.
#include "tessera/ops/kernel.h"

namespace tessera {
namespace {

struct ScalarParameters {
  double scalar = 1;
  bool is_int = true;

  static void Declare(ParameterSchema<ScalarParameters>& schema) {
    schema.Optional("scalar", &ScalarParameters::scalar, "the number");
    schema.Optional("is_int", &ScalarParameters::is_int, "accepted for old graphs; not used");
  }
};

/// The differences of the six operators: value and gradient as expressions of x, g and s.
struct PlusScalar {
  static constexpr bool kGradientNeedsInput = false;
  template <typename X, typename T>
  static auto Value(const X& x, T s) {
    return x + s;
  }
  template <typename X, typename T>
  static auto Gradient(const X& g, const X&, T) {
    return F<op::identity>(g);
  }
};
struct MinusScalar {
  static constexpr bool kGradientNeedsInput = false;
  template <typename X, typename T>
  static auto Value(const X& x, T s) {
    return x - s;
  }
  template <typename X, typename T>
  static auto Gradient(const X& g, const X&, T) {
    return F<op::identity>(g);
  }
};
struct ReverseMinusScalar {
  static constexpr bool kGradientNeedsInput = false;
  template <typename X, typename T>
  static auto Value(const X& x, T s) {
    return s - x;
  }
  template <typename X, typename T>
  static auto Gradient(const X& g, const X&, T) {
    return -g;
  }
};
struct MulScalar {
  static constexpr bool kGradientNeedsInput = false;
  template <typename X, typename T>
  static auto Value(const X& x, T s) {
    return x * s;
  }
  template <typename X, typename T>
  static auto Gradient(const X& g, const X&, T s) {
    return g * s;
  }
};
struct DivScalar {
  static constexpr bool kGradientNeedsInput = false;
  template <typename X, typename T>
  static auto Value(const X& x, T s) {
    return x / s;
  }
  template <typename X, typename T>
  static auto Gradient(const X& g, const X&, T s) {
    return g / s;
  }
};
struct ReverseDivScalar {
  static constexpr bool kGradientNeedsInput = true;
  template <typename X, typename T>
  static auto Value(const X& x, T s) {
    return s / x;
  }
  template <typename X, typename T>
  static auto Gradient(const X& g, const X& x, T s) {
    return -(g * s) / F<op::square>(x);
  }
};

template <typename Kind>
class ScalarProperty final : public ParameterizedProperty<ScalarParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], (*in_shape)[0]);
    MergeShape(*this, "data", &(*in_shape)[0], (*out_shape)[0]);
    return (*in_shape)[0].known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    if constexpr (Kind::kGradientNeedsInput) return {out_grad[0], in_data[0]};
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

template <typename Kind, typename Device, typename T>
class ScalarOp final : public Operator {
 public:
  explicit ScalarOp(const ScalarParameters& param) : scalar_(static_cast<T>(param.scalar)) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    auto* stream = context.get_stream<Device>();
    AssignTo(out_data[0].FlatTo1D<Device, T>(stream), req[0],
             Kind::Value(in_data[0].FlatTo1D<Device, T>(stream), scalar_));
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    auto* stream = context.get_stream<Device>();
    const auto g = out_grad[0].FlatTo1D<Device, T>(stream);
    const auto x = Kind::kGradientNeedsInput ? in_data[0].FlatTo1D<Device, T>(stream) : g;
    AssignTo(in_grad[0].FlatTo1D<Device, T>(stream), req[0], Kind::Gradient(g, x, scalar_));
  }

 private:
  const T scalar_;
};

template <typename Device, typename T>
using PlusScalarOp = ScalarOp<PlusScalar, Device, T>;
template <typename Device, typename T>
using MinusScalarOp = ScalarOp<MinusScalar, Device, T>;
template <typename Device, typename T>
using ReverseMinusScalarOp = ScalarOp<ReverseMinusScalar, Device, T>;
template <typename Device, typename T>
using MulScalarOp = ScalarOp<MulScalar, Device, T>;
template <typename Device, typename T>
using DivScalarOp = ScalarOp<DivScalar, Device, T>;
template <typename Device, typename T>
using ReverseDivScalarOp = ScalarOp<ReverseDivScalar, Device, T>;

TESSERA_REGISTER_OPERATOR(_plus_scalar, ScalarProperty<PlusScalar>, PlusScalarOp)
    .Describe("data + scalar.");
TESSERA_REGISTER_OPERATOR(_minus_scalar, ScalarProperty<MinusScalar>, MinusScalarOp)
    .Describe("data - scalar.");
TESSERA_REGISTER_OPERATOR(_rminus_scalar, ScalarProperty<ReverseMinusScalar>, ReverseMinusScalarOp)
    .Describe("scalar - data.");
TESSERA_REGISTER_OPERATOR(_mul_scalar, ScalarProperty<MulScalar>, MulScalarOp)
    .Describe("data * scalar.");
TESSERA_REGISTER_OPERATOR(_div_scalar, ScalarProperty<DivScalar>, DivScalarOp)
    .Describe("data / scalar.");
TESSERA_REGISTER_OPERATOR(_rdiv_scalar, ScalarProperty<ReverseDivScalar>, ReverseDivScalarOp)
    .Describe("scalar / data.");

}  // namespace
}  // namespace tessera
