#ifndef TESSERA_ENGINE_TESTING_ENGINE_CONFIGURATIONS_H_
#define TESSERA_ENGINE_TESTING_ENGINE_CONFIGURATIONS_H_

#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tbb/parallel_for.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/workers/tbb_workers.h"

namespace tessera::engine_internal {

/// A kind of engine that every promise is tested on.
struct EngineConfiguration {
  EngineKind kind = EngineKind::kThreaded;
  int workers = 1;

  std::unique_ptr<Engine> Make(EngineOptions options = {}) const {
    options.kind = kind;
    options.workers = workers;
    return Engine::Create(options);
  }
  std::string Name() const {
    return kind == EngineKind::kNaive ? "Naive" : "Workers" + std::to_string(workers);
  }
  bool threaded() const { return kind == EngineKind::kThreaded; }
};

inline std::vector<EngineConfiguration> ThreadedConfigurations() {
  return {{EngineKind::kThreaded, 1}, {EngineKind::kThreaded, 2}, {EngineKind::kThreaded, 8}};
}

inline std::vector<EngineConfiguration> AllConfigurations() {
  std::vector<EngineConfiguration> all = ThreadedConfigurations();
  all.push_back({EngineKind::kNaive, 1});
  return all;
}

/// tbb::parallel_for(0, n, body) whose order with what comes before and after it ThreadSanitizer
/// can see although TBB is not instrumented.
template <typename Body>
void ParallelFor(int n, const Body& body) {
  static const char entry = 0, exit = 0;
  struct PublishAtExit {  // on exceptions too
    ~PublishAtExit() { PublishThroughTbb(&exit); }
  };
  struct ReceiveAtExit {
    ~ReceiveAtExit() { ReceiveThroughTbb(&exit); }
  };
  const auto ordered = [&body](int i) {
    ReceiveThroughTbb(&entry);
    const PublishAtExit publish;
    body(i);
  };
  PublishThroughTbb(&entry);
  const ReceiveAtExit receive;
  tbb::parallel_for(0, n, ordered);
}

/// Runs `piece` as a piece of a loop in another thread than this one, which is at the loop
/// meanwhile. TBB need not send one to every loop: then there is another loop.
template <typename Piece>
void RunPieceElsewhere(const Piece& piece) {
  const auto own = std::this_thread::get_id();
  std::atomic<bool> taken{false};
  while (!taken) {
    ParallelFor(2, [&](int) {
      if (std::this_thread::get_id() != own) {
        if (!taken.exchange(true)) piece();
        return;
      }
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
      while (!taken && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    });
  }
}

inline void WaitAWhile(const std::shared_future<void>& future) {
  future.wait_for(std::chrono::seconds(1));
}

/// The text of the exception that the call throws; empty if it throws none.
template <typename Call>
std::string MessageOf(Call&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// Pushes an operation on `variable` that somebody has to complete.
inline OnComplete PushOpen(Engine& engine, Variable* variable) {
  std::promise<OnComplete> handle;
  engine.PushAsync([&](RunContext, OnComplete done) { handle.set_value(std::move(done)); },
                   Device::Cpu(), {}, {variable});
  return handle.get_future().get();
}

/// The most threads that have been in its Call at once.
class MostAtOnce {
 public:
  /// Lasts for a moment, in which others may come.
  void Call() {
    const int now = ++inside_;
    int seen = most_;
    while (now > seen && !most_.compare_exchange_weak(seen, now)) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --inside_;
  }
  int most() const { return most_; }

 private:
  std::atomic<int> inside_{0};
  std::atomic<int> most_{0};
};

/// A test that has an engine of the configuration that is its parameter.
class EngineConfigurationTest : public testing::TestWithParam<EngineConfiguration> {
 protected:
  Variable* New() { return engine_->NewVariable(); }

  /// Pushes several operations for each worker.
  int MostThatRunAtOnce() {
    MostAtOnce runs;
    std::vector<Variable*> written;
    for (int i = 0; i < 8 * GetParam().workers; ++i) {
      written.push_back(New());
      engine_->PushSync([&](RunContext) { runs.Call(); }, Device::Cpu(), {}, {written.back()});
    }
    for (Variable* const variable : written) engine_->WaitForVar(variable);
    return runs.most();
  }

  std::unique_ptr<Engine> engine_ = GetParam().Make();
};

inline std::string ConfigurationName(const testing::TestParamInfo<EngineConfiguration>& info) {
  return info.param.Name();
}

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_TESTING_ENGINE_CONFIGURATIONS_H_
