#ifndef TESSERA_TRAIN_INITIALIZER_H_
#define TESSERA_TRAIN_INITIALIZER_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/ndarray/ndarray.h"

namespace tessera {

template <typename Device>
class Random;

/// Sets the first values of parameters by the end of their names: a `weight` is filled by the
/// derived class; `bias`, `beta`, `moving_mean`, `running_mean` are 0; `gamma`, `moving_var`,
/// `running_var` are 1.
///
/// The values depend only on seed and name, not on the order in which parameters are filled.
/// Threads: initializers are constant, and may be used from any thread.
class Initializer {
 public:
  virtual ~Initializer() = default;

  /// Fills the array, and returns when it is filled. Throws Error(kInvalidArgument) that names the
  /// parameter if no rule fits its name, if its type is not a floating-point one, or if the
  /// initializer cannot fill its shape. Throws Error(kInvalidArgument) for a scale that no
  /// distribution has (negative, NaN).
  void Initialize(std::string_view name, uint64_t seed, const NDArray& array) const;

 protected:
  /// Fills the values of a weight in row-major order.
  virtual void FillWeight(std::string_view name, const TShape& shape, Random<cpu>* random,
                          std::span<float> values) const = 0;
};

/// Sets every weight to the same value.
class Constant : public Initializer {
 public:
  explicit Constant(float value) : value_(value) {}

 protected:
  void FillWeight(std::string_view, const TShape&, Random<cpu>*,
                  std::span<float> values) const override;

 private:
  float value_;
};

/// Sets every weight to 0.
class Zero final : public Constant {
 public:
  Zero() : Constant(0) {}
};

/// Sets every weight to 1.
class One final : public Constant {
 public:
  One() : Constant(1) {}
};

/// Draws weights uniform in [-scale, scale).
class Uniform final : public Initializer {
 public:
  explicit Uniform(float scale = 0.07f) : scale_(scale) {}

 protected:
  void FillWeight(std::string_view, const TShape&, Random<cpu>* random,
                  std::span<float> values) const override;

 private:
  float scale_;
};

/// Draws normal weights with mean 0 and standard deviation sigma.
class Normal final : public Initializer {
 public:
  explicit Normal(float sigma = 0.01f) : sigma_(sigma) {}

 protected:
  void FillWeight(std::string_view, const TShape&, Random<cpu>* random,
                  std::span<float> values) const override;

 private:
  float sigma_;
};

/// Options of Xavier, named as in MXNet.
struct XavierOptions {
  /// The distribution of weights.
  enum class Distribution { kUniform, kGaussian };
  /// The count that is the factor: inputs, outputs, or the average of both.
  enum class Factor { kAverage, kIn, kOut };
  Distribution rnd_type = Distribution::kUniform;  ///< see Xavier
  Factor factor_type = Factor::kAverage;           ///< see Xavier
  float magnitude = 3;                             ///< above 0
};

/// Keeps the scale of values and gradients about the same in all layers (X. Glorot, Y. Bengio:
/// Understanding the difficulty of training deep feedforward neural networks, AISTATS 2010, section
/// 4.2). Weights are uniform in [-s, s), or normal with deviation s, where s = sqrt(magnitude /
/// factor). The factor is the number of inputs or outputs of a neuron, or the average of both. A
/// weight of shape (out, in, k…) has in * prod(k) inputs and out * prod(k) outputs.
class Xavier final : public Initializer {
 public:
  explicit Xavier(const XavierOptions& options = {}) : options_(options) {}

 protected:
  /// Throws Error(kInvalidArgument) for weights of rank below 2.
  void FillWeight(std::string_view name, const TShape& shape, Random<cpu>* random,
                  std::span<float> values) const override;

 private:
  XavierOptions options_;
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_INITIALIZER_H_
