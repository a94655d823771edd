#include "tessera/storage/owner_lock.h"

#include <cstdint>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::storage_internal {
namespace {

TEST(OwnerLockTest, OwnerAndOthersNeverHoldItTogether) {
  constexpr int kOthers = 3;
  constexpr int64_t kOwnerTurns = 300000;
  constexpr int64_t kOtherTurns = 1000;
  OwnerLock lock;
  std::mutex others;
  int64_t turns = 0;  // not atomic: lost counts, or ThreadSanitizer, would show an overlap
  std::latch start(kOthers + 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < kOthers; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      for (int64_t turn = 0; turn < kOtherTurns; ++turn) {
        const std::lock_guard<std::mutex> one_at_a_time(others);
        const OtherGuard guard(lock);
        ++turns;
      }
    });
  }
  threads.emplace_back([&] {
    start.arrive_and_wait();
    for (int64_t turn = 0; turn < kOwnerTurns; ++turn) {
      const OwnerGuard guard(lock);
      ++turns;
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns, kOwnerTurns + kOthers * kOtherTurns);
}

TEST(OwnerLockTest, AnAnnouncedOtherComesBeforeTheOwnersNextTurn) {
  OwnerLock lock;
  int64_t turns = 0;
  lock.AnnounceOther();
  if (lock.asymmetric()) FenceAllThreads();
  lock.AwaitOwner();
  std::thread owner([&] {
    const OwnerGuard guard(lock);
    ++turns;
  });
  EXPECT_EQ(turns, 0);  // the owner cannot come in before the line below
  lock.UnlockAsOther();
  owner.join();
  EXPECT_EQ(turns, 1);
}

}  // namespace
}  // namespace tessera::storage_internal
