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

/// Where random numbers go: rows of contiguous elements, numbered row by row without the padding.
template <typename T>
struct RandomRows {
  T* data;
  int64_t rows;
  int64_t columns;
  int64_t stride;
};

// One function for each distribution, defined in random.cc and random_rejection.cc for the types
// that class Random names.
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

/// Fisher and Yates: calls swap(i, j) for i from n-1 down to 1 with j uniform in [0, i].
void ShuffleIndices(PhiloxState* state, int64_t n, void (*swap)(void*, int64_t, int64_t),
                    void* context);

}  // namespace tensor_internal

/// What generators on every device share: the seed, the place in its sequence, and random numbers
/// as expressions.
class RandomSequence {
 public:
  RandomSequence(const RandomSequence&) = delete;
  RandomSequence& operator=(const RandomSequence&) = delete;

  /// Starts the sequence of `seed` from its beginning.
  void Seed(uint64_t seed) { *state_ = PhiloxState{.seed = seed, .stream = state_->stream}; }
  /// What the sequence was started with.
  uint64_t GetSeed() const { return state_->seed; }
  /// The place in the sequence.
  PhiloxState* state() { return state_; }

  /// One number uniform in [0, 2^32).
  uint32_t GetRandInt() { return state_->Block(state_->Reserve(1)).word[0]; }

  /// Random numbers as an expression, which any device evaluates without memory for them:
  /// `mask = F<threshold>(random.uniform(mask.shape_), 0.5f)`. T is float, double, half or
  /// bfloat16.
  ///
  /// The numbers are drawn when this is called, so an expression keeps its values however often it
  /// is evaluated and whatever is drawn later. They are those that SampleUniform and SampleGaussian
  /// draw, up to the rounding of a product and a sum, and for normal ones up to the accuracy that
  /// SampleGaussian states. A normal one takes some 30 ns on a CPU; to fill a whole array,
  /// SampleGaussian is faster. Parameters and errors are theirs.
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

  PhiloxState own_state_;             ///< of a generator of its own
  PhiloxState* state_ = &own_state_;  ///< where numbers are taken from
};

/// Random numbers on a device: Random<cpu> below, and Random<gpu> in random_cuda.h.
template <typename Device>
class Random;

/// Fills arrays with random numbers on the CPU.
///
///     Random<cpu> random(/*seed=*/7);
///     random.SampleGaussian(&weights, 0.0, 0.01);
///
/// What an element becomes depends on the seed, on how many numbers were drawn before the call and
/// on the element's place in the array, and on nothing else: not on threads, padding or alignment.
/// A call with an error draws nothing.
///
/// Every member takes a Tensor<cpu, N, T>* or a std::span<T>. T is float, double, half or bfloat16;
/// the last two are computed in float and rounded. Discrete distributions take int32_t, int64_t and
/// uint8_t too, and give the largest T in place of numbers above it.
///
/// Throws Error(kInvalidArgument) for a parameter outside the stated range, NaN included.
/// Threads: not synchronized; one call uses the threads of the arena that it runs in.
template <>
class Random<cpu> : public RandomSequence {
 public:
  /// A generator of its own.
  explicit Random(uint64_t seed, Stream<cpu>* stream = nullptr)
      : RandomSequence(seed), stream_(stream) {}
  /// A generator that continues `state`, which must outlive it.
  explicit Random(PhiloxState* state, Stream<cpu>* stream = nullptr)
      : RandomSequence(state), stream_(stream) {}

  /// For programs that are written for both devices; here everything is done when a call returns.
  void set_stream(Stream<cpu>* stream) { stream_ = stream; }

  /// Uniform in [low, high): low + (high - low) k 2^-24 for float with k uniform below 2^24 (2^-53
  /// for double, 2^-11 for half, 2^-8 for bfloat16), rounded, and never high itself. low <= high;
  /// both, and their difference, finite in T. Gives low if they are equal.
  template <typename Out>
  void SampleUniform(Out&& out, double low = 0, double high = 1) {
    tensor_internal::FillUniform(state_, Rows(out), low, high);
  }

  /// Normal with that mean and standard deviation >= 0, by Box and Muller's transform. In float no
  /// value lies more than 6.7 deviations from the mean, in double 8.6.
  template <typename Out>
  void SampleGaussian(Out&& out, double mean = 0, double deviation = 1) {
    tensor_internal::FillGaussian(state_, Rows(out), mean, deviation);
  }

  /// Exponential with density rate exp(-rate x); rate > 0.
  template <typename Out>
  void SampleExponential(Out&& out, double rate = 1) {
    tensor_internal::FillExponential(state_, Rows(out), rate);
  }

  /// Gamma with mean shape * scale and variance shape * scale^2; both > 0.
  template <typename Out>
  void SampleGamma(Out&& out, double shape, double scale = 1) {
    tensor_internal::FillGamma(state_, Rows(out), shape, scale);
  }

  /// Poisson; 0 <= mean <= 1e15.
  template <typename Out>
  void SamplePoisson(Out&& out, double mean = 1) {
    tensor_internal::FillPoisson(state_, Rows(out), mean);
  }

  /// The number of successes before `failures` > 0 failures (not only whole ones), where
  /// 0 < probability <= 1 is that of a failure: mean failures (1 - p) / p.
  template <typename Out>
  void SampleNegativeBinomial(Out&& out, double failures = 1, double probability = 0.5) {
    tensor_internal::FillNegativeBinomial(state_, Rows(out), failures, probability);
  }

  /// Negative binomial by its mean >= 0 and its dispersion >= 0: variance mean + dispersion mean^2.
  template <typename Out>
  void SampleGeneralizedNegativeBinomial(Out&& out, double mean = 1, double dispersion = 1) {
    tensor_internal::FillGeneralizedNegativeBinomial(state_, Rows(out), mean, dispersion);
  }

  /// 1 with that probability in [0, 1] (to 2^-32), else 0.
  template <typename Out>
  void SampleBernoulli(Out&& out, double probability = 0.5) {
    tensor_internal::FillBernoulli(state_, Rows(out), probability);
  }

  /// Whole numbers uniform in [low, high), low < high; no number's probability is off by more than
  /// a factor of 1 ± 2^-32. The range must fit T (2^11 in size for half, 2^8 bfloat16, 2^24 float,
  /// 2^53 double).
  template <typename Out>
  void SampleRandInt(Out&& out, int64_t low, int64_t high) {
    tensor_internal::FillRandInt(state_, Rows(out), low, high);
  }

  /// Index i with probability weights[i] / their sum; weights finite, >= 0 and not all 0.
  template <typename Out>
  void SampleMultinomial(Out&& out, std::span<const double> weights) {
    tensor_internal::FillMultinomial(state_, Rows(out), weights);
  }

  /// Puts the elements into an order chosen uniformly among all (as far as 64 bits of each draw
  /// go).
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
