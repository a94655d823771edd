// Optimizer steps whose rates adapt to each element:
//
//   g = clip(rescale_grad * grad + wd * weight, clip_gradient)
//   adam_update        mean = beta1 * mean + (1 - beta1) * g;  var = beta2 * var + (1 - beta2) *
//   g^2
//                      weight -= lr * mean / (sqrt(var) + epsilon)
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
//
// Sources: Kingma and Ba 2014 (adam), Tieleman and Hinton 2012 and Graves 2013 (rmsprop,
// rmspropalex), Zheng and Kwok 2017 (ftml), McMahan et al. 2013 (ftrl), Duchi et al. 2011
// (adagrad). A negative bound turns clipping off. The output is the new weight, usually in the
// weight's memory; states change. Shapes: any; all arrays alike. Types: float32, float64, float16,
// bfloat16. There is no gradient.
#include <cmath>

#include "tessera/ops/optimizer/step_function.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the driver of steps

// The cost of a square root and a division, in elements of a cheap loop.
constexpr index_t kRootCost = 4;

struct AdamParameters {
  float lr = 0;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
  bool lazy_update = true;

  static void Declare(ParameterSchema<AdamParameters>& schema) {
    using P = AdamParameters;
    schema.Required("lr", &P::lr, "learning rate");
    schema.Optional("beta1", &P::beta1, "decay of the mean");
    schema.Optional("beta2", &P::beta2, "decay of the variance");
    schema.Optional("epsilon", &P::epsilon, "added to the square root of the variance");
    DeclareGradientParameters(schema);
    schema.Optional("lazy_update", &P::lazy_update, "accepted for sparse graphs; not used");
  }
};

template <typename T>
struct Adam {
  using Parameters = AdamParameters;
  static constexpr std::array<const char*, 2> kStates = {"mean", "var"};
  static constexpr index_t kCost = kRootCost;
  ClippedGradient<T> clipped;
  T lr, beta1, beta2, epsilon, wd;

  explicit Adam(const Parameters& p)
      : clipped(p.rescale_grad, p.clip_gradient),
        lr(static_cast<T>(p.lr)),
        beta1(static_cast<T>(p.beta1)),
        beta2(static_cast<T>(p.beta2)),
        epsilon(static_cast<T>(p.epsilon)),
        wd(static_cast<T>(p.wd)) {}
  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    const T g = clipped.Clip(clipped.factor * grad + Scaled(wd, weight));
    state[0] = Scaled(beta1, state[0]) + (T(1) - beta1) * g;
    state[1] = Scaled(beta2, state[1]) + (T(1) - beta2) * g * g;
    return weight - lr * state[0] / (std::sqrt(state[1]) + epsilon);
  }
};

struct RmsPropParameters {
  float lr = 0;
  float gamma1 = 0.95f;
  float epsilon = 1e-8f;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
  float clip_weights = -1;

  static void Declare(ParameterSchema<RmsPropParameters>& schema) { DeclareAll(schema); }
  template <typename P>
  static void DeclareAll(ParameterSchema<P>& schema) {
    schema.template Required<float>("lr", &P::lr, "learning rate");
    schema.template Optional<float>("gamma1", &P::gamma1, "decay of the mean square");
    schema.template Optional<float>("epsilon", &P::epsilon, "added under the square root");
    schema.template Optional<float>("wd", &P::wd, "weight decay");
    schema.template Optional<float>("rescale_grad", &P::rescale_grad, "factor of the gradient");
    schema.template Optional<float>("clip_gradient", &P::clip_gradient,
                                    "bound of a gradient's element; none if negative");
    schema.template Optional<float>("clip_weights", &P::clip_weights,
                                    "bound of a weight; none if negative");
  }
};

template <typename T>
struct RmsProp {
  using Parameters = RmsPropParameters;
  static constexpr std::array<const char*, 1> kStates = {"n"};
  static constexpr index_t kCost = kRootCost;
  ClippedGradient<T> clipped, weights;
  T lr, gamma1, epsilon, wd;

  explicit RmsProp(const Parameters& p)
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

struct RmsPropAlexParameters : RmsPropParameters {
  float gamma2 = 0.9f;

  static void Declare(ParameterSchema<RmsPropAlexParameters>& schema) {
    DeclareAll(schema);
    schema.Optional("gamma2", &RmsPropAlexParameters::gamma2, "decay of the step");
  }
};

template <typename T>
struct RmsPropAlex {
  using Parameters = RmsPropAlexParameters;
  static constexpr std::array<const char*, 3> kStates = {"n", "g", "delta"};
  static constexpr index_t kCost = kRootCost;
  RmsProp<T> base;
  T gamma2;

  explicit RmsPropAlex(const Parameters& p) : base(p), gamma2(static_cast<T>(p.gamma2)) {}
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

struct FtmlParameters {
  float lr = 0;
  float beta1 = 0.6f;
  float beta2 = 0.999f;
  double epsilon = 1e-8f;
  int t = 1;
  float wd = 0;
  float rescale_grad = 1;
  float clip_grad = -1;

  static void Declare(ParameterSchema<FtmlParameters>& schema) {
    using P = FtmlParameters;
    schema.Required("lr", &P::lr, "learning rate");
    schema.Optional("beta1", &P::beta1, "decay of z");
    schema.Range(0, 1);
    schema.Optional("beta2", &P::beta2, "decay of the mean square");
    schema.Range(0, 1);
    schema.Optional("epsilon", &P::epsilon, "added to the square root");
    schema.Required("t", &P::t, "the number of this step, from 1");
    schema.Range(1);
    schema.Optional("wd", &P::wd, "weight decay");
    schema.Optional("rescale_grad", &P::rescale_grad, "factor of the gradient");
    schema.Optional("clip_grad", &P::clip_grad, "bound of a gradient's element; none if negative");
  }
};

template <typename T>
struct Ftml {
  using Parameters = FtmlParameters;
  static constexpr std::array<const char*, 3> kStates = {"d", "v", "z"};
  static constexpr index_t kCost = kRootCost;
  ClippedGradient<T> clipped;
  T beta1, beta2, epsilon, wd, rate, correction;

  explicit Ftml(const Parameters& p)
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

struct FtrlParameters {
  float lr = 0;
  float lamda1 = 0.01f;
  float beta = 1;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;

  static void Declare(ParameterSchema<FtrlParameters>& schema) {
    using P = FtrlParameters;
    schema.Required("lr", &P::lr, "learning rate");
    schema.Optional("lamda1", &P::lamda1, "coefficient of the L1 norm");
    schema.Optional("beta", &P::beta, "added to the square root of n");
    DeclareGradientParameters(schema);
  }
};

template <typename T>
struct Ftrl {
  using Parameters = FtrlParameters;
  static constexpr std::array<const char*, 2> kStates = {"z", "n"};
  static constexpr index_t kCost = 2 * kRootCost;
  ClippedGradient<T> clipped;
  T lr, lamda1, beta, wd;

  explicit Ftrl(const Parameters& p)
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

struct AdagradParameters {
  float lr = 0;
  float epsilon = 1e-7f;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;

  static void Declare(ParameterSchema<AdagradParameters>& schema) {
    using P = AdagradParameters;
    schema.Required("lr", &P::lr, "learning rate");
    schema.Optional("epsilon", &P::epsilon, "added under the square root");
    DeclareGradientParameters(schema);
  }
};

template <typename T>
struct Adagrad {
  using Parameters = AdagradParameters;
  static constexpr std::array<const char*, 1> kStates = {"history"};
  static constexpr index_t kCost = kRootCost;
  ClippedGradient<T> clipped;
  T lr, epsilon, wd;

  explicit Adagrad(const Parameters& p)
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

[[maybe_unused]] const bool kRegistered[] = {
    RegisterStep<Adam>(TESSERA_TABLE_PLACE, "adam_update", "One step of Adam."),
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
