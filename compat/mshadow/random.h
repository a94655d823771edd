#ifndef MSHADOW_RANDOM_H_
#define MSHADOW_RANDOM_H_

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "mshadow/base.h"
#include "mshadow/tensor_base.h"

namespace mshadow {

/// Random numbers of one type on one device. tessera::Random explains distributions and errors. A
/// seed gives other numbers than mshadow's generators.
template <typename Device, typename DType = default_real_t>
class Random {
 public:
  explicit Random(int seed) : random_(static_cast<uint64_t>(seed)) {}
  /// Constructs a generator that draws from a sequence of Tessera's.
  Random(tessera::PhiloxState* state, Stream<Device>* stream) : random_(state, stream) {}

  void Seed(int seed) { random_.Seed(static_cast<uint64_t>(seed)); }
  unsigned GetSeed() const { return static_cast<unsigned>(random_.GetSeed()); }
  void set_stream(Stream<Device>* stream) { random_.set_stream(stream); }
  uint32_t GetRandInt() { return random_.GetRandInt(); }
  /// Fills a vector with numbers of all bits, as seeds for a program's own generators. Only on the
  /// CPU.
  template <std::integral IntType>
  void GetRandInt(const Tensor<Device, 1, IntType>& dst) {
    static_assert(Device::kDevCPU, "GetRandInt fills memory of the host");
    for (index_t i = 0; i < dst.size(0); ++i) {
      uint64_t bits = GetRandInt();
      if constexpr (sizeof(IntType) > sizeof(uint32_t)) bits = bits << 32 | GetRandInt();
      dst[i] = static_cast<IntType>(bits);
    }
  }

  /// Fills with numbers uniform in [a, b). Integers are uniform in [a, b], including both.
  template <int dim>
  void SampleUniform(Tensor<Device, dim, DType>* dst, double a = 0, double b = 1) {
    if constexpr (std::is_integral_v<DType>) {
      random_.SampleRandInt(dst, static_cast<int64_t>(a), static_cast<int64_t>(b) + 1);
    } else {
      random_.SampleUniform(dst, a, b);
    }
  }
  /// Fills elements in row-major order, each with the result of a call of `sampler`. Only on the
  /// CPU.
  template <int dim, typename Sampler>
  requires std::is_invocable_r_v<DType, Sampler&>
  void SampleDistribution(Tensor<Device, dim, DType>* dst, Sampler sampler) {
    static_assert(Device::kDevCPU, "SampleDistribution calls a function of the host");
    const Tensor<cpu, 2, DType> rows = dst->FlatTo2D();
    for (index_t y = 0; y < rows.size(0); ++y) {
      for (index_t x = 0; x < rows.size(1); ++x) rows[y][x] = static_cast<DType>(sampler());
    }
  }
  /// Fills with normal numbers; sigma <= 0 gives mu everywhere.
  template <int dim>
  void SampleGaussian(Tensor<Device, dim, DType>* dst, double mu = 0, double sigma = 1) {
    random_.SampleGaussian(dst, mu, sigma > 0 ? sigma : 0);
  }

  /// Fill from the distribution in the name; see tessera::Random.
  template <int dim>
  void SampleGamma(Tensor<Device, dim, DType>* dst, double alpha, double beta) {
    random_.SampleGamma(dst, alpha, beta);
  }
  template <int dim>
  void SampleExponential(Tensor<Device, dim, DType>* dst, double lambda) {
    random_.SampleExponential(dst, lambda);
  }
  template <int dim>
  void SamplePoisson(Tensor<Device, dim, DType>* dst, double lambda) {
    random_.SamplePoisson(dst, lambda);
  }
  template <int dim>
  void SampleNegativeBinomial(Tensor<Device, dim, DType>* dst, double k, double p) {
    random_.SampleNegativeBinomial(dst, k, p);
  }
  template <int dim>
  void SampleGeneralizedNegativeBinomial(Tensor<Device, dim, DType>* dst, double mu, double alpha) {
    random_.SampleGeneralizedNegativeBinomial(dst, mu, alpha);
  }

  /// Fill a reference, which programs of early 2014 pass.
  template <int dim>
  void SampleUniform(Tensor<Device, dim, DType>& dst, double a = 0, double b = 1) {
    SampleUniform(&dst, a, b);
  }
  template <int dim>
  void SampleGaussian(Tensor<Device, dim, DType>& dst, double mu = 0, double sigma = 1) {
    SampleGaussian(&dst, mu, sigma);
  }

  /// Return numbers in [0, 1), or normal ones, as an expression. Unlike mshadow's, it stays valid,
  /// and an expression may hold several.
  template <int dim>
  auto uniform(const Shape<dim>& shape) {
    return random_.template uniform<DType>(shape);
  }
  template <int dim>
  auto gaussian(const Shape<dim>& shape, double mu = 0, double sigma = 1) {
    return random_.template gaussian<DType>(shape, mu, sigma > 0 ? sigma : 0);
  }

 private:
  tessera::Random<Device> random_;
};

}  // namespace mshadow

#endif  // MSHADOW_RANDOM_H_
