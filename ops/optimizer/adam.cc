// Adam and its form by the largest gradient:
//
//   g = clip(rescale_grad * grad + wd * weight, clip_gradient)
//   adam_update  mean = beta1 * mean + (1 - beta1) * g;  var = beta2 * var + (1 - beta2) * g^2
//                weight -= lr * mean / (sqrt(var) + epsilon)
//   Adamax, which is no operator  mean as above;  u = max(beta2 * u, |g|)
//                weight -= lr * mean / u, or stays if u is 0
//
// Source: Kingma and Ba 2014, algorithms 1 and 2; the caller puts the corrections of the states'
// start at 0 into lr. A negative bound turns clipping off. The output is the new weight, usually in
// the weight's memory; states change. Shapes: any; all arrays alike. Types: float32, float64,
// float16, bfloat16. There is no gradient.
#include <cmath>

#include "tessera/ops/optimizer/step_function.h"
#include "tessera/ops/optimizer/update.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the driver of steps

struct AdamParameters : AdamRule {
  bool lazy_update = true;

  static void Declare(ParameterSchema<AdamParameters>& schema) {
    using P = AdamParameters;
    schema.Required<float>("lr", &P::lr, "learning rate");
    schema.Optional<float>("beta1", &P::beta1, "decay of the mean");
    schema.Optional<float>("beta2", &P::beta2, "decay of the variance");
    schema.Optional<float>("epsilon", &P::epsilon, "added to the square root of the variance");
    DeclareGradientParameters(schema);
    schema.Optional("lazy_update", &P::lazy_update, "accepted for sparse graphs; not used");
  }
};

template <typename T>
struct Adam {
  using Rule = AdamRule;
  using Parameters = AdamParameters;
  static constexpr std::array<const char*, 2> kStates = {"mean", "var"};
  static constexpr index_t kCost = 4;  // a square root and a division
  ClippedGradient<T> clipped;
  T lr, beta1, beta2, epsilon, wd;

  explicit Adam(const Rule& p)
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

template <typename T>
struct Adamax {
  using Rule = AdamaxRule;
  static constexpr std::array<const char*, 2> kStates = {"mean", "u"};
  static constexpr index_t kCost = 3;
  ClippedGradient<T> clipped;
  T lr, beta1, beta2, wd;

  explicit Adamax(const Rule& p)
      : clipped(p.rescale_grad, p.clip_gradient),
        lr(static_cast<T>(p.lr)),
        beta1(static_cast<T>(p.beta1)),
        beta2(static_cast<T>(p.beta2)),
        wd(static_cast<T>(p.wd)) {}
  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    const T g = clipped.Clip(clipped.factor * grad + Scaled(wd, weight));
    const T decayed = Scaled(beta2, state[1]), size = std::abs(g);
    state[0] = Scaled(beta1, state[0]) + (T(1) - beta1) * g;
    state[1] = decayed > size ? decayed : size;
    const T ratio = state[0] / state[1];
    return weight - lr * (state[1] == T(0) ? T(0) : ratio);
  }
};

[[maybe_unused]] const bool kProvided[] = {
    ProvideUpdate<Adam>(TESSERA_TABLE_DEVICE),
    ProvideUpdate<Adamax>(TESSERA_TABLE_DEVICE),
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterStep<Adam>(TESSERA_TABLE_PLACE, "adam_update", "One step of Adam."),
};

}  // namespace
}  // namespace tessera
