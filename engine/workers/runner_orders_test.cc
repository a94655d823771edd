// Orders of runners that begin, are withdrawn and are taken back at once, under every order of
// their atomic operations.

#include "tessera/engine/workers/runner_orders.h"

#include <atomic>
#include <iostream>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/engine/testing/interleavings.h"

namespace tessera::engine_internal {
namespace {

using testing::HasSubstr;

/// An engine that orders two runners, of which TBB gets one task, and withdraws what stands. Its
/// orders alone put in order what it did before: that TBB does so too, nobody sees.
template <typename Memory>
struct EngineState {
  BasicRunnerOrders<Memory> orders;
  ModelPlain<int> made = 0;
  ModelAtomic<int> task = 0;
  int begun = 0, withdrawn = 0, taken_back = 0;  // each of one thread
};

template <typename Memory>
ModelResult Explore(bool withdraws) {
  return ExploreInterleavings([withdraws] {
    const auto state = std::make_shared<EngineState<Memory>>();
    ModelProgram program;
    program.threads.push_back([state] {
      state->made = 1;
      state->orders.Order(2);
      state->task.exchange(1, std::memory_order_relaxed);
      state->task.notify_one();
      state->taken_back = state->orders.TakeBack(1);
    });
    program.threads.push_back([state] {
      state->task.wait(0, std::memory_order_relaxed);
      if (state->orders.Begin()) state->begun = state->made;
    });
    if (withdraws) {
      program.threads.push_back([state] { state->withdrawn = state->orders.Withdraw(); });
    }
    program.check = [state]() -> std::string {
      // Each is counted as one of the engine's runners by one of the three, or it would never end.
      if (state->begun + state->withdrawn + state->taken_back != 2) return "an order is lost";
      if (state->withdrawn == 0 && state->orders.refused()) return "refused, and nothing withdrawn";
      return state->orders.IsOver() ? "" : "a task is left";
    };
    return program;
  });
}

TEST(RunnerOrdersModelTest, EachOrderBeginsOrIsWithdrawnOrTakenBack) {
  for (const bool withdraws : {false, true}) {
    const ModelResult result = Explore<ModelMemory>(withdraws);
    std::cout << result.runs << " orders\n";
    EXPECT_EQ(result.failure, "");
    EXPECT_GT(result.runs, 1);
  }
}

/// Whose orders publish nothing.
struct UnorderedMemory : ModelMemory {
  template <typename T>
  struct Atomic : ModelAtomic<T> {
    using ModelAtomic<T>::ModelAtomic;
    T fetch_add(T value, std::memory_order) {
      return ModelAtomic<T>::fetch_add(value, std::memory_order_relaxed);
    }
  };
};

TEST(RunnerOrdersModelTest, AnOrderThatPublishesNothingIsFound) {
  EXPECT_THAT(Explore<UnorderedMemory>(false).failure, HasSubstr("nothing orders"));
}

TEST(RunnerOrdersTest, ATaskThatBeginsShowsThatThereAreThreads) {
  RunnerOrders orders;
  orders.Order(3);
  EXPECT_EQ(orders.open(), 3);
  EXPECT_FALSE(orders.refused());
  EXPECT_EQ(orders.Withdraw(), 3);
  EXPECT_TRUE(orders.refused());
  EXPECT_FALSE(orders.IsOver());
  orders.Order(1);
  EXPECT_TRUE(orders.Begin()) << "any task for the order that stands";
  EXPECT_FALSE(orders.refused());
  EXPECT_FALSE(orders.Begin());
  EXPECT_EQ(orders.TakeBack(1), 0) << "withdrawn before";
  EXPECT_FALSE(orders.Begin());
  EXPECT_TRUE(orders.IsOver());
}

}  // namespace
}  // namespace tessera::engine_internal
