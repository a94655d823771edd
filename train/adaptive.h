#ifndef TESSERA_TRAIN_ADAPTIVE_H_
#define TESSERA_TRAIN_ADAPTIVE_H_

#include "tessera/train/optimizer.h"

namespace tessera {

/// Options of AdaGrad.
struct AdaGradOptions : OptimizerOptions {
  double epsilon = 1e-7;  ///< added under the root
};

/// AdaGrad (J. Duchi et al., JMLR 2011): g = clip(rescale_grad * grad); history += g^2;
/// weight -= lr * (g / sqrt(history + epsilon) + wd * weight). The operator _sparse_adagrad_update
/// computes the same.
class AdaGrad final : public Optimizer {
 public:
  /// Throws Error(kInvalidArgument) for a negative epsilon, and as Optimizer does.
  explicit AdaGrad(const AdaGradOptions& options = {});
};

/// Options of AdaDelta. The rate is a factor of the step, which MXNet does not have: 1 gives its
/// steps.
struct AdaDeltaOptions : OptimizerOptions {
  double rho = 0.9;       ///< decay of both averages, in [0, 1)
  double epsilon = 1e-5;  ///< added under the roots
};

/// AdaDelta (M. D. Zeiler, 2012, algorithm 1): g = clip(rescale_grad * grad); n = rho * n + (1 -
/// rho) * g^2; delta = sqrt(d + epsilon) / sqrt(n + epsilon) * g; d = rho * d + (1 - rho) *
/// delta^2; weight -= lr * delta + wd * weight.
class AdaDelta final : public Optimizer {
 public:
  /// Throws Error(kInvalidArgument) for numbers out of range, and as Optimizer does.
  explicit AdaDelta(const AdaDeltaOptions& options = {});
};

/// Options of RmsProp. Usual rates are about 0.001.
struct RmsPropOptions : OptimizerOptions {
  double gamma1 = 0.9;       ///< decay of the averages, in [0, 1)
  double gamma2 = 0.9;       ///< decay of the step, in [0, 1), if centered
  double epsilon = 1e-8;     ///< added under the root
  bool centered = false;     ///< whether the variance divides in place of the mean square
  double clip_weights = -1;  ///< bound of a weight's element; negative: none
};

/// RMSProp (T. Tieleman, G. Hinton: Lecture 6.5, 2012): g = clip(rescale_grad * grad + wd *
/// weight); n = gamma1 * n + (1 - gamma1) * g^2; weight -= lr * g / sqrt(n + epsilon). If centered
/// (A. Graves, 2013, equations 38 to 45): m = gamma1 * m + (1 - gamma1) * g;
/// delta = gamma2 * delta - lr * g / sqrt(n - m^2 + epsilon); weight += delta. The operators
/// rmsprop_update and rmspropalex_update compute the same.
class RmsProp final : public Optimizer {
 public:
  /// Throws Error(kInvalidArgument) for numbers out of range, and as Optimizer does.
  explicit RmsProp(const RmsPropOptions& options = {});
};

/// Options of Ftrl. Usual rates are about 0.1.
struct FtrlOptions : OptimizerOptions {
  double lamda1 = 0.01;  ///< coefficient of the L1 norm
  double beta = 1;       ///< added to the root of n
};

/// FTRL, follow the regularized leader (H. B. McMahan et al., KDD 2013, algorithm 1): g =
/// clip(rescale_grad * grad); z += g - (sqrt(n + g^2) - sqrt(n)) * weight / lr; n += g^2; weight =
/// (sign(z) * lamda1 - z) / ((beta + sqrt(n)) / lr + wd) if |z| > lamda1, else 0. The operator
/// ftrl_update computes the same.
class Ftrl final : public Optimizer {
 public:
  /// Throws Error(kInvalidArgument) for negative numbers, and as Optimizer does.
  explicit Ftrl(const FtrlOptions& options = {});
};

/// Options of Ftml. Usual rates are about 0.0025.
struct FtmlOptions : OptimizerOptions {
  double beta1 = 0.6;     ///< decay of z, in [0, 1)
  double beta2 = 0.999;   ///< decay of the mean square, in [0, 1)
  double epsilon = 1e-8;  ///< added to the root
};

/// FTML, follow the moving leader (S. Zheng, J. T. Kwok, ICML 2017, algorithm 1): g =
/// clip(rescale_grad * grad + wd * weight); v = beta2 * v + (1 - beta2) * g^2; d' = (1 - beta1^t) /
/// lr * (sqrt(v / (1 - beta2^t)) + epsilon); z = beta1 * z + (1 - beta1) * g - (d' - beta1 * d) *
/// weight; d = d'; weight = -z / d. The operator ftml_update computes the same.
class Ftml final : public Optimizer {
 public:
  /// Throws Error(kInvalidArgument) for numbers out of range, and as Optimizer does.
  explicit Ftml(const FtmlOptions& options = {});
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_ADAPTIVE_H_
