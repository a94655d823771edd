// Tests reuse in stream order with simulated streams, which do their work when the test says so.

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/storage/storage.h"
#include "tessera/storage/testing/fake_system_allocator.h"
#include "tessera/storage/testing/simulated_streams.h"

namespace tessera {
namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;
constexpr int64_t kManyPieces = 1000000;

class StreamOrderTest : public testing::TestWithParam<StoragePoolKind> {
 protected:
  StreamOrderTest() { Make(kNoLimit); }
  ~StreamOrderTest() override {
    storage_.reset();
    EXPECT_EQ(fake_->outstanding(), 0);
    EXPECT_EQ(streams_->live_events(), 0);
  }

  void Make(int64_t limit_bytes) {
    storage_ = std::make_unique<Storage>(StorageOptions{.pool = GetParam(),
                                                        .limit_bytes = limit_bytes,
                                                        .system_allocator = fake_,
                                                        .stream_events = streams_});
  }

  Storage::Handle AllocOn(void* stream, int64_t size_bytes) {
    const Storage::Handle block =
        storage_->AllocOnStream(size_bytes, Device::Cpu(), stream, "work");
    std::memset(block.dptr, 1, static_cast<size_t>(size_bytes));
    return block;
  }
  /// Frees a block that the stream's next piece of work uses.
  void UseAndFree(void* stream, const Storage::Handle& block) {
    streams_->Enqueue(stream);
    storage_->FreeOnStream(block, stream);
  }
  StorageStats Stats() const { return storage_->Stats(Device::Cpu()); }

  const std::shared_ptr<FakeSystemAllocator> fake_ = std::make_shared<FakeSystemAllocator>();
  const std::shared_ptr<SimulatedStreams> streams_ = std::make_shared<SimulatedStreams>();
  std::unique_ptr<Storage> storage_;
  int stream_numbers_[3] = {};
  void* const a_ = &stream_numbers_[0];
  void* const b_ = &stream_numbers_[1];
  void* const c_ = &stream_numbers_[2];
};

std::string PoolName(const testing::TestParamInfo<StoragePoolKind>& info) {
  constexpr const char* kNames[] = {"None", "Exact", "Rounded", "BestFit"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(EveryPool, StreamOrderTest,
                         testing::Values(StoragePoolKind::kNone, StoragePoolKind::kExact,
                                         StoragePoolKind::kRounded, StoragePoolKind::kBestFit),
                         PoolName);

TEST_P(StreamOrderTest, TheSameStreamReusesABlockAtOnce) {
  const Storage::Handle block = AllocOn(a_, kMegabyte);
  UseAndFree(a_, block);
  const Storage::Handle next = AllocOn(a_, kMegabyte);
  EXPECT_EQ(next.dptr, block.dptr);
  EXPECT_EQ(streams_->waits(), 0);
  EXPECT_EQ(Stats().system_allocations, 1);
  EXPECT_EQ(Stats().pool_hits, 1);
  storage_->FreeOnStream(next, a_);
}

TEST_P(StreamOrderTest, AnotherStreamReusesABlockOnlyAfterItsWork) {
  for (const int64_t size : {int64_t{1000}, kMegabyte}) {
    const Storage::Handle block = AllocOn(a_, size);
    UseAndFree(a_, block);
    const Storage::Handle other = AllocOn(b_, size);
    const Storage::Handle host = storage_->Alloc(size, Device::Cpu());
    EXPECT_NE(other.dptr, block.dptr);
    EXPECT_NE(host.dptr, block.dptr);
    streams_->Run(a_, 1);
    // The pool may hold another block of the size, so one of two allocations gets this one.
    const Storage::Handle later[] = {AllocOn(b_, size), AllocOn(b_, size)};
    if (GetParam() != StoragePoolKind::kNone) {
      EXPECT_TRUE(later[0].dptr == block.dptr || later[1].dptr == block.dptr) << size;
    }
    EXPECT_EQ(streams_->waits(), 0);
    for (const Storage::Handle& handle : {other, host, later[0], later[1]}) storage_->Free(handle);
  }
}

TEST_P(StreamOrderTest, BlocksComeBackInTheOrderOfEachStreamsWork) {
  std::vector<Storage::Handle> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(AllocOn(a_, kMegabyte));
  for (const Storage::Handle& block : blocks) UseAndFree(a_, block);
  const int64_t pending_bytes = Stats().pending_bytes;
  EXPECT_GE(pending_bytes, 4 * kMegabyte);
  for (int done = 1; done <= 4; ++done) {
    streams_->Run(a_, 1);
    // DirectFree keeps the block out of the cache, so that the next allocation looks into the pool.
    storage_->DirectFree(AllocOn(b_, 2 * kMegabyte));
    EXPECT_EQ(Stats().pending_bytes, pending_bytes / 4 * (4 - done));
  }
}

TEST_P(StreamOrderTest, AMuchLargerBlockIsNotTakenOnTheSameStream) {
  const Storage::Handle block = AllocOn(a_, kMegabyte);
  UseAndFree(a_, block);
  const Storage::Handle small = AllocOn(a_, kMegabyte / 2);
  EXPECT_NE(small.dptr, block.dptr);
  storage_->Free(small);
}

TEST_P(StreamOrderTest, PendingBlocksAreCachedAndNotLive) {
  const Storage::Handle block = AllocOn(a_, kMegabyte);
  UseAndFree(a_, block);
  const StorageStats stats = Stats();
  EXPECT_EQ(stats.live_bytes, 0);
  EXPECT_EQ(stats.frees, 1);
  EXPECT_GE(stats.pending_bytes, kMegabyte);
  EXPECT_GE(stats.cached_bytes, stats.pending_bytes);
  EXPECT_EQ(stats.in_use_bytes, 0);
  ASSERT_EQ(storage_->TagStats(Device::Cpu()).size(), 1u);
  EXPECT_EQ(storage_->TagStats(Device::Cpu())[0].live_bytes, 0);
}

TEST_P(StreamOrderTest, SizesAreThoseOfAlloc) {
  // A pending block is available for reuse.
  UseAndFree(a_, AllocOn(a_, 64));
  const Storage::Handle none = storage_->AllocOnStream(0, Device::Cpu(), a_);
  EXPECT_EQ(none.dptr, nullptr);
  storage_->FreeOnStream(none, a_);
  EXPECT_EQ(Stats().pending_bytes, 64);
  EXPECT_THROW(storage_->AllocOnStream(-1, Device::Cpu(), a_), Error);
  EXPECT_THROW(storage_->AllocOnStream(kNoLimit, Device::Cpu(), a_), Error);
}

TEST_P(StreamOrderTest, ShortageWaitsForPendingWorkBeforeItFails) {
  Make(2 * kMegabyte);
  const Storage::Handle block = AllocOn(a_, 2 * kMegabyte);
  UseAndFree(a_, block);
  const Storage::Handle next = AllocOn(b_, 2 * kMegabyte);
  EXPECT_EQ(streams_->waits(), 1);
  EXPECT_THROW(AllocOn(c_, kMegabyte), Error);
  storage_->Free(next);
}

TEST_P(StreamOrderTest, ASecondFreeIsRefused) {
  const Storage::Handle block = AllocOn(a_, kMegabyte);
  UseAndFree(a_, block);
  EXPECT_THROW(storage_->FreeOnStream(block, a_), Error);
  EXPECT_THROW(storage_->Free(block), Error);
  EXPECT_EQ(Stats().frees, 1);
}

TEST_P(StreamOrderTest, WithoutAnEventTheBlockStaysLive) {
  const Storage::Handle block = AllocOn(a_, kMegabyte);
  streams_->FailNextRecord();
  EXPECT_THROW(storage_->FreeOnStream(block, a_), Error);
  EXPECT_EQ(Stats().live_bytes, kMegabyte);
  EXPECT_EQ(Stats().pending_bytes, 0);
  std::memset(block.dptr, 2, kMegabyte);
  storage_->FreeOnStream(block, a_);
  EXPECT_EQ(Stats().live_bytes, 0);
}

TEST_P(StreamOrderTest, AStreamWithAnotherOnesHandleIsAnotherStream) {
  const Storage::Handle block = AllocOn(a_, kMegabyte);
  UseAndFree(a_, block);
  streams_->Replace(a_);
  const Storage::Handle other = AllocOn(a_, kMegabyte);
  EXPECT_NE(other.dptr, block.dptr);
  EXPECT_GE(Stats().pending_bytes, kMegabyte);
  UseAndFree(a_, other);
  const Storage::Handle next = AllocOn(a_, kMegabyte);
  EXPECT_EQ(next.dptr, other.dptr);
  EXPECT_EQ(streams_->waits(), 0);
  storage_->FreeOnStream(next, a_);
}

TEST_P(StreamOrderTest, MemoryThatAFailedDeviceMayWriteIsNeverReused) {
  Make(4 * kMegabyte);
  const Storage::Handle block = AllocOn(a_, 2 * kMegabyte);
  UseAndFree(a_, block);
  streams_->Fail();
  const Storage::Handle other = AllocOn(b_, 2 * kMegabyte);
  EXPECT_NE(other.dptr, block.dptr);
  EXPECT_THROW(AllocOn(b_, 2 * kMegabyte), Error);
  storage_->DirectFree(other);
  storage_->ReleaseAll(Device::Cpu());
  // The block is not released to the system either.
  EXPECT_EQ(Stats().pending_bytes, 2 * kMegabyte);
  EXPECT_EQ(fake_->outstanding_bytes(), 2 * kMegabyte);
}

TEST_P(StreamOrderTest, ReleaseAllWaitsAndGivesEverythingBack) {
  for (void* const stream : {a_, b_, c_}) UseAndFree(stream, AllocOn(stream, kMegabyte));
  storage_->ReleaseAll(Device::Cpu());
  EXPECT_EQ(streams_->waits(), 3);
  EXPECT_EQ(fake_->outstanding(), 0);
}

TEST_P(StreamOrderTest, TheEndOfAStorageWaitsForPendingWork) {
  UseAndFree(a_, AllocOn(a_, kMegabyte));
  storage_.reset();
  EXPECT_EQ(streams_->waits(), 1);
}

TEST_P(StreamOrderTest, ManyStreamsNeverShareABlockInTime) {
  // Each stream's work on a block must be done before another stream may have it.
  uint64_t random = 12345;
  const auto next_random = [&random](uint64_t below) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return (random >> 33) % below;
  };
  std::map<void*, std::pair<void*, int64_t>>
      last_use;  // maps a block to the stream and the number of its last work
  std::map<void*, int64_t> enqueued;
  std::map<void*, int64_t> done;
  void* const streams[] = {a_, b_, c_};
  for (int step = 0; step < 3000; ++step) {
    void* const stream = streams[next_random(3)];
    const Storage::Handle block = AllocOn(stream, 4096 * static_cast<int64_t>(1 + next_random(8)));
    const auto use = last_use.find(block.dptr);
    if (use != last_use.end() && use->second.first != stream) {
      EXPECT_GE(done[use->second.first], use->second.second);
    }
    UseAndFree(stream, block);
    last_use[block.dptr] = {stream, ++enqueued[stream]};
    void* const runner = streams[next_random(3)];
    if (done[runner] < enqueued[runner]) {
      streams_->Run(runner, 1);
      ++done[runner];
    }
  }
  EXPECT_EQ(streams_->waits(), 0);
  for (void* const stream : streams) streams_->Run(stream, kManyPieces);
}

TEST(StreamlessTest, WhereThereAreNoStreamsTheseAreAllocAndFree) {
  Storage storage({.system_allocator = std::make_shared<FakeSystemAllocator>()});
  int stream = 0;
  const Storage::Handle block = storage.AllocOnStream(1000, Device::Cpu(), &stream);
  storage.FreeOnStream(block, &stream);
  EXPECT_EQ(storage.Stats(Device::Cpu()).pending_bytes, 0);
  const Storage::Handle next = storage.Alloc(1000, Device::Cpu());
  EXPECT_EQ(next.dptr, block.dptr);
  storage.Free(next);
  storage.FreeOnStream({}, &stream);
}

}  // namespace
}  // namespace tessera
