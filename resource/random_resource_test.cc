// Random numbers as operators get them: through a resource, on an engine with few or many workers.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/engine/engine.h"
#include "tessera/resource/resource.h"
#include "tessera/resource/resource_manager.h"
#include "tessera/storage/storage.h"
#include "tessera/tensor/philox.h"
#include "tessera/tensor/random.h"
#include "tessera/tensor/tensor.h"

namespace tessera {
namespace {

constexpr uint64_t kSeed = 2718;
// More than one thread's share of a parallel fill.
constexpr size_t kSize = 200000;

/// An engine with a manager of its own.
class Machine {
 public:
  explicit Machine(int workers, uint64_t seed = kSeed)
      : engine_(Engine::Create({.kind = EngineKind::kThreaded, .workers = workers})),
        manager_(std::make_unique<ResourceManager>(engine_.get(), &storage_)) {
    manager_->SeedRandom(seed);
  }

  ResourceManager& manager() { return *manager_; }

  /// Returns the values that `fill(random, out)` draws in an operation on the device's generator.
  template <typename T, typename Fill>
  std::vector<T> Draw(Device device, const Fill& fill, size_t size = kSize) {
    std::vector<T> values(size);
    const ResourceHandle handle = manager_->Request(device, {ResourceRequest::Type::kRandom});
    engine_->PushSync(
        [&](RunContext) {
          Random<cpu> random = handle.resource->get_random<cpu>(nullptr);
          fill(random, std::span<T>(values));
        },
        Device::Cpu(), {}, {handle.var});
    engine_->WaitForVar(handle.var);
    return values;
  }

 private:
  Storage storage_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ResourceManager> manager_;
};

template <typename T>
std::vector<double> ToDoubles(const std::vector<T>& values) {
  std::vector<double> doubles;
  for (const T value : values) doubles.push_back(static_cast<double>(static_cast<float>(value)));
  return doubles;
}

/// Every distribution, one draw after the other.
template <typename T>
std::vector<double> DrawEverything(int workers) {
  Machine machine(workers);
  std::vector<double> all;
  const auto draw = [&](const auto& fill) {
    const std::vector<double> part = ToDoubles(machine.Draw<T>(Device::Cpu(), fill));
    all.insert(all.end(), part.begin(), part.end());
  };
  const std::vector<double> weights = {1, 2, 3};
  draw([](auto& random, auto out) { random.SampleUniform(out, -1, 3); });
  draw([](auto& random, auto out) { random.SampleGaussian(out, 1, 2); });
  draw([](auto& random, auto out) { random.SampleExponential(out, 3); });
  draw([](auto& random, auto out) { random.SampleGamma(out, 0.7, 2); });
  draw([](auto& random, auto out) { random.SamplePoisson(out, 5); });
  draw([](auto& random, auto out) { random.SampleNegativeBinomial(out, 3, 0.4); });
  draw([](auto& random, auto out) { random.SampleBernoulli(out, 0.3); });
  draw([](auto& random, auto out) { random.SampleRandInt(out, -5, 100); });
  draw([&](auto& random, auto out) { random.SampleMultinomial(out, weights); });
  draw([](auto& random, auto out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = T(static_cast<float>(i % 1000));
    random.Shuffle(out);
  });
  return all;
}

template <typename T>
class RandomResourceTest : public testing::Test {};
using Types = testing::Types<float, double, half_t>;
TYPED_TEST_SUITE(RandomResourceTest, Types);

TYPED_TEST(RandomResourceTest, OneAndEightWorkersDrawTheSameOfEveryDistribution) {
  EXPECT_EQ(DrawEverything<TypeParam>(1), DrawEverything<TypeParam>(8));
}

/// The means and variances of a distribution.
struct Moments {
  double mean;
  double variance;
};
Moments MomentsOf(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, squares / n};
}

TYPED_TEST(RandomResourceTest, EveryDistributionHasItsMeanAndVariance) {
  Machine machine(2);
  // Of the variance's own relative deviation at this size, about five times the largest; half's
  // rounding adds less.
  constexpr double kTolerance = 0.04;
  const auto expect = [&](const char* name, Moments expected, const auto& fill) {
    const Moments moments = MomentsOf(ToDoubles(machine.Draw<TypeParam>(Device::Cpu(), fill)));
    EXPECT_NEAR(moments.mean, expected.mean, 5 * std::sqrt(expected.variance / kSize) + 1e-3)
        << name;
    EXPECT_NEAR(moments.variance, expected.variance, kTolerance * expected.variance) << name;
  };
  const std::vector<double> weights = {1, 2, 1};
  expect("uniform", {1, 16.0 / 12}, [](auto& r, auto out) { r.SampleUniform(out, -1, 3); });
  expect("normal", {1, 4}, [](auto& r, auto out) { r.SampleGaussian(out, 1, 2); });
  expect("exponential", {0.5, 0.25}, [](auto& r, auto out) { r.SampleExponential(out, 2); });
  expect("gamma", {1.4, 2.8}, [](auto& r, auto out) { r.SampleGamma(out, 0.7, 2); });
  expect("Poisson", {5, 5}, [](auto& r, auto out) { r.SamplePoisson(out, 5); });
  expect("negative binomial", {4.5, 11.25},
         [](auto& r, auto out) { r.SampleNegativeBinomial(out, 3, 0.4); });
  expect("Bernoulli", {0.3, 0.21}, [](auto& r, auto out) { r.SampleBernoulli(out, 0.3); });
  expect("whole numbers", {4.5, 8.25}, [](auto& r, auto out) { r.SampleRandInt(out, 0, 10); });
  expect("multinomial", {1, 0.5}, [&](auto& r, auto out) { r.SampleMultinomial(out, weights); });
}

TEST(RandomResourceTest, HalvesFollowTheNormalDistribution) {
  Machine machine(2);
  std::vector<double> values = ToDoubles(machine.Draw<half_t>(
      Device::Cpu(), [](auto& random, auto out) { random.SampleGaussian(out); }));
  std::sort(values.begin(), values.end());
  // Kolmogorov and Smirnov's distance, scaled: above 2.2 has a probability of 1.3e-4. A value
  // stands for all that round to it, so its upper edge is half of 2^-10 of it further out.
  double largest = 0;
  const auto n = static_cast<double>(values.size());
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    if (values[i] == values[i + 1]) continue;
    const double edge = (values[i] + values[i + 1]) / 2;
    const double p = 0.5 * std::erfc(-edge / std::sqrt(2.0));
    // In the tails neighbours among the values are not neighbours among the halves.
    if (std::abs(values[i + 1] - values[i]) > 4e-3) continue;
    largest = std::max(largest, std::abs(p - static_cast<double>(i + 1) / n));
  }
  EXPECT_LT(largest * std::sqrt(n), 2.2);
}

using Cdf = std::function<double(double)>;

/// Chi-square of sorted values over the cells that the edges part, as a normal deviate by Wilson
/// and Hilferty's cube root (1931): above 3.7 has a probability of 1.1e-4.
constexpr double kMaxDeviate = 3.7;
double ChiSquareDeviate(const std::vector<double>& values, const std::vector<double>& edges,
                        const Cdf& cdf) {
  const auto n = static_cast<double>(values.size());
  double chi_square = 0;
  double below = 0;
  auto begin = values.begin();
  for (size_t i = 0; i <= edges.size(); ++i) {
    const bool is_last = i == edges.size();
    const auto end = is_last ? values.end() : std::upper_bound(begin, values.end(), edges[i]);
    const double up_to = is_last ? 1 : cdf(edges[i]);
    const double expected = n * (up_to - below);
    const double observed = static_cast<double>(end - begin);
    chi_square += (observed - expected) * (observed - expected) / expected;
    below = up_to;
    begin = end;
  }
  const auto f = static_cast<double>(edges.size());
  return (std::cbrt(chi_square / f) - (1 - 2 / (9 * f))) / std::sqrt(2 / (9 * f));
}

/// The next larger half.
half_t Above(half_t value) {
  const uint16_t bits = value.bits();
  if (static_cast<float>(value) == 0) return half_t::Binary(1);
  return half_t::Binary(static_cast<uint16_t>(static_cast<float>(value) > 0 ? bits + 1 : bits - 1));
}

/// Edges of some 64 cells of about the same probability. A half stands for all that round to it, so
/// they lie half-way between neighbours.
std::vector<double> EdgesOfHalves(const Cdf& cdf) {
  std::vector<double> edges;
  for (int i = 1; i < 64; ++i) {
    double low = -1000;
    double high = 1000;
    for (int step = 0; step < 100; ++step) {
      const double middle = (low + high) / 2;
      (cdf(middle) < i / 64.0 ? low : high) = middle;
    }
    const half_t value(low);
    const double edge = (static_cast<float>(value) + static_cast<float>(Above(value))) / 2;
    if (edges.empty() || edge > edges.back()) edges.push_back(edge);
  }
  return edges;
}

/// Edges between whole numbers, so that each cell expects at least 10.
std::vector<double> EdgesOfWholes(const Cdf& cdf) {
  std::vector<double> edges;
  double below = 0;
  for (int k = 0;; ++k) {
    const double up_to = cdf(k);
    if (kSize * (1 - up_to) < 10) return edges;
    if (kSize * (up_to - below) < 10) continue;
    edges.push_back(k + 0.5);
    below = up_to;
  }
}

/// The distribution of whole numbers from 0 on with these probabilities.
Cdf CdfOfWholes(const std::function<double(int)>& pmf) {
  return [pmf](double x) {
    double sum = 0;
    for (int k = 0; k <= x; ++k) sum += pmf(k);
    return sum;
  };
}

TEST(RandomResourceTest, HalvesFollowTheirDistributions) {
  Machine machine(2);
  const auto expect = [&](const char* name, const Cdf& cdf, const std::vector<double>& edges,
                          const auto& fill) {
    std::vector<double> values = ToDoubles(machine.Draw<half_t>(Device::Cpu(), fill));
    std::sort(values.begin(), values.end());
    EXPECT_LT(ChiSquareDeviate(values, edges, cdf), kMaxDeviate) << name;
  };
  const auto continuous = [&](const char* name, const Cdf& cdf, const auto& fill) {
    expect(name, cdf, EdgesOfHalves(cdf), fill);
  };
  const auto discrete = [&](const char* name, const std::function<double(int)>& pmf,
                            const auto& fill) {
    const Cdf cdf = CdfOfWholes(pmf);
    expect(name, cdf, EdgesOfWholes(cdf), fill);
  };
  // The numbers are multiples of 2^-11, as many in each cell, and lie at their cells' lower edges.
  std::vector<double> edges;
  for (int i = 1; i < 64; ++i) edges.push_back(i / 64.0 - 1.0 / 4096);
  expect(
      "uniform", [](double x) { return x + 1.0 / 4096; }, edges,
      [](auto& r, auto out) { r.SampleUniform(out); });
  continuous(
      "normal", [](double x) { return 0.5 * std::erfc((1 - x) / std::sqrt(8.0)); },
      [](auto& r, auto out) { r.SampleGaussian(out, 1, 2); });
  continuous(
      "exponential", [](double x) { return x < 0 ? 0 : -std::expm1(-2 * x); },
      [](auto& r, auto out) { r.SampleExponential(out, 2); });
  continuous(  // with shape 1/2 and scale 2 it is chi-square's, of one degree of freedom
      "gamma", [](double x) { return x <= 0 ? 0 : std::erf(std::sqrt(x / 2)); },
      [](auto& r, auto out) { r.SampleGamma(out, 0.5, 2); });
  discrete(
      "Poisson", [](int k) { return std::exp(k * std::log(5.0) - 5 - std::lgamma(k + 1.0)); },
      [](auto& r, auto out) { r.SamplePoisson(out, 5); });
  discrete(
      "negative binomial",
      [](int k) {  // gamma(k + r) / (gamma(r) k!) p^r (1 - p)^k with r = 3, p = 0.4
        return (k + 2.0) * (k + 1.0) / 2 * std::pow(0.4, 3) * std::pow(0.6, k);
      },
      [](auto& r, auto out) { r.SampleNegativeBinomial(out, 3, 0.4); });
  discrete(
      "Bernoulli", [](int k) { return k == 0   ? 0.7
                                      : k == 1 ? 0.3
                                               : 0; },
      [](auto& r, auto out) { r.SampleBernoulli(out, 0.3); });
  discrete(
      "whole numbers", [](int k) { return k < 40 ? 1 / 40.0 : 0; },
      [](auto& r, auto out) { r.SampleRandInt(out, 0, 40); });
  const std::vector<double> weights = {1, 2, 4, 1};
  discrete(
      "multinomial", [&](int k) { return k < 4 ? weights[static_cast<size_t>(k)] / 8 : 0; },
      [&](auto& r, auto out) { r.SampleMultinomial(out, weights); });
}

TEST(RandomResourceTest, StreamsOfTwoDevicesAreIndependent) {
  Machine machine(2);
  const auto normal = [](auto& random, auto out) { random.SampleGaussian(out); };
  const std::vector<float> a = machine.Draw<float>(Device::Cpu(0), normal);
  const std::vector<float> b = machine.Draw<float>(Device::Cpu(1), normal);
  double correlation = 0;
  double squares = 0;  // dependence that a correlation does not show
  for (size_t i = 0; i < kSize; ++i) {
    correlation += double{a[i]} * b[i];
    squares += (double{a[i]} * a[i] - 1) * (double{b[i]} * b[i] - 1);
  }
  EXPECT_LT(std::abs(correlation) / std::sqrt(kSize), 4);
  EXPECT_LT(std::abs(squares) / std::sqrt(4.0 * kSize), 4);
  EXPECT_NE(a, b);
}

TEST(RandomResourceTest, TheSequenceIsPhiloxAsPublished) {
  // Salmon et al., Random123's known answers for philox4x32-10: counter and key all zero.
  const PhiloxWords words = PhiloxState{}.Block(0);
  const uint32_t expected[] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(words.word[i], expected[i]);
}

std::vector<float> DrawSome(Machine* machine, Device device) {
  return machine->Draw<float>(
      device, [](auto& random, auto out) { random.SampleUniform(out); }, 100);
}

TEST(RandomResourceTest, AnotherManagerContinuesFromTheState) {
  Machine first(2);
  DrawSome(&first, Device::Cpu());
  DrawSome(&first, Device::Cpu(1));
  first.manager().SeedRandom(Device::Cpu(1), 7);
  DrawSome(&first, Device::Cpu(1));
  const RandomState state = first.manager().GetRandomState();
  EXPECT_EQ(state.seed, kSeed);
  EXPECT_EQ(state.generators.size(), 2u);

  Machine second(1, /*seed=*/1);
  DrawSome(&second, Device::Cpu(1));
  DrawSome(&second, Device::Cpu(2));
  second.manager().SetRandomState(state);
  // Device 2 was not in use, and begins where the seed lets it begin.
  for (const Device device : {Device::Cpu(), Device::Cpu(1), Device::Cpu(2), Device::Cpu(3)}) {
    EXPECT_EQ(DrawSome(&second, device), DrawSome(&first, device)) << device;
  }
}

TEST(RandomResourceTest, TheStateIsThatAfterEarlierOperations) {
  Machine machine(2);
  const RandomState before = machine.manager().GetRandomState();
  EXPECT_TRUE(before.generators.empty());
  const std::vector<float> numbers = DrawSome(&machine, Device::Cpu());
  const RandomState after = machine.manager().GetRandomState();
  ASSERT_EQ(after.generators.size(), 1u);
  EXPECT_EQ(after.generators[0].first, Device::Cpu());
  EXPECT_GT(after.generators[0].second.next_block, 0u);
  machine.manager().SetRandomState(before);
  EXPECT_EQ(DrawSome(&machine, Device::Cpu()), numbers);
}

}  // namespace
}  // namespace tessera
