#ifndef TESSERA_TRAIN_SGD_H_
#define TESSERA_TRAIN_SGD_H_

#include "tessera/train/optimizer.h"

namespace tessera {

/// Options of Sgd.
struct SgdOptions : OptimizerOptions {
  double momentum = 0;  ///< the share of the last step that is repeated, in [0, 1)
};

/// Stochastic gradient descent (H. Robbins, S. Monro, 1951; with momentum: B. T. Polyak, 1964):
/// g = clip(rescale_grad * grad) + wd * weight; mom = momentum * mom - lr * g; weight += mom. The
/// operators sgd_update and sgd_mom_update compute the same.
class Sgd final : public Optimizer {
 public:
  /// Throws Error(kInvalidArgument) unless 0 <= momentum < 1, and as Optimizer does.
  explicit Sgd(const SgdOptions& options = {});
};

/// Options of Nag.
struct NagOptions : OptimizerOptions {
  double momentum = 0.9;  ///< the share of the last step that is repeated, in [0, 1)
};

/// Nesterov's accelerated gradient (Y. Nesterov, 1983; in the form of I. Sutskever et al., ICML
/// 2013): g = clip(rescale_grad * grad) + wd * weight; mom = momentum * mom - lr * g; weight +=
/// momentum * mom - lr * g. The operator nag_mom_update computes the same.
class Nag final : public Optimizer {
 public:
  /// Throws Error(kInvalidArgument) unless 0 <= momentum < 1, and as Optimizer does.
  explicit Nag(const NagOptions& options = {});
};

/// Options of Signum.
struct SignumOptions : OptimizerOptions {
  double momentum = 0.9;  ///< decay of the momentum, in [0, 1); 0: steps along the gradient's signs
  double wd_lh = 0;       ///< weight decay outside of the momentum
};

/// Steps along signs (J. Bernstein et al.: signSGD, ICML 2018):
/// g = clip(rescale_grad * grad) + wd * weight; mom = momentum * mom - (1 - momentum) * g;
/// weight = (1 - lr * wd_lh) * weight + lr * sign(mom). Without momentum:
/// weight = (1 - lr * wd) * weight - lr * sign(grad). The operators signum_update and
/// signsgd_update compute the same.
class Signum final : public Optimizer {
 public:
  /// Throws Error(kInvalidArgument) unless 0 <= momentum < 1, and as Optimizer does.
  explicit Signum(const SignumOptions& options = {});
};

/// Options of Lars.
struct LarsOptions : OptimizerOptions {
  double momentum = 0;  ///< the share of the last step that is repeated, in [0, 1)
  double eta = 0.001;   ///< factor of all rates
  double epsilon = 0;   ///< added to the divisor
  /// Whether the momentum is scaled by each change of the schedule's rate (P. Goyal et al.:
  /// Accurate, large minibatch SGD, 2017, section 3.1, remark 2).
  bool momentum_correction = true;
};

/// LARS (Y. You et al., 2017): gradient descent with momentum whose rate is lr * eta * |weight| /
/// (|rescale_grad * grad| + wd * |weight| + epsilon) for each weight. Where a norm is 0, and for
/// parameters whose names end in gamma, beta or bias, the rate is lr. For the CPU.
class Lars final : public Optimizer {
 public:
  /// Throws Error(kInvalidArgument) unless 0 <= momentum < 1, and as Optimizer does.
  explicit Lars(const LarsOptions& options = {});
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_SGD_H_
