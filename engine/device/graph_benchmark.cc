// The cost of a replay that is a CUDA graph, next to a graph that is launched by hand. Nodes are
// memsets of four bytes, one after another or all beside each other.
//
// node_us: time from the replay to the end of the wait for it, for each node. The bound: 2.5 us.
// host_us: processor time of all threads for each replay that nobody waits for. The bound: 10 us.
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <ctime>
#include <memory>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/engine/engine.h"

namespace tessera {
namespace {

constexpr Device kGpu = Device::Gpu(0);

void Check(cudaError_t status) {
  if (status != cudaSuccess) throw FailedPrecondition(cudaGetErrorString(status));
}

double ProcessMicroseconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

/// Four bytes of device memory for each node.
class Words {
 public:
  explicit Words(int count) { Check(cudaMalloc(&memory_, 4 * static_cast<size_t>(count))); }
  ~Words() { cudaFree(memory_); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  void Enqueue(int node, void* stream) {
    Check(cudaMemsetAsync(static_cast<char*>(memory_) + 4 * node, node, 4,
                          static_cast<cudaStream_t>(stream)));
  }

 private:
  void* memory_ = nullptr;
};

class Replayed {
 public:
  Replayed(int nodes, bool chain) : words_(nodes) {
    schedule_ = engine_->Record([&] {
      for (int i = 0; i < nodes; ++i) {
        const auto enqueue = [this, i](RunContext context) { words_.Enqueue(i, context.stream); };
        if (chain) {
          engine_->PushSync(enqueue, kGpu, {}, {}, {.updates = {last_}, .capturable = true});
        } else {
          engine_->PushSync(enqueue, kGpu, {last_}, {}, {.capturable = true});
        }
      }
    });
  }
  void Replay() { schedule_->Replay(); }
  void Wait() { engine_->WaitForAll(); }

 private:
  Words words_;
  std::unique_ptr<Engine> engine_ = Engine::Create({.kind = EngineKind::kThreaded, .workers = 2});
  Variable* const last_ = engine_->NewVariable();
  std::unique_ptr<Schedule> schedule_;
};

/// The same chain, captured and launched without an engine.
class ByHand {
 public:
  explicit ByHand(int nodes) : words_(nodes) {
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < nodes; ++i) words_.Enqueue(i, stream_);
    cudaGraph_t graph;
    Check(cudaStreamEndCapture(stream_, &graph));
    Check(cudaGraphInstantiate(&graph_, graph, 0));
    Check(cudaGraphDestroy(graph));
  }
  ~ByHand() {
    cudaGraphExecDestroy(graph_);
    cudaStreamDestroy(stream_);
  }
  ByHand(const ByHand&) = delete;
  ByHand& operator=(const ByHand&) = delete;

  void Run() {
    Check(cudaGraphLaunch(graph_, stream_));
    Check(cudaStreamSynchronize(stream_));
  }

 private:
  Words words_;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
};

void CountNodes(benchmark::State& state, int nodes) {
  using benchmark::Counter;
  state.counters["node_us"] =
      Counter(static_cast<double>(nodes) * 1e-6,
              static_cast<Counter::Flags>(Counter::kIsIterationInvariantRate | Counter::kInvert));
}

void Replay(benchmark::State& state, bool chain) {
  const int nodes = static_cast<int>(state.range(0));
  Replayed replayed(nodes, chain);
  for (auto _ : state) {
    replayed.Replay();
    replayed.Wait();
  }
  CountNodes(state, nodes);
}
BENCHMARK_CAPTURE(Replay, chain, true)->Arg(20)->Arg(1000)->UseRealTime();
BENCHMARK_CAPTURE(Replay, wide, false)->Arg(20)->Arg(1000)->UseRealTime();

void GraphByHand(benchmark::State& state) {
  const int nodes = static_cast<int>(state.range(0));
  ByHand by_hand(nodes);
  for (auto _ : state) by_hand.Run();
  CountNodes(state, nodes);
}
BENCHMARK(GraphByHand)->Arg(20)->Arg(1000)->UseRealTime();

void HostCost(benchmark::State& state) {
  constexpr int kReplays = 1000;
  Replayed replayed(static_cast<int>(state.range(0)), /*chain=*/true);
  double used_us = 0;
  for (auto _ : state) {
    const double begin_us = ProcessMicroseconds();
    for (int i = 0; i < kReplays; ++i) replayed.Replay();
    replayed.Wait();
    used_us += ProcessMicroseconds() - begin_us;
  }
  state.counters["host_us"] = used_us / (kReplays * static_cast<double>(state.iterations()));
}
BENCHMARK(HostCost)->Arg(20)->UseRealTime();

}  // namespace
}  // namespace tessera
