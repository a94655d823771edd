#include "tessera/engine/core/ready_queue.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::engine_internal {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

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

TEST_F(ReadyQueueTest, EachExecutionIsVisitedOnce) {
  Push({0, 4, -2, 4, 1, 0, -2, 9});
  std::vector<uint64_t> visited;
  queue_.ForEach([&](const Execution& execution) { visited.push_back(execution.sequence); });
  EXPECT_THAT(visited, UnorderedElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

// Pushes, pops and promotions in any order, beside a list that is sorted anew each time.
TEST_F(ReadyQueueTest, WhateverComesAndGoesTheBestIsNext) {
  constexpr int kExecutions = 2000, kSteps = 100000;
  std::mt19937 random(4);
  executions_ = std::vector<Execution>(kExecutions);
  std::vector<Execution*> idle, ranked, urgent;
  for (Execution& execution : executions_) idle.push_back(&execution);
  uint64_t pushes = 0;
  const auto first = [](const Execution* a, const Execution* b) { return RunsBefore(*a, *b); };
  for (int step = 0; step < kSteps; ++step) {
    // Turns of growing and of shrinking.
    const bool grows = step / kExecutions % 2 == 0;
    const uint32_t choice = random() % 10;
    if (choice < (grows ? 6u : 2u) && !idle.empty()) {
      const size_t at = random() % idle.size();
      Execution* const execution = std::exchange(idle[at], idle.back());
      idle.pop_back();
      // Each another one, in no order.
      execution->sequence = ++pushes * 40503 % 65536;
      const int choice_of_rank = static_cast<int>(random() % 1000);
      execution->rank = step % 3 == 0 ? -1 - choice_of_rank : 1 + choice_of_rank % 3;
      execution->demanded = 0;
      queue_.Push(execution);
      ranked.push_back(execution);
    } else if (choice < 8) {
      Execution* expected = nullptr;
      if (!urgent.empty()) {
        expected = urgent.front();
        urgent.erase(urgent.begin());
      } else if (!ranked.empty()) {
        const auto best = std::min_element(ranked.begin(), ranked.end(), first);
        expected = *best;
        ranked.erase(best);
      }
      ASSERT_EQ(queue_.Pop(), expected) << "step " << step;
      if (expected != nullptr) idle.push_back(expected);
    } else if (!ranked.empty()) {
      const auto any = ranked.begin() + static_cast<int>(random() % ranked.size());
      (*any)->demanded = 1;
      queue_.Promote(*any);
      urgent.push_back(*any);
      ranked.erase(any);
    }
    ASSERT_EQ(queue_.size(), static_cast<int64_t>(ranked.size() + urgent.size()));
  }
}

// Ranks and sequences that come in order would make a chain of a tree that nothing balances.
TEST_F(ReadyQueueTest, ManyThatComeInOrderTakeNoLongTime) {
  for (const int64_t step : {0, 1, -1}) {
    constexpr int kExecutions = 200000;
    std::vector<int64_t> ranks;
    for (int i = 0; i < kExecutions; ++i)
      ranks.push_back(1 + (step < 0 ? kExecutions - i : step * i));
    Push(std::move(ranks));
    const std::vector<uint64_t> sequences = PopAll();
    EXPECT_TRUE(step > 0 ? std::is_sorted(sequences.rbegin(), sequences.rend())
                         : std::is_sorted(sequences.begin(), sequences.end()));
    EXPECT_EQ(sequences.size(), static_cast<size_t>(kExecutions));
  }
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
