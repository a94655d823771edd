#include "tessera/engine/testing/interleavings.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tessera::engine_internal {
namespace {

constexpr int kNobody = -1;

/// Takes a thread out of a run that cannot go on.
struct RunBrokenOff {};

/// The operation that a thread is about to do.
struct Access {
  const void* location = nullptr;
  bool writes = false;
};

bool Independent(const Access& a, const Access& b) {
  return a.location != b.location || (!a.writes && !b.writes);
}

/// A choice of who goes on. Sets of threads are bits.
struct Choice {
  uint32_t able = 0;
  uint32_t asleep = 0;  // whose turn would lead only to what was run before
  uint32_t tried = 0;
  int chosen = 0;
  std::array<Access, kMaxModelThreads> next;
};

thread_local int this_thread = kMaxModelThreads;

/// One run after the other; in a run one thread at a time, which chooses the next itself.
class Explorer {
 public:
  ModelResult Explore(const std::function<ModelProgram()>& make_program) {
    ModelResult result;
    do {
      Run(make_program());
      ++result.runs;
    } while (failure_.empty() && NextSchedule());
    result.failure = failure_;
    return result;
  }

  void Step(Access access) {
    std::unique_lock<std::mutex> lock(mutex_);
    next_[this_thread] = access;
    WaitForTurn(lock);
  }
  void Sleep(const void* location) {
    std::unique_lock<std::mutex> lock(mutex_);
    sleeping_on_[this_thread] = location;
    able_ &= ~(1u << this_thread);
    WaitForTurn(lock);
    if (turn_ == kMaxModelThreads) throw RunBrokenOff();
  }
  void Wake(const void* location) {
    for (int t = 0; t < count_; ++t) {
      if (sleeping_on_[t] != location) continue;
      sleeping_on_[t] = nullptr;
      next_[t] = {location, true};
      able_ |= 1u << t;
      return;
    }
  }
  void Fail(const std::string& failure) {
    if (failure_.empty()) failure_ = failure;
  }
  ModelClock& clock() { return clocks_[this_thread]; }

 private:
  void Run(const ModelProgram& program) {
    count_ = static_cast<int>(program.threads.size());
    depth_ = 0;
    redundant_ = false;
    sleeping_on_.fill(nullptr);
    able_ = 0;
    arrived_ = 0;
    turn_ = kNobody;
    for (int t = 0; t < count_; ++t) {
      clocks_[t] = clocks_[kMaxModelThreads];
      ++clocks_[t][t];
    }
    std::vector<std::thread> threads;
    for (int t = 0; t < count_; ++t) {
      threads.emplace_back([this, t, &program] {
        this_thread = t;
        Arrive();
        try {
          program.threads[t]();
        } catch (const RunBrokenOff&) {
          // Explore reports why.
        }
        Leave();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int t = 0; t < count_; ++t) JoinClocks(clocks_[kMaxModelThreads], clocks_[t]);
    ++clocks_[kMaxModelThreads][kMaxModelThreads];
    if (failure_.empty()) failure_ = program.check();
  }

  /// Each thread begins with a step of its own, on which nothing depends.
  void Arrive() {
    std::unique_lock<std::mutex> lock(mutex_);
    next_[this_thread] = {&clocks_[this_thread], false};
    able_ |= 1u << this_thread;
    if (++arrived_ < count_) {
      changed_.wait(lock, [this] { return turn_ == this_thread; });
    } else {
      WaitForTurn(lock);
    }
  }

  void Leave() {
    std::lock_guard<std::mutex> hold(mutex_);
    able_ &= ~(1u << this_thread);
    if (able_ != 0) {
      Choose();
      return;
    }
    turn_ = kNobody;
    if (std::any_of(sleeping_on_.begin(), sleeping_on_.end(),
                    [](const void* on) { return on != nullptr; })) {
      Deadlock();
    }
  }

  void WaitForTurn(std::unique_lock<std::mutex>& lock) {
    if (able_ == 0) {
      Deadlock();
      return;
    }
    Choose();
    changed_.wait(lock, [this] { return turn_ == this_thread || turn_ == kMaxModelThreads; });
  }

  /// Lets everybody go, in no order: the run is over, but its threads must end.
  void Deadlock() {
    Fail("deadlock: every thread that is left sleeps");
    turn_ = kMaxModelThreads;
    changed_.notify_all();
  }

  /// Requires mutex_ and that some thread is able.
  void Choose() {
    if (turn_ == kMaxModelThreads) return;
    int chosen = kNobody;
    if (depth_ < choices_.size()) {
      chosen = choices_[depth_].chosen;
    } else {
      chosen = NewChoice();
    }
    ++depth_;
    turn_ = chosen;
    changed_.notify_all();
  }

  int NewChoice() {
    Choice choice;
    choice.able = able_;
    choice.next = next_;
    if (!choices_.empty() && !redundant_) {
      const Choice& before = choices_.back();
      for (int t = 0; t < count_; ++t) {
        const uint32_t bit = 1u << t;
        if (((before.asleep | before.tried) & bit) != 0 && t != before.chosen &&
            Independent(before.next[t], before.next[before.chosen])) {
          choice.asleep |= bit;
        }
      }
    }
    // This run only repeats others if nobody is left to choose: it ends without further choices.
    if ((able_ & ~choice.asleep) == 0) redundant_ = true;
    choice.chosen = First(redundant_ ? able_ : able_ & ~choice.asleep);
    if (!redundant_) choices_.push_back(choice);
    return choice.chosen;
  }

  static int First(uint32_t threads) {
    int t = 0;
    while ((threads >> t & 1) == 0) ++t;
    return t;
  }

  /// Prepares the next run. Returns false if there is none.
  bool NextSchedule() {
    while (!choices_.empty()) {
      Choice& last = choices_.back();
      last.tried |= 1u << last.chosen;
      const uint32_t left = last.able & ~last.asleep & ~last.tried;
      if (left != 0) {
        last.chosen = First(left);
        return true;
      }
      choices_.pop_back();
    }
    return false;
  }

  std::mutex mutex_;  // also orders what the threads do between their steps
  std::condition_variable changed_;
  int count_ = 0;
  int arrived_ = 0;
  int turn_ = kNobody;  // kMaxModelThreads: everybody's
  uint32_t able_ = 0;
  std::array<Access, kMaxModelThreads> next_;
  std::array<const void*, kMaxModelThreads> sleeping_on_{};
  std::array<ModelClock, kMaxModelThreads + 1> clocks_{};
  std::vector<Choice> choices_;
  size_t depth_ = 0;
  bool redundant_ = false;
  std::string failure_;
};

Explorer* explorer = nullptr;

}  // namespace

ModelResult ExploreInterleavings(const std::function<ModelProgram()>& make_program) {
  Explorer here;
  explorer = &here;
  ModelResult result = here.Explore(make_program);
  explorer = nullptr;
  return result;
}

void ModelStep(const void* location, bool writes) {
  if (this_thread < kMaxModelThreads) explorer->Step({location, writes});
}
void ModelSleep(const void* location) { explorer->Sleep(location); }
void ModelWake(const void* location) {
  if (explorer != nullptr) explorer->Wake(location);
}
int ModelThread() { return this_thread; }
ModelClock& ModelThreadClock() {
  static ModelClock outside{};
  return explorer == nullptr ? outside : explorer->clock();
}
void ModelFail(const std::string& failure) {
  if (explorer != nullptr) explorer->Fail(failure);
}

}  // namespace tessera::engine_internal
