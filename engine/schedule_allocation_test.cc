// A replay takes nothing from the heap, whatever number of operations and variables it has.

#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/internal/engine_configurations.h"
#include "tessera/tools/testing/counted_new.h"

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
  const int64_t before = NewCalls();
  int* volatile made = new int(1);  // volatile, or a compiler may do without both
  delete made;
  EXPECT_EQ(NewCalls() - before, 1);
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
      const int64_t before = NewCalls();
      replay();
      taken = NewCalls() - before;
    }
    EXPECT_EQ(taken, 0) << "by each " << kReplays << " replays of " << size << " variables";
    for (Variable* variable : variables) engine_->DeleteVariable(variable);
  }
}

}  // namespace
}  // namespace tessera
