// Tests forks of a process with threads. A child reports a failure by its exit status. An alarm
// ends a child that waits for a lock which no thread releases.

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/device.h"
#include "tessera/base/error.h"
#include "tessera/storage/shared_memory.h"
#include "tessera/storage/storage.h"

namespace tessera {
namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;
constexpr Device kCpu = Device::Cpu();
constexpr Device kShared = Device::CpuShared();

#if defined(__has_feature)
#define TESSERA_HAS_FEATURE(feature) __has_feature(feature)
#else
#define TESSERA_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || \
    TESSERA_HAS_FEATURE(thread_sanitizer) || TESSERA_HAS_FEATURE(address_sanitizer)
// The sanitizer's malloc may stay locked in the child, by a thread that only the parent has. So no
// thread may call it during a fork.
constexpr bool kMallocForks = false;
#else
constexpr bool kMallocForks = true;
#endif

/// Returns the exit status of a child that runs `body`, while this process runs `meanwhile`.
int StatusOfChild(
    const std::function<int()>& body, const std::function<void()>& meanwhile = [] {}) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    std::_Exit(body());
  }
  if (child < 0) return 100;
  meanwhile();
  int status = 0;
  if (waitpid(child, &status, 0) != child) return 101;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 102;
}

/// A channel by which parent and child signal their progress to each other.
class Line {
 public:
  Line() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0); }
  ~Line() { close(ends_[0]); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  void BeChild() {
    close(ends_[0]);
    ends_[0] = ends_[1];
  }
  void BeParent() { close(ends_[1]); }
  void Tell() { static_cast<void>(send(ends_[0], "x", 1, MSG_NOSIGNAL)); }
  /// Waits for a signal. Returns false if the other process has ended.
  bool Await() {
    char byte = 0;
    return recv(ends_[0], &byte, 1, 0) == 1;
  }

 private:
  int ends_[2] = {-1, -1};
};

/// Returns 0 if all calls of a storage work, else the number of the one that fails.
int UseStorage(Storage& storage) {
  const StorageStats before = storage.Stats(kCpu);
  const Storage::Handle small = storage.Alloc(100, kCpu, "in the child");
  const Storage::Handle large = storage.Alloc(3 * kMegabyte, kCpu, "small");
  std::memset(small.dptr, 1, 100);
  std::memset(large.dptr, 1, 3 * kMegabyte);
  if (storage.Stats(kCpu).live_bytes != before.live_bytes + 100 + 3 * kMegabyte) return 2;
  storage.Free(small);
  storage.DirectFree(large);
  const StorageStats after = storage.Stats(kCpu);
  if (after.live_bytes != before.live_bytes) return 3;
  if (after.in_use_bytes != before.in_use_bytes) return 4;
  storage.Free(storage.Alloc(100, Device::Cpu(5)));  // makes a new pool
  const Storage::Handle shared = storage.Alloc(1000, kShared);
  if (Share(shared).size_bytes != 1000) return 5;
  storage.Free(shared);
  storage.RemoveTrimmer(storage.AddTrimmer([](Device) {}));
  if (storage.Report().find("in the child") == std::string::npos) return 6;
  if (storage.StopTimeline().find("traceEvents") == std::string::npos) return 7;
  storage.ReleaseAll(kCpu);
  Storage own;
  own.Free(own.Alloc(100, kCpu));
  Storage::Get()->Free(Storage::Get()->Alloc(100, kCpu));
  return 0;
}

/// Runs threads in every part of a storage.
class BusyThreads {
 public:
  explicit BusyThreads(Storage* storage) {
    const auto caches = [storage] {
      for (const char* const tag : {"small", "smaller"}) {
        storage->Free(storage->Alloc(5000, kCpu, tag));
        storage->Free(storage->Alloc(100, kCpu, tag));
      }
    };
    // A request of one size returns the cached blocks of the other to the thread's arena.
    const auto arena = [storage] {
      std::array<Storage::Handle, 64> blocks;
      for (const int64_t size : {100000, 200000}) {
        for (Storage::Handle& block : blocks) block = storage->Alloc(size, kCpu);
        for (const Storage::Handle& block : blocks) storage->Free(block);
      }
    };
    // The memory is mapped, not from malloc.
    const auto pool = [storage] { storage->DirectFree(storage->Alloc(2 * kMegabyte, kCpu)); };
    const auto statistics = [storage] {
      storage->Stats(kCpu);
      storage->MarkPeak(kCpu);
    };
    const auto shared = [storage] {
      const Storage::Handle block = storage->Alloc(1000, kShared);
      Share(block);
      storage->Free(block);
    };
    const auto records = [storage] {
      storage->StartTimeline(1000);
      storage->Report();
      storage->RemoveTrimmer(storage->AddTrimmer([](Device) {}));
    };
    std::vector<std::function<void()>> tasks = {caches, arena, arena, pool, statistics, shared};
    if (kMallocForks) tasks.push_back(records);
    const auto begun = std::make_shared<std::latch>(static_cast<ptrdiff_t>(tasks.size()));
    for (const std::function<void()>& task : tasks) {
      threads_.emplace_back([this, task, begun] {
        task();  // the first call makes its one-time allocations
        begun->count_down();
        while (!stop_.load(std::memory_order_relaxed)) {
          task();
          std::this_thread::yield();
        }
      });
    }
    begun->wait();
  }
  ~BusyThreads() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  BusyThreads(const BusyThreads&) = delete;
  BusyThreads& operator=(const BusyThreads&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

TEST(ForkTest, AChildAllocatesAndFreesWhateverThreadsOfTheParentWereDoing) {
  constexpr int kForks = kMallocForks ? 60 : 12;
  Storage storage;
  storage.StartTimeline(1000);
  const BusyThreads busy(&storage);
  for (int i = 0; i < kForks; ++i) {
    ASSERT_EQ(StatusOfChild([&] { return UseStorage(storage); }), 0) << "child " << i;
  }
}

TEST(ForkTest, AChildMayForkAgain) {
  Storage storage;
  const BusyThreads busy(&storage);
  const int status = StatusOfChild([&] {
    const int own = UseStorage(storage);
    return own != 0 ? own : StatusOfChild([&] { return UseStorage(storage); });
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(UseStorage(*Storage::Get()), 0);
}

TEST(ForkTest, AChildHasACopyOfBlocksAndStatistics) {
  Storage storage({.limit_bytes = 2 * kMegabyte});
  const Storage::Handle block = storage.Alloc(1000, kCpu, "kept");
  std::memset(block.dptr, 5, 1000);
  std::latch cached(1);
  std::latch done(1);
  std::thread other([&] {
    // A cache holds more than half of the free memory under the limit. The child does not have its
    // thread.
    std::vector<Storage::Handle> blocks;
    for (int i = 0; i < 1000; ++i) blocks.push_back(storage.Alloc(1024, kCpu));
    for (const Storage::Handle& handle : blocks) storage.Free(handle);
    cached.count_down();
    done.wait();
  });
  cached.wait();
  const StorageStats before = storage.Stats(kCpu);
  EXPECT_GE(before.cached_bytes, 1000 * 1024);
  const int status = StatusOfChild([&] {
    const StorageStats stats = storage.Stats(kCpu);
    if (stats.live_bytes != 1000 || stats.cached_bytes != before.cached_bytes) return 2;
    if (stats.allocations != before.allocations || stats.frees != before.frees) return 3;
    if (static_cast<char*>(block.dptr)[999] != 5) return 4;
    std::memset(block.dptr, 6, 1000);
    storage.Free(block);
    storage.Free(storage.Alloc(2 * kMegabyte, kCpu));
    return storage.Stats(kCpu).live_bytes == 0 ? 0 : 5;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(static_cast<char*>(block.dptr)[999], 5);
  EXPECT_EQ(storage.Stats(kCpu).live_bytes, 1000);
  storage.Free(block);
  done.count_down();
  other.join();
}

TEST(ForkTest, AForkTakesTheLocksOfManyArenas) {
  constexpr int kThreads = 16;
  constexpr int kPools = 4;
  Storage storage;
  std::latch begun(kThreads);
  std::latch done(1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int id = 0; id < kPools; ++id) storage.Free(storage.Alloc(100000, Device::Cpu(id)));
      begun.count_down();
      done.wait();
    });
  }
  begun.wait();
  EXPECT_EQ(StatusOfChild([&] {
              storage.Free(storage.Alloc(100000, kCpu));
              return storage.Stats(kCpu).live_bytes == 0 ? 0 : 1;
            }),
            0);
  done.count_down();
  for (std::thread& thread : threads) thread.join();
}

/// Three blocks whose bytes are all written.
class WrittenBlocks {
 public:
  WrittenBlocks(Storage& storage, int64_t size_bytes, int byte) : byte_(byte) {
    for (Storage::Handle& block : blocks_) {
      block = storage.Alloc(size_bytes, kShared);
      std::memset(block.dptr, byte, static_cast<size_t>(size_bytes));
    }
  }
  bool Hold() const {
    return std::all_of(blocks_.begin(), blocks_.end(), [this](const Storage::Handle& block) {
      const auto* const bytes = static_cast<const unsigned char*>(block.dptr);
      return std::all_of(bytes, bytes + block.size_bytes,
                         [this](unsigned char byte) { return byte == byte_; });
    });
  }
  const std::array<Storage::Handle, 3>& blocks() const { return blocks_; }

 private:
  const int byte_;
  std::array<Storage::Handle, 3> blocks_;
};

TEST(ForkTest, ParentAndChildAllocateDifferentSharedMemory) {
  for (const int64_t size : {int64_t{100}, int64_t{100000}, 3 * kMegabyte}) {
    SCOPED_TRACE(size);
    Storage storage;
    const WrittenBlocks before(storage, size, 1);
    {
      // These blocks end up in the pool and in this thread's cache.
      const WrittenBlocks cached(storage, size, 2);
      for (const Storage::Handle& block : cached.blocks()) storage.Free(block);
    }
    Line line;
    const auto child = [&] {
      line.BeChild();
      // The blocks are freed in the child only. The parent still uses them.
      for (const Storage::Handle& block : before.blocks()) storage.Free(block);
      const WrittenBlocks own(storage, size, 3);
      if (storage.Stats(kShared).live_bytes != 3 * size) return 2;
      line.Tell();
      if (!line.Await()) return 3;
      if (!own.Hold()) return 4;
      for (const Storage::Handle& block : own.blocks()) storage.Free(block);
      return storage.Stats(kShared).live_bytes == 0 ? 0 : 5;
    };
    const auto parent = [&] {
      line.BeParent();
      EXPECT_TRUE(line.Await());
      const WrittenBlocks own(storage, size, 4);
      line.Tell();
      EXPECT_TRUE(before.Hold());
      for (const Storage::Handle& block : own.blocks()) storage.Free(block);
    };
    EXPECT_EQ(StatusOfChild(child, parent), 0);
    EXPECT_EQ(storage.Stats(kShared).live_bytes, 3 * size);
    for (const Storage::Handle& block : before.blocks()) storage.Free(block);
  }
}

TEST(ForkTest, TheLimitOfSharedMemoryHoldsInTheChildAsWell) {
  Storage storage;
  storage.Free(storage.Alloc(1000, kShared));
  storage.SetLimit(kShared, 4 * kMegabyte);
  const auto keeps_to_limit = [&storage] {
    try {
      storage.Free(storage.Alloc(5 * kMegabyte, kShared));
      return 2;
    } catch (const Error&) {
    }
    storage.Free(storage.Alloc(3 * kMegabyte, kShared));
    return storage.Stats(kShared).limit_bytes == 4 * kMegabyte ? 0 : 3;
  };
  const int status = StatusOfChild([&] {
    const int own = keeps_to_limit();
    if (own != 0) return own;
    // A child of the child has these properties, too.
    storage.SetLimit(kShared, 6 * kMegabyte);
    return StatusOfChild([&] {
      storage.Free(storage.Alloc(5 * kMegabyte, kShared));
      return storage.Stats(kShared).limit_bytes == 6 * kMegabyte ? 0 : 4;
    });
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(storage.Stats(kShared).limit_bytes, 4 * kMegabyte);
}

TEST(ForkTest, ABlockFromBeforeTheForkLinksParentAndChild) {
  Storage storage;
  const Storage::Handle block = storage.Alloc(100000, kShared);
  std::memset(block.dptr, 1, 100000);
  const int status = StatusOfChild([&] {
    if (Share(block).process_id != getpid()) return 2;
    std::memset(SharedMapping::Open(Share(block)).data(), 2, 50000);
    std::memset(static_cast<char*>(block.dptr) + 50000, 3, 50000);
    storage.DirectFree(block);
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(static_cast<char*>(block.dptr)[49999], 2);
  EXPECT_EQ(static_cast<char*>(block.dptr)[99999], 3);
  storage.Free(block);
}

}  // namespace
}  // namespace tessera
