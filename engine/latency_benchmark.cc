// How long it takes from the end of the last operation that another one waits for to its beginning,
// on an engine with two workers: median_us (bound: 2) and p99_us (bound: 20) over all operations.
// Operations work for 20 us, so that no worker sleeps for want of them. stayed_%: how many of a
// chain's run in the thread of the one before them, whose cache holds what they share.
//
// chain: each comes after one. join: each comes after two, which may be on different workers.
// Pushed one by one, or replayed.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/engine/engine.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRows = 2000;
constexpr int kColumns = 2;

/// Rows of two operations; in a chain each comes after the one above it, in a join after both.
class Grid {
 public:
  explicit Grid(bool join)
      : join_(join), begin_(kRows * kColumns), end_(kRows * kColumns), thread_(kRows * kColumns) {
    for (int i = 0; i < 2 * kColumns; ++i) variables_.push_back(engine_->NewVariable());
  }

  void Push() {
    for (int row = 0; row < kRows; ++row) {
      // Two sets of variables take turns: one row's are the next one's inputs.
      Variable* const* const from = &variables_[row % 2 == 0 ? 0 : kColumns];
      Variable* const* const to = &variables_[row % 2 == 0 ? kColumns : 0];
      for (int column = 0; column < kColumns; ++column) {
        const auto work = [this, i = row * kColumns + column](RunContext) { Work(i); };
        if (join_) {
          engine_->PushSync(work, Device::Cpu(), {from[0], from[1]}, {to[column]});
        } else {
          engine_->PushSync(work, Device::Cpu(), {from[column]}, {to[column]});
        }
      }
    }
  }
  void Record() {
    schedule_ = engine_->Record([this] { Push(); });
  }
  void Replay() { schedule_->Replay(); }
  void Wait() { engine_->WaitForAll(); }

  /// Appends the microseconds from each operation's last dependency's end to its beginning.
  void AppendLatencies(std::vector<double>& latencies) const {
    for (int i = kColumns; i < kRows * kColumns; ++i) {
      const int above = (i / kColumns - 1) * kColumns;
      const Clock::time_point ready =
          join_ ? std::max(end_[above], end_[above + 1]) : end_[above + i % kColumns];
      latencies.push_back(std::chrono::duration<double, std::micro>(begin_[i] - ready).count());
    }
  }

  /// The share of operations that ran in the thread of the one above them, in percent.
  double Stayed() const {
    int stayed = 0;
    for (int i = kColumns; i < kRows * kColumns; ++i) stayed += thread_[i] == thread_[i - kColumns];
    return 100.0 * stayed / ((kRows - 1) * kColumns);
  }

 private:
  void Work(int i) {
    begin_[i] = Clock::now();
    thread_[i] = std::this_thread::get_id();
    const auto end = begin_[i] + std::chrono::microseconds(20);
    while (Clock::now() < end) {
    }
    end_[i] = Clock::now();
  }

  const bool join_;
  std::vector<Clock::time_point> begin_, end_;
  std::vector<std::thread::id> thread_;
  std::unique_ptr<Engine> engine_ = Engine::Create({.kind = EngineKind::kThreaded, .workers = 2});
  std::vector<Variable*> variables_;
  std::unique_ptr<Schedule> schedule_;
};

void Latency(benchmark::State& state, bool join, bool replayed) {
  Grid grid(join);
  if (replayed) grid.Record();
  std::vector<double> latencies;
  for (auto _ : state) {
    if (replayed) {
      grid.Replay();
    } else {
      grid.Push();
    }
    grid.Wait();
    state.PauseTiming();
    grid.AppendLatencies(latencies);
    state.ResumeTiming();
  }
  std::sort(latencies.begin(), latencies.end());
  state.counters["median_us"] = latencies[latencies.size() / 2];
  state.counters["p99_us"] = latencies[latencies.size() * 99 / 100];
  if (!join) state.counters["stayed_%"] = grid.Stayed();  // of the last run
}
BENCHMARK_CAPTURE(Latency, push_chain, false, false)->UseRealTime();
BENCHMARK_CAPTURE(Latency, push_join, true, false)->UseRealTime();
BENCHMARK_CAPTURE(Latency, replay_chain, false, true)->UseRealTime();
BENCHMARK_CAPTURE(Latency, replay_join, true, true)->UseRealTime();

}  // namespace
}  // namespace tessera
