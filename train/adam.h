#ifndef TESSERA_TRAIN_ADAM_H_
#define TESSERA_TRAIN_ADAM_H_

#include "tessera/train/optimizer.h"

namespace tessera {

/// Options of Adam. Usual rates are about 0.001.
struct AdamOptions : OptimizerOptions {
  double beta1 = 0.9;     ///< decay of the mean, in [0, 1)
  double beta2 = 0.999;   ///< decay of the variance, in [0, 1)
  double epsilon = 1e-8;  ///< added to the root of the variance
};

/// Adam (D. P. Kingma, J. Ba, ICLR 2015, section 2): g = clip(rescale_grad * grad + wd * weight);
/// mean = beta1 * mean + (1 - beta1) * g; var = beta2 * var + (1 - beta2) * g^2; weight -= lr * c *
/// mean / (sqrt(var) + epsilon), c = sqrt(1 - beta2^t) / (1 - beta1^t). The operator adam_update
/// computes the same, with lr * c as its lr.
class Adam final : public Optimizer {
 public:
  /// Throws Error(kInvalidArgument) for numbers out of range, and as Optimizer does.
  explicit Adam(const AdamOptions& options = {});
};

/// Options of AdamW. Usual rates are about 0.001.
struct AdamWOptions : OptimizerOptions {
  double beta1 = 0.9;           ///< decay of the mean, in [0, 1)
  double beta2 = 0.999;         ///< decay of the variance, in [0, 1)
  double epsilon = 1e-8;        ///< added to the root of the variance
  bool bias_correction = true;  ///< whether the states' start at 0 is corrected
};

/// AdamW (I. Loshchilov, F. Hutter, ICLR 2019, algorithm 2), whose weight decay is no part of the
/// gradient: g = clip(rescale_grad * grad), mean and var as in Adam, weight -= lr * (c * mean /
/// (sqrt(var) + epsilon) + wd * weight). The operator _adamw_update computes the same, with lr as
/// its eta and c as its lr.
class AdamW final : public Optimizer {
 public:
  /// Throws Error(kInvalidArgument) for numbers out of range, and as Optimizer does.
  explicit AdamW(const AdamWOptions& options = {});
};

/// Options of Adamax. Usual rates are about 0.002.
struct AdamaxOptions : OptimizerOptions {
  double beta1 = 0.9;    ///< decay of the mean, in [0, 1)
  double beta2 = 0.999;  ///< decay of the largest gradient, in [0, 1)
};

/// Adam by the largest gradient (D. P. Kingma, J. Ba, ICLR 2015, algorithm 2): g as in Adam; mean =
/// beta1 * mean + (1 - beta1) * g; u = max(beta2 * u, |g|); weight -= lr / (1 - beta1^t) * mean /
/// u. An element whose u is 0 stays.
class Adamax final : public Optimizer {
 public:
  /// Throws Error(kInvalidArgument) for numbers out of range, and as Optimizer does.
  explicit Adamax(const AdamaxOptions& options = {});
};

/// Options of Lamb. Usual rates are about 0.001.
struct LambOptions : OptimizerOptions {
  double beta1 = 0.9;           ///< decay of the mean, in [0, 1)
  double beta2 = 0.999;         ///< decay of the variance, in [0, 1)
  double epsilon = 1e-6;        ///< added to the root of the variance
  double lower_bound = -1;      ///< least norm of a weight; negative: none
  double upper_bound = -1;      ///< largest norm of a weight; negative: none
  bool bias_correction = true;  ///< whether the states' start at 0 is corrected
};

/// LAMB (Y. You et al., ICLR 2020): a direction like AdamW's step,
/// d = m / (sqrt(v) + epsilon) + wd * weight with the corrected mean and variance m and v, then
/// weight -= lr * r * d, r = |weight| limited to the bounds / |d|, or 1 where a norm is 0. The
/// operator _multi_lamb_update computes the same. For the CPU.
class Lamb final : public Optimizer {
 public:
  /// Throws Error(kInvalidArgument) for numbers out of range, and as Optimizer does.
  explicit Lamb(const LambOptions& options = {});
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_ADAM_H_
