// Distributions that may reject draws. Each element has its own block number and uses as many of
// that block's attempts as it needs, so its value does not depend on other elements.

#include <math.h>  // lgamma_r

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "tessera/base/error.h"
#include "tessera/tensor/random/random.h"
#include "tessera/tensor/random/random_fill.h"

namespace tessera::tensor_internal {
namespace {

/// The random numbers of one element, in pairs.
class ElementDraws {
 public:
  ElementDraws(const PhiloxState& from, uint64_t block) : from_(from), block_(block) {}

  struct Pair {
    uint64_t first;
    uint64_t second;
  };
  /// Returns the next pair. The attempts wrap after 2^16 blocks, which no algorithm here
  /// approaches: each accepts more than half of its draws.
  Pair Next() {
    const PhiloxWords words = from_.Block(block_, attempt_++ & 0xFFFFu);
    return {uint64_t{words.word[0]} << 32 | words.word[1],
            uint64_t{words.word[2]} << 32 | words.word[3]};
  }

 private:
  const PhiloxState& from_;
  uint64_t block_;
  uint32_t attempt_ = 0;
};

/// Draws a gamma number of scale 1: G. Marsaglia and W. W. Tsang, A Simple Method for Generating
/// Gamma Variables (2000). Shapes below 1 use section 6: gamma(a) = gamma(a + 1) u^(1/a).
double Gamma(ElementDraws& draws, double shape) {
  double boost = 1;
  if (shape < 1) {
    boost = std::pow(PositiveUnitDouble(draws.Next().first), 1 / shape);
    shape += 1;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const auto [radius_bits, angle_bits] = draws.Next();
    const double x = std::sqrt(-2 * std::log(PositiveUnitDouble(radius_bits))) *
                     std::cos(2 * std::numbers::pi * UnitDouble(angle_bits));
    const double t = 1 + c * x;
    if (t <= 0) continue;
    const double v = t * t * t;
    const double u = PositiveUnitDouble(draws.Next().first);
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v * boost;
  }
}

/// Draws a Poisson number by inversion: the smallest k whose cumulative probability exceeds a
/// uniform number.
double SmallPoisson(ElementDraws& draws, double mean) {
  double rest = UnitDouble(draws.Next().first);
  double p = std::exp(-mean);
  double k = 0;
  while (rest >= p && p > 0) {
    rest -= p;
    k += 1;
    p *= mean / k;
  }
  return k;
}

/// Draws a Poisson number of mean at least 10: W. Hoermann, The Transformed Rejection Method for
/// Generating Poisson Random Variables (1993), algorithm PTRS.
double LargePoisson(ElementDraws& draws, double mean) {
  const double b = 0.931 + 2.53 * std::sqrt(mean);
  const double a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double v_r = 0.9277 - 3.6224 / (b - 2);
  const double log_mean = std::log(mean);
  for (;;) {
    const auto [u_bits, v_bits] = draws.Next();
    const double u = UnitDouble(u_bits) - 0.5;
    const double v = PositiveUnitDouble(v_bits);
    const double us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= v_r) return k;
    if (!(k >= 0) || (us < 0.013 && v > us)) continue;
    int sign = 0;  // lgamma would write a global variable
    const double log_probability = k * log_mean - mean - lgamma_r(k + 1, &sign);
    if (std::log(v * inverse_alpha / (a / (us * us) + b)) <= log_probability) return k;
  }
}

double Poisson(ElementDraws& draws, double mean) {
  constexpr double kSwitchMean = 10;
  // A double no longer represents every integer above this mean. The deviation is then below 1e-7
  // of the mean, so the mean is returned.
  constexpr double kMaxMean = 1e15;
  if (mean == 0) return 0;
  if (mean > kMaxMean) return std::floor(mean);
  return mean < kSwitchMean ? SmallPoisson(draws, mean) : LargePoisson(draws, mean);
}

/// Fills `out` with `sample(draws)`, with one block number for each element.
template <typename T, typename Sample>
void FillByElements(PhiloxState* state, const RandomRows<T>& out, const Sample& sample) {
  FillByTiles<kBlocksPerTile>(state, out, [&](PhiloxOrigin origin, int64_t tiles, T* elements) {
    const PhiloxState from = {.seed = origin.key, .stream = origin.stream};
    for (int64_t i = 0; i < tiles * kBlocksPerTile; ++i) {
      ElementDraws draws(from, origin.first_block + static_cast<uint64_t>(i));
      elements[i] = ToElement<T>(sample(draws));
    }
  });
}

bool IsPositive(double value) { return value > 0 && std::isfinite(value); }

}  // namespace

template <typename T>
void FillGamma(PhiloxState* state, const RandomRows<T>& out, double shape, double scale) {
  if (!IsPositive(shape) || !IsPositive(scale)) {
    throw InvalidArgument("SampleGamma: shape = ", shape, ", scale = ", scale,
                          "; expected both above 0 and finite");
  }
  FillByElements(state, out, [=](ElementDraws& draws) { return Gamma(draws, shape) * scale; });
}

template <typename T>
void FillPoisson(PhiloxState* state, const RandomRows<T>& out, double mean) {
  constexpr double kMaxMean = 1e15;  // a double does not represent every integer above this mean
  if (!(mean >= 0 && mean <= kMaxMean)) {
    throw InvalidArgument("SamplePoisson: mean = ", mean, "; expected in [0, 1e15]");
  }
  FillByElements(state, out, [=](ElementDraws& draws) { return Poisson(draws, mean); });
}

template <typename T>
void FillNegativeBinomial(PhiloxState* state, const RandomRows<T>& out, double failures,
                          double probability) {
  if (!IsPositive(failures) || !(probability > 0 && probability <= 1)) {
    throw InvalidArgument("SampleNegativeBinomial: failures = ", failures,
                          ", probability = ", probability, "; expected above 0 and in (0, 1]");
  }
  const double odds = (1 - probability) / probability;
  FillByElements(state, out, [=](ElementDraws& draws) {
    return Poisson(draws, Gamma(draws, failures) * odds);
  });
}

template <typename T>
void FillGeneralizedNegativeBinomial(PhiloxState* state, const RandomRows<T>& out, double mean,
                                     double dispersion) {
  if (!(mean >= 0) || !std::isfinite(mean) || !(dispersion >= 0) || !std::isfinite(dispersion)) {
    throw InvalidArgument("SampleGeneralizedNegativeBinomial: mean = ", mean,
                          ", dispersion = ", dispersion, "; expected both at least 0 and finite");
  }
  FillByElements(state, out, [=](ElementDraws& draws) {
    if (dispersion == 0) return Poisson(draws, mean);
    return Poisson(draws, Gamma(draws, 1 / dispersion) * (dispersion * mean));
  });
}

#define TESSERA_INSTANTIATE_REAL(T)                                            \
  template void FillGamma(PhiloxState*, const RandomRows<T>&, double, double); \
  TESSERA_INSTANTIATE_DISCRETE(T)
#define TESSERA_INSTANTIATE_DISCRETE(T)                                                   \
  template void FillPoisson(PhiloxState*, const RandomRows<T>&, double);                  \
  template void FillNegativeBinomial(PhiloxState*, const RandomRows<T>&, double, double); \
  template void FillGeneralizedNegativeBinomial(PhiloxState*, const RandomRows<T>&, double, double)

TESSERA_INSTANTIATE_REAL(float);
TESSERA_INSTANTIATE_REAL(double);
TESSERA_INSTANTIATE_REAL(half_t);
TESSERA_INSTANTIATE_REAL(bfloat16_t);
TESSERA_INSTANTIATE_DISCRETE(int32_t);
TESSERA_INSTANTIATE_DISCRETE(int64_t);
TESSERA_INSTANTIATE_DISCRETE(uint8_t);

#undef TESSERA_INSTANTIATE_REAL
#undef TESSERA_INSTANTIATE_DISCRETE

}  // namespace tessera::tensor_internal
