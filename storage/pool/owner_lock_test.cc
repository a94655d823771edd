#include "tessera/storage/pool/owner_lock.h"

#include <sched.h>

#include <array>
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
  int64_t turns = 0;  // not atomic, so that an overlap loses counts or alarms ThreadSanitizer
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
      if (!guard.locked()) continue;  // the count may not be accessed
      ++turns;
      ++owner_turns;
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns, owner_turns + kOthers * kOtherTurns);
}

/// Cache lines that several threads write. A store to another line after them stays in the
/// processor's store buffer until the contended line arrives, while later loads execute. Without a
/// fence two threads would then miss each other's flags many times a second.
class ContendedLines {
 public:
  void Write() {
    for (Line& line : lines_) line.value.store(1, std::memory_order_relaxed);
  }

 private:
  struct alignas(64) Line {
    std::atomic<int> value{0};
  };
  std::array<Line, 4> lines_;
};

TEST(OwnerLockTest, OneFenceServesManyLocks) {
  constexpr int64_t kRounds = 300;
  constexpr int kTurnsAtOnce = 20;
  struct alignas(64) Guarded {
    OwnerLock lock;
    int64_t turns = 0;  // not atomic, so that an overlap loses counts or alarms ThreadSanitizer
  };
  // All locks have one owner, so that it and the other thread run in parallel on two processors.
  std::array<Guarded, 2> all;
  ContendedLines lines;
  std::atomic<int64_t> owner_turns{0};  // in each of the locks
  std::atomic<bool> done{false};
  std::thread owner([&] {
    while (!done.load(std::memory_order_relaxed)) {
      for (Guarded& guarded : all) {
        lines.Write();
        const OwnerGuard guard(guarded.lock);
        ++guarded.turns;
      }
      owner_turns.fetch_add(1, std::memory_order_relaxed);
    }
  });
  for (int64_t round = 0; round < kRounds; ++round) {
    // The pause lets the owner run.
    const int64_t before = owner_turns.load(std::memory_order_relaxed);
    for (int i = 1; owner_turns.load(std::memory_order_relaxed) == before; ++i) {
      if (i % 1000 == 0) std::this_thread::yield();
    }
    lines.Write();
    for (Guarded& guarded : all) guarded.lock.AnnounceOther();
    if (all[0].lock.asymmetric()) FenceAllThreads();
    for (Guarded& guarded : all) {
      guarded.lock.AwaitOwner();
      // The delay is long enough for an owner inside the lock to lose a count.
      volatile int64_t& turns = guarded.turns;
      for (int i = 0; i < kTurnsAtOnce; ++i) turns = turns + 1;
      guarded.lock.UnlockAsOther();
    }
  }
  done = true;
  owner.join();
  for (const Guarded& guarded : all) {
    EXPECT_EQ(guarded.turns, owner_turns + kRounds * kTurnsAtOnce);
  }
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
  // The owner cannot take the lock before the other thread releases it.
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
  // The guards have released the lock.
  lock.LockAsOther();
  lock.UnlockAsOther();
}

/// Restricts the calling thread and its new threads to one processor until the destructor.
class OneProcessor {
 public:
  OneProcessor() {
    EXPECT_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }
  ~OneProcessor() { EXPECT_EQ(sched_setaffinity(0, sizeof(before_), &before_), 0); }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t before_;
};

TEST(OwnerLockTest, AnOwnerThatWaitsComesInBetweenTheOthersTurns) {
  // On one processor the owner runs when the other thread yields, in YieldToOwner. Without that the
  // other thread would run hundreds of turns in its time slice.
  const OneProcessor one_processor;
  constexpr int kRounds = 20;
  constexpr int kManyTurns = 100;
  int slow_rounds = 0;
  for (int round = 0; round < kRounds; ++round) {
    OwnerLock lock;
    std::atomic<bool> is_near{false};
    std::atomic<bool> was_in{false};
    lock.LockAsOther();
    std::thread owner([&] {
      is_near = true;
      const OwnerGuard guard(lock);
      was_in = true;
    });
    while (!is_near) std::this_thread::yield();
    int turns = 0;
    for (; !was_in && turns < kManyTurns; ++turns) {
      lock.UnlockAsOther();
      lock.YieldToOwner();
      lock.LockAsOther();
    }
    lock.UnlockAsOther();
    owner.join();
    slow_rounds += turns == kManyTurns;
  }
  // A preemption at the wrong moment makes one round slow, but not all of them.
  EXPECT_LE(slow_rounds, kRounds / 4);
}

TEST(OwnerLockTest, ResetOwnerReleasesTheLockInAForkedChild) {
  OwnerLock lock;
  // In the child's memory a thread that only the parent has may have raised its flag.
  lock.LockAsOwner();
  lock.AnnounceOther();
  lock.ResetOwner();
  lock.AwaitOwner();
  lock.UnlockAsOther();
  const OwnerGuard guard(lock);
}

}  // namespace
}  // namespace tessera::storage_internal
