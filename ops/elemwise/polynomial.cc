// _contrib_quadratic and _contrib_div_sqrt_dim: polynomials of elements.
//
//   _contrib_quadratic      out = a x^2 + b x + c         d data = g (2 a x + b)
//   _contrib_div_sqrt_dim   out = x / sqrt(last extent)   d data = g / sqrt(last extent)
//
// Shapes: any; out like data. The second takes at least one dimension, and is how attention scales
// its queries. Types: float32, float64, float16, bfloat16, and for the first integers, of which the
// result is truncated.
#include <cmath>

#include "tessera/base/error.h"
#include "tessera/ops/loops/formula_property.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the map driver

struct QuadraticParameters {
  float a = 0;
  float b = 0;
  float c = 0;

  static void Declare(ParameterSchema<QuadraticParameters>& schema) {
    using P = QuadraticParameters;
    schema.Optional("a", &P::a, "the factor of the square");
    schema.Optional("b", &P::b, "the factor of the element");
    schema.Optional("c", &P::c, "the constant");
  }
};

struct Quadratic {
  template <typename T>
  TESSERA_HD static T Map(T x, T a, T b, T c) {
    return (a * x + b) * x + c;
  }
};
struct QuadraticGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x, T a, T b) {
    return g * (a * x + b);
  }
};

const MapFunction kQuadratic = MakeMapFunction<Quadratic, 4>();
const MapFunction kQuadraticGradient = MakeMapFunction<QuadraticGradient, 4>();
const MapFunction kTimes = MakeMapFunction<op::mul, 2>();

class QuadraticOperator final : public Operator {
 public:
  explicit QuadraticOperator(const QuadraticParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    MapCall(out_data[0], req[0])
        .Add(in_data[0])
        .Add(param_.a)
        .Add(param_.b)
        .Add(param_.c)
        .Run(kQuadratic, context);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    MapCall(in_grad[0], req[0])
        .Add(out_grad[0])
        .Add(in_data[0])
        .Add(2.0 * param_.a)
        .Add(param_.b)
        .Run(kQuadraticGradient, context);
  }

 private:
  const QuadraticParameters param_;
};

/// The gradient as a graph.
Term QuadraticGraph(const QuadraticParameters& param, const Term& g, const Term& x, const Term&) {
  return g * (x * (2.0 * param.a) + static_cast<double>(param.b));
}

class DivSqrtDimProperty final : public ParameterizedProperty<NoParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    MergeEqualShapes(*this, {{"data", &data}, {"output", &(*out_shape)[0]}});
    if (data.rank_known() && data.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": data is a scalar, expected at least one dimension");
    }
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
  bool BuildGradient(GradientBuilder* builder) const override {
    SetInGrad(builder, 0, Apply(TypeString(), {Term(builder, builder->OutGrad(0))}));
    return true;
  }
};

class DivSqrtDimOperator final : public Operator {
 public:
  explicit DivSqrtDimOperator(const NoParameters&) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    Divide(in_data[0], out_data[0], req[0], context);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    Divide(out_grad[0], in_grad[0], req[0], context);
  }

 private:
  static void Divide(const TBlob& from, const TBlob& to, OpReqType req, const OpContext& context) {
    const index_t extent = from.shape_[from.shape_.ndim() - 1];
    MapCall(to, req).Add(from).Add(1 / std::sqrt(static_cast<double>(extent))).Run(kTimes, context);
  }
};

[[maybe_unused]] const bool kRegisteredQuadratic =
    RegisterTypedOperator<FormulaProperty<QuadraticParameters, GradientOf::kInput, QuadraticGraph>,
                          QuadraticOperator>(TESSERA_TABLE_PLACE, "_contrib_quadratic",
                                             "a data^2 + b data + c, element by element.",
                                             TakenTypes::kAny);
[[maybe_unused]] const bool kRegisteredDivSqrtDim =
    RegisterTypedOperator<DivSqrtDimProperty, DivSqrtDimOperator>(
        TESSERA_TABLE_PLACE, "_contrib_div_sqrt_dim",
        "data, divided by the root of its last extent.");

}  // namespace
}  // namespace tessera
