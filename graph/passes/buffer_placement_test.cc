#include "tessera/graph/passes/buffer_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace tessera::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kAlignment = BufferPlacement::kAlignment;

int64_t RoundedUp(int64_t size) {
  return size % kAlignment == 0 ? size : size - size % kAlignment + kAlignment;
}

int64_t Sum(std::span<const BufferUse> buffers) {
  int64_t sum = 0;
  for (const BufferUse& use : buffers) sum += RoundedUp(use.size_bytes);
  return sum;
}

/// Returns the largest sum of live bytes, step by step.
int64_t MostLiveBytes(std::span<const BufferUse> buffers) {
  int64_t most = 0;
  for (const BufferUse& at : buffers) {
    int64_t live = 0;  // at the step where that buffer begins: sums are largest at such steps
    for (const BufferUse& use : buffers) {
      const bool is_live = use.first_step <= at.first_step && at.first_step <= use.last_step;
      if (is_live) live += RoundedUp(use.size_bytes);
    }
    most = std::max(most, live);
  }
  return most;
}

/// Expects that no two buffers use a byte at the same step, and that all lie aligned in the block.
void ExpectNoByteIsShared(std::span<const BufferUse> buffers, std::span<const int64_t> offsets,
                          int64_t size_bytes) {
  ASSERT_EQ(offsets.size(), buffers.size());
  EXPECT_EQ(size_bytes % kAlignment, 0);
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_GE(offsets[i], 0);
    EXPECT_EQ(offsets[i] % kAlignment, 0);
    EXPECT_LE(offsets[i] + buffers[i].size_bytes, size_bytes);
    for (size_t j = 0; j < i; ++j) {
      if (buffers[i].first_step > buffers[j].last_step) continue;
      if (buffers[j].first_step > buffers[i].last_step) continue;
      if (buffers[i].size_bytes == 0 || buffers[j].size_bytes == 0) continue;
      const bool apart = offsets[i] + buffers[i].size_bytes <= offsets[j] ||
                         offsets[j] + buffers[j].size_bytes <= offsets[i];
      ASSERT_TRUE(apart) << "buffers " << j << " and " << i << " overlap";
    }
  }
}

void ExpectGoodPlacement(std::span<const BufferUse> buffers, const BufferPlacement& placement) {
  ExpectNoByteIsShared(buffers, placement.offsets, placement.size_bytes);
  EXPECT_LE(placement.size_bytes, Sum(buffers));
  EXPECT_GE(placement.size_bytes, MostLiveBytes(buffers));
}

/// Draws buffers whose first step lies in [begin, end).
std::vector<BufferUse> Draw(std::mt19937* random, int count, int begin, int end) {
  const int longest = 1 + static_cast<int>((*random)() % 12);
  const int kind = static_cast<int>((*random)() % 4);
  std::vector<BufferUse> buffers;
  for (int i = 0; i < count; ++i) {
    BufferUse use;
    use.first_step = begin + static_cast<int>((*random)() % static_cast<unsigned>(end - begin));
    use.last_step = use.first_step + static_cast<int>((*random)() % static_cast<unsigned>(longest));
    if ((*random)() % 16 == 0) use.last_step += 100;  // one that stays
    switch (kind) {
      case 0:  // any size
        use.size_bytes = (*random)() % 1000;
        break;
      case 1:  // sizes around the alignment
        use.size_bytes = kAlignment * ((*random)() % 4) + (*random)() % 3;
        break;
      case 2:  // powers of two
        use.size_bytes = kAlignment << ((*random)() % 8);
        break;
      case 3:  // one size, and empty buffers
        use.size_bytes = (*random)() % 5 == 0 ? 0 : 4096;
        break;
    }
    buffers.push_back(use);
  }
  return buffers;
}

TEST(BufferPlacementTest, RandomUsesNeverShareAByte) {
  std::mt19937 random(20261129);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<BufferUse> buffers =
        Draw(&random, static_cast<int>(random() % 60), 0, 1 + static_cast<int>(random() % 40));
    ExpectGoodPlacement(buffers, PlaceBuffers(buffers));
    EXPECT_EQ(LivenessBound(buffers), MostLiveBytes(buffers));
    if (testing::Test::HasFailure()) FAIL() << "round " << round;
  }
}

TEST(BufferPlacementTest, LaterBuffersLieBesideEarlierOnes) {
  std::mt19937 random(20261130);
  for (int round = 0; round < 2000; ++round) {
    std::vector<BufferUse> all = Draw(&random, static_cast<int>(random() % 30), 0, 15);
    const std::vector<BufferUse> later = Draw(&random, static_cast<int>(random() % 30), 15, 40);
    const BufferPlacement before = PlaceBuffers(all);
    const BufferPlacement placement = PlaceBuffers(later, {all, before.offsets, before.size_bytes});
    EXPECT_LE(placement.size_bytes, before.size_bytes + Sum(later));
    EXPECT_GE(placement.size_bytes, before.size_bytes);
    ASSERT_EQ(placement.offsets.size(), later.size());
    for (size_t i = 0; i < later.size(); ++i) {
      const int64_t begin = placement.offsets[i], end = begin + RoundedUp(later[i].size_bytes);
      EXPECT_TRUE(end <= before.size_bytes || begin >= before.size_bytes || begin == end)
          << "buffer " << i << " lies across the border";
    }
    std::vector<int64_t> offsets = before.offsets;
    offsets.insert(offsets.end(), placement.offsets.begin(), placement.offsets.end());
    all.insert(all.end(), later.begin(), later.end());
    ExpectNoByteIsShared(all, offsets, placement.size_bytes);
    if (testing::Test::HasFailure()) FAIL() << "round " << round;
  }
}

TEST(BufferPlacementTest, NothingNeedsNoMemory) {
  const BufferPlacement none = PlaceBuffers({});
  EXPECT_THAT(none.offsets, IsEmpty());
  EXPECT_EQ(none.size_bytes, 0);
  EXPECT_EQ(LivenessBound({}), 0);
  const std::vector<BufferUse> empty = {{0, 0, 5}, {0, 3, 3}};
  EXPECT_THAT(PlaceBuffers(empty).offsets, ElementsAre(0, 0));
  EXPECT_EQ(PlaceBuffers(empty).size_bytes, 0);
}

TEST(BufferPlacementTest, BuffersOfNeighbouringStepsTakeTurns) {
  const std::vector<BufferUse> buffers = {{100, 0, 1}, {50, 1, 2}, {100, 2, 3}, {60, 3, 4}};
  const BufferPlacement placement = PlaceBuffers(buffers);
  EXPECT_THAT(placement.offsets, ElementsAre(0, 128, 0, 128));
  EXPECT_EQ(placement.size_bytes, 192);
}

TEST(BufferPlacementTest, BuffersOfAllStepsFollowEachOther) {
  const std::vector<BufferUse> buffers(50, BufferUse{100, 0, 7});
  const BufferPlacement placement = PlaceBuffers(buffers);
  ExpectGoodPlacement(buffers, placement);
  EXPECT_EQ(placement.size_bytes, 50 * 128);
}

/// Three buffers for which the order of time leaves 64 bytes unused below the second one: by size
/// they need 192 bytes, in the order of time 256.
std::vector<BufferUse> BetterBySize(int step) {
  return {{64, step, step + 1}, {64, step + 1, step + 3}, {128, step + 2, step + 3}};
}

TEST(BufferPlacementTest, TheSmallerOfTwoPlacementsIsKept) {
  EXPECT_EQ(PlaceBuffers(BetterBySize(0)).size_bytes, 192);
  // By size, the last buffer would find no place below 320 bytes.
  const std::vector<BufferUse> better_by_time = {{192, 3, 4}, {64, 1, 2}, {192, 0, 1}, {128, 2, 3}};
  EXPECT_THAT(PlaceBuffers(better_by_time).offsets, ElementsAre(128, 192, 0, 0));
  EXPECT_EQ(PlaceBuffers(better_by_time).size_bytes, 320);
}

TEST(BufferPlacementTest, ABlockOfAResidualNetworkReachesTheBound) {
  // Inference: each block keeps its input while three convolutions run, and works in place.
  std::vector<BufferUse> buffers = {{4096, 0, 1}, {16384, 1, 5}};
  for (int block = 0, step = 2; block < 20; ++block, step += 4) {
    buffers.push_back({4096, step, step + 1});
    buffers.push_back({4096, step + 1, step + 2});
    buffers.push_back({16384, step + 2, step + 7});
  }
  const BufferPlacement placement = PlaceBuffers(buffers);
  ExpectGoodPlacement(buffers, placement);
  EXPECT_EQ(placement.size_bytes, LivenessBound(buffers));
}

TEST(BufferPlacementTest, BeyondALimitTheOrderOfTimeIsUsed) {
  std::vector<BufferUse> buffers;
  for (int i = 0; i < 1365; ++i) {
    for (const BufferUse& use : BetterBySize(4 * i)) buffers.push_back(use);
  }
  EXPECT_EQ(PlaceBuffers(buffers).size_bytes, 192);
  for (const BufferUse& use : BetterBySize(4 * 1365)) buffers.push_back(use);
  ASSERT_GT(buffers.size(), 4096u);
  const BufferPlacement placement = PlaceBuffers(buffers);
  EXPECT_EQ(placement.size_bytes, 256);
  ExpectGoodPlacement(buffers, placement);
}

TEST(BufferPlacementTest, ALaterBufferDoesNotGrowAcrossTheBorder) {
  // The last 64 bytes of the earlier block are free, but too few.
  const std::vector<BufferUse> earlier = {{64, 0, 9}, {64, 0, 3}};
  const std::vector<int64_t> offsets = {0, 64};
  const std::vector<BufferUse> later = {{128, 4, 6}, {64, 5, 6}, {64, 7, 8}};
  const BufferPlacement placement = PlaceBuffers(later, {earlier, offsets, 128});
  EXPECT_THAT(placement.offsets, ElementsAre(128, 64, 64));
  EXPECT_EQ(placement.size_bytes, 256);
}

TEST(BufferPlacementTest, OneListHasOneResult) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const std::vector<BufferUse> buffers = Draw(&random, 200, 0, 100);
    const BufferPlacement first = PlaceBuffers(buffers), second = PlaceBuffers(buffers);
    EXPECT_EQ(first.offsets, second.offsets);
    EXPECT_EQ(first.size_bytes, second.size_bytes);
  }
}

}  // namespace
}  // namespace tessera::graph
