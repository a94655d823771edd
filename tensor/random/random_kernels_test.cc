#include "tessera/tensor/random/random_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/random/philox.h"

namespace tessera::tensor_internal {
namespace {

constexpr int64_t kTiles = 500;

// A counter that carries into its second word inside the run.
constexpr PhiloxOrigin kOrigin = {0x0123456789ABCDEF, 0xFEDCBA9876543210, 0xFFFFFFFFF0};

std::vector<uint32_t> ExpectedWords() {
  const PhiloxState state = {.seed = kOrigin.key, .stream = kOrigin.stream};
  std::vector<uint32_t> words(kTiles * kWordsPerTile);
  for (int64_t block = 0; block < kTiles * kBlocksPerTile; ++block) {
    const PhiloxWords four = state.Block(kOrigin.first_block + static_cast<uint64_t>(block));
    for (int w = 0; w < 4; ++w) {
      words[block / kBlocksPerTile * kWordsPerTile + w * kBlocksPerTile + block % kBlocksPerTile] =
          four.word[w];
    }
  }
  return words;
}

/// Calls `body` with each version that this machine runs.
template <typename Body>
void ForEachVersion(const Body& body) {
  for (const RandomKernels* const* kernels = AllRandomKernels(); *kernels != nullptr; ++kernels) {
    body(**kernels);
  }
}

TEST(RandomKernelsTest, WordsArePhiloxInTheStatedOrder) {
  const std::vector<uint32_t> expected = ExpectedWords();
  ForEachVersion([&](const RandomKernels& kernels) {
    std::vector<uint32_t> words(expected.size());
    kernels.words(kOrigin, kTiles, words.data());
    EXPECT_EQ(words, expected);
  });
}

TEST(RandomKernelsTest, UniformIsTheUpper24Bits) {
  const std::vector<uint32_t> words = ExpectedWords();
  ForEachVersion([&](const RandomKernels& kernels) {
    std::vector<float> values(words.size());
    kernels.uniform(kOrigin, kTiles, values.data(), 0.0f, 1.0f, 0.99999994f);
    for (size_t i = 0; i < words.size(); ++i) {
      ASSERT_EQ(values[i], static_cast<float>(words[i] >> 8) * 0x1p-24f);
    }
  });
}

TEST(RandomKernelsTest, GaussianIsBoxMullerAsAccuratelyAsStated) {
  const std::vector<uint32_t> words = ExpectedWords();
  constexpr double kTolerance = 0x1p-20;
  ForEachVersion([&](const RandomKernels& kernels) {
    std::vector<float> values(words.size());
    kernels.gaussian(kOrigin, kTiles, values.data(), 0.0f, 1.0f);
    for (size_t i = 0; i < words.size(); ++i) {
      if (i / kBlocksPerTile % 2 == 1) continue;
      const double u = (static_cast<double>(words[i] >> 1) + 0.5) * 0x1p-31;
      const double angle = std::numbers::pi * 0x1p-31 *
                           static_cast<double>(static_cast<int32_t>(words[i + kBlocksPerTile]));
      const double radius = std::sqrt(-2 * std::log(u));
      const double x = radius * std::cos(angle);
      const double y = radius * std::sin(angle);
      const double bound = kTolerance * std::max(std::abs(x), std::abs(y));
      const double rounding = std::min(0x1p-12, 0x1p-24 / radius);
      ASSERT_NEAR(values[i], x, bound + rounding) << i;
      ASSERT_NEAR(values[i + kBlocksPerTile], y, bound + rounding) << i;
    }
  });
}

TEST(RandomKernelsTest, ExponentialIsTheLogarithm) {
  const std::vector<uint32_t> words = ExpectedWords();
  ForEachVersion([&](const RandomKernels& kernels) {
    std::vector<float> values(words.size());
    kernels.exponential(kOrigin, kTiles, values.data(), 3.0f);
    for (size_t i = 0; i < words.size(); ++i) {
      const double expected = -3 * std::log((static_cast<double>(words[i] >> 1) + 0.5) * 0x1p-31);
      ASSERT_NEAR(values[i], expected, 4e-7 * (1 + expected));
      ASSERT_GE(values[i], 0.0f);
    }
  });
}

TEST(RandomKernelsTest, BernoulliComparesWords) {
  const std::vector<uint32_t> words = ExpectedWords();
  ForEachVersion([&](const RandomKernels& kernels) {
    for (const uint32_t last : {0u, words[7], 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
      std::vector<float> values(words.size());
      kernels.bernoulli(kOrigin, kTiles, values.data(), last, 1.25f);
      for (size_t i = 0; i < words.size(); ++i) {
        ASSERT_EQ(values[i], words[i] <= last ? 1.25f : 0.0f) << i << ", " << last;
      }
    }
  });
}

TEST(RandomKernelsTest, AllVersionsAgreeBitForBit) {
  constexpr size_t kSize = kTiles * kWordsPerTile;
  const RandomKernels& baseline = **AllRandomKernels();
  std::vector<float> expected(kSize);
  std::vector<float> values(kSize);
  ForEachVersion([&](const RandomKernels& kernels) {
    baseline.gaussian(kOrigin, kTiles, expected.data(), 0.3f, 1.7f);
    kernels.gaussian(kOrigin, kTiles, values.data(), 0.3f, 1.7f);
    EXPECT_EQ(values, expected);
    baseline.uniform(kOrigin, kTiles, expected.data(), -0.1f, 0.7f, 0.59999f);
    kernels.uniform(kOrigin, kTiles, values.data(), -0.1f, 0.7f, 0.59999f);
    EXPECT_EQ(values, expected);
    baseline.exponential(kOrigin, kTiles, expected.data(), 0.9f);
    kernels.exponential(kOrigin, kTiles, values.data(), 0.9f);
    EXPECT_EQ(values, expected);
  });
}

TEST(RandomKernelsTest, NothingIsWrittenBeyondTheTiles) {
  ForEachVersion([&](const RandomKernels& kernels) {
    for (const int64_t tiles : {0, 1, 3}) {
      std::vector<float> values(static_cast<size_t>(tiles) * kWordsPerTile + 1, -7.0f);
      kernels.uniform(kOrigin, tiles, values.data(), 0.0f, 1.0f, 0.5f);
      kernels.gaussian(kOrigin, tiles, values.data(), 0.0f, 1.0f);
      kernels.bernoulli(kOrigin, tiles, values.data(), 1000, 1.0f);
      EXPECT_EQ(values.back(), -7.0f);
    }
  });
}

}  // namespace
}  // namespace tessera::tensor_internal
