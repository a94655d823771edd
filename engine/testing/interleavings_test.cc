// The engine's lock-free parts (its lock, the free list of its records, the stacks of a replay)
// under every order of their atomic operations; and that the explorer finds what is wrong.

#include "tessera/engine/testing/interleavings.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/engine/core/futex_lock.h"
#include "tessera/engine/core/record_pool.h"
#include "tessera/engine/schedule/index_stacks.h"

namespace tessera::engine_internal {
namespace {

using testing::HasSubstr;

using ModelLock = BasicFutexLock<ModelMemory>;

struct Record {
  ModelPlain<Record*> next = nullptr;
  ModelPlain<int> owner = 0;
};
using ModelPool = RecordPool<Record, ModelMemory>;

void ExpectNoFailure(const ModelResult& result) {
  std::cout << result.runs << " orders\n";
  EXPECT_EQ(result.failure, "");
  EXPECT_GT(result.runs, 1);
}

/// `threads` threads that lock, count and unlock, `times` times each.
ModelResult ExploreLock(int threads, int times) {
  return ExploreInterleavings([=] {
    struct State {
      ModelLock lock;
      ModelPlain<int> count = 0;
    };
    auto state = std::make_shared<State>();
    ModelProgram program;
    for (int t = 0; t < threads; ++t) {
      program.threads.push_back([state, times] {
        for (int i = 0; i < times; ++i) {
          state->lock.lock();
          state->count = state->count + 1;
          state->lock.unlock();
        }
      });
    }
    program.check = [=] { return state->count == threads * times ? "" : "an increment is lost"; };
    return program;
  });
}

TEST(FutexLockModelTest, TwoThreadsExcludeEachOtherAndLoseNoWakeUp) {
  ExpectNoFailure(ExploreLock(2, 2));
}

TEST(FutexLockModelTest, ThreeThreadsExcludeEachOtherAndLoseNoWakeUp) {
  ExpectNoFailure(ExploreLock(3, 1));
}

/// A pool with nothing free, and its records, which the threads give back and take.
struct PoolState {
  PoolState() {
    for (int i = 0; i < 64; ++i) records.push_back(pool.Take());
  }
  /// Returns the fault of the records that the pool has now, of which there should be `count`, or
  /// "".
  std::string CheckFree(size_t count) {
    std::set<Record*> seen;
    for (size_t i = 0; i < count; ++i) seen.insert(pool.Take());
    if (seen.size() != count) return "a record was free twice";
    for (Record* record : seen) {
      if (std::find(records.begin(), records.end(), record) == records.end()) {
        return "a record was lost";
      }
    }
    return "";
  }

  /// Returns the fault unless `left` of the records are free and the others are in `taken`.
  std::string CheckTaken(size_t left) {
    std::set<Record*> seen(taken.begin(), taken.end());
    for (size_t i = 0; i < left; ++i) seen.insert(pool.Take());
    if (seen.size() != taken.size() + left) return "a record was free twice";
    // There is no other, so the pool makes new ones.
    Record* const fresh = pool.Take();
    const bool old = std::find(records.begin(), records.end(), fresh) != records.end();
    return old ? "a record that is in use was free" : "";
  }

  ModelPool pool;
  std::vector<Record*> records;
  std::vector<Record*> taken;  // by one thread
};

TEST(RecordPoolModelTest, WhatTwoThreadsGiveBackIsThereOnce) {
  ExpectNoFailure(ExploreInterleavings([] {
    auto state = std::make_shared<PoolState>();
    ModelProgram program;
    for (int t = 0; t < 2; ++t) {
      program.threads.push_back([state, t] {
        for (int i = 0; i < 2; ++i) state->pool.Give(state->records[2 * t + i]);
      });
    }
    program.check = [state] { return state->CheckFree(4); };
    return program;
  }));
}

TEST(RecordPoolModelTest, ThreeThreadsThatGiveAndTakeNeverShareARecord) {
  ExpectNoFailure(ExploreInterleavings([] {
    auto state = std::make_shared<PoolState>();
    ModelProgram program;
    for (int t = 0; t < 3; ++t) {
      program.threads.push_back([state, t] {
        state->records[t]->owner = t;
        state->pool.Give(state->records[t]);
        if (t > 0) return;
        for (int i = 0; i < 2; ++i) {
          Record* const record = state->pool.Take();
          state->taken.push_back(record);
          record->owner = record->owner + 10;  // nobody else may be at it, whoever had it before
        }
      });
    }
    program.check = [state] { return state->CheckTaken(/*left=*/1); };
    return program;
  }));
}

TEST(RecordPoolModelTest, TwoThreadsThatTakeAndGiveNeverShareARecord) {
  ExpectNoFailure(ExploreInterleavings([] {
    auto state = std::make_shared<PoolState>();
    state->pool.Give(state->records[0]);
    state->pool.Give(state->records[1]);
    ModelProgram program;
    for (int t = 0; t < 2; ++t) {
      program.threads.push_back([state] {
        Record* const record = state->pool.Take();
        record->owner = record->owner + 1;
        state->pool.Give(record);
      });
    }
    program.check = [] { return std::string(); };
    return program;
  }));
}

/// A stack of four numbers, each with data that belongs to whoever has popped it.
struct StackState {
  explicit StackState(uint32_t pushed) {
    for (uint32_t i = 0; i < pushed; ++i) stack.Push(0, i, i);
  }
  /// Pops a number, works with it, and returns it.
  uint32_t Pop() {
    const uint32_t index = stack.Pop(0);
    if (index != ModelStack::kNone) data[index] = data[index] + 1;
    return index;
  }
  void Push(uint32_t index) {
    data[index] = data[index] + 1;
    stack.Push(0, index, index);
  }
  /// Returns the fault unless the numbers below `count` are there, once each.
  std::string CheckLeft(uint32_t count) {
    std::set<uint32_t> seen;
    for (uint32_t i = 0; i < count; ++i) seen.insert(stack.Pop(0));
    if (seen.size() != count || seen.count(ModelStack::kNone) != 0) return "a number is missing";
    return stack.Pop(0) == ModelStack::kNone ? "" : "a number is there twice";
  }

  using ModelStack = IndexStacks<ModelMemory>;
  ModelStack stack{4, 2};
  ModelPlain<int> data[4];
};

TEST(IndexStacksModelTest, WhatTwoThreadsPushIsThereOnce) {
  ExpectNoFailure(ExploreInterleavings([] {
    auto state = std::make_shared<StackState>(0);
    ModelProgram program;
    program.threads.push_back([state] {
      state->stack.Link(0, 1);
      state->stack.Push(0, 0, 1);
    });
    program.threads.push_back([state] {
      state->Push(2);
      state->Push(3);
    });
    program.check = [state] { return state->CheckLeft(4); };
    return program;
  }));
}

TEST(IndexStacksModelTest, ThreeThreadsThatPopNeverShareANumber) {
  ExpectNoFailure(ExploreInterleavings([] {
    auto state = std::make_shared<StackState>(3);
    ModelProgram program;
    for (int t = 0; t < 3; ++t) program.threads.push_back([state] { state->Pop(); });
    program.check = [state] { return state->CheckLeft(0); };
    return program;
  }));
}

// The order of pops and pushes that deceives a stack without a count: a head that has gone and come
// back, over another rest.
TEST(IndexStacksModelTest, ANumberThatComesBackDeceivesNobody) {
  ExpectNoFailure(ExploreInterleavings([] {
    auto state = std::make_shared<StackState>(3);
    ModelProgram program;
    program.threads.push_back([state] {
      const uint32_t index = state->Pop();
      if (index != StackState::ModelStack::kNone) state->Push(index);
    });
    program.threads.push_back([state] {
      const uint32_t first = state->Pop();
      const uint32_t second = state->Pop();
      if (first != StackState::ModelStack::kNone) state->Push(first);
      if (second != StackState::ModelStack::kNone) state->Push(second);
    });
    program.check = [state] { return state->CheckLeft(3); };
    return program;
  }));
}

// Two threads with a stack each, who also take from each other.
TEST(IndexStacksModelTest, ANumberThatChangesStacksIsInOneOfThem) {
  ExpectNoFailure(ExploreInterleavings([] {
    auto state = std::make_shared<StackState>(2);
    ModelProgram program;
    for (const uint32_t own : {0u, 1u}) {
      program.threads.push_back([state, own] {
        uint32_t index = state->stack.Pop(own);
        if (index == StackState::ModelStack::kNone) index = state->stack.Pop(1 - own);
        if (index == StackState::ModelStack::kNone) return;
        state->data[index] = state->data[index] + 1;
        state->stack.Push(1, index, index);
      });
    }
    program.check = [state] {
      for (int pops = 0; pops < 3; ++pops) {
        const uint32_t index = state->stack.Pop(1);
        if (index == StackState::ModelStack::kNone) return state->CheckLeft(2);
        state->stack.Push(0, index, index);
      }
      return std::string("a number is there twice");
    };
    return program;
  }));
}

TEST(IndexStacksModelTest, ThreeThreadsThatPopOrPushLoseNothing) {
  ExpectNoFailure(ExploreInterleavings([] {
    auto state = std::make_shared<StackState>(2);
    ModelProgram program;
    program.threads.push_back([state] {
      const uint32_t index = state->Pop();
      if (index != StackState::ModelStack::kNone) state->Push(index);
    });
    program.threads.push_back([state] { state->Pop(); });
    program.threads.push_back([state] { state->Push(2); });
    // Two of three are there, whichever was popped; but that of the second thread.
    program.check = [state] { return state->CheckLeft(2); };
    return program;
  }));
}

/// Two threads hand a value over with the given orders.
std::string FailureOfHandOver(std::memory_order store, std::memory_order load) {
  return ExploreInterleavings([=] {
           struct State {
             ModelAtomic<int> flag = 0;
             ModelPlain<int> data = 0;
           };
           auto state = std::make_shared<State>();
           ModelProgram program;
           program.threads.push_back([=] {
             state->data = 1;
             state->flag.exchange(1, store);
           });
           program.threads.push_back([=] {
             if (state->flag.load(load) == 1) state->data = state->data + 1;
           });
           program.check = [] { return std::string(); };
           return program;
         })
      .failure;
}

TEST(ExplorerTest, FindsAMissingAcquireOrRelease) {
  EXPECT_EQ(FailureOfHandOver(std::memory_order_release, std::memory_order_acquire), "");
  EXPECT_THAT(FailureOfHandOver(std::memory_order_relaxed, std::memory_order_acquire),
              HasSubstr("nothing orders"));
  EXPECT_THAT(FailureOfHandOver(std::memory_order_release, std::memory_order_relaxed),
              HasSubstr("nothing orders"));
}

TEST(ExplorerTest, FindsALostUpdate) {
  const ModelResult result = ExploreInterleavings([] {
    auto value = std::make_shared<ModelAtomic<int>>(0);
    ModelProgram program;
    for (int t = 0; t < 2; ++t) {
      program.threads.push_back([value] {
        const int old = value->load(std::memory_order_acquire);
        value->exchange(old + 1, std::memory_order_acq_rel);
      });
    }
    program.check = [value] {
      return value->load(std::memory_order_acquire) == 2 ? "" : "an increment is lost";
    };
    return program;
  });
  EXPECT_EQ(result.failure, "an increment is lost");
}

TEST(ExplorerTest, FindsALostWakeUp) {
  const ModelResult result = ExploreInterleavings([] {
    auto flag = std::make_shared<ModelAtomic<int>>(0);
    ModelProgram program;
    program.threads.push_back([flag] { flag->wait(0, std::memory_order_acquire); });
    program.threads.push_back([flag] { flag->exchange(1, std::memory_order_release); });
    program.check = [] { return std::string(); };
    return program;
  });
  EXPECT_THAT(result.failure, HasSubstr("deadlock"));
}

}  // namespace
}  // namespace tessera::engine_internal
