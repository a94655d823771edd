// Steps of stochastic gradient descent:
//
//   g  = clip(rescale_grad * grad, clip_gradient)
//   sgd_update       weight -= lr * (g + wd * weight)
//   sgd_mom_update   mom = momentum * mom - lr * (g + wd * weight);  weight += mom
//   nag_mom_update   mom = momentum * mom - lr * (g + wd * weight);
//                    weight += momentum * mom - lr * (g + wd * weight)
//   signsgd_update   weight = (1 - lr * wd) * weight - lr * sign(grad)
//   signum_update    mom = momentum * mom - (1 - momentum) * (g + wd * weight);
//                    weight = (1 - lr * wd_lh) * weight + lr * sign(mom)
//
// nag is Nesterov's momentum, signsgd and signum are of Bernstein et al. 2018. clip_gradient < 0
// turns clipping off. The output is the new weight, usually in the weight's memory. Shapes: any;
// all arrays alike. Types: float32, float64, float16, bfloat16.
//
// mp_… computes in float32: the new weight is that of weight32, a float32 copy, which changes too,
// as mom does, which is float32; weight gives only its type. In mp_nag_mom_update the decay in mom
// is that of the new weight. There is no gradient.
#include "tessera/ops/optimizer/sgd.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the driver of steps

struct SgdParameters : Descent {
  bool lazy_update = true;

  static void Declare(ParameterSchema<SgdParameters>& schema) {
    using P = SgdParameters;
    schema.Required<float>("lr", &P::lr, "learning rate");
    DeclareGradientParameters(schema);
    schema.Optional("lazy_update", &P::lazy_update, "accepted for sparse graphs; not used");
  }
};

struct NagParameters : Descent {
  static void Declare(ParameterSchema<NagParameters>& schema) { DeclareMomentum(schema); }
  template <typename P>
  static void DeclareMomentum(ParameterSchema<P>& schema) {
    schema.template Required<float>("lr", &P::lr, "learning rate");
    schema.template Optional<float>("momentum", &P::momentum, "decay of the momentum");
    DeclareGradientParameters(schema);
  }
};

struct MomentumParameters : Descent {
  bool lazy_update = true;

  static void Declare(ParameterSchema<MomentumParameters>& schema) {
    NagParameters::DeclareMomentum(schema);
    schema.Optional("lazy_update", &MomentumParameters::lazy_update,
                    "accepted for sparse graphs; not used");
  }
};

template <typename T>
struct Sgd : DescentStep<T> {
  using Parameters = SgdParameters;
  using DescentStep<T>::DescentStep;
};

template <typename T>
struct SgdMomentum : MomentumStep<T> {
  using Parameters = MomentumParameters;
  using MomentumStep<T>::MomentumStep;
};

template <typename T>
struct Nag : MomentumStep<T> {
  using Rule = NagRule;
  using Parameters = NagParameters;
  using MomentumStep<T>::MomentumStep;

  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    const T descent = this->lr * (this->clipped(grad) + Scaled(this->wd, weight));
    state[0] = Scaled(this->momentum, state[0]) - descent;
    return weight + Scaled(this->momentum, state[0]) - descent;
  }
};

/// The step of mp_nag_mom_update, whose momentum takes the decay from the new weight, as MXNet's
/// does.
template <typename T>
struct MasterNag : Nag<T> {
  using Nag<T>::Nag;

  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    const T mom = Scaled(this->momentum, state[0]), g = this->clipped(grad);
    const T descent = this->lr * (g + Scaled(this->wd, weight));
    const T next = weight + this->momentum * (mom - descent) - descent;
    state[0] = mom - this->lr * (g + Scaled(this->wd, next));
    return next;
  }
};

template <typename T>
TESSERA_HD T SignOf(T x) {
  return (x > T(0) ? T(1) : T(0)) - (x < T(0) ? T(1) : T(0));
}

struct SignSgdParameters : Descent {
  static void Declare(ParameterSchema<SignSgdParameters>& schema) {
    schema.Required<float>("lr", &SignSgdParameters::lr, "learning rate");
    DeclareGradientParameters(schema);
  }
};

template <typename T>
struct SignSgd {
  using Rule = SignSgdRule;
  using Parameters = SignSgdParameters;
  static constexpr std::array<const char*, 0> kStates = {};
  static constexpr index_t kCost = 0;
  T lr, decay;

  explicit SignSgd(const Descent& p)
      : lr(static_cast<T>(p.lr)), decay(T(1) - static_cast<T>(p.lr) * static_cast<T>(p.wd)) {}
  TESSERA_HD T operator()(T weight, T grad, T*) const { return decay * weight - lr * SignOf(grad); }
};

struct SignumParameters : SignumRule {
  static void Declare(ParameterSchema<SignumParameters>& schema) {
    NagParameters::DeclareMomentum(schema);
    schema.Optional<float>("wd_lh", &SignumParameters::wd_lh,
                           "weight decay outside of the momentum");
  }
};

template <typename T>
struct Signum {
  using Rule = SignumRule;
  using Parameters = SignumParameters;
  static constexpr std::array<const char*, 1> kStates = {"mom"};
  static constexpr index_t kCost = 0;
  ClippedGradient<T> clipped;
  T lr, momentum, wd, decay;

  explicit Signum(const Rule& p)
      : clipped(p.rescale_grad, p.clip_gradient),
        lr(static_cast<T>(p.lr)),
        momentum(static_cast<T>(p.momentum)),
        wd(static_cast<T>(p.wd)),
        decay(T(1) - static_cast<T>(p.lr) * static_cast<T>(p.wd_lh)) {}
  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    const T rest = T(1) - momentum;
    state[0] = Scaled(momentum, state[0]) - Scaled(rest * wd, weight) - rest * clipped(grad);
    return decay * weight + lr * SignOf(state[0]);
  }
};

[[maybe_unused]] const bool kProvided[] = {
    ProvideUpdate<Sgd>(TESSERA_TABLE_DEVICE),    ProvideUpdate<SgdMomentum>(TESSERA_TABLE_DEVICE),
    ProvideUpdate<Nag>(TESSERA_TABLE_DEVICE),    ProvideUpdate<SignSgd>(TESSERA_TABLE_DEVICE),
    ProvideUpdate<Signum>(TESSERA_TABLE_DEVICE),
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterStep<Sgd>(TESSERA_TABLE_PLACE, "sgd_update", "One step of gradient descent."),
    RegisterStep<SgdMomentum>(TESSERA_TABLE_PLACE, "sgd_mom_update",
                              "One step of gradient descent with momentum."),
    RegisterStep<Sgd, true>(TESSERA_TABLE_PLACE, "mp_sgd_update",
                            "One step of gradient descent on a float32 copy of the weight."),
    RegisterStep<SgdMomentum, true>(
        TESSERA_TABLE_PLACE, "mp_sgd_mom_update",
        "One step of gradient descent with momentum on a float32 copy of the weight."),
    RegisterStep<Nag>(TESSERA_TABLE_PLACE, "nag_mom_update",
                      "One step of gradient descent with Nesterov's momentum."),
    RegisterStep<MasterNag, true>(
        TESSERA_TABLE_PLACE, "mp_nag_mom_update",
        "One step with Nesterov's momentum on a float32 copy of the weight."),
    RegisterStep<SignSgd>(TESSERA_TABLE_PLACE, "signsgd_update",
                          "One step along the signs of the gradient."),
    RegisterStep<Signum>(TESSERA_TABLE_PLACE, "signum_update",
                         "One step along the signs of the momentum."),
};

}  // namespace
}  // namespace tessera
