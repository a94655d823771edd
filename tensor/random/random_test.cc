#include "tessera/tensor/random/random.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tbb/global_control.h"
#include "tbb/task_arena.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr uint64_t kSeed = 42;

/// Every distribution, so that what holds for all can be tested on all.
template <typename T>
std::vector<std::pair<std::string, std::function<void(Random<cpu>&, std::span<T>)>>> Fills() {
  std::vector<std::pair<std::string, std::function<void(Random<cpu>&, std::span<T>)>>> fills = {
      {"bernoulli", [](Random<cpu>& r, std::span<T> out) { r.SampleBernoulli(out, 0.3); }},
      {"randint", [](Random<cpu>& r, std::span<T> out) { r.SampleRandInt(out, 3, 100); }},
      {"poisson 3", [](Random<cpu>& r, std::span<T> out) { r.SamplePoisson(out, 3); }},
      {"poisson 40", [](Random<cpu>& r, std::span<T> out) { r.SamplePoisson(out, 40); }},
      {"negative binomial",
       [](Random<cpu>& r, std::span<T> out) { r.SampleNegativeBinomial(out, 2.5, 0.3); }},
      {"generalized negative binomial",
       [](Random<cpu>& r, std::span<T> out) { r.SampleGeneralizedNegativeBinomial(out, 4, 0.5); }},
      {"multinomial",
       [](Random<cpu>& r, std::span<T> out) {
         r.SampleMultinomial(out, std::vector<double>{1, 0, 2, 4});
       }},
  };
  if constexpr (!std::is_integral_v<T>) {
    fills.push_back(
        {"uniform", [](Random<cpu>& r, std::span<T> out) { r.SampleUniform(out, 2, 5); }});
    fills.push_back(
        {"gaussian", [](Random<cpu>& r, std::span<T> out) { r.SampleGaussian(out, 1, 2); }});
    fills.push_back(
        {"exponential", [](Random<cpu>& r, std::span<T> out) { r.SampleExponential(out, 2); }});
    fills.push_back(
        {"gamma 0.5", [](Random<cpu>& r, std::span<T> out) { r.SampleGamma(out, 0.5, 2); }});
    fills.push_back(
        {"gamma 3", [](Random<cpu>& r, std::span<T> out) { r.SampleGamma(out, 3, 1); }});
  }
  return fills;
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <typename T>
class RandomTypesTest : public testing::Test {};
using Types = testing::Types<float, double, half_t, int32_t>;
TYPED_TEST_SUITE(RandomTypesTest, Types);

TYPED_TEST(RandomTypesTest, ASeedFixesEveryNumber) {
  for (const auto& [name, fill] : Fills<TypeParam>()) {
    std::vector<TypeParam> a(1000);
    std::vector<TypeParam> b(1000);
    std::vector<TypeParam> c(1000);
    Random<cpu> random(kSeed);
    fill(random, a);
    fill(random, c);
    random.Seed(kSeed);
    fill(random, b);
    EXPECT_TRUE(SameBits(a, b)) << name;
    EXPECT_FALSE(SameBits(a, c)) << name;
  }
}

TYPED_TEST(RandomTypesTest, ThreadsDoNotMatter) {
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 8);
  for (const auto& [name, fill] : Fills<TypeParam>()) {
    std::vector<TypeParam> serial(200001);
    std::vector<TypeParam> parallel(200001);
    tbb::task_arena(1).execute([&, &fill = fill] {
      Random<cpu> random(kSeed);
      fill(random, serial);
    });
    tbb::task_arena(8).execute([&, &fill = fill] {
      Random<cpu> random(kSeed);
      fill(random, parallel);
    });
    EXPECT_TRUE(SameBits(serial, parallel)) << name;
  }
}

TYPED_TEST(RandomTypesTest, AShorterFillIsAPrefixAndWritesNothingBeyond) {
  for (const auto& [name, fill] : Fills<TypeParam>()) {
    std::vector<TypeParam> all(2000);
    Random<cpu> random(kSeed);
    fill(random, all);
    for (const size_t size : {0, 1, 15, 16, 17, 31, 33, 63, 64, 65, 1023, 1025}) {
      std::vector<TypeParam> some(size + 1, TypeParam(77));
      random.Seed(kSeed);
      fill(random, std::span(some).first(size));
      EXPECT_TRUE(std::equal(some.begin(), some.end() - 1, all.begin())) << name << " " << size;
      EXPECT_EQ(some.back(), TypeParam(77)) << name << " " << size;
    }
  }
}

TYPED_TEST(RandomTypesTest, PaddingBetweenRowsIsSkipped) {
  constexpr index_t kRows = 37;
  constexpr index_t kColumns = 29;
  constexpr index_t kStride = 32;
  std::vector<TypeParam> flat(kRows * kColumns);
  std::vector<TypeParam> padded(kRows * kStride, TypeParam(77));
  Random<cpu> random(kSeed);
  random.SampleRandInt(std::span(flat), 0, 50);
  random.Seed(kSeed);
  Tensor<cpu, 2, TypeParam> tensor(padded.data(), Shape2(kRows, kColumns), kStride, nullptr);
  random.SampleRandInt(&tensor, 0, 50);
  for (index_t row = 0; row < kRows; ++row) {
    for (index_t column = 0; column < kStride; ++column) {
      const TypeParam expected = column < kColumns ? flat[row * kColumns + column] : TypeParam(77);
      ASSERT_EQ(padded[row * kStride + column], expected);
    }
  }
}

TYPED_TEST(RandomTypesTest, RandIntCoversItsRangeAndNoMore) {
  std::vector<TypeParam> values(5000);
  Random<cpu>(kSeed).SampleRandInt(std::span(values), 7, 17);
  const auto [smallest, largest] = std::minmax_element(values.begin(), values.end());
  EXPECT_EQ(*smallest, TypeParam(7));
  EXPECT_EQ(*largest, TypeParam(16));
}

template <typename T>
class RandomRealTypesTest : public testing::Test {};
using RealTypes = testing::Types<float, double, half_t, bfloat16_t>;
TYPED_TEST_SUITE(RandomRealTypesTest, RealTypes);

TYPED_TEST(RandomRealTypesTest, UniformNeverReachesItsUpperBound) {
  const std::pair<double, double> ranges[] = {{0, 1},       {-1, 1},  {1, 1.02}, {-3, 0},
                                              {1000, 1016}, {-2, -1}, {0, 1e-4}};
  for (const auto& [low, high] : ranges) {
    std::vector<TypeParam> values(100000);
    Random<cpu>(kSeed).SampleUniform(std::span(values), low, high);
    const TypeParam first = TypeParam(low);
    for (const TypeParam value : values) {
      ASSERT_GE(value, first) << low << " " << high;
      ASSERT_LT(static_cast<double>(value), high) << low << " " << high;
    }
  }
}

TYPED_TEST(RandomRealTypesTest, AnEmptyUniformRangeGivesItsOnePoint) {
  std::vector<TypeParam> values(100);
  Random<cpu>(kSeed).SampleUniform(std::span(values), 1.5, 1.5);
  for (const TypeParam value : values) EXPECT_EQ(value, TypeParam(1.5));
}

TYPED_TEST(RandomRealTypesTest, NoDeviationGivesTheMean) {
  std::vector<TypeParam> values(100);
  Random<cpu>(kSeed).SampleGaussian(std::span(values), -2, 0);
  for (const TypeParam value : values) EXPECT_EQ(value, TypeParam(-2));
}

TEST(RandomTest, BernoulliNumbersOfPartsAreThoseOfTheWhole) {
  constexpr int64_t kSize = 1000, kPart = 5 * tensor_internal::kElementsPerTile;
  Random<cpu> random(kSeed);
  random.GetRandInt();
  const PhiloxState first = *random.state();
  std::vector<float> whole(kSize), parts(kSize);
  random.SampleBernoulli(std::span(whole), 0.4);
  for (int64_t begin = 0; begin < kSize; begin += kPart) {
    PhiloxState state = tensor_internal::StateAfter(first, begin);
    const int64_t n = std::min(kPart, kSize - begin);
    Random<cpu>(&state).SampleBernoulli(std::span(parts.data() + begin, static_cast<size_t>(n)),
                                        0.4);
  }
  EXPECT_EQ(parts, whole);
  const PhiloxState after = tensor_internal::StateAfter(first, kSize);
  EXPECT_EQ(after.next_block, random.state()->next_block);
}

TEST(RandomTest, RandIntReachesAllOfInt64) {
  std::vector<int64_t> values(10000);
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  Random<cpu>(kSeed).SampleRandInt(std::span(values), kMin, kMax);
  const auto [smallest, largest] = std::minmax_element(values.begin(), values.end());
  EXPECT_LT(*smallest, kMin / 1000 * 999);
  EXPECT_GT(*largest, kMax / 1000 * 999);
}

TEST(RandomTest, SmallIntegersKeepToTheirLargestValue) {
  std::vector<uint8_t> values(1000);
  Random<cpu>(kSeed).SamplePoisson(std::span(values), 1000);
  for (const uint8_t value : values) EXPECT_EQ(value, 255);
}

TEST(RandomTest, ShuffleKeepsTheElementsAndMovesThem) {
  for (const size_t size : {0, 1, 2, 3, 1000}) {
    std::vector<int> elements(size);
    std::iota(elements.begin(), elements.end(), 0);
    std::vector<int> shuffled = elements;
    Random<cpu> random(kSeed);
    random.Shuffle(std::span(shuffled));
    if (size == 1000) {
      EXPECT_NE(shuffled, elements);
    }
    std::sort(shuffled.begin(), shuffled.end());
    EXPECT_EQ(shuffled, elements);
  }
}

TEST(RandomTest, GeneratorsOnOneStateContinueEachOther) {
  PhiloxState state = {.seed = kSeed};
  std::vector<float> parts(2 * 64);
  Random<cpu>(&state).SampleUniform(std::span(parts).first(64));
  Random<cpu>(&state).SampleUniform(std::span(parts).last(64));
  std::vector<float> whole(2 * 64);
  Random<cpu>(kSeed).SampleUniform(std::span(whole));
  EXPECT_EQ(parts, whole);
}

TEST(RandomTest, SeedIsKept) {
  Random<cpu> random(5);
  EXPECT_EQ(random.GetSeed(), 5u);
  const uint32_t first = random.GetRandInt();
  EXPECT_NE(random.GetRandInt(), first);
  random.Seed(5);
  EXPECT_EQ(random.GetRandInt(), first);
}

TEST(RandomTest, WrongParametersAreNamedAndDrawNothing) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<float> storage(10, 77.0f);
  const std::span<float> out(storage);
  std::vector<uint8_t> bytes(10);
  Random<cpu> random(kSeed);
  const std::pair<const char*, std::function<void()>> cases[] = {
      {"SampleUniform: low = 2, high = 1", [&] { random.SampleUniform(out, 2, 1); }},
      {"SampleUniform", [&] { random.SampleUniform(out, kNaN, 1); }},
      {"SampleUniform", [&] { random.SampleUniform(out, 0, 1e300); }},
      {"SampleUniform", [&] { random.SampleUniform(out, -3e38, 3e38); }},
      {"SampleGaussian", [&] { random.SampleGaussian(out, 0, -1); }},
      {"SampleGaussian", [&] { random.SampleGaussian(out, kInfinity, 1); }},
      {"SampleExponential: rate = 0", [&] { random.SampleExponential(out, 0); }},
      {"SampleGamma", [&] { random.SampleGamma(out, 0, 1); }},
      {"SampleGamma", [&] { random.SampleGamma(out, 1, kNaN); }},
      {"SamplePoisson: mean = -1", [&] { random.SamplePoisson(out, -1); }},
      {"SamplePoisson", [&] { random.SamplePoisson(out, 1e16); }},
      {"SampleNegativeBinomial", [&] { random.SampleNegativeBinomial(out, 1, 0); }},
      {"SampleNegativeBinomial", [&] { random.SampleNegativeBinomial(out, 0, 0.5); }},
      {"SampleGeneralizedNegativeBinomial",
       [&] { random.SampleGeneralizedNegativeBinomial(out, 1, -1); }},
      {"SampleBernoulli: probability = 1.5", [&] { random.SampleBernoulli(out, 1.5); }},
      {"SampleBernoulli", [&] { random.SampleBernoulli(out, kNaN); }},
      {"SampleRandInt: [5, 5)", [&] { random.SampleRandInt(out, 5, 5); }},
      {"SampleRandInt", [&] { random.SampleRandInt(std::span(bytes), -1, 5); }},
      {"SampleRandInt", [&] { random.SampleRandInt(std::span(bytes), 0, 257); }},
      {"SampleMultinomial: weights[1]",
       [&] {
         random.SampleMultinomial(out, std::vector<double>{1, -1});
       }},
      {"SampleMultinomial", [&] { random.SampleMultinomial(out, {}); }},
      {"SampleMultinomial",
       [&] {
         random.SampleMultinomial(out, std::vector<double>{0, 0});
       }},
  };
  for (const auto& [message, call] : cases) {
    try {
      call();
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kInvalidArgument);
      EXPECT_THAT(error.what(), testing::HasSubstr(message));
    }
  }
  EXPECT_EQ(random.state()->next_block, 0u);
  EXPECT_EQ(storage, std::vector<float>(10, 77.0f));
}

}  // namespace
}  // namespace tessera
