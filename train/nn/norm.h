#ifndef TESSERA_TRAIN_NN_NORM_H_
#define TESSERA_TRAIN_NN_NORM_H_

#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/train/nn/layer.h"

namespace tessera::nn {

/// Options of BatchNorm.
struct BatchNormOptions {
  int axis = 1;                   ///< the axis of channels
  double momentum = 0.9;          ///< the weight of the old running statistics
  double epsilon = 1e-5;          ///< added to the variance
  bool center = true;             ///< whether beta is trained
  bool scale = true;              ///< whether gamma is trained, instead of being 1
  bool use_global_stats = false;  ///< whether training uses the running statistics, too
};

/// Normalizes each channel over the batch: y = (x - mean) / sqrt(variance + epsilon) gamma + beta
/// (S. Ioffe, C. Szegedy, Batch Normalization, ICML 2015). In training, the statistics are the
/// batch's, and running = momentum running + (1 - momentum) batch; otherwise they are the running
/// ones.
///
/// Parameters, each of shape (channels): `gamma`, `beta`, `running_mean`, `running_var`. The last
/// two, and gamma and beta unless they are trained, have no gradient.
class BatchNorm final : public UnaryLayer {
 public:
  explicit BatchNorm(const BatchNormOptions& options = {});

 private:
  NDArray Forward(const NDArray& x) const override;

  BatchNormOptions options_;
  Parameter gamma_, beta_, running_mean_, running_var_;
};

/// Options of LayerNorm and GroupNorm.
struct NormOptions {
  double epsilon = 1e-5;  ///< added to the variance
  bool center = true;     ///< whether beta is trained, instead of being 0
  bool scale = true;      ///< whether gamma is trained, instead of being 1
};

/// Normalizes along an axis: y = (x - mean) / sqrt(variance + epsilon) gamma + beta (J. Ba, J.
/// Kiros, G. Hinton, Layer Normalization, 2016).
///
/// Parameters, each as long as the axis: `gamma`, `beta`.
class LayerNorm final : public UnaryLayer {
 public:
  /// A negative axis is counted from the end.
  explicit LayerNorm(const NormOptions& options = {}, int axis = -1);

 private:
  NDArray Forward(const NDArray& x) const override;

  NormOptions options_;
  int axis_;
  Parameter gamma_, beta_;
};

/// Normalizes each group of channels of each example (Y. Wu, K. He, Group Normalization, ECCV
/// 2018).
///
/// Shapes: input (batch, channels, …). Parameters, as Gluon has them, each of shape (num_groups):
/// `gamma`, `beta`.
class GroupNorm final : public UnaryLayer {
 public:
  /// Throws Error(kInvalidArgument) for num_groups below 1.
  explicit GroupNorm(index_t num_groups = 1, const NormOptions& options = {});

 private:
  NDArray Forward(const NDArray& x) const override;

  index_t num_groups_;
  NormOptions options_;
  Parameter gamma_, beta_;
};

/// Divides by the root of the mean square along the last axis: y = x / sqrt(mean(x^2) + epsilon)
/// gamma (B. Zhang, R. Sennrich, Root Mean Square Layer Normalization, NeurIPS 2019).
///
/// Parameter, as long as the axis: `gamma`.
class RMSNorm final : public UnaryLayer {
 public:
  explicit RMSNorm(double epsilon = 1e-6);

 private:
  NDArray Forward(const NDArray& x) const override;

  double epsilon_;
  Parameter gamma_;
};

}  // namespace tessera::nn

#endif  // TESSERA_TRAIN_NN_NORM_H_
