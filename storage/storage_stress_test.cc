// Random allocations and frees from many threads, against a model that knows every live block.

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
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/storage/poison.h"
#include "tessera/storage/storage.h"

namespace tessera {
namespace {

constexpr int kThreads = 8;
constexpr int64_t kMegabyte = int64_t{1} << 20;
constexpr int64_t kMaxBlockBytes = 256 * kMegabyte;

/// The live blocks by address. Adding one that overlaps another is a failure.
class Model {
 public:
  void Add(const Storage::Handle& block) {
    const auto begin = reinterpret_cast<uintptr_t>(block.dptr);
    const uintptr_t end = begin + static_cast<uintptr_t>(block.size_bytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [place, added] = ends_.emplace(begin, end);
    const auto next = std::next(place);
    overlaps_ += !added || (place != ends_.begin() && std::prev(place)->second > begin) ||
                 (next != ends_.end() && next->first < end);
    misaligned_ += begin % 64 != 0;
    live_bytes_ += block.size_bytes;
  }
  void Remove(const Storage::Handle& block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_.erase(reinterpret_cast<uintptr_t>(block.dptr));
    live_bytes_ -= block.size_bytes;
  }
  void Check(const StorageStats& stats) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_EQ(overlaps_, 0);
    EXPECT_EQ(misaligned_, 0);
    EXPECT_EQ(stats.live_bytes, live_bytes_);
    EXPECT_EQ(stats.reserved_bytes, stats.in_use_bytes + stats.cached_bytes);
    EXPECT_LE(stats.reserved_bytes, stats.limit_bytes);
    EXPECT_GE(stats.in_use_bytes, stats.live_bytes);
  }

 private:
  mutable std::mutex mutex_;
  std::map<uintptr_t, uintptr_t> ends_;
  int64_t overlaps_ = 0;
  int64_t misaligned_ = 0;
  int64_t live_bytes_ = 0;
};

/// The first and last bytes of a block say whose it is; somebody else's write would show.
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

/// Blocks on their way from the thread that allocated them to one that will free them.
class Exchange {
 public:
  /// Leaves `block` and takes what lay there before.
  Storage::Handle Swap(size_t place, const Storage::Handle& block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(places_[place % places_.size()], block);
  }

 private:
  std::mutex mutex_;
  std::array<Storage::Handle, 16> places_;
};

struct StressCase {
  const char* name;
  StoragePoolKind pool;
  int64_t operations;
};

class StorageStressTest : public testing::TestWithParam<StressCase> {};

TEST_P(StorageStressTest, LiveBlocksNeverOverlapAndFiguresAreExact) {
  const auto seed =
      static_cast<uint64_t>(EnvironmentInt("TESSERA_TEST_SEED", 20240607, 0, kNoLimit));
  const int64_t factor = EnvironmentInt("TESSERA_TEST_STRESS_FACTOR", 1, 1, 1000);
  // AddressSanitizer poisons every byte of what is freed, on average 13 MB.
  const int64_t divisor = storage_internal::kPoisons ? 4 : 1;
  const int64_t operations = GetParam().operations * factor / divisor / kThreads;
  // The invariants are checked after each 10^4 operations of all threads.
  const int64_t rounds = std::max<int64_t>(1, operations * kThreads / 10000);
  std::cout << "TESSERA_TEST_SEED=" << seed << "\n";

  Storage storage({.pool = GetParam().pool, .limit_bytes = 1024 * kMegabyte});
  Model model;
  Exchange exchange;
  std::atomic<int64_t> broken_guards{0};
  std::atomic<int64_t> refused{0};
  // While all threads wait, the figures must be exact.
  std::barrier between_rounds(kThreads,
                              [&]() noexcept { model.Check(storage.Stats(Device::Cpu())); });

  const auto release = [&](const Storage::Handle& block) {
    if (block.dptr == nullptr) return;
    broken_guards += !GuardsHold(block);
    model.Remove(block);
    storage.Free(block);
  };
  const auto work = [&](int thread) {
    std::mt19937_64 random(seed + static_cast<uint64_t>(thread));
    // Sizes are uniform in their logarithm: as many of 10 bytes as of 100 MB.
    std::uniform_real_distribution<double> log_size(0,
                                                    std::log(static_cast<double>(kMaxBlockBytes)));
    std::vector<Storage::Handle> mine;
    for (int64_t round = 0; round < rounds; ++round) {
      for (int64_t i = 0; i < operations / rounds; ++i) {
        const uint64_t dice = random() % 100;
        if (dice < 50 || mine.empty()) {
          const auto size = static_cast<int64_t>(std::exp(log_size(random)));
          try {
            const Storage::Handle block = storage.Alloc(std::max<int64_t>(size, 1), Device::Cpu());
            model.Add(block);
            WriteGuards(block);
            mine.push_back(block);
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), Error::kResourceExhausted) << error.what();
            ++refused;
            release(mine.empty() ? Storage::Handle() : mine.back());
            if (!mine.empty()) mine.pop_back();
          }
        } else {
          std::swap(mine[random() % mine.size()], mine.back());
          const Storage::Handle block = mine.back();
          mine.pop_back();
          // Some blocks are freed by whoever comes next to the same place.
          release(dice < 60 ? exchange.Swap(random(), block) : block);
        }
      }
      between_rounds.arrive_and_wait();
    }
    for (const Storage::Handle& block : mine) release(block);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
  for (size_t place = 0; place < 16; ++place) release(exchange.Swap(place, {}));

  EXPECT_EQ(broken_guards.load(), 0);
  model.Check(storage.Stats(Device::Cpu()));
  EXPECT_EQ(storage.Stats(Device::Cpu()).live_bytes, 0);
  storage.ReleaseAll(Device::Cpu());
  EXPECT_EQ(storage.Stats(Device::Cpu()).reserved_bytes, 0);
  std::cout << "refused " << refused << "\n" << storage.Report();
}

INSTANTIATE_TEST_SUITE_P(EveryPool, StorageStressTest,
                         testing::Values(StressCase{"BestFit", StoragePoolKind::kBestFit, 1000000},
                                         StressCase{"Exact", StoragePoolKind::kExact, 20000},
                                         StressCase{"Rounded", StoragePoolKind::kRounded, 20000},
                                         StressCase{"None", StoragePoolKind::kNone, 20000}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tessera
