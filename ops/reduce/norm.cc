// norm: the length of vectors along axes.
//
//   ord=2  y = sqrt(sum x^2)    d x = g x / y, 0 where y is 0: a subgradient, as in PyTorch
//   ord=1  y = sum |x|          d x = g sign(x)
//
// Shapes: data any; out without the reduced axes, or with extents of 1 there if keepdims; (1) if no
// axis is left; no axes or () are all. Types: data of any type; out of type `out_dtype`, else of
// data's. Squares are summed in float64, so that they do not overflow; absolute values in float32,
// float64 or int64.
#include <optional>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/loops/reduce_function.h"
#include "tessera/ops/loops/reducers.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the drivers

struct NormParameters {
  int64_t ord = 2;
  std::optional<std::vector<int>> axis;
  std::optional<DType> out_dtype;
  bool keepdims = false;

  static void Declare(ParameterSchema<NormParameters>& schema) {
    using P = NormParameters;
    schema.Optional("ord", &P::ord, "1 or 2: the sum of absolute values, or the Euclidean length");
    schema.Range(1, 2);
    schema.Optional("axis", &P::axis, "the axes to reduce; all if None or ()");
    schema.Choice("out_dtype", &P::out_dtype,
                  {{"None", std::nullopt},
                   {"bfloat16", DType::kBFloat16},
                   {"float16", DType::kFloat16},
                   {"float32", DType::kFloat32},
                   {"float64", DType::kFloat64},
                   {"int32", DType::kInt32},
                   {"int64", DType::kInt64},
                   {"int8", DType::kInt8}},
                  "element type of the output; data's if None");
    schema.Optional("keepdims", &P::keepdims, "whether reduced axes stay with extent 1");
  }
  ReducedAxes Axes(int ndim) const {
    return FindAxes("norm", axis.value_or(std::vector<int>()), /*exclude=*/false, ndim);
  }
};

class NormProperty final : public ParameterizedProperty<NormParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const TShape& data = (*in_shape)[0];
    if (!data.rank_known()) return false;
    MergeShape(*this, "output", &(*out_shape)[0],
               ReducedShape(data, param_.Axes(data.ndim()), param_.keepdims));
    return data.known() && (*out_shape)[0].known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    if (!param_.out_dtype) return OperatorProperty::InferType(in_type, out_type);
    DType& out = (*out_type)[0];
    if (out != DType::kUnknown && out != *param_.out_dtype) {
      throw InvalidArgument(TypeString(), ": output has element type ", out, ", expected ",
                            *param_.out_dtype);
    }
    out = *param_.out_dtype;
    return (*in_type)[0] != DType::kUnknown;
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    if (param_.ord == 1) return {out_grad[0], in_data[0]};
    return {out_grad[0], in_data[0], out_data[0]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    if (param_.out_dtype) return false;
    const Term x(builder, builder->Input(0)), g(builder, builder->OutGrad(0)),
        y(builder, builder->Output(0));
    // The gradient of a sum gives each of its elements a copy.
    const ParameterMap parameters = GetParams();
    const auto copies = [&](const Term& term) {
      return ApplyAdjoint({.op = "sum",
                           .parameters = {{"axis", parameters.at("axis")},
                                          {"keepdims", parameters.at("keepdims")}},
                           .out_grads = {term},
                           .inputs = {x}})
          .front();
    };
    if (param_.ord == 1) {
      SetInGrad(builder, 0, copies(g) * Apply("sign", {x}));
      return true;
    }
    const Term is_zero = IsEqual(y, 0);
    SetInGrad(builder, 0, copies(g * (1 - is_zero)) * (x / copies(y + is_zero)));
    return true;
  }
};

struct AbsoluteSumReducer : SumReducer {
  template <typename T>
  TESSERA_HD static T Map(T x) {
    return x < T(0) ? op::minus::Map(T(0), x) : x;
  }
};
/// The gradients of an element x, where the result is y and its gradient g.
struct AbsoluteSumGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x) {
    return x > T(0) ? g : x < T(0) ? -g : T(0);
  }
};
struct LengthGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x, T y) {
    return y == T(0) ? T(0) : g * (x / y);
  }
};

class NormOperator final : public Operator {
 public:
  explicit NormOperator(const NormParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    static const ReduceFunction square_sum = MakeReduceFunction<SquareSumReducer>();
    static const ReduceFunction absolute_sum = MakeReduceFunction<AbsoluteSumReducer>();
    const ReducedAxes axes = param_.Axes(in_data[0].shape_.ndim());
    if (param_.ord == 1) {
      Reduce(absolute_sum, in_data[0], axes, out_data[0], req[0], context);
    } else {
      Reduce(square_sum, in_data[0], axes, out_data[0], req[0], context, ReduceFinish::kSquareRoot,
             DType::kFloat64);
    }
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    static const MapFunction absolute_sum = MakeMapFunction<AbsoluteSumGradient, 2>();
    static const MapFunction length = MakeMapFunction<LengthGradient, 3>();
    const TBlob& data = in_data[0];
    const TShape kept = KeepingAxes(data.shape_, param_.Axes(data.shape_.ndim()));
    const bool in_double =
        data.type_flag_ == DType::kFloat64 || out_grad[0].type_flag_ == DType::kFloat64;
    const DType computed_in = in_double ? DType::kFloat64 : DType::kFloat32;
    MapCall call(in_grad[0], req[0]);
    call.Add(out_grad[0].reshape(kept)).Add(data);
    if (param_.ord == 1) {
      call.Run(absolute_sum, computed_in, context);
    } else {
      call.Add(out_data[0].reshape(kept)).Run(length, computed_in, context);
    }
  }

 private:
  const NormParameters param_;
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<NormProperty, NormOperator>(
    TESSERA_TABLE_PLACE, "norm", "The length of vectors along axes.", TakenTypes::kAny);

}  // namespace
}  // namespace tessera
