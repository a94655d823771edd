// Very many operations and replays, on memory that must not grow. TESSERA_TEST_STRESS_FACTOR makes
// each test so many times as long: 1000 is 10^8 pushes and 10^7 replays.

#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/environment.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"

namespace tessera {
namespace {

using engine_internal::EngineConfiguration;

constexpr Device kCpu = Device::Cpu();

// The memory by which an engine's pools may grow after the first tenth of a test: a pool grows
// by slabs of some ten kilobytes when more operations pend at once than ever before.
constexpr int64_t kSlackBytes = int64_t{4} << 20;

int64_t StressFactor() { return EnvironmentInt("TESSERA_TEST_STRESS_FACTOR", 1, 1, 1000); }

/// Bytes that the program has allocated and not freed. (Sanitizers bring an allocator of their own,
/// of which this knows nothing; they look for leaks themselves.)
int64_t BytesInUse() {
  const struct mallinfo2 in_use = mallinfo2();
  return static_cast<int64_t>(in_use.uordblks + in_use.hblkhd);
}

class EngineStressTest : public testing::TestWithParam<EngineConfiguration> {
 protected:
  // What pends takes memory, so the bound on it is low here.
  std::unique_ptr<Engine> engine_ = GetParam().Make({.max_pending = 2048});
};
INSTANTIATE_TEST_SUITE_P(All, EngineStressTest,
                         testing::Values(EngineConfiguration{EngineKind::kThreaded, 2},
                                         EngineConfiguration{EngineKind::kThreaded, 8}),
                         engine_internal::ConfigurationName);

TEST_P(EngineStressTest, MemoryStaysFlatOverPushes) {
  const int64_t pushes = 100000 * StressFactor();
  std::vector<Variable*> variables;
  for (int i = 0; i < 64; ++i) variables.push_back(engine_->NewVariable());
  std::vector<int64_t> counts(variables.size());
  int64_t in_use = 0;
  for (int64_t i = 0; i < pushes; ++i) {
    if (i == pushes / 10) in_use = BytesInUse();
    const size_t written = static_cast<size_t>(i) % variables.size();
    engine_->PushSync([&counts, written](RunContext) { ++counts[written]; }, kCpu,
                      {variables[(written + 1) % variables.size()]}, {variables[written]});
  }
  engine_->WaitForAll();
  EXPECT_LT(BytesInUse() - in_use, kSlackBytes);
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  EXPECT_EQ(sum, pushes);
  for (Variable* variable : variables) engine_->DeleteVariable(variable);
}

TEST_P(EngineStressTest, SchedulesAreReplayedAndReplacedByFourThreadsOnFlatMemory) {
  constexpr int kThreads = 4;
  const int64_t replays = 10000 * StressFactor() / kThreads;
  Variable* const shared = engine_->NewVariable("shared");
  int64_t total = 0;
  std::atomic<int64_t> in_use{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<uint64_t>(t));
      Variable* const own = engine_->NewVariable();
      std::array<std::unique_ptr<Schedule>, 8> schedules;
      for (int64_t i = 0; i < replays; ++i) {
        if (t == 0 && i == replays / 10) in_use = BytesInUse();
        std::unique_ptr<Schedule>& schedule = schedules[random() % schedules.size()];
        if (schedule == nullptr || random() % 64 == 0) {
          // Three beside each other between a first and a last, which alone is seen by all.
          schedule = engine_->Record([&] {
            Variable* const begun = engine_->NewVariable();
            engine_->PushSync([](RunContext) {}, kCpu, {own}, {begun});
            std::array<Variable*, 3> parts;
            for (Variable*& part : parts) {
              part = engine_->NewVariable();
              engine_->PushSync([](RunContext) {}, kCpu, {begun}, {part});
            }
            engine_->PushSync([&total](RunContext) { ++total; }, kCpu, parts, {},
                              {.updates = std::array{shared}});
            for (Variable* part : parts) engine_->DeleteVariable(part);
            engine_->DeleteVariable(begun);
          });
        }
        schedule->Replay();
        if (random() % 128 == 0) engine_->WaitForVar(shared);
      }
      for (auto& schedule : schedules) schedule.reset();
      engine_->DeleteVariable(own);
    });
  }
  for (std::thread& thread : threads) thread.join();
  engine_->WaitForAll();
  EXPECT_LT(BytesInUse() - in_use, kSlackBytes);
  EXPECT_EQ(total, replays * kThreads);
  EXPECT_EQ(engine_->counters().run, static_cast<uint64_t>(5 * replays * kThreads));
  engine_->DeleteVariable(shared);
}

// Wide enough that a replay's places on its variables need a buffer.
TEST_P(EngineStressTest, OneScheduleIsReplayedByFourThreadsWhileItIsReplacedOnFlatMemory) {
  constexpr int kThreads = 4, kWidth = 200;
  const int64_t replays = 1000 * StressFactor();
  std::vector<Variable*> variables;
  for (int i = 0; i < kWidth; ++i) variables.push_back(engine_->NewVariable());
  std::vector<int64_t> counts(kWidth);
  const auto record = [&] {
    return std::shared_ptr<Schedule>(engine_->Record([&] {
      for (int i = 0; i < kWidth; ++i) {
        engine_->PushSync([&counts, i](RunContext) { ++counts[i]; }, kCpu, {}, {},
                          {.updates = std::array{variables[i]}});
      }
    }));
  };
  std::mutex mutex;
  std::shared_ptr<Schedule> current = record();  // guarded by mutex
  std::atomic<int64_t> in_use{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < replays; ++i) {
        if (t == 0 && i == replays / 10) in_use = BytesInUse();
        std::shared_ptr<Schedule> schedule;
        {
          std::lock_guard<std::mutex> hold(mutex);
          if (i % 100 == 99) current = record();
          schedule = current;
        }
        schedule->Replay();
        // Other records have their turn too, each of which must not come to keep a buffer.
        for (int k = 0; k < 20; ++k) engine_->PushSync([](RunContext) {}, kCpu, {}, {});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  engine_->WaitForAll();
  EXPECT_LT(BytesInUse() - in_use, kSlackBytes);
  for (const int64_t count : counts) EXPECT_EQ(count, replays * kThreads);
  for (Variable* variable : variables) engine_->DeleteVariable(variable);
}

/// A variable's value in plain memory, which only the engine's order protects, and who is at it.
struct Cell {
  std::array<int64_t, 4> last_of{};  // by pushing thread: which of its pushes has written last
  int64_t writes = 0;
  std::atomic<int> readers{0};
  std::atomic<int> writers{0};
};

// Nothing here makes the threads take turns, so that they meet on the locks of several variables.
TEST_P(EngineStressTest, PushersOfManyThreadsNeverOverlapAndKeepTheirOwnOrder) {
  constexpr int kThreads = 4, kVariables = 12;
  const int64_t pushes = 5000 * StressFactor();
  std::vector<Variable*> variables;
  for (int i = 0; i < kVariables; ++i) variables.push_back(engine_->NewVariable());
  std::vector<Cell> cells(kVariables);
  std::atomic<int64_t> faults{0}, planned_writes{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<uint64_t>(t) + 100);
      for (int64_t push = 1; push <= pushes; ++push) {
        std::vector<int> order(kVariables);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
        const auto read_end = order.begin() + static_cast<int>(random() % 4);
        const auto write_end = read_end + 1 + static_cast<int>(random() % 3);
        const std::vector<int> reads(order.begin(), read_end), writes(read_end, write_end);
        planned_writes += static_cast<int64_t>(writes.size());
        const auto list = [&](const std::vector<int>& numbers) {
          std::vector<Variable*> of;
          for (const int number : numbers) of.push_back(variables[number]);
          return of;
        };
        engine_->PushSync(
            [&cells, &faults, t, push, reads, writes](RunContext) {
              std::vector<int64_t> seen;
              for (const int v : reads) {
                ++cells[v].readers;
                if (cells[v].writers != 0) ++faults;
                seen.push_back(cells[v].writes);
              }
              for (const int v : writes) {
                if (++cells[v].writers != 1 || cells[v].readers != 0) ++faults;
                if (std::exchange(cells[v].last_of[t], push) >= push) ++faults;
                ++cells[v].writes;
              }
              for (const int v : writes) --cells[v].writers;
              for (size_t i = 0; i < reads.size(); ++i) {
                if (cells[reads[i]].writes != seen[i]) ++faults;
                --cells[reads[i]].readers;
              }
            },
            kCpu, list(reads), list(writes), {.priority = static_cast<int>(random() % 3)});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  engine_->WaitForAll();
  EXPECT_EQ(faults, 0);
  int64_t writes = 0;
  for (const Cell& cell : cells) writes += cell.writes;
  EXPECT_EQ(writes, planned_writes);
  for (Variable* variable : variables) engine_->DeleteVariable(variable);
}

}  // namespace
}  // namespace tessera
