#ifndef TESSERA_TRAIN_NN_ACTIVATION_H_
#define TESSERA_TRAIN_NN_ACTIVATION_H_

#include <string>

#include "tessera/ndarray/ndarray.h"
#include "tessera/train/nn/layer.h"

namespace tessera::nn {

/// A function of each element, by name:
///   relu max(x, 0); sigmoid 1 / (1 + e^-x); tanh; softrelu log(1 + e^x); softsign x / (1 + |x|);
///   silu x sigmoid(x); gelu x Phi(x), where Phi is the normal distribution function;
///   selu, the scaled ELU (G. Klambauer et al., Self-Normalizing Neural Networks, NIPS 2017).
/// The output has the input's shape.
class Activation : public UnaryLayer {
 public:
  /// Throws Error(kInvalidArgument) that lists the names for any other name.
  explicit Activation(std::string name);

  /// Returns the function of x for the name of an Activation, or x itself for an empty name.
  static NDArray Apply(const std::string& name, const NDArray& x);
  /// Throws as the constructor does, for the option `activation` of a layer.
  static void CheckName(const std::string& name);

 private:
  NDArray Forward(const NDArray& x) const override { return Apply(name_, x); }

  std::string name_;
};

/// x Phi(x) (D. Hendrycks, K. Gimpel, Gaussian Error Linear Units, 2016).
class GELU final : public Activation {
 public:
  GELU() : Activation("gelu") {}
};

/// x sigmoid(x), also known as swish.
class SiLU final : public Activation {
 public:
  SiLU() : Activation("silu") {}
};

/// x for x > 0 and alpha x otherwise.
class LeakyReLU final : public UnaryLayer {
 public:
  explicit LeakyReLU(double alpha) : alpha_(alpha) {}

 private:
  NDArray Forward(const NDArray& x) const override;

  double alpha_;
};

/// x for x > 0 and alpha (e^x - 1) otherwise.
class ELU final : public UnaryLayer {
 public:
  explicit ELU(double alpha = 1) : alpha_(alpha) {}

 private:
  NDArray Forward(const NDArray& x) const override;

  double alpha_;
};

/// x for x > 0 and alpha x otherwise, where the parameter `alpha` is learned, first 0.25: one
/// number, or one for each of `in_channels` channels, which are axis 1.
class PReLU final : public UnaryLayer {
 public:
  explicit PReLU(index_t in_channels = 1);

 private:
  NDArray Forward(const NDArray& x) const override;

  index_t in_channels_;
  Parameter alpha_;
};

}  // namespace tessera::nn

#endif  // TESSERA_TRAIN_NN_ACTIVATION_H_
