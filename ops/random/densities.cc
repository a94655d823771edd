// _random_pdf_NAME: probability densities, or with is_log their logarithms.
//
//   out[i…][j…] = f(sample[i…][j…]) of the distribution whose parameters are at [i…]
//   d f = f d log f; the gradient of parameters at [i…] is a sum over j…
//
// The densities, in which lgamma is the logarithm of the gamma function:
//
//   uniform (low, high)     log f(x) = -log(high - low)
//   normal (mu, sigma)      log f(x) = -((x - mu) / sigma)^2 / 2 - log(sigma sqrt(2 pi))
//   gamma (alpha, beta)     log f(x) = alpha log beta + (alpha - 1) log x - beta x - lgamma(alpha)
//   exponential (lam)       log f(x) = log lam - lam x
//   poisson (lam)           log f(x) = x log lam - lam - lgamma(x + 1)
//   negative_binomial (k, p)
//       log f(x) = lgamma(x + k) - lgamma(k) - lgamma(x + 1) + k log p + x log(1 - p)
//   generalized_negative_binomial (mu, alpha)
//       log f(x) = that of negative_binomial (1 / alpha, 1 / (1 + alpha mu))
//   dirichlet (alpha)
//       log f(x) = lgamma(sum of alpha) + sum over c of (alpha[c] - 1) log x[c] - lgamma(alpha[c])
//
// The term 0 log 0 is 0. The rest is MXNet's: gamma's beta is a rate, whereas that of _random_gamma
// is a scale; formulas also hold for samples and parameters that a distribution does not have; the
// samples of the three distributions of integers have gradient 0; the gradient takes dirichlet's
// x[c] for independent.
//
// Shapes: parameters (i…), sample and output (i…, j…); for dirichlet, parameters and sample have
// the classes c as one more axis, the last. Types: float32, float64, float16, bfloat16, computed in
// float64. Runs on the CPU.

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: elements and registration
using base_internal::At;

double LogGamma(double x) { return op::lgamma::Map(x); }
double Digamma(double x) { return op::digamma::Map(x); }

/// Returns factor * log x, which is 0 if the factor is.
double TimesLog(double factor, double x) { return factor == 0 ? 0 : factor * std::log(x); }

/// A distribution's samples: floating-point numbers, integers, or rows of a number for each class.
enum class Sample { kReal, kInteger, kClasses };

// Distributions. Each is constructed from its parameters: one number of each, or one for each of
// `classes` classes. Log returns log f of the sample at x. Slopes writes the derivatives of log f
// with respect to the sample and to the parameters.

struct Uniform {
  static constexpr std::array<const char*, 2> kParameters = {"low", "high"};
  static constexpr Sample kSample = Sample::kReal;
  const double width;

  Uniform(const double* p, index_t) : width(p[1] - p[0]) {}
  double Log(const double*) const { return -std::log(width); }
  void Slopes(const double*, double* dx, double* dp) const {
    dx[0] = 0;
    dp[0] = 1 / width;
    dp[1] = -1 / width;
  }
};

struct Normal {
  static constexpr std::array<const char*, 2> kParameters = {"mu", "sigma"};
  static constexpr Sample kSample = Sample::kReal;
  const double mu, sigma;

  Normal(const double* p, index_t) : mu(p[0]), sigma(p[1]) {}
  double Log(const double* x) const {
    const double z = (x[0] - mu) / sigma;
    return -z * z / 2 - std::log(sigma * std::sqrt(2 * std::numbers::pi));
  }
  void Slopes(const double* x, double* dx, double* dp) const {
    const double z = (x[0] - mu) / sigma;
    dx[0] = -z / sigma;
    dp[0] = z / sigma;
    dp[1] = (z * z - 1) / sigma;
  }
};

struct Gamma {
  static constexpr std::array<const char*, 2> kParameters = {"alpha", "beta"};
  static constexpr Sample kSample = Sample::kReal;
  const double alpha, beta;

  Gamma(const double* p, index_t) : alpha(p[0]), beta(p[1]) {}
  double Log(const double* x) const {
    return alpha * std::log(beta) + TimesLog(alpha - 1, x[0]) - beta * x[0] - LogGamma(alpha);
  }
  void Slopes(const double* x, double* dx, double* dp) const {
    dx[0] = (alpha - 1) / x[0] - beta;
    dp[0] = std::log(beta) + std::log(x[0]) - Digamma(alpha);
    dp[1] = alpha / beta - x[0];
  }
};

struct Exponential {
  static constexpr std::array<const char*, 1> kParameters = {"lam"};
  static constexpr Sample kSample = Sample::kReal;
  const double lam;

  Exponential(const double* p, index_t) : lam(p[0]) {}
  double Log(const double* x) const { return std::log(lam) - lam * x[0]; }
  void Slopes(const double* x, double* dx, double* dp) const {
    dx[0] = -lam;
    dp[0] = 1 / lam - x[0];
  }
};

struct Poisson {
  static constexpr std::array<const char*, 1> kParameters = {"lam"};
  static constexpr Sample kSample = Sample::kInteger;
  const double lam;

  Poisson(const double* p, index_t) : lam(p[0]) {}
  double Log(const double* x) const { return TimesLog(x[0], lam) - lam - LogGamma(x[0] + 1); }
  void Slopes(const double* x, double* dx, double* dp) const {
    dx[0] = 0;
    dp[0] = x[0] / lam - 1;
  }
};

struct NegativeBinomial {
  static constexpr std::array<const char*, 2> kParameters = {"k", "p"};
  static constexpr Sample kSample = Sample::kInteger;
  const double k, p;

  NegativeBinomial(const double* parameters, index_t) : k(parameters[0]), p(parameters[1]) {}
  double Log(const double* x) const {
    return LogGamma(x[0] + k) - LogGamma(k) - LogGamma(x[0] + 1) + TimesLog(k, p) +
           TimesLog(x[0], 1 - p);
  }
  void Slopes(const double* x, double* dx, double* dp) const {
    dx[0] = 0;
    dp[0] = Digamma(x[0] + k) - Digamma(k) + std::log(p);
    dp[1] = k / p - x[0] / (1 - p);
  }
};

struct GeneralizedNegativeBinomial {
  static constexpr std::array<const char*, 2> kParameters = {"mu", "alpha"};
  static constexpr Sample kSample = Sample::kInteger;
  const double mu, alpha, k, scale;  // k = 1 / alpha, p = 1 / scale

  GeneralizedNegativeBinomial(const double* parameters, index_t)
      : mu(parameters[0]), alpha(parameters[1]), k(1 / alpha), scale(1 + alpha * mu) {}
  double Log(const double* x) const {
    return LogGamma(x[0] + k) - LogGamma(k) - LogGamma(x[0] + 1) - (x[0] + k) * std::log(scale) +
           TimesLog(x[0], alpha * mu);
  }
  void Slopes(const double* x, double* dx, double* dp) const {
    dx[0] = 0;
    dp[0] = (x[0] - mu) / (mu * scale);
    dp[1] = k * k * (Digamma(k) - Digamma(x[0] + k) + std::log(scale)) + k * (x[0] - mu) / scale;
  }
};

struct Dirichlet {
  static constexpr std::array<const char*, 1> kParameters = {"alpha"};
  static constexpr Sample kSample = Sample::kClasses;
  const double* const alpha;
  const index_t classes;
  double sum = 0;       // of alpha
  double constant = 0;  // the terms of log f without x

  Dirichlet(const double* parameters, index_t count) : alpha(parameters), classes(count) {
    for (index_t c = 0; c < classes; ++c) {
      sum += alpha[c];
      constant -= LogGamma(alpha[c]);
    }
    constant += LogGamma(sum);
  }
  double Log(const double* x) const {
    double log = constant;
    for (index_t c = 0; c < classes; ++c) log += TimesLog(alpha[c] - 1, x[c]);
    return log;
  }
  void Slopes(const double* x, double* dx, double* dp) const {
    const double of_sum = Digamma(sum);
    for (index_t c = 0; c < classes; ++c) {
      dx[c] = (alpha[c] - 1) / x[c];
      dp[c] = of_sum - Digamma(alpha[c]) + std::log(x[c]);
    }
  }
};

struct DensityParameters {
  bool is_log = false;

  static void Declare(ParameterSchema<DensityParameters>& schema) {
    schema.Optional("is_log", &DensityParameters::is_log, "return the densities' logarithms");
  }
};

template <typename D>
class DensityProperty final : public ParameterizedProperty<DensityParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    std::vector<std::string> names = {"sample"};
    names.insert(names.end(), D::kParameters.begin(), D::kParameters.end());
    return names;
  }
  bool ArgumentHasGradient(int argument) const override {
    return argument > 0 || D::kSample != Sample::kInteger;
  }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &sample = (*in_shape)[0], &out = (*out_shape)[0];
    TShape parameters = MergeParameters(in_shape, TShape());
    if (!sample.rank_known() && out.rank_known()) {
      const int rank = out.ndim() + kOwnAxes;
      if (rank > TShape::kMaxRank) ThrowShape("output", out, "fewer axes");
      sample = TShape::OfRank(rank);
    }
    if (!sample.rank_known()) return false;
    const int rank = sample.ndim() - kOwnAxes;
    if (rank < 0) ThrowShape("sample", sample, "an axis of classes");
    MergeShape(*this, "output", &out, Leading(sample, rank));
    CopyExtents(out, rank, &sample);
    if (!parameters.rank_known()) return false;
    const int own = parameters.ndim() - kOwnAxes;
    if (own < 0) ThrowShape(D::kParameters[0], parameters, "an axis of classes");
    if (own > rank) {
      ThrowShape(D::kParameters[0], parameters,
                 "at most the axes of sample, which has shape " + sample.ToString());
    }
    // The extents that the parameters and the sample share.
    TShape shared = Leading(sample, parameters.ndim());
    if (kOwnAxes == 1) shared[own] = sample[rank];
    shared = MergeParameters(in_shape, shared);
    CopyExtents(shared, own, &sample);
    CopyExtents(shared, own, &out);
    if (kOwnAxes == 1) {
      sample[rank] = shared[own];
      if (sample[rank] == 0) ThrowShape("sample", sample, "at least one class");
    }
    return sample.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    std::vector<int> ids = {out_grad[0]};
    ids.insert(ids.end(), in_data.begin(), in_data.end());
    return ids;
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    if (kOwnAxes == 1) return {};
    return {{in_data[0], out_data[0]}};
  }

 private:
  /// The number of axes of a single sample.
  static constexpr int kOwnAxes = D::kSample == Sample::kClasses ? 1 : 0;

  static TShape Leading(const TShape& shape, int rank) {
    return TShape(std::span<const index_t>(shape.begin(), static_cast<size_t>(rank)));
  }
  static void CopyExtents(const TShape& from, int count, TShape* to) {
    for (int i = 0; i < count; ++i) (*to)[i] = from[i];
  }
  /// Merges `known` and the parameters' shapes, which are equal, and returns the result.
  TShape MergeParameters(std::vector<TShape>* in_shape, TShape known) const {
    for (size_t i = 0; i < D::kParameters.size(); ++i) {
      MergeShape(*this, D::kParameters[i], &(*in_shape)[i + 1], known);
      known = (*in_shape)[i + 1];
    }
    std::fill(in_shape->begin() + 1, in_shape->end(), known);
    return known;
  }
  [[noreturn]] void ThrowShape(std::string_view value, const TShape& shape,
                               std::string_view expected) const {
    throw InvalidArgument(TypeString(), ": ", value, " has shape ", shape, ", expected ", expected);
  }
};

template <typename D>
class DensityOperator final : public Operator {
 public:
  explicit DensityOperator(const DensityParameters& param) : is_log_(param.is_log) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const TBlob& out = out_data[0];
    if (req[0] == kNullOp || out.Size() == 0) return;
    const Extents extents(in_data, out.Size());
    ParallelFor(out.Size(), StepsPerTask(extents.classes, kCost), [&](index_t begin, index_t end) {
      Buffers buffers(extents);
      while (begin < end) {
        const index_t row = begin / extents.each;
        const index_t n = std::min({end - begin, (row + 1) * extents.each - begin, extents.block});
        const D density = buffers.ReadDistribution(in_data, row);
        buffers.ReadSamples(in_data[0], begin, n);
        for (index_t j = 0; j < n; ++j) {
          const double log = density.Log(buffers.Sample(j));
          buffers.f[At(j)] = is_log_ ? log : std::exp(log);
        }
        RowWriter<double>(out, req[0]).Write(begin, n, buffers.f.data());
        begin += n;
      }
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    const Extents extents(in_data, out_grad[0].Size());
    const index_t size = extents.classes, work = extents.each * size;
    ParallelFor(extents.rows, StepsPerTask(work, kCost), [&](index_t begin, index_t end) {
      Buffers buffers(extents);
      for (index_t row = begin; row < end; ++row) {
        WriteSampleGradient(extents, row, out_grad[0], in_data, req[0], in_grad[0], &buffers);
        for (size_t k = 0; k < kCount; ++k) {
          const TBlob& grad = in_grad[k + 1];
          if (req[k + 1] == kNullOp) continue;
          RowWriter<double>(grad, req[k + 1])
              .Write(row * size, size, buffers.sums.data() + k * At(size));
        }
      }
    });
  }

 private:
  using Doubles = std::vector<double>;
  static constexpr size_t kCount = D::kParameters.size();
  static constexpr index_t kCost = 40;  // of a sample's number

  /// The arrays as `rows` distributions with `each` samples of `classes` numbers; a buffer holds
  /// `block` samples.
  struct Extents {
    index_t classes, rows, each, block;

    Extents(std::span<const TBlob> in_data, index_t samples) {
      const TShape& shape = in_data[1].shape_;
      classes = D::kSample == Sample::kClasses ? shape[shape.ndim() - 1] : 1;
      rows = shape.Size() / classes;
      each = rows == 0 ? 0 : samples / rows;
      block = std::min(std::max<index_t>(1, 256 / classes), std::max<index_t>(1, each));
    }
  };

  /// The numbers of a block of samples, and of their distribution.
  struct Buffers {
    const index_t size;
    Doubles samples, sample_grad, f;           // f: densities, or their gradients
    Doubles parameters, parameter_grad, sums;  // sums: of parameters' gradients

    explicit Buffers(const Extents& extents)
        : size(extents.classes),
          samples(At(extents.block * size)),
          sample_grad(samples.size()),
          f(At(extents.block)),
          parameters(kCount * At(size)),
          parameter_grad(parameters.size()),
          sums(parameters.size()) {}

    double* Sample(index_t j) { return samples.data() + j * size; }
    /// Reads the parameters of a row, to which the distribution may refer.
    D ReadDistribution(std::span<const TBlob> in_data, index_t row) {
      for (size_t k = 0; k < kCount; ++k) {
        const TBlob& array = in_data[k + 1];
        RowReader<double>(array).Copy(row * size, size, parameters.data() + k * At(size));
      }
      return D(parameters.data(), size);
    }
    void ReadSamples(const TBlob& array, index_t first, index_t n) {
      RowReader<double>(array).Copy(first * size, n * size, samples.data());
    }
  };

  /// Writes the gradient of a row's samples, and sets `sums` to that of its parameters.
  void WriteSampleGradient(const Extents& extents, index_t row, const TBlob& out_grad,
                           std::span<const TBlob> in_data, OpReqType req, const TBlob& grad,
                           Buffers* buffers) const {
    const D density = buffers->ReadDistribution(in_data, row);
    const index_t size = extents.classes, last = (row + 1) * extents.each;
    Doubles &sums = buffers->sums, &dp = buffers->parameter_grad;
    std::fill(sums.begin(), sums.end(), 0.0);
    for (index_t first = row * extents.each; first < last; first += extents.block) {
      const index_t n = std::min(last - first, extents.block);
      buffers->ReadSamples(in_data[0], first, n);
      RowReader<double>(out_grad).Copy(first, n, buffers->f.data());
      for (index_t j = 0; j < n; ++j) {
        double* const dx = buffers->sample_grad.data() + j * size;
        density.Slopes(buffers->Sample(j), dx, dp.data());
        double weight = buffers->f[At(j)];
        if (!is_log_) weight *= std::exp(density.Log(buffers->Sample(j)));
        for (index_t c = 0; c < size; ++c) dx[c] *= weight;
        for (size_t k = 0; k < dp.size(); ++k) sums[k] += weight * dp[k];
      }
      if (req == kNullOp) continue;
      RowWriter<double>(grad, req).Write(first * size, n * size, buffers->sample_grad.data());
    }
  }

  const bool is_log_;
};

template <typename D>
bool Register(const TablePlace& place, std::string_view name, const std::string& distributions) {
  return RegisterTypedOperator<DensityProperty<D>, DensityOperator<D>>(
      place, name, "Densities of " + distributions + ", or their logarithms.");
}

[[maybe_unused]] const bool kRegistered[] = {
    Register<Uniform>(TESSERA_TABLE_PLACE, "_random_pdf_uniform", "uniform distributions"),
    Register<Normal>(TESSERA_TABLE_PLACE, "_random_pdf_normal", "normal distributions"),
    Register<Gamma>(TESSERA_TABLE_PLACE, "_random_pdf_gamma", "gamma distributions"),
    Register<Exponential>(TESSERA_TABLE_PLACE, "_random_pdf_exponential",
                          "exponential distributions"),
    Register<Poisson>(TESSERA_TABLE_PLACE, "_random_pdf_poisson", "Poisson distributions"),
    Register<NegativeBinomial>(TESSERA_TABLE_PLACE, "_random_pdf_negative_binomial",
                               "negative binomial distributions"),
    Register<GeneralizedNegativeBinomial>(
        TESSERA_TABLE_PLACE, "_random_pdf_generalized_negative_binomial",
        "negative binomial (by mean and dispersion) distributions"),
    Register<Dirichlet>(TESSERA_TABLE_PLACE, "_random_pdf_dirichlet", "Dirichlet distributions"),
};

}  // namespace
}  // namespace tessera
