#include "tessera/train/initializer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/tensor/philox.h"
#include "tessera/tensor/random.h"

namespace tessera {
namespace {

/// Returns a stream of random numbers for each name: FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo), cut
/// to the 48 bits of PhiloxState's streams.
uint64_t StreamOf(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return (hash ^ (hash >> 48)) & ((uint64_t{1} << 48) - 1);
}

bool EndsWithAny(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [name](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

void Initializer::Initialize(std::string_view name, uint64_t seed, const NDArray& array) const {
  if (!IsReal(array.dtype())) {
    throw InvalidArgument("Initializer: parameter ", Excerpt(name), " has type ", array.dtype(),
                          ", expected a floating-point type");
  }
  std::vector<float> values(static_cast<size_t>(array.shape().Size()));
  if (EndsWithAny(name, {"weight"})) {
    PhiloxState state{.seed = seed, .stream = StreamOf(name)};
    Random<cpu> random(&state);
    FillWeight(name, array.shape(), &random, values);
  } else if (EndsWithAny(name, {"bias", "beta", "moving_mean", "running_mean"})) {
    std::fill(values.begin(), values.end(), 0.0f);
  } else if (EndsWithAny(name, {"gamma", "moving_var", "running_var"})) {
    std::fill(values.begin(), values.end(), 1.0f);
  } else {
    throw InvalidArgument(
        "Initializer: no rule for the parameter ", Excerpt(name),
        ", expected a name that ends in weight, bias, gamma, beta, moving_mean or "
        "moving_var; is it an input that is not among the data and label names?");
  }
  VisitRealDType(array.dtype(), "Initializer", [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> typed(values.size());
    std::transform(values.begin(), values.end(), typed.begin(),
                   [](float value) { return static_cast<T>(value); });
    NDArray target = array;
    target.SyncCopyFromCPU(typed.data(), static_cast<index_t>(typed.size()));
  });
}

void Constant::FillWeight(std::string_view, const TShape&, Random<cpu>*,
                          std::span<float> values) const {
  std::fill(values.begin(), values.end(), value_);
}

void Uniform::FillWeight(std::string_view, const TShape&, Random<cpu>* random,
                         std::span<float> values) const {
  random->SampleUniform(values, -scale_, scale_);
}

void Normal::FillWeight(std::string_view, const TShape&, Random<cpu>* random,
                        std::span<float> values) const {
  random->SampleGaussian(values, 0, sigma_);
}

void Xavier::FillWeight(std::string_view name, const TShape& shape, Random<cpu>* random,
                        std::span<float> values) const {
  if (shape.ndim() < 2) {
    throw InvalidArgument("Xavier: parameter ", Excerpt(name), " has shape ", shape,
                          ", expected (outputs, inputs) or more dimensions");
  }
  if (values.empty()) return;
  const double kernel = static_cast<double>(shape.ProdShape(2, shape.ndim()));
  const double out = static_cast<double>(shape[0]) * kernel;
  const double in = static_cast<double>(shape[1]) * kernel;
  double factor = (in + out) / 2;
  if (options_.factor_type == XavierOptions::Factor::kIn) factor = in;
  if (options_.factor_type == XavierOptions::Factor::kOut) factor = out;
  const double scale = std::sqrt(options_.magnitude / factor);
  if (options_.rnd_type == XavierOptions::Distribution::kUniform) {
    random->SampleUniform(values, -scale, scale);
  } else {
    random->SampleGaussian(values, 0, scale);
  }
}

}  // namespace tessera
