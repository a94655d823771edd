#include "tessera/storage/pool/pool_strategy.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/storage/device/system_memory.h"
#include "tessera/storage/options.h"
#include "tessera/storage/pool/block.h"
#include "tessera/storage/pool/block_store.h"
#include "tessera/storage/pool/size_class.h"
#include "tessera/storage/testing/fake_system_allocator.h"

namespace tessera::storage_internal {
namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;

TEST(SizeClassTest, EverySizeFitsItsClassAndNoSmallerOne) {
  for (int64_t size = 1; size <= 2 * kMaxSmallBytes; size += 7) {
    const int size_class = SizeClass(size);
    EXPECT_GE(SizeOfClass(size_class), size);
    if (size_class > 0) {
      EXPECT_LT(SizeOfClass(size_class - 1), size);
    }
    EXPECT_EQ(SizeClass(SizeOfClass(size_class)), size_class);
  }
}

TEST(SizeClassTest, RoundingUpAddsLessThanAnEighth) {
  for (int64_t size = 1024; size < (int64_t{1} << 40); size = size * 9 / 8 + 61) {
    const int64_t rounded = SizeOfClass(SizeClass(size));
    EXPECT_LE(rounded - size, size / 8 + kAlignment) << size;
  }
}

class PoolStrategyTest : public testing::Test {
 protected:
  PoolStrategyTest()
      : fake_(std::make_shared<FakeSystemAllocator>()),
        system_(fake_, kNoLimit),
        blocks_(nullptr, nullptr) {}

  Block* Get(PoolStrategy& strategy, int64_t size_bytes) {
    const int64_t rounded_bytes = strategy.RoundUp(size_bytes);
    Block* block = strategy.Take(rounded_bytes);
    return block != nullptr ? block : strategy.Grow(rounded_bytes);
  }

  std::shared_ptr<FakeSystemAllocator> fake_;
  SystemMemory system_;
  BlockStore blocks_;
};

TEST_F(PoolStrategyTest, NoPoolGivesEverythingBackAtOnce) {
  const auto pool = MakeNoPool(&blocks_, &system_);
  Block* block = Get(*pool, 100);
  EXPECT_EQ(block->size_bytes, 128);
  EXPECT_EQ(fake_->outstanding_bytes(), 128);
  EXPECT_EQ(pool->Put(block), nullptr);
  EXPECT_EQ(fake_->outstanding(), 0);
}

TEST_F(PoolStrategyTest, ExactPoolReusesOnlyTheSameSize) {
  const auto pool = MakeExactPool(&blocks_, &system_);
  Block* block = Get(*pool, 1000);
  char* const ptr = block->ptr;
  pool->Put(block);
  EXPECT_EQ(pool->free_bytes(), 1024);
  EXPECT_EQ(pool->Take(pool->RoundUp(900)), nullptr);
  block = pool->Take(pool->RoundUp(1024));
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->ptr, ptr);
  pool->Put(block);
  pool->Release(kNoLimit);
  EXPECT_EQ(fake_->outstanding(), 0);
}

TEST_F(PoolStrategyTest, RoundedPoolUsesPowersOfTwoUpToTheCutoff) {
  const auto pool = MakeRoundedPool(&blocks_, &system_, 4096);
  const std::pair<int64_t, int64_t> cases[] = {{1, 64},       {64, 64},      {65, 128},
                                               {2049, 4096},  {4096, 4096},  {4097, 8192},
                                               {8193, 12288}, {12288, 12288}};
  for (const auto& [size, rounded] : cases) EXPECT_EQ(pool->RoundUp(size), rounded) << size;
  Block* block = Get(*pool, 2500);
  pool->Put(block);
  EXPECT_EQ(pool->Take(pool->RoundUp(4000)), block);
  pool->Put(block);
  pool->Release(kNoLimit);
  EXPECT_EQ(fake_->outstanding(), 0);
}

TEST_F(PoolStrategyTest, ReleasePrefersOneFittingPiece) {
  const auto pool = MakeExactPool(&blocks_, &system_);
  Block* small = Get(*pool, 1024);
  Block* middle = Get(*pool, 4096);
  Block* large = Get(*pool, 65536);
  pool->Put(small);
  pool->Put(middle);
  pool->Put(large);
  pool->Release(2000);
  EXPECT_EQ(pool->free_bytes(), 1024 + 65536);
  pool->Release(kNoLimit);
  EXPECT_EQ(fake_->outstanding(), 0);
}

TEST_F(PoolStrategyTest, BestFitTakesTheSmallestBlockThatFits) {
  const auto pool = MakeBestFitPool(&blocks_, &system_);
  // Live blocks separate the free ones of 256, 128 and 192 KiB.
  const int64_t kib[] = {256, 128, 192};
  std::vector<Block*> free_ones;
  std::vector<Block*> live_ones;
  for (const int64_t size : kib) {
    free_ones.push_back(Get(*pool, size << 10));
    live_ones.push_back(Get(*pool, 128 << 10));
  }
  // The rest of the segment is allocated, so that it is no candidate.
  live_ones.push_back(Get(*pool, pool->LargestFreeBytes()));
  char* const ptr_of_192 = free_ones[2]->ptr;
  for (Block* block : free_ones) pool->Put(block);
  Block* block = pool->Take(pool->RoundUp(150 << 10));
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->ptr, ptr_of_192);
  pool->Put(block);
  for (Block* live : live_ones) pool->Put(live);
  pool->Release(kNoLimit);
  EXPECT_EQ(fake_->outstanding(), 0);
}

TEST_F(PoolStrategyTest, BestFitFindsASegmentThatIsTheBlock) {
  const auto pool = MakeBestFitPool(&blocks_, &system_);
  Block* const whole = Get(*pool, 3 * kMegabyte);
  // Another block has the same size but is a part of a larger segment.
  pool->Put(Get(*pool, 8 * kMegabyte));
  Block* const rest = Get(*pool, 5 * kMegabyte);
  EXPECT_EQ(pool->LargestFreeBytes(), 3 * kMegabyte);
  EXPECT_EQ(pool->TakeWhole(3 * kMegabyte), nullptr);
  pool->Put(whole);
  EXPECT_EQ(pool->TakeWhole(3 * kMegabyte - 4096), nullptr);
  EXPECT_EQ(pool->TakeWhole(3 * kMegabyte + 4096), nullptr);
  EXPECT_EQ(pool->TakeWhole(3 * kMegabyte), whole);
  EXPECT_EQ(pool->TakeWhole(3 * kMegabyte), nullptr);
  EXPECT_EQ(pool->free_bytes(), 3 * kMegabyte);
  pool->Put(whole);
  pool->Put(rest);
  pool->Release(kNoLimit);
  EXPECT_EQ(fake_->outstanding(), 0);
}

TEST_F(PoolStrategyTest, BestFitJoinsFreeNeighboursInAnyOrder) {
  const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const auto& order : orders) {
    const auto pool = MakeBestFitPool(&blocks_, &system_);
    Block* parts[3];
    for (Block*& part : parts) part = Get(*pool, 512 << 10);
    EXPECT_EQ(system_.reserved_bytes(), 4 * kMegabyte);
    Block* joined = nullptr;
    for (const int i : order) joined = pool->Put(parts[i]);
    EXPECT_TRUE(joined->IsWhole());
    EXPECT_EQ(joined->size_bytes, 4 * kMegabyte);
    EXPECT_EQ(pool->free_bytes(), 4 * kMegabyte);
    pool->Release(1);
    EXPECT_EQ(fake_->outstanding(), 0);
  }
}

TEST_F(PoolStrategyTest, BestFitKeepsSmallBlocksOutOfLargeSegments) {
  const auto pool = MakeBestFitPool(&blocks_, &system_);
  Block* large = Get(*pool, kMegabyte);
  Block* small = Get(*pool, 64);
  EXPECT_EQ(fake_->outstanding(), 2);
  EXPECT_EQ(large->kind, BlockKind::kLarge);
  EXPECT_EQ(small->kind, BlockKind::kSmall);
  pool->Put(large);
  pool->Release(kNoLimit);
  EXPECT_EQ(fake_->outstanding(), 1);
  pool->Put(small);
  pool->Release(kNoLimit);
  EXPECT_EQ(fake_->outstanding(), 0);
}

TEST_F(PoolStrategyTest, BestFitTakesLessWhereTheSystemHasLittle) {
  fake_->SetCapacity(100 << 10);
  const auto pool = MakeBestFitPool(&blocks_, &system_);
  Block* block = Get(*pool, 80 << 10);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(system_.reserved_bytes(), 80 << 10);
  EXPECT_EQ(Get(*pool, 80 << 10), nullptr);
  pool->Put(block);
  pool->Release(kNoLimit);
  EXPECT_EQ(fake_->outstanding(), 0);
}

TEST_F(PoolStrategyTest, WrongReleasesNeverHappen) {
  const auto pool = MakeBestFitPool(&blocks_, &system_);
  std::vector<Block*> blocks;
  for (int64_t size = 64; size < 40 * kMegabyte; size = size * 3 / 2) {
    blocks.push_back(Get(*pool, size));
  }
  for (Block* block : blocks) pool->Put(block);
  pool->Release(kNoLimit);
  EXPECT_EQ(fake_->outstanding(), 0);
  EXPECT_EQ(fake_->wrong_releases(), 0);
}

}  // namespace
}  // namespace tessera::storage_internal
