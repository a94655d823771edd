// Compares a storage with a model that knows every live block. Many threads allocate and free at
// random, and call everything that changes pools, limits and statistics.

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/storage/storage.h"

namespace tessera {
namespace {

constexpr int kThreads = 8;
// Taking and freeing large blocks is twenty times as slow under AddressSanitizer.
#if defined(__SANITIZE_ADDRESS__)
constexpr int kSlowdown = 4;
#else
constexpr int kSlowdown = 1;
#endif
constexpr int64_t kMegabyte = int64_t{1} << 20;
constexpr int64_t kMaxBlockBytes = 256 * kMegabyte;
// The limit varies between these values.
constexpr int64_t kLeastLimitBytes = 512 * kMegabyte;
constexpr int64_t kMostLimitBytes = 1024 * kMegabyte;

constexpr Device kDevices[] = {Device::Cpu(), Device::CpuShared()};
// The limit of shared memory is low, because it costs the system more.
constexpr int64_t kMaxSharedBlockBytes = 64 << 10;
constexpr std::array<std::string_view, 4> kTags = {"", "weights", "workspace",
                                                   "a name of some length"};

/// A live block, and the index of its tag in kTags.
struct Held {
  Storage::Handle block;
  size_t tag = 0;
};

/// Returns the size to which the pool rounds a request; docs/storage.md states it.
int64_t RoundedBytes(StoragePoolKind pool, int64_t size_bytes) {
  int64_t unit_bytes = 64;
  if (pool == StoragePoolKind::kRounded) {
    constexpr int64_t kCutoffBytes = int64_t{1} << 24;
    while (unit_bytes < size_bytes && unit_bytes < kCutoffBytes) unit_bytes *= 2;
  } else if (pool == StoragePoolKind::kBestFit && size_bytes > (64 << 10)) {
    unit_bytes = 4096;
  } else if (pool == StoragePoolKind::kBestFit) {
    while (16 * unit_bytes < size_bytes) unit_bytes *= 2;  // eight sizes for each doubling
  }
  return (size_bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
}

/// Holds the live blocks by address. Adding one that overlaps another is a failure.
class Model {
 public:
  explicit Model(StoragePoolKind pool) : pool_(pool) {}

  void Add(const Held& held) {
    const auto begin = reinterpret_cast<uintptr_t>(held.block.dptr);
    const uintptr_t end = begin + static_cast<uintptr_t>(held.block.size_bytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [place, added] = ends_.emplace(begin, end);
    const auto next = std::next(place);
    overlaps_ += !added || (place != ends_.begin() && std::prev(place)->second > begin) ||
                 (next != ends_.end() && next->first < end);
    misaligned_ += begin % 64 != 0;
    LiveBytes(held) += held.block.size_bytes;
    in_use_bytes_[held.block.device.type] += RoundedBytes(pool_, held.block.size_bytes);
  }
  void Remove(const Held& held) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_.erase(reinterpret_cast<uintptr_t>(held.block.dptr));
    LiveBytes(held) -= held.block.size_bytes;
    in_use_bytes_[held.block.device.type] -= RoundedBytes(pool_, held.block.size_bytes);
  }
  void Check(const Storage& storage) {
    const std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_EQ(overlaps_, 0);
    EXPECT_EQ(misaligned_, 0);
    for (const Device device : kDevices) {
      const StorageStats stats = storage.Stats(device);
      const auto& live_bytes = live_bytes_[device.type];
      EXPECT_EQ(stats.live_bytes,
                std::accumulate(live_bytes.begin(), live_bytes.end(), int64_t{0}));
      // The bytes in use are those that are reserved and not free.
      EXPECT_EQ(stats.in_use_bytes, in_use_bytes_[device.type]);
      EXPECT_LE(stats.peak_reserved_bytes, kMostLimitBytes);
      for (const StorageTagStats& tag : storage.TagStats(device)) {
        const auto known = std::find(kTags.begin(), kTags.end(), tag.tag);
        ASSERT_NE(known, kTags.end()) << tag.tag;
        EXPECT_EQ(tag.live_bytes, live_bytes[static_cast<size_t>(known - kTags.begin())])
            << tag.tag;
      }
    }
  }

 private:
  int64_t& LiveBytes(const Held& held) { return live_bytes_[held.block.device.type][held.tag]; }

  const StoragePoolKind pool_;
  std::mutex mutex_;
  std::map<uintptr_t, uintptr_t> ends_;
  std::map<DeviceType, std::array<int64_t, kTags.size()>> live_bytes_;
  std::map<DeviceType, int64_t> in_use_bytes_;
  int64_t overlaps_ = 0;
  int64_t misaligned_ = 0;
};

/// Writes the block's identity into its first and last bytes, where a foreign write would show.
void WriteGuards(const Storage::Handle& block) {
  const int64_t n = std::min<int64_t>(block.size_bytes, 64);
  const int mark = static_cast<int>(block.generation * 37 % 251);
  std::memset(block.dptr, mark, static_cast<size_t>(n));
  std::memset(static_cast<char*>(block.dptr) + block.size_bytes - n, mark, static_cast<size_t>(n));
}
bool GuardsHold(const Storage::Handle& block) {
  const int64_t n = std::min<int64_t>(block.size_bytes, 64);
  const auto mark = static_cast<unsigned char>(block.generation * 37 % 251);
  const auto* bytes = static_cast<const unsigned char*>(block.dptr);
  const auto is_mark = [mark](unsigned char byte) { return byte == mark; };
  return std::all_of(bytes, bytes + n, is_mark) &&
         std::all_of(bytes + block.size_bytes - n, bytes + block.size_bytes, is_mark);
}

/// Passes blocks from the threads that allocated them to threads that free them.
class Exchange {
 public:
  /// Stores `held` and returns the block that was stored before.
  Held Swap(size_t place, const Held& held) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(places_[place % places_.size()], held);
  }

 private:
  std::mutex mutex_;
  std::array<Held, 16> places_;
};

struct StressCase {
  const char* name;
  StoragePoolKind pool;
  int64_t operations;
};

class StorageStressTest : public testing::TestWithParam<StressCase> {
 protected:
  StorageStressTest() {
    trimmer_ = storage_.AddTrimmer([this](Device) { Release(hoard_.Swap(0, {}), false); });
  }

  /// Calls the functions other than Alloc and Free.
  void DoSomethingRare(std::mt19937_64& random) {
    const Device device = kDevices[random() % 2];
    switch (random() % 6) {
      case 0:
        return storage_.ReleaseAll(device);
      case 1: {
        const auto range = static_cast<uint64_t>(kMostLimitBytes - kLeastLimitBytes + 1);
        return storage_.SetLimit(device, kLeastLimitBytes + static_cast<int64_t>(random() % range));
      }
      case 2:
        return storage_.RemoveTrimmer(storage_.AddTrimmer([](Device) {}));
      case 3:
        return storage_.MarkPeak(device);
      case 4: {
        EXPECT_LE(storage_.Stats(device).reserved_bytes, kMostLimitBytes);
        return;
      }
      default:
        EXPECT_LT(storage_.TagStats(device).size(), kTags.size());
    }
  }

  /// Throws Error(kResourceExhausted).
  Held Alloc(std::mt19937_64& random) {
    const Device device = kDevices[random() % 16 == 0];
    // Sizes are uniform in their logarithm: 10 bytes are as frequent as 100 MB.
    const int64_t most = device == Device::Cpu() ? kMaxBlockBytes : kMaxSharedBlockBytes;
    std::uniform_real_distribution<double> log_size(0, std::log(static_cast<double>(most)));
    const auto size = static_cast<int64_t>(std::exp(log_size(random)));
    Held held;
    held.tag = random() % 4 == 0 ? random() % kTags.size() : 0;
    held.block = storage_.Alloc(std::max<int64_t>(size, 1), device, kTags[held.tag]);
    model_.Add(held);
    WriteGuards(held.block);
    return held;
  }

  void Release(const Held& held, bool direct) {
    if (held.block.dptr == nullptr) return;
    broken_guards_ += !GuardsHold(held.block);
    model_.Remove(held);
    if (direct) {
      storage_.DirectFree(held.block);
    } else {
      storage_.Free(held.block);
    }
  }

  Storage storage_{StorageOptions{.pool = GetParam().pool, .limit_bytes = kMostLimitBytes}};
  Model model_{GetParam().pool};
  Exchange exchange_;
  Exchange hoard_;  // the trimmer frees the block at index 0
  int64_t trimmer_ = 0;
  std::atomic<int64_t> broken_guards_{0};
};

TEST_P(StorageStressTest, LiveBlocksNeverOverlapAndStatisticsAreExact) {
  const auto seed =
      static_cast<uint64_t>(EnvironmentInt("TESSERA_TEST_SEED", 20240607, 0, kNoLimit));
  const int64_t factor = EnvironmentInt("TESSERA_TEST_STRESS_FACTOR", 1, 1, 1000);
  const int64_t operations = GetParam().operations * factor / kThreads / kSlowdown;
  // The invariants are checked after each 10^4 operations of all threads.
  const int64_t rounds = std::max<int64_t>(1, operations * kThreads / 10000);
  std::cout << "TESSERA_TEST_SEED=" << seed << "\n";

  std::atomic<int64_t> refused{0};
  // The statistics must be exact while all threads wait.
  std::barrier between_rounds(kThreads, [&]() noexcept { model_.Check(storage_); });

  const auto work = [&](int thread) {
    std::mt19937_64 random(seed + static_cast<uint64_t>(thread));
    std::vector<Held> mine;
    for (int64_t round = 0; round < rounds; ++round) {
      for (int64_t i = 0; i < operations / rounds; ++i) {
        if (random() % 1000 == 0) DoSomethingRare(random);
        const uint64_t dice = random() % 100;
        if (dice < 50 || mine.empty()) {
          try {
            mine.push_back(Alloc(random));
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), Error::kResourceExhausted) << error.what();
            ++refused;
            Release(mine.empty() ? Held() : mine.back(), false);
            if (!mine.empty()) mine.pop_back();
          }
        } else {
          std::swap(mine[random() % mine.size()], mine.back());
          Held held = mine.back();
          mine.pop_back();
          // Some blocks are freed by the next thread at the same index, or on shortage.
          if (dice < 60) held = exchange_.Swap(random(), held);
          if (dice == 60) held = hoard_.Swap(0, held);
          Release(held, dice >= 95);
        }
      }
      between_rounds.arrive_and_wait();
    }
    for (const Held& held : mine) Release(held, false);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
  for (size_t place = 0; place < 16; ++place) Release(exchange_.Swap(place, {}), false);
  Release(hoard_.Swap(0, {}), false);
  storage_.RemoveTrimmer(trimmer_);

  EXPECT_EQ(broken_guards_.load(), 0);
  model_.Check(storage_);
  for (const Device device : kDevices) {
    EXPECT_EQ(storage_.Stats(device).live_bytes, 0);
    storage_.ReleaseAll(device);
    EXPECT_EQ(storage_.Stats(device).reserved_bytes, 0);
  }
  std::cout << "refused " << refused << "\n" << storage_.Report();
}

INSTANTIATE_TEST_SUITE_P(EveryPool, StorageStressTest,
                         testing::Values(StressCase{"BestFit", StoragePoolKind::kBestFit, 1000000},
                                         StressCase{"Exact", StoragePoolKind::kExact, 20000},
                                         StressCase{"Rounded", StoragePoolKind::kRounded, 20000},
                                         StressCase{"None", StoragePoolKind::kNone, 20000}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tessera
