#ifndef TESSERA_OPS_OPTIMIZER_SGD_H_
#define TESSERA_OPS_OPTIMIZER_SGD_H_

#include <array>

#include "tessera/ops/optimizer/step_function.h"
#include "tessera/ops/optimizer/update.h"

// Steps of stochastic gradient descent as functors.
namespace tessera::ops_internal {

/// weight - lr * (g + wd * weight), g the clipped gradient.
template <typename T>
struct DescentStep {
  using Rule = SgdRule;
  static constexpr std::array<const char*, 0> kStates = {};
  static constexpr index_t kCost = 0;
  ClippedGradient<T> clipped;
  T lr, wd;

  explicit DescentStep(const Descent& p)
      : clipped(p.rescale_grad, p.clip_gradient),
        lr(static_cast<T>(p.lr)),
        wd(static_cast<T>(p.wd)) {}
  TESSERA_HD T operator()(T weight, T grad, T*) const {
    return weight - lr * (clipped(grad) + Scaled(wd, weight));
  }
};

/// mom = momentum * mom - lr * (g + wd * weight); weight + mom.
template <typename T>
struct MomentumStep {
  using Rule = MomentumRule;
  static constexpr std::array<const char*, 1> kStates = {"mom"};
  static constexpr index_t kCost = 0;
  ClippedGradient<T> clipped;
  T lr, momentum, wd;

  explicit MomentumStep(const Descent& p)
      : clipped(p.rescale_grad, p.clip_gradient),
        lr(static_cast<T>(p.lr)),
        momentum(static_cast<T>(p.momentum)),
        wd(static_cast<T>(p.wd)) {}
  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    state[0] = Scaled(momentum, state[0]) - lr * (clipped(grad) + Scaled(wd, weight));
    return weight + state[0];
  }
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_OPTIMIZER_SGD_H_
