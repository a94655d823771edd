// LeakyReLU: rectifiers that let negative numbers through.
//
//   leaky  x > 0 ? x : slope x                       gradient factor  1 or slope
//   prelu  x > 0 ? x : gamma x                                        1 or gamma
//   rrelu  x > 0 ? x : m x, m uniform in [lower_bound, upper_bound)   1 or m
//   elu    x > 0 ? x : slope (exp(x) - 1)                             1 or slope exp(x)
//   selu   l (x > 0 ? x : a (exp(x) - 1))                             l or l a exp(x)
//   gelu   x P(x), P the normal distribution's                        P(x) + x p(x)
//
// gamma is a vector along axis 1, or of one element, or a matrix along axes 0 and 1, or broadcasts
// to data; its gradient is the sum of g x where x <= 0. rrelu has a second output, `mask`, with the
// factors m; outside of training m is (lower_bound + upper_bound) / 2.
//
// Shapes: any; out and mask like data. Types: float32, float64, float16, bfloat16.
#include <cmath>
#include <cstdint>
#include <optional>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/loops/reduce_function.h"
#include "tessera/ops/loops/reducers.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/xpu.h"
#include "tessera/tensor/functors.h"
#include "tessera/tensor/random.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the drivers

enum class LeakyType { kLeaky, kPrelu, kRrelu, kElu, kSelu, kGelu };

struct LeakyReLUParameters {
  LeakyType act_type = LeakyType::kLeaky;
  float slope = 0.25f;
  float lower_bound = 0.125f;
  float upper_bound = 0.334f;

  static void Declare(ParameterSchema<LeakyReLUParameters>& schema) {
    using P = LeakyReLUParameters;
    schema.Choice("act_type", &P::act_type,
                  {{"elu", LeakyType::kElu},
                   {"gelu", LeakyType::kGelu},
                   {"leaky", LeakyType::kLeaky},
                   {"prelu", LeakyType::kPrelu},
                   {"rrelu", LeakyType::kRrelu},
                   {"selu", LeakyType::kSelu}},
                  "which function");
    schema.Optional("slope", &P::slope, "factor of negative numbers, for leaky and elu");
    schema.Optional("lower_bound", &P::lower_bound, "smallest random slope, for rrelu");
    schema.Optional("upper_bound", &P::upper_bound, "bound of the random slope, for rrelu");
  }
};

// The constants of G. Klambauer et al., Self-Normalizing Neural Networks (2017), equation 14.
constexpr double kSeluSlope = 1.6732632423543772;
constexpr double kSeluScale = 1.0507009873554805;

constexpr double kInverseRootOfTwoPi = 0.3989422804014327;

/// Returns whether an extent can be broadcast to another one; an unknown one can.
bool Fits(index_t small, index_t large) {
  return small == 1 || small == large || small == TShape::kUnknown || large == TShape::kUnknown;
}

/// Returns whether gamma is a matrix along data's axes 0 and 1.
bool LiesInFront(const TShape& gamma, const TShape& data) {
  return gamma.ndim() == 2 && data.ndim() > 2 && Fits(gamma[0], data[0]) && Fits(gamma[1], data[1]);
}

class LeakyReLUProperty final : public ParameterizedProperty<LeakyReLUParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (param_.act_type == LeakyType::kPrelu) return {"data", "gamma"};
    return {"data"};
  }
  std::vector<std::string> ListOutputs() const override {
    if (IsRandom()) return {"output", "mask"};
    return {"output"};
  }
  Purity purity() const override { return IsRandom() ? Purity::kRandom : Purity::kPure; }
  std::optional<double> InitialValue(int argument) const override {
    if (argument == 0) return std::nullopt;
    return 0.25;  // MXNet's for gamma
  }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    if (IsRandom()) {
      MergeEqualShapes(*this, {{"data", &data}, {"output", &out}, {"mask", &(*out_shape)[1]}});
    } else {
      MergeEqualShapes(*this, {{"data", &data}, {"output", &out}});
    }
    if (param_.act_type != LeakyType::kPrelu) return data.known();
    TShape& gamma = (*in_shape)[1];
    if (!data.rank_known()) return false;
    if (data.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": data is a scalar, expected at least one dimension");
    }
    const index_t channels = data.ndim() > 1 ? data[1] : 1;
    if (!gamma.rank_known()) gamma = {channels};
    if (gamma.ndim() == 1) {
      if (gamma[0] != 1) {
        MergeShape(*this, "gamma", &gamma, {channels});
        if (data.ndim() > 1) {
          data[1] = gamma[0];
          out[1] = gamma[0];
        }
      }
    } else if (!LiesInFront(gamma, data) && !Broadcasts(gamma, data)) {
      throw InvalidArgument(TypeString(), ": gamma has shape ", gamma, ", expected (", channels,
                            ",), (1,) or a shape that broadcasts to that of data, ", data);
    }
    return data.known() && gamma.known();
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    std::vector<int> needed = {out_grad[0], in_data[0]};
    if (param_.act_type == LeakyType::kPrelu) needed.push_back(in_data[1]);
    if (IsRandom()) needed.push_back(out_data[1]);
    return needed;
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    // gamma's gradient reads the head gradient after data's is written.
    if (param_.act_type == LeakyType::kPrelu) return {};
    return {{out_grad[0], in_grad[0]}};
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    if (!IsRandom()) return {};
    return {{ResourceRequest::Type::kRandom}, {ResourceRequest::Type::kTempSpace}};
  }
  std::vector<ResourceRequest> BackwardResource(std::span<const TShape>) const override {
    if (param_.act_type != LeakyType::kPrelu) return {};
    return {{ResourceRequest::Type::kTempSpace}};
  }

  bool BuildGradient(GradientBuilder* builder) const override {
    const Term g(builder, builder->OutGrad(0)), x(builder, builder->Input(0));
    if (param_.act_type == LeakyType::kGelu) {
      const Term probability = 0.5 * (1 + Apply("erf", {x * M_SQRT1_2}));
      const Term density = kInverseRootOfTwoPi * Apply("exp", {x * x * -0.5});
      // The density is 0 beyond 40, where an infinite x would make the product NaN.
      const Term bounded = Apply("clip", {x}, {{"a_min", "-40"}, {"a_max", "40"}});
      SetInGrad(builder, 0, g * (probability + bounded * density));
      return true;
    }
    const Term positive = IsGreater(x, 0), rest = 1 - positive;
    const auto elu = [&](double slope, double scale) {
      // The exponential of a large number times 0 would be NaN.
      const Term exponential = Apply("exp", {Apply("_minimum_scalar", {x}, {{"scalar", "0"}})});
      SetInGrad(builder, 0, g * scale * (positive + rest * slope * exponential));
    };
    switch (param_.act_type) {
      case LeakyType::kElu:
        elu(static_cast<double>(param_.slope), 1);
        break;
      case LeakyType::kSelu:
        elu(kSeluSlope, kSeluScale);
        break;
      case LeakyType::kRrelu:
        SetInGrad(builder, 0, g * (positive + rest * Term(builder, builder->Output(1))));
        break;
      case LeakyType::kPrelu:
        BuildPreluGradient(builder, g, x, positive, rest);
        break;
      default:
        SetInGrad(builder, 0, g * (positive + rest * static_cast<double>(param_.slope)));
        break;
    }
    return true;
  }
  std::optional<MapForm> ForwardForm() const override;
  std::optional<MapForm> GradientForm(int argument) const override;

 protected:
  void CheckParameters() override {
    if (IsRandom() && !(param_.lower_bound <= param_.upper_bound)) {
      throw InvalidArgument(TypeString(), ": lower_bound is ", param_.lower_bound,
                            ", expected at most upper_bound, ", param_.upper_bound);
    }
  }

 private:
  bool IsRandom() const { return param_.act_type == LeakyType::kRrelu; }

  /// The operator at -1 is linear in gamma, of which it gives the negative copies.
  void BuildPreluGradient(GradientBuilder* builder, const Term& g, const Term& x,
                          const Term& positive, const Term& rest) const {
    const Term gamma(builder, builder->Input(1)), minus_one = -Apply("ones_like", {x});
    const Term copies = -Apply(TypeString(), {minus_one, gamma}, GetParams());
    SetInGrad(builder, 0, g * (positive + rest * copies));
    const std::vector<Term> of_gamma = ApplyAdjoint({.op = TypeString(),
                                                     .parameters = GetParams(),
                                                     .out_grads = {-(g * x * rest)},
                                                     .inputs = {minus_one, gamma},
                                                     .argument = 1});
    SetInGrad(builder, 1, of_gamma.front());
  }

  static bool Broadcasts(const TShape& gamma, const TShape& data) {
    if (gamma.ndim() > data.ndim()) return false;
    for (int i = 1; i <= gamma.ndim(); ++i) {
      if (!Fits(gamma[gamma.ndim() - i], data[data.ndim() - i])) return false;
    }
    return true;
  }
};

/// x > 0 ? x : slope * x.
struct Leaky {
  template <typename T>
  TESSERA_HD static T Map(T x, T slope) {
    return x > T(0) ? x : x * slope;
  }
};
struct LeakyGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x, T slope) {
    return x > T(0) ? g : g * slope;
  }
};
/// The summand of gamma's gradient.
struct SlopeGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x) {
    return x > T(0) ? T(0) : g * x;
  }
};
/// scale * (x > 0 ? x : slope * (exp(x) - 1)).
struct Elu : ThroughKernels<Elu, 3, op::expm1> {
  template <typename T>
  TESSERA_HD static T Argument(T x, T, T) {
    return x;
  }
  template <typename T>
  TESSERA_HD static T Result(T f, T x, T slope, T scale) {
    return scale * (x > T(0) ? x : slope * f);
  }
};
struct EluGradient : ThroughKernels<EluGradient, 4, op::exp> {
  template <typename T>
  TESSERA_HD static T Argument(T, T x, T, T) {
    return x;
  }
  template <typename T>
  TESSERA_HD static T Result(T f, T g, T x, T slope, T scale) {
    return g * scale * (x > T(0) ? T(1) : slope * f);
  }
};
struct GeluGradient : ThroughKernels<GeluGradient, 2, op::gelu_grad> {
  template <typename T>
  TESSERA_HD static T Argument(T, T x) {
    return x;
  }
  template <typename T>
  TESSERA_HD static T Result(T f, T g, T) {
    return g * f;
  }
};

const MapFunction kLeaky = MakeMapFunction<Leaky, 2>();
const MapFunction kLeakyGradient = MakeMapFunction<LeakyGradient, 3>();
const MapFunction kSlopeGradient = MakeMapFunction<SlopeGradient, 2>();
const MapFunction kElu = MakeMapFunction<Elu, 3>();
const MapFunction kEluGradient = MakeMapFunction<EluGradient, 4>();
const MapFunction kGelu = MakeMapFunction<op::gelu, 1>();
const MapFunction kGeluGradient = MakeMapFunction<GeluGradient, 2>();
const MapFunction kCopy = MakeMapFunction<op::identity, 1>();
const ReduceFunction kSum = MakeReduceFunction<SumReducer>();

// prelu has none: its gamma may lie along other axes than broadcasting aligns, and its gradient is
// a sum. rrelu is random.
std::optional<MapForm> LeakyReLUProperty::ForwardForm() const {
  const MapForm::Operand x = MapForm::Input(0), slope = MapForm::Of(param_.slope);
  switch (param_.act_type) {
    case LeakyType::kLeaky:
      return MapForm{&kLeaky, {x, slope}};
    case LeakyType::kElu:
      return MapForm{&kElu, {x, slope, MapForm::Of(1.0)}};
    case LeakyType::kSelu:
      return MapForm{&kElu, {x, MapForm::Of(kSeluSlope), MapForm::Of(kSeluScale)}};
    case LeakyType::kGelu:
      return MapForm{&kGelu, {x}};
    default:
      return std::nullopt;
  }
}

std::optional<MapForm> LeakyReLUProperty::GradientForm(int) const {
  const MapForm::Operand g = MapForm::OutGrad(), x = MapForm::Input(0),
                         slope = MapForm::Of(param_.slope);
  switch (param_.act_type) {
    case LeakyType::kLeaky:
      return MapForm{&kLeakyGradient, {g, x, slope}};
    case LeakyType::kElu:
      return MapForm{&kEluGradient, {g, x, slope, MapForm::Of(1.0)}};
    case LeakyType::kSelu:
      return MapForm{&kEluGradient, {g, x, MapForm::Of(kSeluSlope), MapForm::Of(kSeluScale)}};
    case LeakyType::kGelu:
      return MapForm{&kGeluGradient, {g, x}};
    default:
      return std::nullopt;
  }
}

class LeakyReLUOperator final : public Operator {
 public:
  explicit LeakyReLUOperator(const LeakyReLUParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (param_.act_type == LeakyType::kRrelu) return ForwardRandom(context, in_data, req, out_data);
    MapCall call(out_data[0], req[0]);
    call.Add(in_data[0]);
    switch (param_.act_type) {
      case LeakyType::kPrelu:
        return call.Add(Gamma(in_data[1], in_data[0].shape_)).Run(kLeaky, context);
      case LeakyType::kElu:
        return call.Add(param_.slope).Add(1.0).Run(kElu, context);
      case LeakyType::kSelu:
        return call.Add(kSeluSlope).Add(kSeluScale).Run(kElu, context);
      case LeakyType::kGelu:
        return call.Run(kGelu, context);
      default:
        return call.Add(param_.slope).Run(kLeaky, context);
    }
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    MapCall call(in_grad[0], req[0]);
    call.Add(out_grad[0]).Add(in_data[0]);
    switch (param_.act_type) {
      case LeakyType::kPrelu: {
        const TBlob gamma = Gamma(in_data[1], in_data[0].shape_);
        call.Add(gamma).Run(kLeakyGradient, context);
        return GammaGradient(context, out_grad[0], in_data[0], gamma.shape_, req[1], in_grad[1]);
      }
      case LeakyType::kRrelu:
        return call.Add(out_data[1]).Run(kLeakyGradient, context);
      case LeakyType::kElu:
        return call.Add(param_.slope).Add(1.0).Run(kEluGradient, context);
      case LeakyType::kSelu:
        return call.Add(kSeluSlope).Add(kSeluScale).Run(kEluGradient, context);
      case LeakyType::kGelu:
        return call.Run(kGeluGradient, context);
      default:
        return call.Add(param_.slope).Run(kLeakyGradient, context);
    }
  }

  std::optional<int64_t> ForwardWorkspaceBytes(int, std::span<const TBlob> in_data,
                                               std::span<const OpReqType> req,
                                               std::span<const TBlob>) const override {
    if (param_.act_type != LeakyType::kRrelu || WritesSlopes(req)) return 0;
    return in_data[0].Size() * DTypeSizeBytes(in_data[0].type_flag_);
  }
  std::optional<int64_t> BackwardWorkspaceBytes(int, std::span<const TBlob>,
                                                std::span<const TBlob> in_data,
                                                std::span<const TBlob>,
                                                std::span<const OpReqType> req,
                                                std::span<const TBlob>) const override {
    if (param_.act_type != LeakyType::kPrelu || req[1] == kNullOp) return 0;
    const TBlob& x = in_data[0];
    return x.Size() * DTypeSizeBytes(ComputedIn(kSlopeGradient, x.type_flag_));
  }

 private:
  /// Returns gamma with a shape that broadcasts to that of data.
  static TBlob Gamma(const TBlob& gamma, const TShape& data) {
    if (LiesInFront(gamma.shape_, data)) {
      TShape shape = TShape::OfRank(data.ndim());
      for (int i = 0; i < shape.ndim(); ++i) shape[i] = i < 2 ? gamma.shape_[i] : 1;
      return gamma.reshape(shape);
    }
    if (gamma.shape_.ndim() != 1 || data.ndim() < 3) return gamma;
    TShape shape = TShape::OfRank(data.ndim() - 1);
    for (int i = 0; i < shape.ndim(); ++i) shape[i] = i == 0 ? gamma.shape_[0] : 1;
    return gamma.reshape(shape);
  }

  static bool WritesSlopes(std::span<const OpReqType> req) {
    return req[1] == kWriteTo || req[1] == kWriteInplace;
  }

  void ForwardRandom(const OpContext& context, std::span<const TBlob> in_data,
                     std::span<const OpReqType> req, std::span<const TBlob> out_data) const {
    const TBlob& data = in_data[0];
    TBlob slopes = out_data[1];
    if (!WritesSlopes(req)) {
      slopes = WorkspaceArray<xpu>(context, 1, data.shape_, data.type_flag_, data.device_);
    }
    if (!context.is_train) {
      MapCall(slopes, kWriteTo)
          .Add((static_cast<double>(param_.lower_bound) + param_.upper_bound) / 2)
          .Run(kCopy, context);
    } else {
      auto* const stream = context.get_stream<xpu>();
      auto random = context.requested[0]->template get_random<xpu>(stream);
      VisitRealDType(data.type_flag_, "LeakyReLU", [&](auto tag) {
        auto rows = slopes.FlatTo1D<xpu, typename decltype(tag)::type>(stream);
        random.SampleUniform(&rows, param_.lower_bound, param_.upper_bound);
      });
    }
    MapCall(out_data[0], req[0]).Add(data).Add(slopes).Run(kLeaky, context);
    if (req[1] == kAddTo) MapCall(out_data[1], kAddTo).Add(slopes).Run(kCopy, context);
  }

  /// Sums g x over the negative x of each element of gamma, whose shape broadcasts to that of data.
  static void GammaGradient(const OpContext& context, const TBlob& g, const TBlob& x,
                            const TShape& gamma, OpReqType req, const TBlob& gradient) {
    if (req == kNullOp) return;
    const DType computed = ComputedIn(kSlopeGradient, x.type_flag_);
    const TBlob terms = WorkspaceArray<xpu>(context, 0, x.shape_, computed, x.device_);
    MapCall(terms, kWriteTo).Add(g).Add(x).Run(kSlopeGradient, context);
    Reduce(kSum, terms, BroadcastAxes(x.shape_, gamma), gradient, req, context);
  }

  const LeakyReLUParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<LeakyReLUProperty, LeakyReLUOperator>(
        TESSERA_TABLE_PLACE, "LeakyReLU",
        "A rectifier that lets negative numbers through: leaky, prelu, rrelu and kin.");

}  // namespace
}  // namespace tessera
