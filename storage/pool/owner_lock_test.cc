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
      if (!guard.locked()) continue;  // not even to add nothing
      ++turns;
      ++owner_turns;
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns, owner_turns + kOthers * kOtherTurns);
}

/// Cache lines that threads take from each other: what a thread writes after them waits in its
/// processor for as long as they are on their way, while the thread reads on. Without a fence that
/// has two threads miss each other's flags many times a second.
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
    int64_t turns = 0;  // not atomic: lost counts, or ThreadSanitizer, would show an overlap
  };
  // Of one owner, so that it and the other run at the same time also on two processors.
  std::array<Guarded, 2> all;
  ContendedLines lines;
  std::atomic<int64_t> owner_turns{0};  // in each
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
    // So that the owner runs, and does not only wait.
    const int64_t before = owner_turns.load(std::memory_order_relaxed);
    for (int i = 1; owner_turns.load(std::memory_order_relaxed) == before; ++i) {
      if (i % 1000 == 0) std::this_thread::yield();
    }
    lines.Write();
    for (Guarded& guarded : all) guarded.lock.AnnounceOther();
    if (all[0].lock.asymmetric()) FenceAllThreads();
    for (Guarded& guarded : all) {
      guarded.lock.AwaitOwner();
      // Long enough for an owner that has come in as well to lose a count.
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

/// While it lives, the threads of the calling one, and itself, share one processor.
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
  // On one processor the owner runs only when it is given way, by YieldToOwner here; otherwise the
  // other has it for all of its time slice, which is hundreds of turns.
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
  // A scheduler that takes the processor away at the wrong moment costs a round, not all of them.
  EXPECT_LE(slow_rounds, kRounds / 4);
}

TEST(OwnerLockTest, ResetOwnerReleasesTheLockInAForkedChild) {
  OwnerLock lock;
  // The child's memory: a thread that is gone has its flag raised.
  lock.LockAsOwner();
  lock.AnnounceOther();
  lock.ResetOwner();
  lock.AwaitOwner();
  lock.UnlockAsOther();
  const OwnerGuard guard(lock);
}

}  // namespace
}  // namespace tessera::storage_internal
