#ifndef TESSERA_TRAIN_INITIALIZER_H_
#define TESSERA_TRAIN_INITIALIZER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  virtual void Initialize(std::string_view name, uint64_t seed, const NDArray& array) const;
  /// Fills the array as a weight, whatever its name ends in. Throws as Initialize does.
  void InitializeAsWeight(std::string_view name, uint64_t seed, const NDArray& array) const;

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
class Xavier : public Initializer {
 public:
  explicit Xavier(const XavierOptions& options = {}) : options_(options) {}

 protected:
  /// Throws Error(kInvalidArgument) for weights of rank below 2.
  void FillWeight(std::string_view name, const TShape& shape, Random<cpu>* random,
                  std::span<float> values) const override;

 private:
  XavierOptions options_;
};

/// Draws normal weights with mean 0 and standard deviation sigma, and draws again those whose
/// magnitude is above 2 * sigma.
class TruncatedNormal final : public Initializer {
 public:
  explicit TruncatedNormal(float sigma = 0.01f) : sigma_(sigma) {}

 protected:
  void FillWeight(std::string_view, const TShape&, Random<cpu>* random,
                  std::span<float> values) const override;

 private:
  float sigma_;
};

/// Keeps the scale of values in layers with rectifiers of a slope below 0 (K. He et al.: Delving
/// deep into rectifiers, ICCV 2015, equation 15): Xavier with normal weights and the magnitude 2 /
/// (1 + slope^2).
class MsraPrelu final : public Xavier {
 public:
  explicit MsraPrelu(XavierOptions::Factor factor_type = XavierOptions::Factor::kAverage,
                     float slope = 0.25f);
};

/// Options of Orthogonal, named as in MXNet.
struct OrthogonalOptions {
  float scale = 1.414f;  ///< the factor of the orthogonal matrix
  /// The distribution of the matrix whose rows or columns are made orthogonal.
  XavierOptions::Distribution rnd_type = XavierOptions::Distribution::kUniform;
};

/// Draws weights of which, as a matrix (shape[0], rest), the rows are orthogonal, or the columns if
/// there are more rows, each of norm `scale` (A. M. Saxe et al.: Exact solutions to the nonlinear
/// dynamics of learning in deep linear neural networks, ICLR 2014), by Gram and Schmidt's method,
/// twice, in double. Cost: 4 m^2 n operations for m vectors of n elements.
class Orthogonal final : public Initializer {
 public:
  explicit Orthogonal(const OrthogonalOptions& options = {}) : options_(options) {}

 protected:
  /// Throws Error(kInvalidArgument) for weights of rank below 2.
  void FillWeight(std::string_view name, const TShape& shape, Random<cpu>* random,
                  std::span<float> values) const override;

 private:
  OrthogonalOptions options_;
};

/// Sets a transposed convolution's weights (out, in, height, width) to those that enlarge pictures
/// by bilinear interpolation (J. Long et al.: Fully convolutional networks, CVPR 2015, section
/// 3.3).
class Bilinear final : public Initializer {
 protected:
  /// Throws Error(kInvalidArgument) for weights of another rank than 4.
  void FillWeight(std::string_view name, const TShape& shape, Random<cpu>*,
                  std::span<float> values) const override;
};

/// Sets the biases of an LSTM's gates, input, forget, cell and output, to 0 but that of the forget
/// gate to `forget_bias` (R. Jozefowicz et al., ICML 2015, section 2.2). A bias is no weight by its
/// name, so a rule of Mixed with `as_weight` uses it.
class LstmBias final : public Initializer {
 public:
  explicit LstmBias(float forget_bias = 1) : forget_bias_(forget_bias) {}

 protected:
  /// Throws Error(kInvalidArgument) unless the array has 4 * n elements in its first dimension.
  void FillWeight(std::string_view name, const TShape& shape, Random<cpu>*,
                  std::span<float> values) const override;

 private:
  float forget_bias_;
};

/// The initializer of the parameters whose names fit a pattern.
struct InitializerRule {
  std::string pattern;                             ///< '*' stands for any characters, '?' for one
  std::shared_ptr<const Initializer> initializer;  ///< not null
  /// Whether the parameters count as weights, whatever their names end in.
  bool as_weight = false;
};

/// Initializes each parameter by the first rule that fits its name:
///
///     Mixed({{"*_lstm_bias", std::make_shared<LstmBias>(), /*as_weight=*/true},
///            {"*", std::make_shared<Xavier>()}})
class Mixed final : public Initializer {
 public:
  /// Throws Error(kInvalidArgument) for a rule without an initializer.
  explicit Mixed(std::vector<InitializerRule> rules);

  /// Throws Error(kInvalidArgument) if no rule fits, and what the rule's initializer throws.
  void Initialize(std::string_view name, uint64_t seed, const NDArray& array) const override;

 protected:
  void FillWeight(std::string_view name, const TShape& shape, Random<cpu>* random,
                  std::span<float> values) const override;

 private:
  const InitializerRule& RuleOf(std::string_view name) const;

  std::vector<InitializerRule> rules_;
};

/// Initializes parameters with saved arrays, converted to their types, and others by another
/// initializer. Names in `arrays` may begin with "arg:" or "aux:", as in MXNet's files.
class Load final : public Initializer {
 public:
  /// Without `otherwise`, a parameter that is not among the arrays is an error.
  explicit Load(const std::map<std::string, NDArray>& arrays,
                std::shared_ptr<const Initializer> otherwise = nullptr);

  /// Throws Error(kInvalidArgument) for an array of another shape and for a missing one, and what
  /// the other initializer throws.
  void Initialize(std::string_view name, uint64_t seed, const NDArray& array) const override;

 protected:
  void FillWeight(std::string_view name, const TShape& shape, Random<cpu>* random,
                  std::span<float> values) const override;

 private:
  std::map<std::string, NDArray, std::less<>> arrays_;
  std::shared_ptr<const Initializer> otherwise_;
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_INITIALIZER_H_
