#include "tessera/storage/pool/arenas.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/storage/device/system_memory.h"
#include "tessera/storage/options.h"
#include "tessera/storage/pool/block.h"
#include "tessera/storage/pool/block_store.h"
#include "tessera/storage/testing/fake_system_allocator.h"

namespace tessera::storage_internal {
namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;
constexpr int kMaxArenas = 3;

class ArenasTest : public testing::Test {
 protected:
  ~ArenasTest() override {
    arenas_.Release(kNoLimit);
    EXPECT_EQ(fake_->outstanding(), 0);
    EXPECT_EQ(fake_->wrong_releases(), 0);
  }

  /// Returns the arena of a new thread.
  Arena* NewThread() {
    Arena* const arena = arenas_.FindForThread();
    ++arena->num_threads;
    return arena;
  }
  /// Allocates a block. The arena grows if no arena has one.
  Block* Get(Arena* own, int64_t size_bytes) {
    const int64_t rounded_bytes = arenas_.RoundUp(size_bytes);
    Block* const block = arenas_.Take(own, rounded_bytes);
    return block != nullptr ? block : arenas_.Grow(own, rounded_bytes);
  }

  const std::shared_ptr<FakeSystemAllocator> fake_ = std::make_shared<FakeSystemAllocator>();
  SystemMemory system_{fake_, kNoLimit};
  Arenas arenas_{nullptr, StorageOptions(), &system_, kMaxArenas};
  Arena* const a_ = NewThread();
  Arena* const b_ = NewThread();
};

TEST_F(ArenasTest, AThreadGetsAnArenaOfItsOwnWhileThereAreSome) {
  EXPECT_EQ(a_, arenas_.first());
  EXPECT_NE(a_, b_);
  Arena* const c = NewThread();
  EXPECT_NE(c, a_);
  EXPECT_NE(c, b_);
  // The maximum number of arenas is reached.
  --b_->num_threads;
  EXPECT_EQ(NewThread(), b_);
  std::vector<Arena*> shared;
  for (int i = 0; i < kMaxArenas; ++i) shared.push_back(NewThread());
  EXPECT_EQ(shared, (std::vector<Arena*>{a_, b_, c}));
}

TEST_F(ArenasTest, OneSegmentReplacesThoseTooSmallInAnyArena) {
  Block* const of_a = Get(a_, 8 * kMegabyte);
  Block* const of_b = Get(b_, 8 * kMegabyte);
  Block* const keeps_segment = Get(b_, kMegabyte / 2);
  arenas_.Put(of_a);
  arenas_.Put(of_b);
  const int64_t before = fake_->outstanding_bytes();
  Block* const block = Get(NewThread(), 12 * kMegabyte);
  EXPECT_EQ(block->size_bytes, 12 * kMegabyte);
  EXPECT_EQ(fake_->outstanding(), 2);
  EXPECT_EQ(fake_->outstanding_bytes(), before);
  arenas_.Put(block);
  arenas_.Put(keeps_segment);
}

// One arena splits blocks. The memory moves to the other, where it is joined again.
TEST_F(ArenasTest, BlockRecordsMoveTheOtherWay) {
  Block* const keeps_segment = Get(a_, kMegabyte / 2);
  const auto records = [&] { return a_->blocks.num_made() + b_->blocks.num_made(); };
  int after_some = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<Block*> blocks;
    for (int i = 0; i < 20; ++i) blocks.push_back(Get(a_, kMegabyte / 8));
    blocks.push_back(Get(b_, kMegabyte / 2));
    for (Block* const block : blocks) arenas_.Put(block);
    if (round == 100) after_some = records();
  }
  EXPECT_EQ(records(), after_some);
  arenas_.Put(keeps_segment);
}

TEST_F(ArenasTest, FreeMemoryOfAnotherArenaComesBeforeTheSystem) {
  Block* const of_a = Get(a_, kMegabyte / 2);
  Block* const rest_of_a = Get(a_, kMegabyte / 2);
  EXPECT_EQ(rest_of_a->lower, of_a);
  arenas_.Put(of_a);
  Block* const of_b = Get(b_, kMegabyte / 2);
  EXPECT_EQ(fake_->outstanding(), 1);
  // The whole segment moved to the other arena, and is one block when all of it is free.
  EXPECT_EQ(a_->strategy->free_bytes(), 0);
  EXPECT_EQ(rest_of_a->arena, b_);
  arenas_.Put(rest_of_a);
  Block* const whole = arenas_.Put(of_b);
  EXPECT_TRUE(whole->IsWhole());
  EXPECT_EQ(whole->arena, b_);
  EXPECT_EQ(b_->strategy->free_bytes(), 4 * kMegabyte);
}

TEST_F(ArenasTest, ASegmentOfManyBlocksStaysInItsArena) {
  std::vector<Block*> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(Get(a_, 64));
  Block* const of_b = Get(b_, 64);
  EXPECT_EQ(fake_->outstanding(), 1);
  EXPECT_EQ(of_b->arena, a_);
  for (const Block* block : blocks) EXPECT_EQ(block->arena, a_);
  arenas_.Put(of_b);
  for (Block* block : blocks) arenas_.Put(block);
  EXPECT_EQ(b_->strategy->free_bytes(), 0);
}

TEST_F(ArenasTest, OneFittingPieceOfAnyArenaIsReleased) {
  Arena* const c = NewThread();
  Block* const blocks[] = {Get(a_, 2 * kMegabyte), Get(b_, 8 * kMegabyte), Get(c, 5 * kMegabyte)};
  for (Block* block : blocks) arenas_.Put(block);
  EXPECT_EQ(arenas_.free_bytes(), 15 * kMegabyte);
  EXPECT_EQ(arenas_.LargestFreeBytes(), 8 * kMegabyte);
  arenas_.Release(4 * kMegabyte);
  EXPECT_EQ(arenas_.free_bytes(), 10 * kMegabyte);
  // No single segment is enough, so several are released.
  arenas_.Release(9 * kMegabyte);
  EXPECT_EQ(fake_->outstanding(), 0);
}

TEST_F(ArenasTest, ReleaseLeavesWhatIsBeyondTheNeed) {
  Block* const blocks[] = {Get(a_, 2 * kMegabyte), Get(a_, 2 * kMegabyte), Get(b_, 3 * kMegabyte)};
  for (Block* block : blocks) arenas_.Put(block);
  arenas_.Release(4 * kMegabyte);
  EXPECT_EQ(arenas_.free_bytes(), 3 * kMegabyte);
}

TEST_F(ArenasTest, OnShortageMemoryOfOtherSizesServes) {
  arenas_.Put(Get(b_, 64));
  EXPECT_EQ(arenas_.Take(a_, 100 << 10), nullptr);
  Block* const block = arenas_.TakeFromAnyKind(100 << 10);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->kind, BlockKind::kSmall);
  arenas_.Put(block);
}

}  // namespace
}  // namespace tessera::storage_internal
