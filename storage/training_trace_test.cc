#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/storage/storage.h"
#include "tessera/storage/testing/fake_system_allocator.h"
#include "tessera/storage/testing/training_traces.h"

namespace tessera {
namespace {

// The pool may grow in the first steps, while blocks settle at their addresses.
constexpr int kWarmUpSteps = 5;
// The number of steps is large enough to reveal a layout that gets worse from step to step.
constexpr int kManySteps = 100;

/// The statistics before and after the last of several training steps.
struct Outcome {
  StorageStats before_last;
  StorageStats after_last;
};
Outcome Train(const TrainingTrace& trace, Storage* storage, int steps) {
  const auto alloc = [storage](int64_t size) { return storage->Alloc(size, Device::Cpu()); };
  const auto free = [storage](const Storage::Handle& block) { storage->Free(block); };
  TraceReplay<Storage::Handle> setup(trace.setup);
  TraceReplay<Storage::Handle> step(trace.step);
  setup.Run(alloc, free);
  Outcome outcome;
  for (int i = 0; i < steps; ++i) {
    outcome.before_last = storage->Stats(Device::Cpu());
    step.Run(alloc, free);
  }
  outcome.after_last = storage->Stats(Device::Cpu());
  for (const Storage::Handle& block : setup.blocks()) storage->Free(block);
  return outcome;
}

class TrainingTraceTest : public testing::TestWithParam<TrainingTrace> {
 protected:
  Storage storage_{StorageOptions{.system_allocator = std::make_shared<FakeSystemAllocator>()}};
};

std::string TraceName(const testing::TestParamInfo<TrainingTrace>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(EveryNetwork, TrainingTraceTest,
                         testing::ValuesIn(TrainingTraces().begin(), TrainingTraces().end()),
                         TraceName);

TEST_P(TrainingTraceTest, AStepFreesAllThatItAllocates) {
  const TrainingTrace trace = GetParam();
  int64_t live_bytes = 0;
  std::vector<int32_t> sizes;
  for (const int32_t event : trace.step) {
    if (event > 0) sizes.push_back(event);
    live_bytes += event > 0 ? event : -sizes.at(static_cast<size_t>(-event) - 1);
  }
  EXPECT_EQ(live_bytes, 0);
}

TEST_P(TrainingTraceTest, FragmentationIsATenthAtMost) {
  const StorageStats stats = Train(GetParam(), &storage_, kManySteps).after_last;
  EXPECT_LE(stats.Fragmentation(), 0.10)
      << "reserved " << stats.peak_reserved_bytes << ", of which asked for " << stats.peak_bytes;
  RecordProperty("fragmentation", std::to_string(stats.Fragmentation()));
}

TEST_P(TrainingTraceTest, AfterWarmUpAStepTakesNothingFromTheSystem) {
  const Outcome outcome = Train(GetParam(), &storage_, kWarmUpSteps + 1);
  EXPECT_EQ(outcome.after_last.system_allocations, outcome.before_last.system_allocations);
  EXPECT_EQ(outcome.after_last.pool_hits - outcome.before_last.pool_hits,
            outcome.after_last.allocations - outcome.before_last.allocations);
}

TEST_P(TrainingTraceTest, LaterStepsDoNotGrowThePool) {
  const StorageStats early = Train(GetParam(), &storage_, kWarmUpSteps).after_last;
  Storage longer({.system_allocator = std::make_shared<FakeSystemAllocator>()});
  const StorageStats late = Train(GetParam(), &longer, kManySteps).after_last;
  EXPECT_EQ(late.peak_reserved_bytes, early.peak_reserved_bytes);
  EXPECT_EQ(late.system_allocations, early.system_allocations);
}

TEST_P(TrainingTraceTest, TheStepRunsWithinTheMemoryThatItReserved) {
  Train(GetParam(), &storage_, kWarmUpSteps);
  const int64_t reserved_bytes = storage_.Stats(Device::Cpu()).peak_reserved_bytes;
  Storage limited(
      {.limit_bytes = reserved_bytes, .system_allocator = std::make_shared<FakeSystemAllocator>()});
  Train(GetParam(), &limited, 10);
}

}  // namespace
}  // namespace tessera
