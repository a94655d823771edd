// A replay takes nothing from the heap, whatever number of operations and variables it has.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/internal/engine_configurations.h"

namespace {

std::atomic<int64_t> allocations{0};

void* Allocate(size_t size_bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::malloc(size_bytes == 0 ? 1 : size_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t size_bytes) { return Allocate(size_bytes); }
void* operator new[](size_t size_bytes) { return Allocate(size_bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace tessera {
namespace {

using engine_internal::EngineConfiguration;

class ScheduleAllocationTest : public engine_internal::EngineConfigurationTest {
 protected:
  /// A chain through all variables, each of which outlives the schedule.
  std::unique_ptr<Schedule> RecordChain(const std::vector<Variable*>& variables) {
    return engine_->Record([&] {
      for (size_t i = 1; i < variables.size(); ++i) {
        engine_->PushSync([](RunContext) {}, Device::Cpu(), {variables[i - 1]}, {variables[i]});
      }
    });
  }
};
INSTANTIATE_TEST_SUITE_P(All, ScheduleAllocationTest,
                         testing::ValuesIn(engine_internal::ThreadedConfigurations()),
                         engine_internal::ConfigurationName);

TEST_P(ScheduleAllocationTest, TheCountSeesAllocations) {
  const int64_t before = allocations;
  int* volatile made = new int(1);  // volatile, or a compiler may do without both
  delete made;
  EXPECT_EQ(allocations - before, 1);
}

TEST_P(ScheduleAllocationTest, ReplaysTakeNothing) {
  constexpr int kReplays = 500;
  for (const int size : {10, 400}) {
    std::vector<Variable*> variables;
    for (int i = 0; i < size; ++i) variables.push_back(engine_->NewVariable());
    const auto schedule = RecordChain(variables);
    const auto replay = [&] {
      for (int i = 0; i < kReplays; ++i) {
        schedule->Replay();
        engine_->WaitForVar(variables.back());
      }
    };
    // Until pools hold what any interleaving of replays and their ends asks for.
    int64_t taken = -1;
    for (int round = 0; round < 50 && taken != 0; ++round) {
      const int64_t before = allocations;
      replay();
      taken = allocations - before;
    }
    EXPECT_EQ(taken, 0) << "by each " << kReplays << " replays of " << size << " variables";
    for (Variable* variable : variables) engine_->DeleteVariable(variable);
  }
}

}  // namespace
}  // namespace tessera
