#ifndef TESSERA_TENSOR_RANDOM_RANDOM_H_
#define TESSERA_TENSOR_RANDOM_RANDOM_H_

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/device/stream.h"
#include "tessera/tensor/random/philox.h"
#include "tessera/tensor/random/random_expression.h"

namespace tessera {

namespace tensor_internal {

/// The destination of random numbers: rows of contiguous elements. Elements are numbered row by
/// row, without the padding.
template <typename T>
struct RandomRows {
  T* data;
  int64_t rows;
  int64_t columns;
  int64_t stride;
};

// Fill `out` from a distribution; the members of class Random explain the parameters. random.cc and
// random_rejection.cc define them for the types that class Random names.
template <typename T>
void FillUniform(PhiloxState* state, const RandomRows<T>& out, double low, double high);
template <typename T>
void FillGaussian(PhiloxState* state, const RandomRows<T>& out, double mean, double deviation);
template <typename T>
void FillExponential(PhiloxState* state, const RandomRows<T>& out, double rate);
template <typename T>
void FillBernoulli(PhiloxState* state, const RandomRows<T>& out, double probability);
template <typename T>
void FillRandInt(PhiloxState* state, const RandomRows<T>& out, int64_t low, int64_t high);
template <typename T>
void FillGamma(PhiloxState* state, const RandomRows<T>& out, double shape, double scale);
template <typename T>
void FillPoisson(PhiloxState* state, const RandomRows<T>& out, double mean);
template <typename T>
void FillNegativeBinomial(PhiloxState* state, const RandomRows<T>& out, double failures,
                          double probability);
template <typename T>
void FillGeneralizedNegativeBinomial(PhiloxState* state, const RandomRows<T>& out, double mean,
                                     double dispersion);
template <typename T>
void FillMultinomial(PhiloxState* state, const RandomRows<T>& out, std::span<const double> weights);

/// The number of elements for which SampleBernoulli draws together.
inline constexpr int64_t kElementsPerTile = 64;

/// Returns the state after SampleBernoulli has filled an array of `elements` elements. If that is a
/// multiple of kElementsPerTile, the state also gives the elements that follow in a longer array:
/// parts of one array can be filled at once, each with a state of its own.
PhiloxState StateAfter(const PhiloxState& state, int64_t elements);

/// Calls swap(context, i, j) for i from n-1 down to 1, with j uniform in [0, i]: the shuffle of
/// Fisher and Yates.
void ShuffleIndices(PhiloxState* state, int64_t n, void (*swap)(void*, int64_t, int64_t),
                    void* context);

}  // namespace tensor_internal

/// The part of a generator that all devices share: the seed, the position in its sequence, and
/// random numbers as expressions.
class RandomSequence {
 public:
  RandomSequence(const RandomSequence&) = delete;
  RandomSequence& operator=(const RandomSequence&) = delete;

  /// Starts the sequence of `seed` at its beginning.
  void Seed(uint64_t seed) { *state_ = PhiloxState{.seed = seed, .stream = state_->stream}; }
  /// Returns the seed that the sequence was started with.
  uint64_t GetSeed() const { return state_->seed; }
  /// Returns the position in the sequence.
  PhiloxState* state() { return state_; }

  /// Returns one number uniform in [0, 2^32).
  uint32_t GetRandInt() { return state_->Block(state_->Reserve(1)).word[0]; }

  /// Return random numbers as an expression, which every device evaluates without memory for them:
  /// `mask = F<threshold>(random.uniform(mask.shape_), 0.5f)`. T is float, double, half or
  /// bfloat16.
  ///
  /// The call draws the numbers. An expression therefore keeps its values, however often it is
  /// evaluated and whatever is drawn later. SampleUniform and SampleGaussian draw the same numbers,
  /// except for the rounding of a product and a sum, and for normal numbers within SampleGaussian's
  /// accuracy. A normal number takes about 30 ns on a CPU, so SampleGaussian fills a whole array
  /// faster. Parameters and errors are those of SampleUniform and SampleGaussian.
  template <typename T = float, int N>
  expr::UniformExp<N, T> uniform(const Shape<N>& shape, double low = 0, double high = 1) {
    static_cast<void>(tensor_internal::LastBelow<T>(low, high));  // an error draws nothing
    return {state_, shape, low, high};
  }
  template <typename T = float, int N>
  expr::GaussianExp<N, T> gaussian(const Shape<N>& shape, double mean = 0, double deviation = 1) {
    tensor_internal::CheckGaussian(mean, deviation);
    return {state_, shape, mean, deviation};
  }

 protected:
  explicit RandomSequence(uint64_t seed) { own_state_.seed = seed; }
  explicit RandomSequence(PhiloxState* state) : state_(state) {}
  ~RandomSequence() = default;

  PhiloxState own_state_;             ///< used unless the constructor was passed a state
  PhiloxState* state_ = &own_state_;  ///< the state that numbers are drawn from
};

/// A generator of random numbers on a device. Random<cpu> follows, and random_cuda.h has
/// Random<gpu>.
template <typename Device>
class Random;

/// Fills arrays with random numbers on the CPU.
///
///     Random<cpu> random(/*seed=*/7);
///     random.SampleGaussian(&weights, 0.0, 0.01);
///
/// An element's value depends only on the seed, on the count of numbers drawn before the call, and
/// on the element's index in the array. It does not depend on threads, padding or alignment. A call
/// that throws draws nothing.
///
/// Every member takes a Tensor<cpu, N, T>* or a std::span<T>. T is float, double, half or bfloat16;
/// the last two are computed in float and rounded. Discrete distributions also take int32_t,
/// int64_t and uint8_t; a number above the largest T becomes the largest T.
///
/// Throws Error(kInvalidArgument) if a parameter is outside the stated range or is NaN. Threads:
/// not synchronized. One call runs on the threads of the arena that it is called in.
template <>
class Random<cpu> : public RandomSequence {
 public:
  /// Constructs a generator with a state of its own.
  explicit Random(uint64_t seed, Stream<cpu>* stream = nullptr)
      : RandomSequence(seed), stream_(stream) {}
  /// Constructs a generator that continues `state`, which must outlive it.
  explicit Random(PhiloxState* state, Stream<cpu>* stream = nullptr)
      : RandomSequence(state), stream_(stream) {}

  /// Sets a stream, which a CPU ignores: a call returns when its work is done. The function lets
  /// one program serve both devices.
  void set_stream(Stream<cpu>* stream) { stream_ = stream; }

  /// Fills with numbers uniform in [low, high). A float is low + (high - low) k 2^-24, rounded,
  /// with k uniform below 2^24; double has 2^53 steps, half 2^11 and bfloat16 2^8. No number equals
  /// high, unless low == high. Requires: low <= high, and low, high and high - low finite in T.
  template <typename Out>
  void SampleUniform(Out&& out, double low = 0, double high = 1) {
    tensor_internal::FillUniform(state_, Rows(out), low, high);
  }

  /// Fills with normal numbers of that mean and standard deviation, by Box and Muller's transform.
  /// In float no value is more than 6.7 deviations from the mean, in double 8.6. Requires:
  /// deviation >= 0.
  template <typename Out>
  void SampleGaussian(Out&& out, double mean = 0, double deviation = 1) {
    tensor_internal::FillGaussian(state_, Rows(out), mean, deviation);
  }

  /// Fills with exponential numbers of density rate exp(-rate x). Requires: rate > 0.
  template <typename Out>
  void SampleExponential(Out&& out, double rate = 1) {
    tensor_internal::FillExponential(state_, Rows(out), rate);
  }

  /// Fills with gamma numbers of mean shape * scale and variance shape * scale^2. Requires: both >
  /// 0.
  template <typename Out>
  void SampleGamma(Out&& out, double shape, double scale = 1) {
    tensor_internal::FillGamma(state_, Rows(out), shape, scale);
  }

  /// Fills with Poisson numbers of that mean. Requires: 0 <= mean <= 1e15.
  template <typename Out>
  void SamplePoisson(Out&& out, double mean = 1) {
    tensor_internal::FillPoisson(state_, Rows(out), mean);
  }

  /// Fills with the number of successes before the given number of failures: negative binomial,
  /// with mean failures (1 - p) / p. The probability p is a failure's. `failures` need not be an
  /// integer. Requires: failures > 0 and 0 < probability <= 1.
  template <typename Out>
  void SampleNegativeBinomial(Out&& out, double failures = 1, double probability = 0.5) {
    tensor_internal::FillNegativeBinomial(state_, Rows(out), failures, probability);
  }

  /// Fills with negative binomial numbers of that mean and variance mean + dispersion mean^2.
  /// Requires: mean >= 0 and dispersion >= 0.
  template <typename Out>
  void SampleGeneralizedNegativeBinomial(Out&& out, double mean = 1, double dispersion = 1) {
    tensor_internal::FillGeneralizedNegativeBinomial(state_, Rows(out), mean, dispersion);
  }

  /// Fills with 1 at that probability, accurate to 2^-32, and with 0 otherwise. Requires: 0 <=
  /// probability <= 1.
  template <typename Out>
  void SampleBernoulli(Out&& out, double probability = 0.5) {
    tensor_internal::FillBernoulli(state_, Rows(out), probability);
  }

  /// Fills with integers uniform in [low, high). Each integer's probability is exact within a
  /// factor of 1 ± 2^-32. Requires: low < high, and a range that T represents exactly (magnitudes
  /// to 2^11 for half, 2^8 for bfloat16, 2^24 for float, 2^53 for double).
  template <typename Out>
  void SampleRandInt(Out&& out, int64_t low, int64_t high) {
    tensor_internal::FillRandInt(state_, Rows(out), low, high);
  }

  /// Fills with indices: i has probability weights[i] / (sum of weights). Requires: weights finite,
  /// >= 0 and not all 0.
  template <typename Out>
  void SampleMultinomial(Out&& out, std::span<const double> weights) {
    tensor_internal::FillMultinomial(state_, Rows(out), weights);
  }

  /// Shuffles the elements into an order that is uniform among all orders, as far as 64 random bits
  /// a draw can make it.
  template <typename T>
  void Shuffle(std::span<T> elements) {
    tensor_internal::ShuffleIndices(
        state_, static_cast<int64_t>(elements.size()),
        [](void* context, int64_t i, int64_t j) {
          using std::swap;
          T* data = static_cast<T*>(context);
          swap(data[i], data[j]);
        },
        elements.data());
  }

 private:
  template <int N, typename T>
  static tensor_internal::RandomRows<T> Rows(Tensor<cpu, N, T>* out) {
    const Shape<2> flat = out->shape_.FlatTo2D();
    return {out->dptr_, flat[0], flat[1], out->stride_};
  }
  template <typename T>
  static tensor_internal::RandomRows<T> Rows(std::span<T> out) {
    const auto size = static_cast<int64_t>(out.size());
    return {out.data(), 1, size, size};
  }

  Stream<cpu>* stream_ = nullptr;
};

}  // namespace tessera

#endif  // TESSERA_TENSOR_RANDOM_RANDOM_H_
