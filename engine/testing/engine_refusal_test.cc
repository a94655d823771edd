// What becomes of engines where the system gives no threads, fewer than they ask for, or no memory.
// Each case is a process of its own, since TBB keeps its threads.

#include <string>

#include "gtest/gtest.h"
#include "tessera/engine/testing/child_process.h"

namespace tessera {
namespace {

using engine_internal::StatusOf;

constexpr const char* kProcess = "engine/engine_refusal_process";

class NoThreadsTest : public testing::TestWithParam<const char*> {};

TEST_P(NoThreadsTest, AnEngineDoesItsWorkInWaits) {
  for (const char* workers : {"1", "2", "8"}) {
    EXPECT_EQ(StatusOf({kProcess, GetParam(), workers}), 0) << workers << " workers";
  }
}

INSTANTIATE_TEST_SUITE_P(All, NoThreadsTest,
                         testing::Values("push", "own", "exit", "stop", "push_many", "replay",
                                         "loop", "only_what_it_needs", "behind_others",
                                         "deep_waits", "deep_waits_in_a_stop",
                                         "wait_in_each_other"),
                         [](const auto& info) { return std::string(info.param); });

TEST(FewThreadsTest, OneOfEightIsEnough) { EXPECT_EQ(StatusOf({kProcess, "one_thread"}), 0); }

TEST(FewThreadsTest, AnEngineThatIsMadeWhenAllAreGivenAwayWorks) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ(StatusOf({kProcess, "later_ones"}), 0);
}

TEST(FewThreadsTest, AThreadMayComeWhenAllIsDone) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ(StatusOf({kProcess, "late_thread"}), 0);
}

TEST(FewThreadsTest, ALoopInAThreadOfTheEnginesOwnAsksTbbForNone) {
  EXPECT_EQ(StatusOf({kProcess, "loop_in_own_thread"}), 0);
}

TEST(FewThreadsTest, AWaitLooksAfterOrdersOfOtherEngines) {
  EXPECT_EQ(StatusOf({kProcess, "order_of_another_engine"}), 0);
}

TEST(FewThreadsTest, AnOperationThatSleepsInAnotherEngineOrBlocksAsksForAThreadAgain) {
  for (const char* sleep : {"sleeps", "blocks", "unseen"}) {
    for (const char* thread : {": thread_later", ": no_thread"}) {
      const std::string name = std::string(sleep) + thread;
      for (int i = 0; i < 3; ++i) EXPECT_EQ(StatusOf({kProcess, name}), 0) << name;
    }
  }
}

TEST(FewThreadsTest, FunctionsThatBlockLeaveTbbItsThreads) {
  EXPECT_EQ(StatusOf({kProcess, "block_more"}), 0);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
// Sanitizers take terabytes of addresses, and end a process that finds no memory.

TEST(NoMemoryTest, AnEngineIsMadeAsAWholeOrThrows) {
  EXPECT_EQ(StatusOf({kProcess, "create_without_memory"}), 0);
}

TEST(NoMemoryTest, AnEngineWorksWhereThereIsNoneForStacks) {
  for (const char* workers : {"1", "8"}) {
    EXPECT_EQ(StatusOf({kProcess, "push_with_limited_memory", workers}), 0);
  }
}
#endif

}  // namespace
}  // namespace tessera
