// Element-wise arithmetic of two arrays of one shape, c = a op b:
//
//   elemwise_add  a + b    gradients  g, g
//   elemwise_sub  a - b               g, -g
//   elemwise_mul  a * b               g b, g a
//   elemwise_div  a / b               g / b, -g a / b^2
//
// Types: float32, float64, float16, bfloat16. The output may replace either operand if the gradient
// does not need it.
#include "tessera/ops/kernel.h"

namespace tessera {
namespace {

/// The differences of the four operators: the functor, and the gradients as expressions of g, a and
/// b.
struct Add {
  using Op = op::plus;
  static constexpr bool kGradientNeedsInputs = false;
  template <typename X>
  static auto LeftGradient(const X& g, const X&, const X&) {
    return F<op::identity>(g);
  }
  template <typename X>
  static auto RightGradient(const X& g, const X&, const X&) {
    return F<op::identity>(g);
  }
};
struct Sub {
  using Op = op::minus;
  static constexpr bool kGradientNeedsInputs = false;
  template <typename X>
  static auto LeftGradient(const X& g, const X&, const X&) {
    return F<op::identity>(g);
  }
  template <typename X>
  static auto RightGradient(const X& g, const X&, const X&) {
    return -g;
  }
};
struct Mul {
  using Op = op::mul;
  static constexpr bool kGradientNeedsInputs = true;
  template <typename X>
  static auto LeftGradient(const X& g, const X&, const X& b) {
    return g * b;
  }
  template <typename X>
  static auto RightGradient(const X& g, const X& a, const X&) {
    return g * a;
  }
};
struct Div {
  using Op = op::div;
  static constexpr bool kGradientNeedsInputs = true;
  template <typename X>
  static auto LeftGradient(const X& g, const X&, const X& b) {
    return g / b;
  }
  template <typename X>
  static auto RightGradient(const X& g, const X& a, const X& b) {
    return -(g * a) / F<op::square>(b);
  }
};

template <typename Kind>
class BinaryProperty final : public ParameterizedProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"lhs", "rhs"}; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape shape = (*in_shape)[0];
    MergeShape(*this, "rhs", &(*in_shape)[1], shape);
    shape = (*in_shape)[1];
    MergeShape(*this, "output", &(*out_shape)[0], shape);
    shape = (*out_shape)[0];
    MergeShape(*this, "lhs", &(*in_shape)[0], shape);
    MergeShape(*this, "rhs", &(*in_shape)[1], shape);
    return shape.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    if constexpr (Kind::kGradientNeedsInputs) return {out_grad[0], in_data[0], in_data[1]};
    return {out_grad[0]};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}, {in_data[1], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    // The right gradient is written first, while g is complete; the left one may then replace g.
    return {{out_grad[0], in_grad[0]}};
  }
};

template <typename Kind, typename Device, typename T>
class BinaryOp final : public Operator {
 public:
  explicit BinaryOp(const NoParameters&) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    auto* stream = context.get_stream<Device>();
    AssignTo(out_data[0].FlatTo1D<Device, T>(stream), req[0],
             F<typename Kind::Op>(in_data[0].FlatTo1D<Device, T>(stream),
                                  in_data[1].FlatTo1D<Device, T>(stream)));
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    auto* stream = context.get_stream<Device>();
    const auto g = out_grad[0].FlatTo1D<Device, T>(stream);
    // Unused inputs are empty blobs. g replaces them, so that the expressions have one type.
    const auto a = Kind::kGradientNeedsInputs ? in_data[0].FlatTo1D<Device, T>(stream) : g;
    const auto b = Kind::kGradientNeedsInputs ? in_data[1].FlatTo1D<Device, T>(stream) : g;
    if (req[1] != kNullOp) {
      AssignTo(in_grad[1].FlatTo1D<Device, T>(stream), req[1], Kind::RightGradient(g, a, b));
    }
    if (req[0] != kNullOp) {
      AssignTo(in_grad[0].FlatTo1D<Device, T>(stream), req[0], Kind::LeftGradient(g, a, b));
    }
  }
};

template <typename Device, typename T>
using AddOp = BinaryOp<Add, Device, T>;
template <typename Device, typename T>
using SubOp = BinaryOp<Sub, Device, T>;
template <typename Device, typename T>
using MulOp = BinaryOp<Mul, Device, T>;
template <typename Device, typename T>
using DivOp = BinaryOp<Div, Device, T>;

TESSERA_REGISTER_OPERATOR(elemwise_add, BinaryProperty<Add>, AddOp)
    .Describe("lhs + rhs, element by element.");
TESSERA_REGISTER_OPERATOR(elemwise_sub, BinaryProperty<Sub>, SubOp)
    .Describe("lhs - rhs, element by element.");
TESSERA_REGISTER_OPERATOR(elemwise_mul, BinaryProperty<Mul>, MulOp)
    .Describe("lhs * rhs, element by element.");
TESSERA_REGISTER_OPERATOR(elemwise_div, BinaryProperty<Div>, DivOp)
    .Describe("lhs / rhs, element by element.");

}  // namespace
}  // namespace tessera
