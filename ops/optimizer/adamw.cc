// AdamW (Loshchilov and Hutter 2019, algorithm 2), whose weight decay is no part of the gradient:
//
//   g = clip(rescale_grad * grad, clip_gradient)
//   mean = beta1 * mean + (1 - beta1) * g;  var = beta2 * var + (1 - beta2) * g^2
//   weight -= eta * (lr * mean / (sqrt(var) + epsilon) + wd * weight)
//
//   _adamw_update           inputs weight, grad, mean, var, rescale_grad
//   _mp_adamw_update        weight, grad, mean, var, weight32, rescale_grad
//   _multi_adamw_update     weight_0, grad_0, mean_0, var_0, weight_1, …, rescale_grad
//   _multi_mp_adamw_update  weight_0, grad_0, mean_0, var_0, weight32_0, weight_1, …, rescale_grad
//
// rescale_grad is an array of one number. If that is 0, infinite or NaN, as after an overflow in
// training with 16-bit types, the step is left out: outputs are the weights, and states stay. A
// negative bound turns clipping off. Outputs are the new weights, usually in the weights' memory.
// Shapes: the arrays of one weight have one shape; rescale_grad (1). Types: float32, float64,
// float16, bfloat16, one for all; mp_… computes in float32 with weight32, a copy of the weight,
// which changes, and mean, var and weight32 are float32. In _multi_mp_adamw_update a float32 weight
// has no use for weight32, which then does not change. rescale_grad is float32. There is no
// gradient. rescale_grad is read on the host, so the operators run on the CPU alone.
#include <cmath>
#include <string_view>
#include <vector>

#include "tessera/ops/optimizer/multi_step.h"
#include "tessera/ops/optimizer/step_function.h"
#include "tessera/ops/optimizer/update.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the driver of steps

template <typename T>
struct AdamW {
  using Rule = AdamWRule;
  static constexpr std::array<const char*, 2> kStates = {"mean", "var"};
  static constexpr index_t kCost = 4;  // a square root and a division
  ClippedGradient<T> clipped;
  T lr, beta1, beta2, epsilon, wd, eta;

  explicit AdamW(const Rule& p)
      : clipped(p.rescale_grad, p.clip_gradient),
        lr(static_cast<T>(p.lr)),
        beta1(static_cast<T>(p.beta1)),
        beta2(static_cast<T>(p.beta2)),
        epsilon(static_cast<T>(p.epsilon)),
        wd(static_cast<T>(p.wd)),
        eta(static_cast<T>(p.eta)) {}
  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    const T g = clipped(grad);
    state[0] = Scaled(beta1, state[0]) + (T(1) - beta1) * g;
    state[1] = Scaled(beta2, state[1]) + (T(1) - beta2) * g * g;
    return weight - eta * (lr * state[0] / (std::sqrt(state[1]) + epsilon) + Scaled(wd, weight));
  }
};

[[maybe_unused]] const bool kProvided[] = {ProvideUpdate<AdamW>(TESSERA_TABLE_DEVICE)};

#if !defined(TESSERA_XPU_GPU)

constexpr const char* kShared[] = {"rescale_grad"};

/// Declares the parameters that are the same for one and for several weights.
template <typename P>
void DeclareDecays(ParameterSchema<P>& schema) {
  schema.template Optional<float>("beta1", &P::beta1, "decay of the mean");
  schema.template Optional<float>("beta2", &P::beta2, "decay of the variance");
  schema.template Optional<float>("epsilon", &P::epsilon,
                                  "added to the square root of the variance");
}
template <typename P>
void DeclareClipping(ParameterSchema<P>& schema) {
  schema.template Optional<float>("clip_gradient", &P::clip_gradient,
                                  "bound of a gradient's element; none if negative");
}

template <bool kMaster>
struct OneParameters : AdamWRule {
  static void Declare(ParameterSchema<OneParameters>& schema) {
    using P = OneParameters;
    schema.template Required<float>("lr", &P::lr, "learning rate");
    DeclareDecays(schema);
    schema.template Optional<float>("wd", &P::wd, "weight decay");
    schema.template Required<float>("eta", &P::eta, "factor of the whole step");
    DeclareClipping(schema);
  }
  void Check(const OperatorProperty&) const {}
  MultiStepLayout Layout() const {
    return {.numbered = false,
            .states = AdamW<float>::kStates,
            .master = kMaster,
            .shared = kShared,
            .shared_shape = {1}};
  }
  AdamWRule OfWeight(size_t) const { return *this; }
};

template <bool kMaster>
struct SeveralParameters : AdamWRule {
  std::vector<float> lrs;
  std::vector<float> wds;
  std::vector<float> etas;
  int num_weights = 1;

  static void Declare(ParameterSchema<SeveralParameters>& schema) {
    using P = SeveralParameters;
    schema.Required("lrs", &P::lrs, "each weight's learning rate");
    DeclareDecays(schema);
    schema.Required("wds", &P::wds, "each weight's decay");
    schema.Required("etas", &P::etas, "the factor of each weight's whole step");
    DeclareClipping(schema);
    schema.Optional("num_weights", &P::num_weights, "number of weights");
    schema.Range(1, 1 << 20);
  }
  void Check(const OperatorProperty& property) const {
    CheckNumberOf(property, "lrs", lrs.size(), "num_weights", num_weights);
    CheckNumberOf(property, "wds", wds.size(), "num_weights", num_weights);
    CheckNumberOf(property, "etas", etas.size(), "num_weights", num_weights);
  }
  MultiStepLayout Layout() const {
    return {.num_weights = num_weights,
            .states = AdamW<float>::kStates,
            .master = kMaster,
            .shared = kShared,
            .shared_shape = {1}};
  }
  AdamWRule OfWeight(size_t i) const {
    AdamWRule one = *this;
    one.lr = lrs[i];
    one.wd = wds[i];
    one.eta = etas[i];
    return one;
  }
};

/// Leaves the weight as it is.
template <typename T>
struct NoStep {
  static constexpr std::array<const char*, 0> kStates = {};
  static constexpr index_t kCost = 0;
  TESSERA_HD T operator()(T weight, T, T*) const { return weight; }
};

template <typename Parameters, bool kMaster>
class AdamWOperator final : public Operator {
 public:
  explicit AdamWOperator(const Parameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    std::vector<StepArguments> arguments = param_.Layout().Arguments(in_data, req, out_data);
    const float rescale_grad = *static_cast<const float*>(in_data.back().dptr_);
    if (rescale_grad == 0 || !std::isfinite(rescale_grad)) {
      for (StepArguments& each : arguments) {
        each.keeps = {};
        if (each.req == kWriteInplace) each.req = kNullOp;
      }
      return RunStepsOfTypes<NoStep, false>(
          arguments, []<typename T>(T, size_t) { return NoStep<T>(); }, context);
    }
    RunStepsOfTypes<AdamW, kMaster>(
        arguments,
        [&]<typename T>(T, size_t i) {
          AdamWRule rule = param_.OfWeight(i);
          rule.rescale_grad = rescale_grad;
          return AdamW<T>(rule);
        },
        context);
  }

 private:
  const Parameters param_;
};

template <template <bool> class Parameters, bool kMaster>
bool Register(const TablePlace& place, std::string_view name, std::string_view description) {
  using P = Parameters<kMaster>;
  return RegisterTypedOperator<MultiStepProperty<P>, AdamWOperator<P, kMaster>>(place, name,
                                                                                description);
}

[[maybe_unused]] const bool kRegistered[] = {
    Register<OneParameters, false>(TESSERA_TABLE_PLACE, "_adamw_update", "One step of AdamW."),
    Register<OneParameters, true>(TESSERA_TABLE_PLACE, "_mp_adamw_update",
                                  "One step of AdamW on a float32 copy of the weight."),
    Register<SeveralParameters, false>(TESSERA_TABLE_PLACE, "_multi_adamw_update",
                                       "One step of AdamW for each of several weights."),
    Register<SeveralParameters, true>(TESSERA_TABLE_PLACE, "_multi_mp_adamw_update",
                                      "One step of AdamW on float32 copies of several weights."),
};

#endif  // !TESSERA_XPU_GPU

}  // namespace
}  // namespace tessera
