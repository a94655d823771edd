// Tests the best-fit pool with its threads' caches and arenas through the public interface.
#include <cstdint>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/storage/device/system_allocator.h"
#include "tessera/storage/pool/owner_lock.h"
#include "tessera/storage/storage.h"
#include "tessera/storage/testing/fake_system_allocator.h"

namespace tessera {
namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;

TEST(BestFitStorageTest, OnShortageALargeBlockFromASmallOnesSegmentComesBack) {
  const auto fake = std::make_shared<FakeSystemAllocator>();
  Storage storage({.limit_bytes = 2 * 65536, .system_allocator = fake});
  const Storage::Handle small = storage.Alloc(64, Device::Cpu());
  // The limit leaves no room for a segment of its own.
  const Storage::Handle large = storage.Alloc(65537, Device::Cpu());
  storage.Free(large);
  storage.Free(small);
  storage.ReleaseAll(Device::Cpu());
  EXPECT_EQ(storage.Stats(Device::Cpu()).reserved_bytes, 0);
  EXPECT_EQ(fake->outstanding_bytes(), 0);
}

TEST(BestFitStorageTest, LargeBlocksInTheThreadsCacheJoinBeforeOthersAreCut) {
  Storage storage({.system_allocator = std::make_shared<FakeSystemAllocator>()});
  const auto alloc = [&storage](int64_t size) { return storage.Alloc(size, Device::Cpu()); };
  // The segment holds two blocks, one that separates them from the rest, and the larger rest.
  const Storage::Handle lower = alloc(kMegabyte / 2);
  const Storage::Handle upper = alloc(kMegabyte / 4);
  const Storage::Handle between = alloc(kMegabyte / 2);
  storage.Free(lower);
  storage.Free(upper);
  const Storage::Handle joined = alloc(kMegabyte * 3 / 4);
  EXPECT_EQ(joined.dptr, lower.dptr);
  // A cached block of exactly the size is reused without a look into the pool.
  storage.Free(joined);
  const Storage::Handle same = alloc(kMegabyte * 3 / 4);
  EXPECT_EQ(same.dptr, joined.dptr);
  storage.Free(same);
  storage.Free(between);
}

TEST(BestFitStorageTest, OtherThreadsCachesAreGatheredWhenMemoryIsShort) {
  const auto fake = std::make_shared<FakeSystemAllocator>();
  Storage storage({.limit_bytes = 2 * kMegabyte, .system_allocator = fake});
  std::latch cached(1);
  std::latch done(1);
  std::thread other([&] {
    // All of one small segment is free, a part of it in this thread's cache.
    std::vector<Storage::Handle> blocks;
    for (int i = 0; i < 1000; ++i) blocks.push_back(storage.Alloc(1024, Device::Cpu()));
    for (const Storage::Handle& block : blocks) storage.Free(block);
    cached.count_down();
    done.wait();
  });
  cached.wait();
  EXPECT_GE(storage.Stats(Device::Cpu()).cached_bytes, 1000 * 1024);
  storage.Free(storage.Alloc(2 * kMegabyte, Device::Cpu()));
  done.count_down();
  other.join();
}

TEST(BestFitStorageTest, FreeBlocksOfManyArenasServeOneRequest) {
  constexpr int kThreads = 20;  // more than there are arenas
  constexpr int64_t kBytes = 4 * kMegabyte;
  const auto fake = std::make_shared<FakeSystemAllocator>();
  Storage storage({.limit_bytes = kThreads * kBytes, .system_allocator = fake});
  std::latch allocated(kThreads);
  std::latch freed(kThreads);
  std::latch done(1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const Storage::Handle block = storage.Alloc(kBytes, Device::Cpu());
      allocated.arrive_and_wait();
      storage.Free(block);
      freed.count_down();
      done.wait();
    });
  }
  freed.wait();
  EXPECT_EQ(storage.Stats(Device::Cpu()).cached_bytes, kThreads * kBytes);
  // The limit leaves no room for another byte.
  const Storage::Handle one = storage.Alloc(kBytes, Device::Cpu());
  EXPECT_EQ(fake->outstanding(), kThreads);
  storage.Free(one);
  storage.Free(storage.Alloc(kThreads * kBytes, Device::Cpu()));
  EXPECT_EQ(fake->outstanding(), 1);
  done.count_down();
  for (std::thread& thread : threads) thread.join();
}

TEST(BestFitStorageTest, BlocksFreedByOtherThreadsJoinInTheirArena) {
  Storage storage({.system_allocator = std::make_shared<FakeSystemAllocator>()});
  std::vector<Storage::Handle> parts;
  for (int i = 0; i < 8; ++i) parts.push_back(storage.Alloc(kMegabyte / 2, Device::Cpu()));
  const int64_t reserved_bytes = storage.Stats(Device::Cpu()).reserved_bytes;
  std::latch freed(1);
  std::latch done(1);
  std::thread other([&] {
    const Storage::Handle own = storage.Alloc(3 * kMegabyte, Device::Cpu());
    for (const Storage::Handle& part : parts) storage.Free(part);
    // The thread's arena has no block of this size, so its cache returns its blocks to the arenas.
    storage.Free(own);
    storage.Free(storage.Alloc(kMegabyte, Device::Cpu()));
    freed.count_down();
    done.wait();
  });
  freed.wait();
  const Storage::Handle joined = storage.Alloc(4 * kMegabyte, Device::Cpu());
  EXPECT_EQ(storage.Stats(Device::Cpu()).reserved_bytes, reserved_bytes + 3 * kMegabyte);
  storage.Free(joined);
  done.count_down();
  other.join();
}

TEST(BestFitStorageTest, ManyThreadsCachesAreEmptiedWithFewFences) {
  constexpr int kThreads = 16;
  const auto fake = std::make_shared<FakeSystemAllocator>();
  Storage storage({.system_allocator = fake});
  std::latch cached(kThreads);
  std::latch done(1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (const int64_t size : {64, 100000}) storage.Free(storage.Alloc(size, Device::Cpu()));
      cached.arrive_and_wait();
      done.wait();
    });
  }
  cached.wait();
  const int64_t before = storage_internal::NumFencesOfAllThreads();
  storage.ReleaseAll(Device::Cpu());
  // Small blocks, large blocks, and blocks that were freed meanwhile need one fence each.
  EXPECT_LE(storage_internal::NumFencesOfAllThreads() - before, 3);
  EXPECT_EQ(fake->outstanding(), 0);
  done.count_down();
  for (std::thread& thread : threads) thread.join();
}

/// An allocator whose large allocations wait for GoOn().
class SlowSystemAllocator final : public SystemAllocator {
 public:
  void* Allocate(int64_t size_bytes) override {
    if (size_bytes >= kMuch) {
      begun_.count_down();
      goes_on_.wait();
    }
    return fake_.Allocate(size_bytes);
  }
  void Release(void* ptr, int64_t size_bytes) noexcept override { fake_.Release(ptr, size_bytes); }

  static constexpr int64_t kMuch = int64_t{64} << 20;
  void AwaitCall() { begun_.wait(); }
  void GoOn() { goes_on_.count_down(); }

 private:
  FakeSystemAllocator fake_;
  std::latch begun_{1}, goes_on_{1};
};

// A new tag and a recording keep a call from the fast path of the cache.
TEST(BestFitStorageTest, CachedBlocksDoNotWaitForAnotherThreadThatMakesThePoolGrow) {
  const auto slow = std::make_shared<SlowSystemAllocator>();
  Storage storage({.system_allocator = slow});
  storage.Free(storage.Alloc(1000, Device::Cpu()));
  storage.StartTimeline();
  std::thread other(
      [&] { storage.Free(storage.Alloc(SlowSystemAllocator::kMuch, Device::Cpu())); });
  slow->AwaitCall();
  // The test hangs if these calls wait.
  storage.Free(storage.Alloc(1000, Device::Cpu()));
  storage.Free(storage.Alloc(1000, Device::Cpu(), "a name"));
  storage.Free(storage.Alloc(0, Device::Cpu()));
  slow->GoOn();
  other.join();
  storage.StopTimeline();
}

TEST(BestFitStorageTest, AThreadsCacheReturnsWhenTheThreadEnds) {
  const auto fake = std::make_shared<FakeSystemAllocator>();
  Storage storage({.system_allocator = fake});
  std::thread([&] { storage.Free(storage.Alloc(100, Device::Cpu())); }).join();
  EXPECT_EQ(storage.Stats(Device::Cpu()).allocations, 1);
  storage.Free(storage.Alloc(100, Device::Cpu()));
  EXPECT_EQ(storage.Stats(Device::Cpu()).system_allocations, 1);
}

TEST(BestFitStorageTest, ANewThreadGetsTheCacheOfTheLastEndedThread) {
  Storage storage({.system_allocator = std::make_shared<FakeSystemAllocator>()});
  const void* freed_last = nullptr;
  std::thread([&] {
    // The blocks are neighbours. In the arena they would join, and the lower one would come first.
    const Storage::Handle lower = storage.Alloc(kMegabyte / 2, Device::Cpu());
    const Storage::Handle upper = storage.Alloc(kMegabyte / 2, Device::Cpu());
    storage.Free(lower);
    storage.Free(upper);
    freed_last = upper.dptr;
  }).join();
  std::thread([&] {
    const Storage::Handle block = storage.Alloc(kMegabyte / 2, Device::Cpu());
    EXPECT_EQ(block.dptr, freed_last);
    storage.Free(block);
  }).join();
}

TEST(BestFitStorageTest, BlocksInCachesOfEndedThreadsJoinForOtherThreads) {
  Storage storage({.system_allocator = std::make_shared<FakeSystemAllocator>()});
  // This thread gets a cache and a small segment.
  storage.Free(storage.Alloc(64, Device::Cpu()));
  std::thread([&] {
    std::vector<Storage::Handle> parts;
    for (int i = 0; i < 8; ++i) parts.push_back(storage.Alloc(kMegabyte / 2, Device::Cpu()));
    for (const Storage::Handle& part : parts) storage.Free(part);
  }).join();
  const int64_t before = storage.Stats(Device::Cpu()).system_allocations;
  const int64_t fences = storage_internal::NumFencesOfAllThreads();
  const Storage::Handle joined = storage.Alloc(4 * kMegabyte, Device::Cpu());
  // Caches of ended threads need no fence, because no thread uses them.
  EXPECT_EQ(storage_internal::NumFencesOfAllThreads(), fences);
  EXPECT_EQ(storage.Stats(Device::Cpu()).system_allocations, before);
  storage.Free(joined);
}

TEST(BestFitStorageTest, CachesOfEndedThreadsAreEmptiedOnlyUntilARequestFits) {
  Storage storage({.system_allocator = std::make_shared<FakeSystemAllocator>()});
  storage.Free(storage.Alloc(64, Device::Cpu()));
  const void* freed_last = nullptr;
  std::latch both_there(2);
  const auto leave_two = [&] {
    const Storage::Handle lower = storage.Alloc(kMegabyte / 2, Device::Cpu());
    const Storage::Handle upper = storage.Alloc(kMegabyte / 2, Device::Cpu());
    both_there.arrive_and_wait();
    storage.Free(lower);
    storage.Free(upper);
    return upper.dptr;
  };
  std::latch first_ended(1);
  std::thread first([&] { leave_two(); });
  std::thread second([&] {
    freed_last = leave_two();
    first_ended.wait();
  });
  first.join();
  first_ended.count_down();
  second.join();
  storage.Free(storage.Alloc(kMegabyte, Device::Cpu()));
  std::thread([&] {
    const Storage::Handle block = storage.Alloc(kMegabyte / 2, Device::Cpu());
    EXPECT_EQ(block.dptr, freed_last);
    storage.Free(block);
  }).join();
}

TEST(BestFitStorageTest, CachedBlocksOfThreadsThatShareAnArenaStayInThePool) {
  constexpr int kThreads = 40;
  const auto fake = std::make_shared<FakeSystemAllocator>();
  Storage storage({.system_allocator = fake});
  for (int round = 0; round < 3; ++round) {
    std::latch allocated(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (const int64_t size : {int64_t{100}, kMegabyte / 8, 9 * kMegabyte}) {
          const Storage::Handle block = storage.Alloc(size, Device::Cpu());
          if (size == 100) allocated.arrive_and_wait();
          storage.Free(block);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const StorageStats stats = storage.Stats(Device::Cpu());
    EXPECT_EQ(stats.allocations, 3 * kThreads * (round + 1));
    EXPECT_EQ(stats.frees, stats.allocations);
    EXPECT_EQ(stats.cached_bytes, stats.reserved_bytes);
  }
  storage.ReleaseAll(Device::Cpu());
  EXPECT_EQ(fake->outstanding(), 0);
}

TEST(BestFitStorageTest, AThreadMayOutliveTheStoragesThatItUsed) {
  std::thread([] {
    for (int i = 0; i < 20; ++i) {
      Storage storage({.system_allocator = std::make_shared<FakeSystemAllocator>()});
      storage.Free(storage.Alloc(100 + i, Device::Cpu()));
      EXPECT_EQ(storage.Stats(Device::Cpu()).allocations, 1);
    }
  }).join();
}

TEST(BestFitStorageTest, PeakOfSmallBlocksIsExactOnOneThread) {
  Storage storage({.system_allocator = std::make_shared<FakeSystemAllocator>()});
  for (int round = 0; round < 3; ++round) {
    std::vector<Storage::Handle> blocks;
    for (int i = 0; i < 300; ++i) blocks.push_back(storage.Alloc(1000, Device::Cpu()));
    for (const Storage::Handle& block : blocks) storage.Free(block);
    storage.Free(storage.Alloc(kMegabyte / 2, Device::Cpu()));
  }
  EXPECT_EQ(storage.Stats(Device::Cpu()).peak_bytes, kMegabyte / 2);
  const Storage::Handle small = storage.Alloc(1000, Device::Cpu());
  storage.Free(storage.Alloc(kMegabyte / 2, Device::Cpu()));
  EXPECT_EQ(storage.Stats(Device::Cpu()).peak_bytes, kMegabyte / 2 + 1000);
  storage.Free(small);
}

}  // namespace
}  // namespace tessera
