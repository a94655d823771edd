#include "tessera/storage/storage.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <latch>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/storage/device/poison.h"
#include "tessera/storage/testing/fake_system_allocator.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kMegabyte = int64_t{1} << 20;

/// Expects `call` to throw an Error with the code and a message that matches.
template <typename Call, typename Matcher>
void ExpectError(const Call& call, absl::StatusCode code, const Matcher& message) {
  try {
    call();
    ADD_FAILURE() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), message);
  }
}

class StorageTest : public testing::TestWithParam<StoragePoolKind> {
 protected:
  StorageTest() : fake_(std::make_shared<FakeSystemAllocator>()) {}
  ~StorageTest() override {
    EXPECT_EQ(fake_->outstanding(), 0);
    EXPECT_EQ(fake_->wrong_releases(), 0);
  }

  StorageOptions Options(int64_t limit_bytes = kNoLimit) const {
    return {.pool = GetParam(), .limit_bytes = limit_bytes, .system_allocator = fake_};
  }

  std::shared_ptr<FakeSystemAllocator> fake_;
};

std::string PoolName(const testing::TestParamInfo<StoragePoolKind>& info) {
  constexpr const char* kNames[] = {"None", "Exact", "Rounded", "BestFit"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(EveryPool, StorageTest,
                         testing::Values(StoragePoolKind::kNone, StoragePoolKind::kExact,
                                         StoragePoolKind::kRounded, StoragePoolKind::kBestFit),
                         PoolName);

TEST_P(StorageTest, BlocksAreAlignedAndWholeForTheirSize) {
  Storage storage(Options());
  for (const int64_t size : {1, 63, 64, 65, 1000, 65536, 65537, 1 << 20, (3 << 20) + 1}) {
    const Storage::Handle block = storage.Alloc(size, Device::Cpu());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.dptr) % 64, 0u) << size;
    EXPECT_EQ(block.size_bytes, size);
    EXPECT_EQ(block.device, Device::Cpu());
    std::memset(block.dptr, 0x5A, static_cast<size_t>(size));
    storage.Free(block);
  }
}

TEST_P(StorageTest, NoBytesNeedNoMemory) {
  Storage storage(Options());
  const Storage::Handle block = storage.Alloc(0, Device::Cpu());
  EXPECT_EQ(block.dptr, nullptr);
  EXPECT_EQ(block.size_bytes, 0);
  storage.Free(block);
  storage.Free(block);
  storage.DirectFree({});
  const StorageStats stats = storage.Stats(Device::Cpu());
  EXPECT_EQ(stats.allocations, 1);
  EXPECT_EQ(stats.system_allocations, 0);
  // An allocation of 0 bytes takes no block from the thread's cache.
  storage.Free(storage.Alloc(64, Device::Cpu()));
  EXPECT_EQ(storage.Alloc(0, Device::Cpu()).dptr, nullptr);
  EXPECT_EQ(storage.Stats(Device::Cpu()).allocations, 3);
}

TEST_P(StorageTest, StatisticsFollowEveryCall) {
  Storage storage(Options());
  const Storage::Handle a = storage.Alloc(1000, Device::Cpu());
  const Storage::Handle b = storage.Alloc(100000, Device::Cpu());
  storage.Free(a);
  const Storage::Handle c = storage.Alloc(10, Device::Cpu());
  const StorageStats stats = storage.Stats(Device::Cpu());
  EXPECT_EQ(stats.live_bytes, 100010);
  EXPECT_EQ(stats.peak_bytes, 101000);
  EXPECT_EQ(stats.allocations, 3);
  EXPECT_EQ(stats.frees, 1);
  EXPECT_EQ(stats.reserved_bytes, fake_->outstanding_bytes());
  EXPECT_GE(stats.in_use_bytes, stats.live_bytes);
  EXPECT_EQ(stats.pool_hits, stats.allocations - stats.system_allocations);
  storage.Free(b);
  storage.Free(c);
  EXPECT_EQ(storage.Stats(Device::Cpu()).live_bytes, 0);
  EXPECT_EQ(storage.Stats(Device::Cpu()).in_use_bytes, 0);
}

TEST_P(StorageTest, MarkStartsThePeakAnew) {
  Storage storage(Options());
  const Storage::Handle kept = storage.Alloc(500, Device::Cpu());
  storage.Free(storage.Alloc(5000, Device::Cpu()));
  storage.MarkPeak(Device::Cpu());
  EXPECT_EQ(storage.Stats(Device::Cpu()).peak_since_mark_bytes, 500);
  storage.Free(storage.Alloc(50, Device::Cpu()));
  EXPECT_EQ(storage.Stats(Device::Cpu()).peak_since_mark_bytes, 550);
  EXPECT_EQ(storage.Stats(Device::Cpu()).peak_bytes, 5500);
  storage.Free(kept);
}

TEST_P(StorageTest, ReleaseAllGivesCachedMemoryBack) {
  Storage storage(Options());
  std::vector<Storage::Handle> blocks;
  for (const int64_t size : {100, 2000, 300000})
    blocks.push_back(storage.Alloc(size, Device::Cpu()));
  for (const Storage::Handle& block : blocks) storage.Free(block);
  storage.ReleaseAll(Device::Cpu());
  EXPECT_EQ(fake_->outstanding(), 0);
  EXPECT_EQ(storage.Stats(Device::Cpu()).cached_bytes, 0);
}

TEST_P(StorageTest, DirectFreePassesThePool) {
  Storage storage(Options());
  const Storage::Handle block = storage.Alloc(3 * kMegabyte, Device::Cpu());
  storage.DirectFree(block);
  EXPECT_EQ(fake_->outstanding(), 0);
}

TEST_P(StorageTest, ASecondFreeIsRefused) {
  Storage storage(Options());
  for (const int64_t size : {int64_t{100}, kMegabyte}) {
    const Storage::Handle block = storage.Alloc(size, Device::Cpu());
    storage.Free(block);
    ExpectError([&] { storage.Free(block); }, Error::kFailedPrecondition,
                HasSubstr("freed before"));
    const Storage::Handle next = storage.Alloc(size, Device::Cpu());
    ExpectError([&] { storage.Free(block); }, Error::kFailedPrecondition,
                HasSubstr("freed before"));
    EXPECT_EQ(storage.Stats(Device::Cpu()).live_bytes, size);
    storage.Free(next);
  }
}

TEST_P(StorageTest, ABlockOfAnotherStorageIsRefused) {
  Storage storage(Options());
  Storage other(Options());
  const Storage::Handle block = other.Alloc(100, Device::Cpu());
  ExpectError([&] { storage.Free(block); }, Error::kFailedPrecondition,
              HasSubstr("another Storage"));
  other.Free(block);
}

TEST_P(StorageTest, ImpossibleSizesAreRefusedWithTheUsage) {
  Storage storage(Options(1000000));
  const Storage::Handle live = storage.Alloc(640, Device::Cpu());
  for (const int64_t size : {int64_t{-1}, std::numeric_limits<int64_t>::min(), int64_t{1} << 47,
                             std::numeric_limits<int64_t>::max()}) {
    ExpectError([&] { storage.Alloc(size, Device::Cpu()); }, Error::kInvalidArgument,
                AllOf(HasSubstr("requested " + std::to_string(size)), HasSubstr("cpu(0)"),
                      HasSubstr("in use "), HasSubstr("cached "), HasSubstr("limit 1000000")));
  }
  storage.Free(live);
}

TEST_P(StorageTest, TheLimitHoldsAndTheErrorSaysWhy) {
  Storage storage(Options(kMegabyte));
  const Storage::Handle live = storage.Alloc(600000, Device::Cpu());
  const int64_t in_use = storage.Stats(Device::Cpu()).in_use_bytes;
  ExpectError([&] { storage.Alloc(600001, Device::Cpu()); }, Error::kResourceExhausted,
              AllOf(HasSubstr("requested 600001 bytes on cpu(0)"),
                    HasSubstr("in use " + std::to_string(in_use)), HasSubstr("cached "),
                    HasSubstr("limit 1048576")));
  EXPECT_EQ(storage.Stats(Device::Cpu()).live_bytes, 600000);
  EXPECT_LE(fake_->outstanding_bytes(), kMegabyte);
  storage.Free(live);
  storage.Free(storage.Alloc(600001, Device::Cpu()));
}

TEST_P(StorageTest, ARequestBeyondTheLimitReleasesNothing) {
  Storage storage(Options(8 * kMegabyte));
  const Storage::Handle small = storage.Alloc(100, Device::Cpu());
  const Storage::Handle large = storage.Alloc(2 * kMegabyte, Device::Cpu());
  storage.Free(small);
  storage.Free(large);
  int asked = 0;
  const int64_t trimmer = storage.AddTrimmer([&](Device) { ++asked; });
  const StorageStats before = storage.Stats(Device::Cpu());
  ExpectError([&] { storage.Alloc(8 * kMegabyte + 1, Device::Cpu()); }, Error::kResourceExhausted,
              HasSubstr("limit 8388608"));
  const StorageStats after = storage.Stats(Device::Cpu());
  EXPECT_EQ(after.cached_bytes, before.cached_bytes);
  EXPECT_EQ(after.reserved_bytes, before.reserved_bytes);
  EXPECT_EQ(asked, 0);
  storage.RemoveTrimmer(trimmer);
}

TEST(StorageLimitTest, MemoryOfOtherSizesServesARequestBeyondTheLimit) {
  Storage storage(StorageOptions{.pool = StoragePoolKind::kBestFit});
  const Storage::Handle large = storage.Alloc(100 << 10, Device::Cpu());  // in another segment
  storage.SetLimit(Device::Cpu(), 0);
  const Storage::Handle small = storage.Alloc(64, Device::Cpu());
  EXPECT_NE(small.dptr, nullptr);
  storage.Free(small);
  storage.Free(large);
}

TEST_P(StorageTest, CachedMemoryMakesRoomForOtherSizes) {
  Storage storage(Options(kMegabyte));
  // Fill the limit with blocks of one size, free them, and ask for another.
  for (const int64_t size : {1000, 5000, 70000, 300000, 64}) {
    std::vector<Storage::Handle> blocks;
    for (int64_t sum = 0; sum + 2 * size < kMegabyte / 2; sum += size) {
      blocks.push_back(storage.Alloc(size, Device::Cpu()));
    }
    for (const Storage::Handle& block : blocks) storage.Free(block);
  }
  storage.Free(storage.Alloc(1000000, Device::Cpu()));
  EXPECT_LE(storage.Stats(Device::Cpu()).peak_reserved_bytes, kMegabyte);
}

TEST_P(StorageTest, ALowerLimitReleasesCachedMemory) {
  Storage storage(Options());
  storage.Free(storage.Alloc(8 * kMegabyte, Device::Cpu()));
  storage.SetLimit(Device::Cpu(), 4 * kMegabyte);
  EXPECT_LE(fake_->outstanding_bytes(), 4 * kMegabyte);
  ExpectError([&] { storage.Alloc(8 * kMegabyte, Device::Cpu()); }, Error::kResourceExhausted,
              HasSubstr("limit 4194304"));
  storage.SetLimit(Device::Cpu(), kNoLimit);
  storage.Free(storage.Alloc(8 * kMegabyte, Device::Cpu()));
}

TEST_P(StorageTest, CachedLimitHolds) {
  StorageOptions options = Options();
  options.cached_limit_bytes = 3 * kMegabyte;
  Storage storage(options);
  std::vector<Storage::Handle> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(storage.Alloc(2 * kMegabyte, Device::Cpu()));
  for (const Storage::Handle& block : blocks) storage.Free(block);
  EXPECT_LE(storage.Stats(Device::Cpu()).cached_bytes, 3 * kMegabyte);
}

/// Fills the cache up to its limit of 16 MiB, to the page, with large pieces that can be released.
void CacheUpToTheLimit(Storage& storage) {
  int64_t left_bytes = 16 * kMegabyte - storage.Stats(Device::Cpu()).cached_bytes;
  std::vector<Storage::Handle> blocks;
  for (; left_bytes >= 2 * kMegabyte; left_bytes -= kMegabyte) {
    blocks.push_back(storage.Alloc(kMegabyte, Device::Cpu()));
  }
  blocks.push_back(storage.Alloc(left_bytes / 4096 * 4096, Device::Cpu()));
  for (const Storage::Handle& block : blocks) storage.Free(block);
}

TEST_P(StorageTest, CachedLimitHoldsWhereADirectFreeLeavesMemoryBehind) {
  StorageOptions options = Options();
  options.cached_limit_bytes = 16 * kMegabyte;
  Storage storage(options);
  // The freed block is a part of a segment whose other blocks are live.
  std::vector<Storage::Handle> segment;
  for (int i = 0; i < 8; ++i) segment.push_back(storage.Alloc(kMegabyte / 2, Device::Cpu()));
  CacheUpToTheLimit(storage);
  storage.DirectFree(segment.back());
  EXPECT_LE(storage.Stats(Device::Cpu()).cached_bytes, options.cached_limit_bytes);
  segment.pop_back();
  for (const Storage::Handle& block : segment) storage.Free(block);
}

TEST_P(StorageTest, CachedLimitHoldsForBlocksFromThreadCaches) {
  StorageOptions options = Options();
  options.cached_limit_bytes = 16 * kMegabyte;
  Storage storage(options);
  // Every other block of whole segments is freed, so that no two of them join.
  std::vector<Storage::Handle> live;
  std::vector<Storage::Handle> freed;
  for (int i = 0; i < 192; ++i) {
    live.push_back(storage.Alloc(1024, Device::Cpu()));
    freed.push_back(storage.Alloc(1024, Device::Cpu()));
  }
  CacheUpToTheLimit(storage);
  for (const Storage::Handle& block : freed) storage.Free(block);
  // The request fits none of the freed blocks, so it empties the thread's cache.
  live.push_back(storage.Alloc(64 << 10, Device::Cpu()));
  EXPECT_LE(storage.Stats(Device::Cpu()).cached_bytes, options.cached_limit_bytes);
  for (const Storage::Handle& block : live) storage.Free(block);
}

TEST_P(StorageTest, TrimmersAreAskedBeforeAnAllocationFails) {
  Storage storage(Options(kMegabyte));
  Storage::Handle hoard = storage.Alloc(800000, Device::Cpu());
  int calls = 0;
  const int64_t trimmer = storage.AddTrimmer([&](Device device) {
    EXPECT_EQ(device, Device::Cpu());
    ++calls;
    storage.Free(std::exchange(hoard, {}));
  });
  const Storage::Handle block = storage.Alloc(900000, Device::Cpu());
  EXPECT_EQ(calls, 1);
  storage.RemoveTrimmer(trimmer);
  EXPECT_THROW(storage.Alloc(900000, Device::Cpu()), Error);
  EXPECT_EQ(calls, 1);
  storage.Free(block);
}

TEST_P(StorageTest, EverySystemFailureIsAnErrorOrIsRecovered) {
  // Runs a sample program and returns the number of failed allocations.
  const auto program = [](Storage& storage) {
    int errors = 0;
    std::vector<Storage::Handle> blocks;
    for (const int64_t size : {100, 70000, 100, 3000000, 5000, 200000, 64, 9000000}) {
      try {
        blocks.push_back(storage.Alloc(size, Device::Cpu()));
        std::memset(blocks.back().dptr, 1, static_cast<size_t>(size));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Error::kResourceExhausted);
        ++errors;
      }
      if (blocks.size() > 3) {
        storage.Free(blocks[1]);
        blocks.erase(blocks.begin() + 1);
      }
    }
    int64_t live_bytes = 0;
    for (const Storage::Handle& block : blocks) live_bytes += block.size_bytes;
    EXPECT_EQ(storage.Stats(Device::Cpu()).live_bytes, live_bytes);
    for (const Storage::Handle& block : blocks) storage.Free(block);
    EXPECT_EQ(storage.Stats(Device::Cpu()).live_bytes, 0);
    storage.ReleaseAll(Device::Cpu());
    return errors;
  };
  int total_errors = 0;
  for (int64_t n = 0;; ++n) {
    ASSERT_LT(n, 1000);
    fake_->FailCall(n);
    Storage storage(Options());
    total_errors += program(storage);
    EXPECT_EQ(fake_->outstanding(), 0);
    if (!fake_->has_failed()) break;
  }
  if (GetParam() == StoragePoolKind::kNone) {
    EXPECT_EQ(total_errors, 0);  // a retry after one refusal finds the memory
  }
  fake_->SetCapacity(0);
  Storage storage(Options());
  EXPECT_EQ(program(storage), 8);
}

TEST_P(StorageTest, ThreadsFreeWhatOthersAllocated) {
  constexpr int kThreads = 4;
  constexpr int kBlocks = 200;
  Storage storage(Options());
  std::array<std::vector<Storage::Handle>, kThreads> blocks;
  std::latch all_allocated(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kBlocks; ++i) {
        blocks[t].push_back(storage.Alloc(100 + 1000 * (i % 97), Device::Cpu()));
      }
      all_allocated.arrive_and_wait();
      for (const Storage::Handle& block : blocks[(t + 1) % kThreads]) storage.Free(block);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const StorageStats stats = storage.Stats(Device::Cpu());
  EXPECT_EQ(stats.allocations, kThreads * kBlocks);
  EXPECT_EQ(stats.frees, kThreads * kBlocks);
  EXPECT_EQ(stats.live_bytes, 0);
  EXPECT_EQ(stats.in_use_bytes, 0);
}

TEST_P(StorageTest, AddressSanitizerWatchesExactlyTheFreeMemory) {
  using storage_internal::IsPoisoned;
  using storage_internal::kPoisons;
  Storage storage(Options());
  for (const int64_t size : {int64_t{100}, kMegabyte + 8}) {
    const Storage::Handle block = storage.Alloc(size, Device::Cpu());
    const char* bytes = static_cast<char*>(block.dptr);
    EXPECT_FALSE(IsPoisoned(bytes));
    EXPECT_FALSE(IsPoisoned(bytes + size - 1));
    EXPECT_EQ(IsPoisoned(bytes + size), kPoisons);
    storage.Free(block);
    EXPECT_EQ(IsPoisoned(bytes), kPoisons);
  }
}

TEST_P(StorageTest, TheStorageReleasesLiveBlocks) {
  Storage storage(Options());
  storage.Alloc(100, Device::Cpu());
  storage.Alloc(5 * kMegabyte, Device::Cpu());
  storage.Free(storage.Alloc(200, Device::Cpu()));
}

TEST_P(StorageTest, ARepeatedStepTakesNothingFromTheSystem) {
  Storage storage(Options());
  const auto step = [&] {
    std::vector<Storage::Handle> blocks;
    for (int64_t i = 1; i <= 40; ++i) blocks.push_back(storage.Alloc(i * i * 997, Device::Cpu()));
    for (const Storage::Handle& block : blocks) storage.Free(block);
  };
  step();
  const int64_t after_first = storage.Stats(Device::Cpu()).system_allocations;
  for (int i = 0; i < 10; ++i) step();
  const StorageStats stats = storage.Stats(Device::Cpu());
  if (GetParam() == StoragePoolKind::kNone) {
    EXPECT_EQ(stats.system_allocations, 11 * 40);
  } else {
    EXPECT_EQ(stats.system_allocations, after_first);
    EXPECT_EQ(stats.pool_hits, stats.allocations - after_first);
  }
}

TEST(StorageDevicesTest, DevicesHaveSeparatePools) {
  Storage storage;
  const Storage::Handle a = storage.Alloc(1000, Device::Cpu(0));
  const Storage::Handle b = storage.Alloc(2000, Device::Cpu(1));
  EXPECT_EQ(storage.Stats(Device::Cpu(0)).live_bytes, 1000);
  EXPECT_EQ(storage.Stats(Device::Cpu(1)).live_bytes, 2000);
  EXPECT_EQ(storage.Stats(Device::Cpu(2)).live_bytes, 0);
  storage.Free(a);
  storage.Free(b);
}

TEST(StorageDevicesTest, ImpossibleDevicesAreRefused) {
  Storage storage;
  for (const Device device : {Device::Cpu(-1), Device::Cpu(64), Device{static_cast<DeviceType>(9)},
                              Device{static_cast<DeviceType>(-1)}}) {
    ExpectError([&] { storage.Alloc(1, device); }, Error::kInvalidArgument,
                HasSubstr("is no device"));
  }
}

TEST(StorageDevicesTest, ADeviceWithoutABackEndIsUnimplemented) {
  Storage storage;
  constexpr Device kUnknown = {static_cast<DeviceType>(7), 0};
  ExpectError([&] { storage.Alloc(1, kUnknown); }, Error::kUnimplemented,
              HasSubstr("no memory for"));
}

TEST(StorageDevicesTest, LargeBlocksComeFromTheSystemAndGoBack) {
  Storage storage;
  for (const int64_t size : {kMegabyte, 2 * kMegabyte, 64 * kMegabyte + 1}) {
    const Storage::Handle block = storage.Alloc(size, Device::Cpu());
    // The address is a multiple of a huge page, so that huge pages cover the whole block.
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.dptr) % (2 * kMegabyte), 0u) << size;
    static_cast<char*>(block.dptr)[0] = 1;
    static_cast<char*>(block.dptr)[size - 1] = 1;
    storage.Free(block);
  }
  storage.ReleaseAll(Device::Cpu());
  EXPECT_EQ(storage.Stats(Device::Cpu()).reserved_bytes, 0);
}

TEST(StorageTagsTest, MemoryIsCountedByTag) {
  Storage storage;
  const Storage::Handle a = storage.Alloc(100, Device::Cpu(), "weights");
  const Storage::Handle b = storage.Alloc(300, Device::Cpu(), "workspace");
  const Storage::Handle c = storage.Alloc(50, Device::Cpu(), "weights");
  storage.Free(a);
  const std::vector<StorageTagStats> tags = storage.TagStats(Device::Cpu());
  ASSERT_EQ(tags.size(), 2u);
  EXPECT_EQ(tags[0].tag, "workspace");
  EXPECT_EQ(tags[0].live_bytes, 300);
  EXPECT_EQ(tags[1].tag, "weights");
  EXPECT_EQ(tags[1].live_bytes, 50);
  EXPECT_EQ(tags[1].peak_bytes, 150);
  EXPECT_EQ(tags[1].allocations, 2);
  EXPECT_THAT(storage.Report(),
              AllOf(HasSubstr("cpu(0)"), HasSubstr("workspace"), HasSubstr("peak 150")));
  storage.Free(b);
  storage.Free(c);
}

TEST(StorageTagsTest, CountsAreExactWhateverThreadsAllocate) {
  Storage storage;
  constexpr int kPairs = 1000;
  // The sizes are one of a small block, two that differ in how often a thread reports its counts,
  // and a larger one.
  constexpr int64_t kSizes[] = {64, 600 << 10, 1 << 20, 3 << 20};
  std::vector<Storage::Handle> kept;
  for (const int64_t size_bytes : kSizes) {
    const auto pairs = [&](const char* tag) {
      for (int i = 0; i < kPairs; ++i) {
        storage.Free(storage.Alloc(size_bytes, Device::Cpu(), tag));
      }
    };
    pairs("mine");
    for (int i = 0; i < 3; ++i) kept.push_back(storage.Alloc(size_bytes, Device::Cpu(), "mine"));
    // The thread has a count for its own tag, and none for the tag of the blocks that it frees.
    std::thread([&] {
      pairs("its");
      for (int i = 0; i < 2; ++i) {
        storage.Free(kept.back());
        kept.pop_back();
      }
    }).join();
  }
  const std::vector<StorageTagStats> tags = storage.TagStats(Device::Cpu());
  ASSERT_EQ(tags.size(), 2u);
  EXPECT_EQ(tags[0].tag, "mine");
  EXPECT_EQ(tags[0].live_bytes, std::accumulate(std::begin(kSizes), std::end(kSizes), int64_t{0}));
  EXPECT_EQ(tags[0].allocations, std::ssize(kSizes) * (kPairs + 3));
  EXPECT_EQ(tags[1].live_bytes, 0);
  EXPECT_EQ(tags[1].allocations, std::ssize(kSizes) * kPairs);
  EXPECT_EQ(storage.Stats(Device::Cpu()).live_bytes, tags[0].live_bytes);
  for (const Storage::Handle& block : kept) storage.Free(block);
  EXPECT_EQ(storage.Stats(Device::Cpu()).allocations, storage.Stats(Device::Cpu()).frees);
}

TEST(StorageTagsTest, NamesThatDifferInOneLetterAreToldApart) {
  Storage storage;
  std::vector<std::string> names;
  for (size_t length = 1; length <= 40; ++length) {
    names.push_back(std::string(length, 'a'));
    for (size_t place = 0; place < length; ++place) {
      names.push_back(std::string(length, 'a'));
      names.back()[place] = 'b';
    }
  }
  std::vector<Storage::Handle> blocks;
  for (int round = 0; round < 2; ++round) {
    for (const std::string& name : names) {
      // In the second call the thread knows the name.
      for (int i = 0; i < 2; ++i) {
        blocks.push_back(storage.Alloc(static_cast<int64_t>(name.size()), Device::Cpu(), name));
      }
    }
  }
  const std::vector<StorageTagStats> tags = storage.TagStats(Device::Cpu());
  EXPECT_EQ(tags.size(), names.size());
  for (const StorageTagStats& tag : tags) {
    EXPECT_EQ(tag.allocations, 4) << tag.tag;
    EXPECT_EQ(tag.live_bytes, 4 * static_cast<int64_t>(tag.tag.size())) << tag.tag;
  }
  for (const Storage::Handle& block : blocks) storage.Free(block);
}

TEST(StorageOptionsTest, ImpossibleOptionsAreRefused) {
  for (const StorageOptions& options :
       {StorageOptions{.limit_bytes = -1}, StorageOptions{.cached_limit_bytes = -1},
        StorageOptions{.round_linear_cutoff_bytes = 3000},
        StorageOptions{.thread_cache_bytes = -5}}) {
    ExpectError([&] { Storage storage(options); }, Error::kInvalidArgument,
                HasSubstr("StorageOptions"));
  }
}

TEST(StorageSingletonTest, GetIsAlwaysTheSame) {
  EXPECT_EQ(Storage::Get(), Storage::Get());
  Storage::Get()->Free(Storage::Get()->Alloc(100, Device::Cpu()));
}

}  // namespace
}  // namespace tessera
