// Activation: an element-wise nonlinearity. Also hard_sigmoid and clip.
//
//   relu      max(x, 0)           gradient from y:  y > 0
//   sigmoid   1 / (1 + exp(-x))                     y (1 - y)
//   tanh      tanh(x)                               1 - y^2
//   softrelu  log(1 + exp(x))                       1 - exp(-y)
//   softsign  x / (1 + |x|)                         (1 - |y|)^2
//   hard_sigmoid  min(1, max(0, alpha x + beta))    alpha where 0 < y < 1
//   clip      min(a_max, max(a_min, x))             1 where a_min <= x <= a_max
//
// The gradients of all but clip are written in the output y, so that x may be overwritten: with |y|
// = |x| / (1 + |x|), softsign's 1 / (1 + |x|)^2 is (1 - |y|)^2. Shapes: any; out like data. Types:
// float32, float64, float16, bfloat16; clip all types. Integers are clipped exactly: a bound loses
// its fraction, and one that their type does not hold is the nearest that it holds.
#include <cmath>
#include <optional>

#include "tessera/ops/loops/formula_property.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the map driver

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

struct HardSigmoidParameters {
  float alpha = 0.2f;
  float beta = 0.5f;

  static void Declare(ParameterSchema<HardSigmoidParameters>& schema) {
    schema.Optional("alpha", &HardSigmoidParameters::alpha, "the slope");
    schema.Optional("beta", &HardSigmoidParameters::beta, "the value at 0");
  }
};

struct ClipParameters {
  Number a_min;
  Number a_max;

  static void Declare(ParameterSchema<ClipParameters>& schema) {
    schema.Required("a_min", &ClipParameters::a_min, "the smallest value");
    schema.Required("a_max", &ClipParameters::a_max, "the largest value");
  }
};

struct ReluGradient {
  /// NaN stays NaN, as in MXNet.
  template <typename T>
  TESSERA_HD static T Map(T g, T y) {
    return g * (y > T(0) ? T(1) : y);
  }
};
struct SigmoidGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T y) {
    return g * (y * (T(1) - y));
  }
};
struct TanhGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T y) {
    return g * (T(1) - y * y);
  }
};
struct SoftreluGradient : ThroughKernels<SoftreluGradient, 2, op::expm1> {
  template <typename T>
  TESSERA_HD static T Argument(T, T y) {
    return -y;
  }
  template <typename T>
  TESSERA_HD static T Result(T f, T g, T) {
    return -g * f;
  }
};
struct SoftsignGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T y) {
    const T rest = T(1) - op::abs::Map(y);
    return g * (rest * rest);
  }
};
struct HardSigmoid {
  template <typename T>
  TESSERA_HD static T Map(T x, T alpha, T beta) {
    const T y = alpha * x + beta;
    return y < T(0) ? T(0) : y > T(1) ? T(1) : y;
  }
};
struct HardSigmoidGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T y, T alpha) {
    return y > T(0) && y < T(1) ? g * alpha : T(0);
  }
};
struct Clip {
  template <typename T>
  TESSERA_HD static T Map(T x, T low, T high) {
    return x > high ? high : x < low ? low : x;
  }
};
struct ClipGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x, T low, T high) {
    return x >= low && x <= high ? g : T(0);
  }
};

/// A nonlinearity and its gradient from the head gradient and the output.
struct Nonlinearity {
  MapFunction value;
  MapFunction gradient;
};
template <typename Op, typename Gradient>
Nonlinearity Make() {
  return {MakeMapFunction<Op, 1>(), MakeMapFunction<Gradient, 2>()};
}
/// In the order of ActivationType.
const Nonlinearity kNonlinearities[] = {
    Make<op::relu, ReluGradient>(),         Make<op::sigmoid, SigmoidGradient>(),
    Make<op::tanh, TanhGradient>(),         Make<op::softrelu, SoftreluGradient>(),
    Make<op::softsign, SoftsignGradient>(),
};
const MapFunction kHardSigmoid = MakeMapFunction<HardSigmoid, 3>();
const MapFunction kHardSigmoidGradient = MakeMapFunction<HardSigmoidGradient, 3>();
/// Beside integers, Clip limits the bounds to the integers' type, ClipGradient compares with them.
template <typename Op, int kOperands>
MapFunction MakeClip(NumberBesideIntegers numbers) {
  MapFunction function = MakeMapFunction<Op, kOperands, MapTypes::kArithmetic>();
  function.numbers = numbers;
  return function;
}
const MapFunction kClip = MakeClip<Clip, 3>(NumberBesideIntegers::kSaturate);
const MapFunction kClipGradient = MakeClip<ClipGradient, 4>(NumberBesideIntegers::kExact);

class ActivationOperator final : public Operator {
 public:
  explicit ActivationOperator(const ActivationParameters& param)
      : function_(kNonlinearities[static_cast<size_t>(param.act_type)]) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    MapCall(out_data[0], req[0]).Add(in_data[0]).Run(function_.value, context);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    MapCall(in_grad[0], req[0]).Add(out_grad[0]).Add(out_data[0]).Run(function_.gradient, context);
  }

 private:
  const Nonlinearity& function_;
};

class HardSigmoidOperator final : public Operator {
 public:
  explicit HardSigmoidOperator(const HardSigmoidParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    MapCall(out_data[0], req[0])
        .Add(in_data[0])
        .Add(static_cast<double>(param_.alpha))
        .Add(static_cast<double>(param_.beta))
        .Run(kHardSigmoid, context);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    MapCall(in_grad[0], req[0])
        .Add(out_grad[0])
        .Add(out_data[0])
        .Add(static_cast<double>(param_.alpha))
        .Run(kHardSigmoidGradient, context);
  }

 private:
  const HardSigmoidParameters param_;
};

class ClipOperator final : public Operator {
 public:
  explicit ClipOperator(const ClipParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    MapCall(out_data[0], req[0])
        .Add(in_data[0])
        .Add(param_.a_min)
        .Add(param_.a_max)
        .Run(kClip, context);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    MapCall(in_grad[0], req[0])
        .Add(out_grad[0])
        .Add(in_data[0])
        .Add(param_.a_min)
        .Add(param_.a_max)
        .Run(kClipGradient, context);
  }

 private:
  const ClipParameters param_;
};

/// The gradients as graphs.
Term ActivationGraph(const ActivationParameters& param, const Term& g, const Term&, const Term& y) {
  switch (param.act_type) {
    case ActivationType::kRelu:
      return g * IsGreater(y, 0);
    case ActivationType::kSigmoid:
      return g * y * (1 - y);
    case ActivationType::kTanh:
      return g * (1 - y * y);
    case ActivationType::kSoftrelu:
      return -(g * Apply("expm1", {-y}));
    case ActivationType::kSoftsign:
      return g * Apply("square", {1 - Apply("abs", {y})});
  }
  return 0;
}
Term HardSigmoidGraph(const HardSigmoidParameters& param, const Term& g, const Term&,
                      const Term& y) {
  return g * static_cast<double>(param.alpha) * (IsGreater(y, 0) * IsLesser(y, 1));
}
Term ClipGraph(const ClipParameters& param, const Term& g, const Term& x, const Term&) {
  return g * (IsGreaterEqual(x, param.a_min) * IsLesserEqual(x, param.a_max));
}

/// Returns the form of the operators above.
std::optional<MapForm> ActivationForm(const ActivationParameters& param, bool is_gradient) {
  const Nonlinearity& function = kNonlinearities[static_cast<size_t>(param.act_type)];
  if (!is_gradient) return MapForm{&function.value, {MapForm::Input(0)}};
  return MapForm{&function.gradient, {MapForm::OutGrad(), MapForm::Output()}};
}
std::optional<MapForm> HardSigmoidForm(const HardSigmoidParameters& param, bool is_gradient) {
  const MapForm::Operand alpha = MapForm::Of(static_cast<double>(param.alpha));
  const MapForm::Operand beta = MapForm::Of(static_cast<double>(param.beta));
  if (!is_gradient) return MapForm{&kHardSigmoid, {MapForm::Input(0), alpha, beta}};
  return MapForm{&kHardSigmoidGradient, {MapForm::OutGrad(), MapForm::Output(), alpha}};
}
std::optional<MapForm> ClipForm(const ClipParameters& param, bool is_gradient) {
  const MapForm::Operand x = MapForm::Input(0);
  const MapForm::Operand low = MapForm::Of(param.a_min), high = MapForm::Of(param.a_max);
  if (!is_gradient) return MapForm{&kClip, {x, low, high}};
  return MapForm{&kClipGradient, {MapForm::OutGrad(), x, low, high}};
}

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<
        FormulaProperty<ActivationParameters, GradientOf::kOutput, ActivationGraph, ActivationForm>,
        ActivationOperator>(
        TESSERA_TABLE_PLACE, "Activation",
        "An element-wise nonlinearity: relu, sigmoid, tanh, softrelu or softsign."),
    RegisterTypedOperator<FormulaProperty<HardSigmoidParameters, GradientOf::kOutput,
                                          HardSigmoidGraph, HardSigmoidForm>,
                          HardSigmoidOperator>(TESSERA_TABLE_PLACE, "hard_sigmoid",
                                               "alpha * data + beta, limited to [0, 1]."),
    RegisterTypedOperator<FormulaProperty<ClipParameters, GradientOf::kInput, ClipGraph, ClipForm>,
                          ClipOperator>(TESSERA_TABLE_PLACE, "clip",
                                        "data limited to [a_min, a_max].", TakenTypes::kAny),
};

}  // namespace
}  // namespace tessera
