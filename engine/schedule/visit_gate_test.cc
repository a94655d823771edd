// How the visitors of a replay find each other and those who help, under every order of their
// atomic operations.

#include "tessera/engine/schedule/visit_gate.h"

#include <atomic>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/engine/testing/interleavings.h"

namespace tessera::engine_internal {
namespace {

using testing::HasSubstr;

void ExpectNoFailure(const ModelResult& result) {
  std::cout << result.runs << " orders\n";
  EXPECT_EQ(result.failure, "");
  EXPECT_GT(result.runs, 1);
}

/// A replay as its gate sees it, visited as in dependency_engine_replay.cc: what is ready is only
/// counted, and the engine's queue holds the call for help, if there is one. That call is a record
/// of the replay's own, which whoever calls fills in and whoever comes takes out of the queue:
/// plain data, so that the gate alone keeps the next call from it until the last helper is done
/// with it.
template <typename Gate>
class ReplayState {
 public:
  explicit ReplayState(int operations) : unfinished_(operations) {}

  /// One more operation is ready, and nobody's.
  void MakeReady() { ready_.fetch_add(1, std::memory_order_seq_cst); }

  void CallHelpIfReady() {
    if (!HasReady() || !gate.Call()) return;
    join_ = 1;
    int queue = kEmpty;
    if (queue_.compare_exchange_weak(queue, kCalled, std::memory_order_seq_cst,
                                     std::memory_order_relaxed)) {
      queue_.notify_one();
    }
  }

  /// Visits until nothing is ready.
  void Visit() {
    const auto run_all = [this](int32_t) {
      while (Take()) {
        ran_.exchange(1, std::memory_order_release);
        ran_.notify_one();
        Finish();
      }
      return true;
    };
    gate.Visit(run_all, [this] { return HasReady(); });
  }

  /// Comes whenever help is called, until the replay is over.
  void Work() {
    for (;;) {
      int queue = queue_.load(std::memory_order_acquire);
      if (queue == kOver) return;
      if (queue == kEmpty) {
        queue_.wait(kEmpty, std::memory_order_acquire);
      } else if (queue_.compare_exchange_weak(queue, kEmpty, std::memory_order_acquire,
                                              std::memory_order_relaxed)) {
        join_ = 0;
        gate.Answer();
        Visit();
      }
    }
  }

  /// Sleeps until Visit has run an operation.
  void AwaitOther() { ran_.wait(0, std::memory_order_acquire); }

  void Finish() {
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    queue_.exchange(kOver, std::memory_order_seq_cst);
    queue_.notify_one();  // one thread works
  }

  Gate gate;

 private:
  static constexpr int kEmpty = 0, kCalled = 1, kOver = 2;

  bool HasReady() const { return ready_.load(std::memory_order_seq_cst) > 0; }
  bool Take() {
    int ready = ready_.load(std::memory_order_acquire);
    while (ready > 0 && !ready_.compare_exchange_weak(ready, ready - 1, std::memory_order_acquire,
                                                      std::memory_order_acquire)) {
    }
    return ready > 0;
  }

  ModelAtomic<int> ready_ = 0;
  ModelAtomic<int> unfinished_;
  ModelAtomic<int> queue_ = kEmpty;
  ModelPlain<int> join_ = 0;
  ModelAtomic<int> ran_ = 0;
};

/// A visitor that leaves an operation behind and blocks in another one, unknown to the engine,
/// until that has run; on an engine with two workers, the other of which is just about to leave.
template <typename Gate>
ModelResult ExploreLeaving() {
  return ExploreInterleavings([] {
    auto state = std::make_shared<ReplayState<Gate>>(/*operations=*/2);
    ModelProgram program;
    program.threads.push_back([state] {
      const auto run = [state](int32_t) {
        state->MakeReady();
        if (state->gate.visitors() < 2) state->CallHelpIfReady();
        state->AwaitOther();
        state->Finish();
        return false;
      };
      state->gate.Visit(run, [] { return false; });
    });
    program.threads.push_back([state] {
      state->Visit();
      state->Work();
    });
    program.check = [] { return std::string(); };
    return program;
  });
}

/// Operations that `completions` threads make ready, and a worker that comes when it is called.
template <typename Gate>
ModelResult ExploreCalling(int completions) {
  return ExploreInterleavings([completions] {
    auto state = std::make_shared<ReplayState<Gate>>(/*operations=*/2);
    ModelProgram program;
    for (int t = 0; t < completions; ++t) {
      program.threads.push_back([state, completions] {
        for (int i = completions; i <= 2; ++i) {
          state->MakeReady();
          state->CallHelpIfReady();
        }
      });
    }
    program.threads.push_back([state] { state->Work(); });
    program.check = [] { return std::string(); };
    return program;
  });
}

TEST(VisitGateModelTest, OfOneThatLeavesAndOneThatLeavesSomethingOneSeesTheOther) {
  ExpectNoFailure(ExploreLeaving<VisitGate<ModelMemory>>());
}

TEST(VisitGateModelTest, AHelperThatComesFindsWhatOneThreadMadeReady) {
  ExpectNoFailure(ExploreCalling<VisitGate<ModelMemory>>(1));
}

TEST(VisitGateModelTest, AHelperThatComesFindsWhatTwoThreadsMadeReady) {
  ExpectNoFailure(ExploreCalling<VisitGate<ModelMemory>>(2));
}

// An operation of a visitor waits for one that it has left behind: the wait calls, since with one
// worker nobody has.
TEST(VisitGateModelTest, WhatASuspendedVisitorLeavesIsRun) {
  ExpectNoFailure(ExploreInterleavings([] {
    auto state = std::make_shared<ReplayState<VisitGate<ModelMemory>>>(/*operations=*/2);
    ModelProgram program;
    program.threads.push_back([state] {
      const auto run = [state](int32_t) {
        state->MakeReady();
        state->gate.Suspend();
        state->CallHelpIfReady();
        state->AwaitOther();
        state->gate.Resume();
        state->Finish();
        return false;
      };
      state->gate.Visit(run, [] { return false; });
    });
    program.threads.push_back([state] { state->Work(); });
    program.check = [] { return std::string(); };
    return program;
  }));
}

/// A gate that looks for more before it has left.
struct HastyGate : VisitGate<ModelMemory> {
  template <typename Run, typename HasReady>
  void Visit(const Run& run, const HasReady& has_ready) {
    bool again;
    do {
      Resume();
      again = run(0) && has_ready();
      Suspend();
    } while (again);
  }
};

/// One whose helpers answer when they have looked.
struct LateGate : VisitGate<ModelMemory> {
  void Answer() {}
  template <typename Run, typename HasReady>
  void Visit(const Run& run, const HasReady& has_ready) {
    VisitGate::Visit(run, has_ready);
    VisitGate::Answer();
  }
};

/// One that has several call at once.
struct OpenGate : VisitGate<ModelMemory> {
  bool Call() {
    VisitGate::Call();
    return true;
  }
};

/// One whose helpers answer while they have yet to take the call out of the queue.
struct EarlyGate : VisitGate<ModelMemory> {
  bool Call() {
    const bool called = VisitGate::Call();
    VisitGate::Answer();
    return called;
  }
};

TEST(VisitGateModelTest, CallsThatMeetInTheirRecordAreFound) {
  EXPECT_THAT(ExploreCalling<OpenGate>(2).failure, HasSubstr("plain data"));
  EXPECT_THAT(ExploreCalling<EarlyGate>(2).failure, HasSubstr("plain data"));
}

TEST(VisitGateModelTest, AGateThatLooksTooEarlyIsFound) {
  EXPECT_THAT(ExploreLeaving<HastyGate>().failure, HasSubstr("deadlock"));
}

TEST(VisitGateModelTest, AnAnswerThatComesTooLateIsFound) {
  EXPECT_THAT(ExploreCalling<LateGate>(1).failure, HasSubstr("deadlock"));
  EXPECT_THAT(ExploreCalling<LateGate>(2).failure, HasSubstr("deadlock"));
}

}  // namespace
}  // namespace tessera::engine_internal
