// Optimizer steps whose rates adapt to each element:
//
//   g = clip(rescale_grad * grad + wd * weight, clip_gradient)
//   rmsprop_update     n = gamma1 * n + (1 - gamma1) * g^2
//                      weight = clip(weight - lr * g / sqrt(n + epsilon), clip_weights)
//   rmspropalex_update n as above;  g' = gamma1 * g' + (1 - gamma1) * g
//                      delta = gamma2 * delta - lr * g / sqrt(n - g'^2 + epsilon)
//                      weight = clip(weight + delta, clip_weights)
//   ftml_update        v = beta2 * v + (1 - beta2) * g^2
//                      d' = (1 - beta1^t) / lr * (sqrt(v / (1 - beta2^t)) + epsilon)
//                      z = beta1 * z + (1 - beta1) * g - (d' - beta1 * d) * weight;  d = d'
//                      weight = -z / d
//   ftrl_update        g without wd;  z += g - (sqrt(n + g^2) - sqrt(n)) * weight / lr;  n += g^2
//                      weight = (sign(z) * lamda1 - z) / ((beta + sqrt(n)) / lr + wd) if |z| >
//                      lamda1, else 0
//   _sparse_adagrad_update  g without wd;  history += g^2
//                      weight -= lr * (g / sqrt(history + epsilon) + wd * weight)
//   AdaDelta, which is no operator  g without wd;  n = rho * n + (1 - rho) * g^2
//                      delta = sqrt(d + epsilon) / sqrt(n + epsilon) * g
//                      d = rho * d + (1 - rho) * delta^2;  weight -= lr * delta + wd * weight
//
// Sources: Tieleman and Hinton 2012 and Graves 2013 (rmsprop, rmspropalex), Zheng and Kwok 2017
// (ftml), McMahan et al. 2013 (ftrl), Duchi et al. 2011 (adagrad), Zeiler 2012 (AdaDelta). A
// negative bound turns clipping off. The output is the new weight, usually in the
// weight's memory; states change. Shapes: any; all arrays alike. Types: float32, float64, float16,
// bfloat16. There is no gradient.
#include <cmath>

#include "tessera/ops/optimizer/step_function.h"
#include "tessera/ops/optimizer/update.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the driver of steps

// The cost of a square root and a division, in elements of a cheap loop.
constexpr index_t kRootCost = 4;

struct RmsPropParameters : RmsPropRule {
  static void Declare(ParameterSchema<RmsPropParameters>& schema) { DeclareAll(schema); }
  template <typename P>
  static void DeclareAll(ParameterSchema<P>& schema) {
    schema.template Required<float>("lr", &P::lr, "learning rate");
    schema.template Optional<float>("gamma1", &P::gamma1, "decay of the mean square");
    schema.template Optional<float>("epsilon", &P::epsilon, "added under the square root");
    DeclareGradientParameters(schema);
    schema.template Optional<float>("clip_weights", &P::clip_weights,
                                    "bound of a weight; none if negative");
  }
};

template <typename T>
struct RmsProp {
  using Rule = RmsPropRule;
  using Parameters = RmsPropParameters;
  static constexpr std::array<const char*, 1> kStates = {"n"};
  static constexpr index_t kCost = kRootCost;
  ClippedGradient<T> clipped, weights;
  T lr, gamma1, epsilon, wd;

  explicit RmsProp(const Rule& p)
      : clipped(p.rescale_grad, p.clip_gradient),
        weights(1, p.clip_weights),
        lr(static_cast<T>(p.lr)),
        gamma1(static_cast<T>(p.gamma1)),
        epsilon(static_cast<T>(p.epsilon)),
        wd(static_cast<T>(p.wd)) {}
  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    const T g = clipped.Clip(clipped.factor * grad + Scaled(wd, weight));
    state[0] = (T(1) - gamma1) * g * g + Scaled(gamma1, state[0]);
    return weights.Clip(weight - lr * (g / std::sqrt(state[0] + epsilon)));
  }
};

struct RmsPropAlexParameters : RmsPropAlexRule {
  static void Declare(ParameterSchema<RmsPropAlexParameters>& schema) {
    RmsPropParameters::DeclareAll(schema);
    schema.Optional<float>("gamma2", &RmsPropAlexParameters::gamma2, "decay of the step");
  }
};

template <typename T>
struct RmsPropAlex {
  using Rule = RmsPropAlexRule;
  using Parameters = RmsPropAlexParameters;
  static constexpr std::array<const char*, 3> kStates = {"n", "g", "delta"};
  static constexpr index_t kCost = kRootCost;
  RmsProp<T> base;
  T gamma2;

  explicit RmsPropAlex(const Rule& p) : base(p), gamma2(static_cast<T>(p.gamma2)) {}
  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    const T g = base.clipped.Clip(base.clipped.factor * grad + Scaled(base.wd, weight));
    const T decay = base.gamma1, rest = T(1) - decay;
    state[0] = rest * g * g + Scaled(decay, state[0]);
    state[1] = rest * g + Scaled(decay, state[1]);
    const T variance = state[0] - state[1] * state[1];
    state[2] = Scaled(gamma2, state[2]) - base.lr * (g / std::sqrt(variance + base.epsilon));
    return base.weights.Clip(weight + state[2]);
  }
};

struct FtmlParameters : FtmlRule {
  static void Declare(ParameterSchema<FtmlParameters>& schema) {
    using P = FtmlParameters;
    schema.Required<float>("lr", &P::lr, "learning rate");
    schema.Optional<float>("beta1", &P::beta1, "decay of z");
    schema.Range(0, 1);
    schema.Optional<float>("beta2", &P::beta2, "decay of the mean square");
    schema.Range(0, 1);
    schema.Optional<double>("epsilon", &P::epsilon, "added to the square root");
    schema.Required<int>("t", &P::t, "the number of this step, from 1");
    schema.Range(1);
    schema.Optional<float>("wd", &P::wd, "weight decay");
    schema.Optional<float>("rescale_grad", &P::rescale_grad, "factor of the gradient");
    schema.Optional<float>("clip_grad", &P::clip_grad,
                           "bound of a gradient's element; none if negative");
  }
};

template <typename T>
struct Ftml {
  using Rule = FtmlRule;
  using Parameters = FtmlParameters;
  static constexpr std::array<const char*, 3> kStates = {"d", "v", "z"};
  static constexpr index_t kCost = kRootCost;
  ClippedGradient<T> clipped;
  T beta1, beta2, epsilon, wd, rate, correction;

  explicit Ftml(const Rule& p)
      : clipped(p.rescale_grad, p.clip_grad),
        beta1(static_cast<T>(p.beta1)),
        beta2(static_cast<T>(p.beta2)),
        epsilon(static_cast<T>(p.epsilon)),
        wd(static_cast<T>(p.wd)),
        rate(static_cast<T>((1 - std::pow(double{p.beta1}, p.t)) / double{p.lr})),
        correction(static_cast<T>(1 - std::pow(double{p.beta2}, p.t))) {}
  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    const T g = clipped.Clip(clipped.factor * grad + Scaled(wd, weight));
    state[1] = Scaled(beta2, state[1]) + (T(1) - beta2) * g * g;
    const T d = rate * (std::sqrt(state[1] / correction) + epsilon);
    state[2] =
        Scaled(beta1, state[2]) + (T(1) - beta1) * g - (d - Scaled(beta1, state[0])) * weight;
    state[0] = d;
    return -state[2] / d;
  }
};

struct FtrlParameters : FtrlRule {
  static void Declare(ParameterSchema<FtrlParameters>& schema) {
    using P = FtrlParameters;
    schema.Required<float>("lr", &P::lr, "learning rate");
    schema.Optional<float>("lamda1", &P::lamda1, "coefficient of the L1 norm");
    schema.Optional<float>("beta", &P::beta, "added to the square root of n");
    DeclareGradientParameters(schema);
  }
};

template <typename T>
struct Ftrl {
  using Rule = FtrlRule;
  using Parameters = FtrlParameters;
  static constexpr std::array<const char*, 2> kStates = {"z", "n"};
  static constexpr index_t kCost = 2 * kRootCost;
  ClippedGradient<T> clipped;
  T lr, lamda1, beta, wd;

  explicit Ftrl(const Rule& p)
      : clipped(p.rescale_grad, p.clip_gradient),
        lr(static_cast<T>(p.lr)),
        lamda1(static_cast<T>(p.lamda1)),
        beta(static_cast<T>(p.beta)),
        wd(static_cast<T>(p.wd)) {}
  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    const T g = clipped(grad);
    const T n = state[1], next = n + g * g;
    const T z = state[0] + g - (std::sqrt(next) - std::sqrt(n)) * weight / lr;
    state[0] = z;
    state[1] = next;
    const T above = std::abs(z) - lamda1;
    const T shrunk = std::copysign(above < T(0) ? T(0) : above, -z);
    return shrunk / ((beta + std::sqrt(next)) / lr + wd);
  }
};

struct AdagradParameters : AdagradRule {
  static void Declare(ParameterSchema<AdagradParameters>& schema) {
    using P = AdagradParameters;
    schema.Required<float>("lr", &P::lr, "learning rate");
    schema.Optional<float>("epsilon", &P::epsilon, "added under the square root");
    DeclareGradientParameters(schema);
  }
};

template <typename T>
struct Adagrad {
  using Rule = AdagradRule;
  using Parameters = AdagradParameters;
  static constexpr std::array<const char*, 1> kStates = {"history"};
  static constexpr index_t kCost = kRootCost;
  ClippedGradient<T> clipped;
  T lr, epsilon, wd;

  explicit Adagrad(const Rule& p)
      : clipped(p.rescale_grad, p.clip_gradient),
        lr(static_cast<T>(p.lr)),
        epsilon(static_cast<T>(p.epsilon)),
        wd(static_cast<T>(p.wd)) {}
  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    const T g = clipped(grad);
    state[0] = state[0] + g * g;
    return weight - lr * (g / std::sqrt(state[0] + epsilon) + Scaled(wd, weight));
  }
};

template <typename T>
struct AdaDelta {
  using Rule = AdaDeltaRule;
  static constexpr std::array<const char*, 2> kStates = {"n", "d"};
  static constexpr index_t kCost = 3 * kRootCost;
  ClippedGradient<T> clipped;
  T lr, rho, epsilon, wd;

  explicit AdaDelta(const Rule& p)
      : clipped(p.rescale_grad, p.clip_gradient),
        lr(static_cast<T>(p.lr)),
        rho(static_cast<T>(p.rho)),
        epsilon(static_cast<T>(p.epsilon)),
        wd(static_cast<T>(p.wd)) {}
  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    const T g = clipped(grad);
    state[0] = Scaled(rho, state[0]) + (T(1) - rho) * g * g;
    const T delta = std::sqrt(state[1] + epsilon) / std::sqrt(state[0] + epsilon) * g;
    state[1] = Scaled(rho, state[1]) + (T(1) - rho) * delta * delta;
    return weight - (lr * delta + Scaled(wd, weight));
  }
};

[[maybe_unused]] const bool kProvided[] = {
    ProvideUpdate<RmsProp>(TESSERA_TABLE_DEVICE), ProvideUpdate<RmsPropAlex>(TESSERA_TABLE_DEVICE),
    ProvideUpdate<Ftml>(TESSERA_TABLE_DEVICE),    ProvideUpdate<Ftrl>(TESSERA_TABLE_DEVICE),
    ProvideUpdate<Adagrad>(TESSERA_TABLE_DEVICE), ProvideUpdate<AdaDelta>(TESSERA_TABLE_DEVICE),
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterStep<RmsProp>(TESSERA_TABLE_PLACE, "rmsprop_update",
                          "One step of RMSProp, by the root of the mean square."),
    RegisterStep<RmsPropAlex>(TESSERA_TABLE_PLACE, "rmspropalex_update",
                              "One step of RMSProp by the variance, with momentum."),
    RegisterStep<Ftml>(TESSERA_TABLE_PLACE, "ftml_update",
                       "One step of FTML, follow the moving leader."),
    RegisterStep<Ftrl>(TESSERA_TABLE_PLACE, "ftrl_update",
                       "One step of FTRL, follow the regularized leader."),
    RegisterStep<Adagrad>(TESSERA_TABLE_PLACE, "_sparse_adagrad_update",
                          "One step of AdaGrad, for dense arrays."),
};

}  // namespace
}  // namespace tessera
