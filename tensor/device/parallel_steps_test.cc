#include "tessera/tensor/device/parallel_steps.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tbb/global_control.h"
#include "tbb/parallel_for.h"
#include "tbb/task_arena.h"
#include "tbb/task_group.h"

namespace tessera {
namespace {

// Returns function() as run in an arena of `threads` threads.
template <typename Function>
auto InArena(int threads, const Function& function) {
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 8);
  return tbb::task_arena(threads).execute(function);
}

// Every part adds up what all parts of the step before it have written. A part that began too
// early, ran twice or was left out would change all later numbers.
uint64_t SumsOfSums(int64_t steps, int64_t parts) {
  const auto count = static_cast<size_t>(parts);
  std::vector<uint64_t> old(2 * count, 1);
  ParallelSteps(steps, parts, [&](int64_t step, int64_t part) {
    const size_t from = step % 2 == 0 ? 0 : count, to = count - from;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; ++i) sum = sum * 31 + old[from + i];
    old[to + static_cast<size_t>(part)] = sum + static_cast<uint64_t>(part * 7 + step);
  });
  uint64_t sum = 0;
  for (const uint64_t value : old) sum = sum * 31 + value;
  return sum;
}

TEST(ParallelStepsTest, AStepBeginsAfterAllPartsOfTheStepBefore) {
  for (const int64_t parts : {1, 2, 3, 5, 8, 13}) {
    for (const int64_t steps : {1, 2, 3000}) {
      const uint64_t expected = InArena(1, [&] { return SumsOfSums(steps, parts); });
      for (const int threads : {2, 3, 7}) {
        for (int round = 0; round < 3; ++round) {
          ASSERT_EQ(InArena(threads, [&] { return SumsOfSums(steps, parts); }), expected)
              << parts << " parts, " << steps << " steps, " << threads << " threads";
        }
      }
    }
  }
}

TEST(ParallelStepsTest, EachPartOfEachStepRunsOnce) {
  constexpr int64_t kSteps = 500, kParts = 4;
  std::vector<std::atomic<int>> runs(kSteps * kParts);
  InArena(4, [&] {
    ParallelSteps(kSteps, kParts, [&](int64_t step, int64_t part) {
      ++runs[static_cast<size_t>(step * kParts + part)];
    });
  });
  for (size_t i = 0; i < runs.size(); ++i) EXPECT_EQ(runs[i], 1) << i;
}

TEST(ParallelStepsTest, NothingToDoCallsNothing) {
  for (const auto& [steps, parts] : {std::pair(0, 3), std::pair(3, 0), std::pair(-1, 2)}) {
    ParallelSteps(steps, parts, [](int64_t, int64_t) { FAIL(); });
  }
}

TEST(ParallelStepsTest, OnePartRunsOnTheCallingThread) {
  const std::thread::id caller = std::this_thread::get_id();
  int64_t next = 0;
  ParallelSteps(100, 1, [&](int64_t step, int64_t part) {
    EXPECT_EQ(step, next++);
    EXPECT_EQ(part, 0);
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
  EXPECT_EQ(next, 100);
}

// The parts of the first step wait for each other, at most half a minute in all.
TEST(ParallelStepsTest, SeveralThreadsTakePart) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const auto num_threads = [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
    return threads.size();
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  InArena(2, [&] {
    ParallelSteps(2, 2, [&](int64_t, int64_t) {
      while (num_threads() < 2 && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
      }
    });
  });
  EXPECT_EQ(threads.size(), 2u);
}

// All workers of the arena are occupied by loops, each of which must then run by itself.
TEST(ParallelStepsTest, LoopsSideBySideAllEnd) {
  const uint64_t expected = InArena(1, [] { return SumsOfSums(100, 4); });
  std::atomic<int> wrong{0};
  InArena(
      3, [&] { tbb::parallel_for(0, 200, [&](int) { wrong += SumsOfSums(100, 4) != expected; }); });
  EXPECT_EQ(wrong, 0);
}

TEST(ParallelStepsTest, RunsInsideACancelledTaskGroup) {
  const uint64_t expected = InArena(1, [] { return SumsOfSums(100, 4); });
  InArena(4, [&] {
    tbb::task_group group;
    group.run_and_wait([&] {
      group.cancel();
      EXPECT_EQ(SumsOfSums(100, 4), expected);
    });
  });
}

TEST(ParallelStepsTest, AnExceptionEndsTheLoopAndReachesTheCaller) {
  for (const int threads : {1, 2, 7}) {
    std::atomic<int> later{0};
    EXPECT_THROW(InArena(threads,
                         [&] {
                           ParallelSteps(1000, 3, [&](int64_t step, int64_t part) {
                             if (step == 10 && part == 1) throw std::runtime_error("body");
                             later += step > 10;
                           });
                         }),
                 std::runtime_error);
    EXPECT_EQ(later, 0) << threads << " threads";
  }
}

}  // namespace
}  // namespace tessera
