#include "tessera/train/initializer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/tensor/philox.h"
#include "tessera/tensor/random.h"
#include "tessera/train/name_pattern.h"

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

/// Returns the shape of a parameter. Throws Error(kInvalidArgument) unless its type is a
/// floating-point one.
const TShape& CheckedShape(std::string_view name, const NDArray& array) {
  if (IsReal(array.dtype())) return array.shape();
  throw InvalidArgument("Initializer: parameter ", Excerpt(name), " has type ", array.dtype(),
                        ", expected a floating-point type");
}

/// Sets an array's elements, and returns when they are set.
void SetValues(const std::vector<float>& values, const NDArray& array) {
  VisitRealDType(array.dtype(), "Initializer", [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> typed(values.size());
    std::transform(values.begin(), values.end(), typed.begin(),
                   [](float value) { return static_cast<T>(value); });
    NDArray target = array;
    target.SyncCopyFromCPU(typed.data(), static_cast<index_t>(typed.size()));
  });
}

/// Throws unless a weight has at least two dimensions.
void RequireMatrix(std::string_view initializer, std::string_view name, const TShape& shape) {
  if (shape.ndim() >= 2) return;
  throw InvalidArgument(initializer, ": parameter ", Excerpt(name), " has shape ", shape,
                        ", expected (outputs, inputs) or more dimensions");
}

/// Makes vectors orthonormal: vector k is `values` from k * length on, its elements adjacent.
/// Requires: no more vectors than elements of each.
void MakeOrthonormal(index_t count, index_t length, std::vector<double>* values) {
  const auto at = [&](index_t k) { return values->data() + k * length; };
  const auto dot = [length](const double* a, const double* b) {
    double sum = 0;
    for (index_t i = 0; i < length; ++i) sum += a[i] * b[i];
    return sum;
  };
  for (index_t k = 0; k < count; ++k) {
    double* const vector = at(k);
    // Once more, because the first pass leaves rounding errors of a vector that nearly depends on
    // the others (B. N. Parlett: The symmetric eigenvalue problem, 1980, section 6.9).
    for (int pass = 0; pass < 2; ++pass) {
      for (index_t other = 0; other < k; ++other) {
        const double part = dot(vector, at(other));
        for (index_t i = 0; i < length; ++i) vector[i] -= part * at(other)[i];
      }
    }
    const double norm = std::sqrt(dot(vector, vector));
    for (index_t i = 0; i < length; ++i) vector[i] /= norm;
  }
}

}  // namespace

void Initializer::Initialize(std::string_view name, uint64_t seed, const NDArray& array) const {
  if (EndsWithAny(name, {"weight"})) return InitializeAsWeight(name, seed, array);
  const auto size = static_cast<size_t>(CheckedShape(name, array).Size());
  if (EndsWithAny(name, {"bias", "beta", "moving_mean", "running_mean"})) {
    SetValues(std::vector<float>(size, 0.0f), array);
  } else if (EndsWithAny(name, {"gamma", "moving_var", "running_var"})) {
    SetValues(std::vector<float>(size, 1.0f), array);
  } else {
    throw InvalidArgument(
        "Initializer: no rule for the parameter ", Excerpt(name),
        ", expected a name that ends in weight, bias, gamma, beta, moving_mean or "
        "moving_var; is it an input that is not among the data and label names?");
  }
}

void Initializer::InitializeAsWeight(std::string_view name, uint64_t seed,
                                     const NDArray& array) const {
  const TShape& shape = CheckedShape(name, array);
  std::vector<float> values(static_cast<size_t>(shape.Size()));
  PhiloxState state{.seed = seed, .stream = StreamOf(name)};
  Random<cpu> random(&state);
  FillWeight(name, shape, &random, values);
  SetValues(values, array);
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
  RequireMatrix("Xavier", name, shape);
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

void TruncatedNormal::FillWeight(std::string_view, const TShape&, Random<cpu>* random,
                                 std::span<float> values) const {
  random->SampleGaussian(values, 0, sigma_);
  // About one value in 22 is drawn again.
  std::vector<float> more;
  while (true) {
    std::vector<size_t> outside;
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::abs(values[i]) > 2 * sigma_) outside.push_back(i);
    }
    if (outside.empty()) return;
    more.resize(outside.size());
    random->SampleGaussian(std::span<float>(more), 0, sigma_);
    for (size_t k = 0; k < outside.size(); ++k) values[outside[k]] = more[k];
  }
}

MsraPrelu::MsraPrelu(XavierOptions::Factor factor_type, float slope)
    : Xavier({.rnd_type = XavierOptions::Distribution::kGaussian,
              .factor_type = factor_type,
              .magnitude = 2 / (1 + slope * slope)}) {}

void Orthogonal::FillWeight(std::string_view name, const TShape& shape, Random<cpu>* random,
                            std::span<float> values) const {
  RequireMatrix("Orthogonal", name, shape);
  if (values.empty()) return;
  const index_t rows = shape[0], columns = shape.ProdShape(1, shape.ndim());
  if (options_.rnd_type == XavierOptions::Distribution::kUniform) {
    random->SampleUniform(values, -1, 1);
  } else {
    random->SampleGaussian(values, 0, 1);
  }
  // The shorter side's vectors, each adjacent.
  std::vector<double> vectors(values.begin(), values.end());
  MakeOrthonormal(std::min(rows, columns), std::max(rows, columns), &vectors);
  for (index_t row = 0; row < rows; ++row) {
    for (index_t column = 0; column < columns; ++column) {
      const index_t from = rows <= columns ? row * columns + column : column * rows + row;
      values[static_cast<size_t>(row * columns + column)] = static_cast<float>(
          static_cast<double>(options_.scale) * vectors[static_cast<size_t>(from)]);
    }
  }
}

void Bilinear::FillWeight(std::string_view name, const TShape& shape, Random<cpu>*,
                          std::span<float> values) const {
  if (shape.ndim() != 4) {
    throw InvalidArgument("Bilinear: parameter ", Excerpt(name), " has shape ", shape,
                          ", expected (out, in, height, width)");
  }
  // As in MXNet, the width determines the scale in both directions.
  const index_t height = shape[2], width = shape[3];
  const double factor = std::ceil(static_cast<double>(width) / 2);
  const double center = (2 * factor - 1 - std::fmod(factor, 2)) / (2 * factor);
  const auto share = [&](index_t position) {
    return 1 - std::abs(static_cast<double>(position) / factor - center);
  };
  for (size_t i = 0; i < values.size(); ++i) {
    const auto position = static_cast<index_t>(i);
    values[i] = static_cast<float>(share(position % width) * share(position / width % height));
  }
}

void LstmBias::FillWeight(std::string_view name, const TShape& shape, Random<cpu>*,
                          std::span<float> values) const {
  if (shape.ndim() < 1 || shape[0] % 4 != 0) {
    throw InvalidArgument("LstmBias: parameter ", Excerpt(name), " has shape ", shape,
                          ", expected a multiple of 4 in the first dimension");
  }
  const size_t gate = values.size() / 4;
  std::fill(values.begin(), values.end(), 0.0f);
  std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(gate), gate, forget_bias_);
}

Mixed::Mixed(std::vector<InitializerRule> rules) : rules_(std::move(rules)) {
  for (const InitializerRule& rule : rules_) {
    if (rule.initializer != nullptr) continue;
    throw InvalidArgument("Mixed: the rule for ", Excerpt(rule.pattern), " has no initializer");
  }
}

const InitializerRule& Mixed::RuleOf(std::string_view name) const {
  for (const InitializerRule& rule : rules_) {
    if (train_internal::FitsPattern(name, rule.pattern)) return rule;
  }
  throw InvalidArgument("Mixed: no rule for the parameter ", Excerpt(name),
                        ", expected one that fits, such as a last one for \"*\"");
}

void Mixed::Initialize(std::string_view name, uint64_t seed, const NDArray& array) const {
  const InitializerRule& rule = RuleOf(name);
  if (rule.as_weight) {
    rule.initializer->InitializeAsWeight(name, seed, array);
  } else {
    rule.initializer->Initialize(name, seed, array);
  }
}

void Mixed::FillWeight(std::string_view name, const TShape&, Random<cpu>*, std::span<float>) const {
  throw InvalidArgument("Mixed: parameter ", Excerpt(name),
                        " as a weight, expected a rule with as_weight in its place");
}

Load::Load(const std::map<std::string, NDArray>& arrays,
           std::shared_ptr<const Initializer> otherwise)
    : otherwise_(std::move(otherwise)) {
  for (const auto& [name, array] : arrays) {
    const bool has_prefix = name.starts_with("arg:") || name.starts_with("aux:");
    arrays_.emplace(has_prefix ? name.substr(4) : name, array);
  }
}

void Load::Initialize(std::string_view name, uint64_t seed, const NDArray& array) const {
  const auto found = arrays_.find(name);
  if (found == arrays_.end()) {
    if (otherwise_ != nullptr) return otherwise_->Initialize(name, seed, array);
    throw InvalidArgument("Load: no array for the parameter ", Excerpt(name),
                          ", expected one or an initializer for others");
  }
  if (found->second.shape() != array.shape()) {
    throw InvalidArgument("Load: the array for ", Excerpt(name), " has shape ",
                          found->second.shape(), ", expected ", array.shape());
  }
  CopyFromTo(found->second, array);
  array.WaitToRead();
}

void Load::FillWeight(std::string_view name, const TShape&, Random<cpu>*, std::span<float>) const {
  throw InvalidArgument("Load: parameter ", Excerpt(name),
                        " as a weight, expected a rule without as_weight");
}

}  // namespace tessera
