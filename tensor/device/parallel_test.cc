#include "tessera/tensor/device/parallel.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tbb/global_control.h"
#include "tbb/task.h"
#include "tbb/task_arena.h"
#include "tbb/task_group.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

using tensor_internal::ParallelForLines;

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

// The ranges that a ParallelFor hands out, in ascending order.
Ranges RangesOf(int64_t n, int64_t grain) {
  std::mutex mutex;
  Ranges ranges;
  ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
    const std::lock_guard<std::mutex> lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

TEST(ParallelForTest, RangesCoverEverythingOnce) {
  for (const int64_t n : {1, 2, 99, 100, 101, 199, 200, 201, 12345}) {
    int64_t next = 0;
    for (const auto& [begin, end] : RangesOf(n, 100)) {
      EXPECT_EQ(begin, next);
      EXPECT_LT(begin, end);
      EXPECT_LE(end - begin, 100);
      if (n > 100) {
        EXPECT_GE(end - begin, 50);
      }
      next = end;
    }
    EXPECT_EQ(next, n);
  }
}

TEST(ParallelForTest, NothingToDoCallsNothing) {
  EXPECT_THAT(RangesOf(0, 100), testing::IsEmpty());
  EXPECT_THAT(RangesOf(-5, 100), testing::IsEmpty());
}

TEST(ParallelForTest, SmallWorkRunsOnTheCallingThreadInOneRange) {
  std::thread::id ran_on;
  ParallelFor(100, 100, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 100);
    ran_on = std::this_thread::get_id();
  });
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(ParallelForTest, RangesDoNotDependOnTheNumberOfThreads) {
  const Ranges here = RangesOf(12345, 100);
  for (const int threads : {1, 2, 8}) {
    tbb::task_arena arena(threads);
    EXPECT_EQ(arena.execute([] { return RangesOf(12345, 100); }), here);
  }
}

TEST(ParallelForTest, AnyGrainIsTaken) {
  EXPECT_EQ(RangesOf(3, 0).size(), 3u);
  EXPECT_EQ(RangesOf(3, -1).size(), 3u);
  EXPECT_EQ(RangesOf(3, 1).size(), 3u);
}

// Of elements upwards and downwards, next to each other and apart, and of rows; the destination
// begins anywhere in a line.
TEST(ParallelForTest, NoTwoRangesWriteOneLine) {
  constexpr int64_t kLine = 64, kLength = 5003, kGrain = 700;
  const auto origin = uintptr_t{1} << 20;
  for (const int64_t bytes : {1, 2, 4, 8, 16}) {
    for (const int64_t step : {bytes, -bytes, 3 * bytes, -5 * bytes, 40 * bytes, 64 * bytes}) {
      for (int64_t offset = 0; offset < kLine; offset += bytes) {
        const auto first = origin + static_cast<uintptr_t>(offset);
        std::mutex mutex;
        Ranges ranges;
        ParallelForLines(kLength, kGrain, reinterpret_cast<const void*>(first), step,
                         [&](int64_t begin, int64_t end) {
                           const std::lock_guard<std::mutex> lock(mutex);
                           ranges.emplace_back(begin, end);
                         });
        std::sort(ranges.begin(), ranges.end());
        int64_t next = 0;
        const auto line_of = [&](int64_t i) {
          return (static_cast<int64_t>(first) + i * step) / kLine;
        };
        for (const auto& [begin, end] : ranges) {
          ASSERT_EQ(begin, next);
          ASSERT_LT(begin, end);
          ASSERT_LE(end - begin, kGrain);
          if (begin > 0) {
            ASSERT_NE(line_of(begin - 1), line_of(begin))
                << step << " from " << offset << ", " << begin;
          }
          next = end;
        }
        ASSERT_EQ(next, kLength);
      }
    }
  }
}

// A unit of 64 bytes would leave nothing to share out of few long rows.
TEST(ParallelForTest, UnitsBeyondTheGrainAreCut) {
  std::atomic<int> ranges{0};
  ParallelForLines(8, 2, nullptr, 4004, [&](int64_t, int64_t) { ++ranges; });
  EXPECT_EQ(ranges, 4);
}

TEST(ParallelForTest, ExceptionReachesTheCaller) {
  for (const int64_t n : {10, 1000}) {
    EXPECT_THROW(ParallelFor(n, 10, [](int64_t, int64_t) { throw std::runtime_error("body"); }),
                 std::runtime_error);
  }
}

TEST(ParallelForTest, EveryRangeRunsInsideACancelledTaskGroup) {
  tbb::task_arena arena(2);
  const Ranges expected = RangesOf(12345, 100);
  Ranges ranges;
  arena.execute([&] {
    tbb::task_group group;
    group.run_and_wait([&] {
      group.cancel();
      ranges = RangesOf(12345, 100);
    });
  });
  EXPECT_EQ(ranges, expected);
}

TEST(ParallelForTest, EveryRangeRunsWhenTheTaskGroupIsCancelledMeanwhile) {
  tbb::task_arena arena(2);
  std::atomic<int64_t> steps{0};
  arena.execute([&] {
    tbb::task_group group;
    group.run_and_wait([&] {
      ParallelFor(12345, 100, [&](int64_t begin, int64_t end) {
        if (begin == 0) group.cancel();
        steps += end - begin;
      });
    });
  });
  EXPECT_EQ(steps, 12345);
}

TEST(ParallelForTest, EveryRangeRunsBesideATaskThatThrows) {
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 2);
  tbb::task_arena arena(2);
  std::atomic<bool> begun{false};
  std::atomic<int64_t> steps{0};
  const auto run = [&] {
    tbb::task_group group;
    group.run([&] {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (!begun && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      throw std::runtime_error("the other task");
    });
    group.run_and_wait([&] {
      begun = true;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (!tbb::is_current_task_group_canceling() && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
      }
      ParallelFor(12345, 100, [&](int64_t begin, int64_t end) { steps += end - begin; });
    });
  };
  EXPECT_THROW(arena.execute(run), std::runtime_error);
  EXPECT_EQ(steps, 12345);
}

TEST(ParallelForTest, ABodyThatCancelsItsLoopIsAnError) {
  tbb::task_arena arena(2);
  const auto run = [] {
    ParallelFor(12345, 100,
                [](int64_t, int64_t) { tbb::task::current_context()->cancel_group_execution(); });
  };
  try {
    arena.execute(run);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kFailedPrecondition);
    EXPECT_THAT(error.what(), testing::HasSubstr("some of its 12345 steps were skipped"));
  }
}

TEST(ParallelForTest, ThreadsRoundAsTheCallerDoes) {
  tbb::task_arena arena(2);
  arena.execute([] {
    const int usual = std::fegetround();
    ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
    std::atomic<int> others{0};
    ParallelFor(12345, 100, [&](int64_t, int64_t) { others += std::fegetround() != FE_UPWARD; });
    const int after = std::fegetround();
    std::fesetround(usual);
    EXPECT_EQ(others, 0);
    EXPECT_EQ(after, FE_UPWARD);
  });
}

TEST(ParallelForTest, LoopsNest) {
  std::vector<int> counts(64 * 64);
  ParallelFor(64, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      ParallelFor(64, 4, [&](int64_t inner_begin, int64_t inner_end) {
        for (int64_t j = inner_begin; j < inner_end; ++j) ++counts[static_cast<size_t>(i * 64 + j)];
      });
    }
  });
  EXPECT_THAT(counts, testing::Each(1));
}

// Other threads are in and out of TBB's locks when this one forks; theirs are never released in the
// child.
TEST(ParallelForTest, AChildOfAForkThatHasLostThreadsRunsTheSameRangesInOne) {
  constexpr int64_t kLength = 12345;
  const Ranges expected = RangesOf(kLength, 100);
  std::atomic<bool> ends{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      while (!ends) RangesOf(1000, 10);
    });
  }
  const auto is_right = [&] {
    const auto own = std::this_thread::get_id();
    bool others_ran = false;
    ParallelFor(kLength, 100, [&](int64_t, int64_t) {
      if (std::this_thread::get_id() != own) others_ran = true;
    });
    return !others_ran && ParallelWidth() == 1 && ParallelWidth(kLength, 100) == 1 &&
           RangesOf(kLength, 100) == expected;
  };
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // a hang ends in a signal
      _exit(is_right() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  ends = true;
  for (std::thread& other : others) other.join();
}

TEST(ParallelWidthTest, IsTheArenas) {
  for (const int threads : {1, 2, 8}) {
    tbb::task_arena arena(threads);
    EXPECT_EQ(arena.execute([] { return ParallelWidth(); }), threads);
  }
}

TEST(ParallelWidthTest, IsNoMoreThanThereAreRanges) {
  constexpr int64_t kThreads = 6;
  tbb::task_arena arena(kThreads);
  for (const int64_t grain : {0, 1, 2, 3, 100}) {
    for (const int64_t n : {0, 1, 2, 3, 4, 5, 6, 7, 100, 101, 200, 201, 299, 400, 401, 600}) {
      const auto ranges = static_cast<int64_t>(RangesOf(n, grain).size());
      EXPECT_EQ(arena.execute([&] { return ParallelWidth(n, grain); }),
                std::clamp<int64_t>(ranges, 1, kThreads))
          << n << " by " << grain;
    }
  }
}

}  // namespace
}  // namespace tessera
