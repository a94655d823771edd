#include "tessera/storage/owner_lock.h"

#include <atomic>
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
  constexpr int64_t kOtherTurns = 1000;
  OwnerLock lock;
  std::mutex others;
  int64_t turns = 0;  // not atomic: lost counts, or ThreadSanitizer, would show an overlap
  int64_t owner_turns = 0;
  std::atomic<int> others_left{kOthers};
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
      --others_left;
    });
  }
  threads.emplace_back([&] {
    start.arrive_and_wait();
    while (others_left.load(std::memory_order_relaxed) > 0) {
      {
        const OwnerGuard guard(lock);
        ++turns;
        ++owner_turns;
      }
      const OwnerTryGuard guard(lock);
      turns += guard.locked();
      owner_turns += guard.locked();
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns, owner_turns + kOthers * kOtherTurns);
}

TEST(OwnerLockTest, AnAnnouncedOtherComesBeforeTheOwnersNextTurn) {
  OwnerLock lock;
  std::atomic<int> turns{0};
  std::latch owner_runs(1);
  lock.AnnounceOther();
  if (lock.asymmetric()) FenceAllThreads();
  lock.AwaitOwner();
  std::thread owner([&] {
    owner_runs.count_down();
    const OwnerGuard guard(lock);
    ++turns;
  });
  owner_runs.wait();
  // However often the owner gets its chance, it does not come in before the line below.
  int early_turns = 0;
  for (int i = 0; i < 2000; ++i) {
    std::this_thread::yield();
    early_turns += turns.load();
  }
  EXPECT_EQ(early_turns, 0);
  lock.UnlockAsOther();
  owner.join();
  EXPECT_EQ(turns.load(), 1);
}

TEST(OwnerLockTest, AnOwnerThatDoesNotWaitLeavesTheLockToTheOther) {
  OwnerLock lock;
  lock.AnnounceOther();
  EXPECT_FALSE(OwnerTryGuard(lock).locked());
  lock.AwaitOwner();
  EXPECT_FALSE(OwnerTryGuard(lock).locked());
  lock.UnlockAsOther();
  EXPECT_TRUE(OwnerTryGuard(lock).locked());
  // Given back.
  lock.LockAsOther();
  lock.UnlockAsOther();
}

TEST(OwnerLockTest, AnOwnerThatWaitsComesInBetweenTheOthersTurns) {
  constexpr int64_t kManyTurns = 1000000;
  OwnerLock lock;
  std::atomic<bool> was_in{false};
  lock.LockAsOther();
  std::thread owner([&] {
    const OwnerGuard guard(lock);
    was_in = true;
  });
  int64_t turns = 0;
  for (; !was_in && turns < kManyTurns; ++turns) {
    lock.UnlockAsOther();
    lock.LetOwnerIn();
    lock.LockAsOther();
  }
  lock.UnlockAsOther();
  owner.join();
  EXPECT_LT(turns, kManyTurns);
}

TEST(OwnerLockTest, AnOwnerThatAForkHasLeftBehindHoldsNothing) {
  OwnerLock lock;
  // The child's memory: a thread that is gone has its flag raised.
  lock.LockAsOwner();
  lock.AnnounceOther();
  lock.ForgetOwner();
  lock.AwaitOwner();
  lock.UnlockAsOther();
  const OwnerGuard guard(lock);
}

}  // namespace
}  // namespace tessera::storage_internal
