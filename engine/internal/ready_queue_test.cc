#include "tessera/engine/internal/ready_queue.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::engine_internal {
namespace {

using testing::ElementsAre;

/// A queue with executions 1, 2, 3 … of the given ranks, pushed in this order.
class ReadyQueueTest : public testing::Test {
 protected:
  void Push(std::vector<int64_t> ranks) {
    executions_ = std::vector<Execution>(ranks.size());
    for (size_t i = 0; i < ranks.size(); ++i) {
      executions_[i].rank = ranks[i];
      executions_[i].sequence = i + 1;
      queue_.Push(&executions_[i]);
    }
  }
  std::vector<uint64_t> PopAll() {
    std::vector<uint64_t> sequences;
    while (const Execution* execution = queue_.Pop()) sequences.push_back(execution->sequence);
    return sequences;
  }

  ReadyQueue queue_;
  std::vector<Execution> executions_;
};

TEST_F(ReadyQueueTest, AnEmptyQueueHasNothing) {
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.Pop(), nullptr);
  EXPECT_EQ(queue_.best_rank(), ReadyQueue::kEmptyRank);
}

TEST_F(ReadyQueueTest, EqualRanksComeInOrderOfArrival) {
  Push({0, 0, 0});
  EXPECT_THAT(PopAll(), ElementsAre(1, 2, 3));
  Push({7, 7, 7});
  EXPECT_THAT(PopAll(), ElementsAre(1, 2, 3));
}

TEST_F(ReadyQueueTest, HigherRanksComeFirst) {
  Push({0, -1, 5, 0, 9, -3, 5});
  EXPECT_EQ(queue_.best_rank(), 9);
  EXPECT_THAT(PopAll(), ElementsAre(5, 3, 7, 1, 4, 2, 6));
}

TEST_F(ReadyQueueTest, PromotedOnesComeBeforeAllRanks) {
  Push({0, 0, -8, 5, 6, 0});
  executions_[5].demanded = executions_[2].demanded = 1;
  queue_.Promote(&executions_[5]);
  queue_.Promote(&executions_[2]);
  queue_.Promote(&executions_[2]);
  EXPECT_EQ(queue_.best_rank(), ReadyQueue::kUrgentRank);
  EXPECT_THAT(PopAll(), ElementsAre(6, 3, 5, 4, 1, 2));
}

TEST_F(ReadyQueueTest, PromotingWhatNobodyDemandsDoesNothing) {
  Push({0, 1});
  queue_.Promote(&executions_[0]);
  EXPECT_THAT(PopAll(), ElementsAre(2, 1));
}

TEST_F(ReadyQueueTest, PromotingWhatIsNotInTheQueueDoesNothing) {
  Push({0, 1});
  Execution* popped = queue_.Pop();
  queue_.Promote(popped);
  EXPECT_EQ(queue_.size(), 1);
  EXPECT_THAT(PopAll(), ElementsAre(1));
}

TEST_F(ReadyQueueTest, DemandedOnesAreUrgentFromTheStart) {
  std::vector<Execution> two(2);
  two[0].sequence = 1;
  two[0].rank = 100;
  two[1].sequence = 2;
  two[1].demanded = 1;
  queue_.Push(&two[0]);
  queue_.Push(&two[1]);
  EXPECT_THAT(PopAll(), ElementsAre(2, 1));
}

TEST(ReadyListTest, PopBestTakesByRankThenBySequence) {
  std::vector<Execution> executions(4);
  const int64_t ranks[] = {0, 2, 2, 1};
  const uint64_t sequences[] = {9, 8, 3, 4};
  ReadyList list;
  for (int i = 0; i < 4; ++i) {
    executions[i].rank = ranks[i];
    executions[i].sequence = sequences[i];
    list.PushBack(&executions[i]);
  }
  EXPECT_EQ(list.PopBest(), &executions[2]);
  EXPECT_EQ(list.PopBest(), &executions[1]);
  EXPECT_EQ(list.PopBest(), &executions[3]);
  list.PushBack(&executions[1]);
  EXPECT_EQ(list.PopFront(), &executions[0]);
  EXPECT_EQ(list.PopFront(), &executions[1]);
  EXPECT_EQ(list.PopBest(), nullptr);
}

}  // namespace
}  // namespace tessera::engine_internal
