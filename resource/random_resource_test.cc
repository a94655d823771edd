// Random numbers as operators get them: through a resource, on an engine with few or many workers.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/dtype.h"
#include "tessera/engine/engine.h"
#include "tessera/resource/resource.h"
#include "tessera/resource/resource_manager.h"
#include "tessera/storage/storage.h"

namespace tessera {
namespace {

constexpr uint64_t kSeed = 2718;
// More than one thread's share of a parallel fill.
constexpr size_t kSize = 200000;

/// An engine with a manager of its own.
class Machine {
 public:
  explicit Machine(int workers)
      : engine_(Engine::Create({.kind = EngineKind::kThreaded, .workers = workers})),
        manager_(std::make_unique<ResourceManager>(engine_.get(), &storage_)) {
    manager_->SeedRandom(kSeed);
  }

  /// What `fill(random, out)` draws in an operation on the device's generator.
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

/// Memory whose Nth allocation from now on fails, and two more after it.
class FailingMemory final : public SystemAllocator {
 public:
  void FailFrom(int64_t n) { calls_ = -n; }
  bool has_failed() const { return calls_ > 0; }

  void* Allocate(int64_t size_bytes) override {
    if (calls_++ >= 0 && calls_ <= 3) return nullptr;
    ++outstanding_;
    return std::aligned_alloc(64, static_cast<size_t>(size_bytes));
  }
  void Release(void* ptr, int64_t) noexcept override {
    --outstanding_;
    std::free(ptr);
  }
  int64_t outstanding() const { return outstanding_; }

 private:
  int64_t calls_ = -1000000;
  int64_t outstanding_ = 0;
};

TEST(ResourceFailureTest, EveryFailureOfTheSystemIsAnErrorAndTheWorkspaceStaysUsable) {
  const auto memory = std::make_shared<FailingMemory>();
  for (int64_t n = 0;; ++n) {
    ASSERT_LT(n, 20);
    Storage storage({.pool = StoragePoolKind::kNone, .system_allocator = memory});
    const auto engine = Engine::Create({.kind = EngineKind::kNaive});
    bool has_failed = false;
    {
      ResourceManager manager(engine.get(), &storage);
      const ResourceHandle space =
          manager.Request(Device::Cpu(), {ResourceRequest::Type::kTempSpace});
      memory->FailFrom(n);
      int errors = 0;
      engine->PushSync(
          [&](RunContext) {
            for (const int64_t size : {1000, 50, 2000, 3000}) {
              try {
                EXPECT_NE(space.resource->GetSpaceBytes(size), nullptr);
              } catch (const Error& error) {
                EXPECT_EQ(error.code(), Error::kResourceExhausted);
                ++errors;
              }
            }
            has_failed = memory->has_failed();
            memory->FailFrom(1000000);
            EXPECT_NE(space.resource->GetSpaceBytes(4000), nullptr);
          },
          Device::Cpu(), {}, {space.var});
      engine->WaitForAll();
      EXPECT_LE(errors, 4);
      EXPECT_EQ(storage.Stats(Device::Cpu()).live_bytes, 4000);
    }
    EXPECT_EQ(memory->outstanding(), 0);
    if (!has_failed) break;
  }
}

}  // namespace
}  // namespace tessera
