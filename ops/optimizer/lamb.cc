// LAMB (You et al. 2019) in two steps, between which the caller computes norms:
//
//   lamb_update_phase1  g = clip(rescale_grad * grad, clip_gradient)
//                       mean = beta1 * mean + (1 - beta1) * g
//                       var = beta2 * var + (1 - beta2) * g^2
//                       out = m / (sqrt(v) + epsilon) + wd * weight
//     m, v: mean and var; with bias_correction mean / (1 - beta1^t), var / (1 - beta2^t)
//   lamb_update_phase2  weight -= lr * r * g;  r = 1 if r1 or r2 is 0, else
//                       min(max(r1, lower_bound), upper_bound) / r2
//
// g is the first step's output, r1 the norm of the weight and r2 that of g. Both steps at once, for
// several weights with rates, decays and numbers of steps of their own:
//
//   _multi_lamb_update     inputs weight_0, grad_0, mean_0, var_0, weight_1, …
//   _multi_mp_lamb_update  weight_0, grad_0, mean_0, var_0, weight32_0, weight_1, …
//
// Negative bounds are none. Shapes: any, all arrays of a weight alike; r1 and r2 (1). Types:
// float32, float64, float16, bfloat16, one for all. mp_… compute in float32: weight32 is read in
// place of the weight, and changes with it (in two steps, in the second); mean, var, g, r1 and r2
// are float32. In _multi_mp_lamb_update r1 is the norm of the weight, not of weight32, and a
// float32 weight has no use for weight32, which then does not change. There is no gradient. All but
// the first step read norms on the host, so they run on the CPU alone.
#include <algorithm>
#include <cmath>

#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/optimizer/multi_step.h"
#include "tessera/ops/optimizer/step_function.h"
#include "tessera/ops/optimizer/update.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the driver of steps

/// Declares the parameters of the direction that one and several weights share.
template <typename P>
void DeclareDecays(ParameterSchema<P>& schema) {
  schema.template Optional<float>("beta1", &P::beta1, "decay of the mean");
  schema.template Optional<float>("beta2", &P::beta2, "decay of the variance");
  schema.template Optional<float>("epsilon", &P::epsilon,
                                  "added to the square root of the variance");
}
template <typename P>
void DeclareBounds(ParameterSchema<P>& schema) {
  schema.template Optional<float>("lower_bound", &P::lower_bound,
                                  "least norm of the weight; none if negative");
  schema.template Optional<float>("upper_bound", &P::upper_bound,
                                  "largest norm of the weight; none if negative");
}
template <typename P>
void DeclareCorrection(ParameterSchema<P>& schema) {
  schema.template Optional<bool>("bias_correction", &P::bias_correction,
                                 "correct for the states' start at 0");
}

struct Phase1Parameters : LambRule {
  static void Declare(ParameterSchema<Phase1Parameters>& schema) {
    using P = Phase1Parameters;
    DeclareDecays(schema);
    schema.Required<int>("t", &P::t, "the number of this step, from 1");
    schema.Range(1);
    DeclareCorrection(schema);
    schema.Required<float>("wd", &P::wd, "weight decay");
    schema.Optional<float>("rescale_grad", &P::rescale_grad, "factor of the gradient");
    schema.Optional<float>("clip_gradient", &P::clip_gradient,
                           "bound of a gradient's element; none if negative");
  }
};

template <typename T>
struct Phase1 {
  using Parameters = Phase1Parameters;
  static constexpr std::array<const char*, 2> kStates = {"mean", "var"};
  static constexpr index_t kCost = 8;
  ClippedGradient<T> clipped;
  T beta1, beta2, epsilon, wd, mean_factor = 1, var_factor = 1;

  explicit Phase1(const LambRule& p)
      : clipped(p.rescale_grad, p.clip_gradient),
        beta1(static_cast<T>(p.beta1)),
        beta2(static_cast<T>(p.beta2)),
        epsilon(static_cast<T>(p.epsilon)),
        wd(static_cast<T>(p.wd)) {
    if (!p.bias_correction) return;
    // Factors instead of divisors: division takes most of the time where memory is fast.
    mean_factor = static_cast<T>(1 / (1 - std::pow(double{p.beta1}, p.t)));
    var_factor = static_cast<T>(1 / (1 - std::pow(double{p.beta2}, p.t)));
  }
  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    const T g = clipped(grad);
    state[0] = Scaled(beta1, state[0]) + (T(1) - beta1) * g;
    state[1] = Scaled(beta2, state[1]) + (T(1) - beta2) * g * g;
    return state[0] * mean_factor / (std::sqrt(state[1] * var_factor) + epsilon) +
           Scaled(wd, weight);
  }
};

class MasterPhase1Property final : public ParameterizedProperty<Phase1Parameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return {"weight", "grad", "mean", "var", "weight32"};
  }
  std::vector<int> MutatedInputs() const override { return {2, 3}; }
  bool HasGradient() const override { return false; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferStepShape(*this, ListArguments(), 0, 5, in_shape, &(*out_shape)[0]);
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MeetType(*this, "output", &(*out_type)[0], DType::kFloat32);
    DType weight = DType::kUnknown;
    return InferMasterStepTypes(*this, ListArguments(), 0, 5, in_type, &weight);
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[4], out_data[0]}};
  }
};

class MasterPhase1Operator final : public Operator {
 public:
  explicit MasterPhase1Operator(const Phase1Parameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const TBlob arrays[] = {in_data[4], in_data[1], in_data[2], in_data[3]};
    const StepArguments arguments =
        MakeStepArguments(arrays, req[0], out_data[0], req.subspan(1), 2);
    RunStepsOfTypes<Phase1, false>(
        {&arguments, 1}, [&]<typename T>(T, size_t) { return Phase1<T>(param_); }, context);
  }

 private:
  const Phase1Parameters param_;
};

[[maybe_unused]] const bool kPhase1[] = {
    RegisterStep<Phase1>(TESSERA_TABLE_PLACE, "lamb_update_phase1",
                         "The first step of LAMB: the direction."),
    RegisterTypedOperator<MasterPhase1Property, MasterPhase1Operator>(
        TESSERA_TABLE_PLACE, "mp_lamb_update_phase1",
        "The first step of LAMB on a float32 copy of the weight: the direction."),
};

#if !defined(TESSERA_XPU_GPU)

struct Phase2Parameters : LambRule {
  static void Declare(ParameterSchema<Phase2Parameters>& schema) {
    schema.Required<float>("lr", &Phase2Parameters::lr, "learning rate");
    DeclareBounds(schema);
  }
};

/// Returns the learning rate times the ratio of the norms of the weight and of the direction.
double AdaptedRate(const LambRule& rule, double weight_norm, double direction_norm) {
  if (rule.lower_bound >= 0) weight_norm = std::max(weight_norm, double{rule.lower_bound});
  if (rule.upper_bound >= 0) weight_norm = std::min(weight_norm, double{rule.upper_bound});
  const double lr = double{rule.lr};
  return weight_norm == 0 || direction_norm == 0 ? lr : lr * weight_norm / direction_norm;
}

/// weight - rate * g.
template <typename T>
struct Phase2 {
  static constexpr std::array<const char*, 0> kStates = {};
  static constexpr index_t kCost = 0;
  T rate;
  TESSERA_HD T operator()(T weight, T g, T*) const { return weight - rate * g; }
};

template <bool kMaster>
class Phase2Property final : public ParameterizedProperty<Phase2Parameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (kMaster) return {"weight", "g", "r1", "r2", "weight32"};
    return {"weight", "g", "r1", "r2"};
  }
  std::vector<int> MutatedInputs() const override {
    if (kMaster) return {4};
    return {};
  }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    std::vector<TShape>& in = *in_shape;
    MergeShape(*this, "r1", &in[2], {1});
    MergeShape(*this, "r2", &in[3], {1});
    if (kMaster) MergeShape(*this, "weight32", &in[4], in[0]);
    if (kMaster) MergeShape(*this, "weight", &in[0], in[4]);
    const bool known = InferStepShape(*this, ListArguments(), 0, 2, in_shape, &(*out_shape)[0]);
    if (kMaster) MergeShape(*this, "weight32", &in[4], in[0]);
    return known;
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    if (!kMaster) return OperatorProperty::InferType(in_type, out_type);
    std::vector<DType>& in = *in_type;
    MeetType(*this, "g", &in[1], DType::kFloat32);
    MeetType(*this, "r1", &in[2], DType::kFloat32);
    MeetType(*this, "r2", &in[3], DType::kFloat32);
    MeetType(*this, "weight32", &in[4], DType::kFloat32);
    MeetType(*this, "output", &(*out_type)[0], in[0]);
    in[0] = (*out_type)[0];
    return in[0] != DType::kUnknown;
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
};

template <bool kMaster>
class Phase2Operator final : public Operator {
 public:
  explicit Phase2Operator(const Phase2Parameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const TBlob arrays[] = {in_data[0], in_data[1], in_data[kMaster ? 4 : 0]};
    const StepArguments arguments =
        MakeStepArguments(arrays, req[0], out_data[0], req.subspan(1), kMaster ? 1 : 0);
    const double rate =
        AdaptedRate(param_, RowReader<double>(in_data[2])[0], RowReader<double>(in_data[3])[0]);
    RunStepsOfTypes<Phase2, kMaster>(
        {&arguments, 1}, [&]<typename T>(T, size_t) { return Phase2<T>{static_cast<T>(rate)}; },
        context);
  }

 private:
  const Phase2Parameters param_;
};

[[maybe_unused]] const bool kPhase2[] = {
    RegisterTypedOperator<Phase2Property<false>, Phase2Operator<false>>(
        TESSERA_TABLE_PLACE, "lamb_update_phase2",
        "The second step of LAMB: the weight, by the ratio of norms."),
    RegisterTypedOperator<Phase2Property<true>, Phase2Operator<true>>(
        TESSERA_TABLE_PLACE, "mp_lamb_update_phase2",
        "The second step of LAMB on a float32 copy of the weight."),
};

/// Both steps at once: weight - rate * direction.
template <typename T>
struct LambStep {
  static constexpr std::array<const char*, 2> kStates = Phase1<T>::kStates;
  static constexpr index_t kCost = Phase1<T>::kCost;
  Phase1<T> direction;
  T rate;
  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    return weight - rate * direction(weight, grad, state);
  }
};

/// Measures the directions, then takes the steps. The first pass writes nothing.
template <bool kMaster>
void RunLamb(std::span<const LambRule> rules, std::span<const StepArguments> arguments,
             const OpContext& context) {
  const std::vector<StepSquares> squares = MeasureSteps<Phase1, kMaster>(
      arguments, [&]<typename T>(T, size_t i) { return Phase1<T>(rules[i]); });
  RunStepsOfTypes<LambStep, kMaster>(
      arguments,
      [&]<typename T>(T, size_t i) {
        const double rate =
            AdaptedRate(rules[i], std::sqrt(squares[i].weight), std::sqrt(squares[i].out));
        return LambStep<T>{Phase1<T>(rules[i]), static_cast<T>(rate)};
      },
      context);
}

void UpdateLamb(std::span<const LambRule> rules, std::span<const StepArguments> arguments,
                bool master, const OpContext& context) {
  if (master) {
    RunLamb<true>(rules, arguments, context);
  } else {
    RunLamb<false>(rules, arguments, context);
  }
}

[[maybe_unused]] const auto kProvided =
    (UpdateFunctionOf<LambRule>(TESSERA_TABLE_DEVICE) = &UpdateLamb);

template <bool kMaster>
struct MultiLambParameters : LambRule {
  std::vector<float> learning_rates;
  std::vector<float> wds;
  std::vector<int> step_count;
  int num_tensors = 1;

  static void Declare(ParameterSchema<MultiLambParameters>& schema) {
    using P = MultiLambParameters;
    schema.Required("learning_rates", &P::learning_rates, "each weight's learning rate");
    DeclareDecays(schema);
    schema.Required("wds", &P::wds, "each weight's decay");
    schema.template Optional<float>("rescale_grad", &P::rescale_grad, "factor of the gradients");
    DeclareBounds(schema);
    schema.template Optional<float>("clip_gradient", &P::clip_gradient,
                                    "bound of a gradient's element; none if negative");
    DeclareCorrection(schema);
    schema.Required("step_count", &P::step_count, "the number of each weight's step, from 1");
    schema.Optional("num_tensors", &P::num_tensors, "number of weights");
    schema.Range(1, 1 << 20);
  }
  void Check(const OperatorProperty& property) const {
    CheckNumberOf(property, "learning_rates", learning_rates.size(), "num_tensors", num_tensors);
    CheckNumberOf(property, "wds", wds.size(), "num_tensors", num_tensors);
    CheckNumberOf(property, "step_count", step_count.size(), "num_tensors", num_tensors);
    for (const int t : step_count) {
      if (t >= 1) continue;
      throw InvalidArgument(property.TypeString(), ": parameter step_count has ", t,
                            ", expected numbers from 1");
    }
  }
  MultiStepLayout Layout() const {
    return {.num_weights = num_tensors, .states = Phase1<float>::kStates, .master = kMaster};
  }
  LambRule OfWeight(size_t i) const {
    LambRule one = *this;
    one.lr = learning_rates[i];
    one.wd = wds[i];
    one.t = step_count[i];
    return one;
  }
};

template <bool kMaster>
class MultiLambOperator final : public Operator {
 public:
  explicit MultiLambOperator(const MultiLambParameters<kMaster>& param) : param_(param) {
    for (int i = 0; i < param_.num_tensors; ++i) {
      rules_.push_back(param_.OfWeight(static_cast<size_t>(i)));
    }
  }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    RunLamb<kMaster>(rules_, param_.Layout().Arguments(in_data, req, out_data), context);
  }

 private:
  const MultiLambParameters<kMaster> param_;
  std::vector<LambRule> rules_;
};

[[maybe_unused]] const bool kMulti[] = {
    RegisterTypedOperator<MultiStepProperty<MultiLambParameters<false>>, MultiLambOperator<false>>(
        TESSERA_TABLE_PLACE, "_multi_lamb_update", "One step of LAMB for each of several weights."),
    RegisterTypedOperator<MultiStepProperty<MultiLambParameters<true>>, MultiLambOperator<true>>(
        TESSERA_TABLE_PLACE, "_multi_mp_lamb_update",
        "One step of LAMB on float32 copies of several weights."),
};

#endif  // !TESSERA_XPU_GPU

}  // namespace
}  // namespace tessera
