// A step of a bound graph, forward and backward: a perceptron on batches of 32.
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

Symbol Perceptron(int hidden) {
  Symbol net = Symbol::Variable("data");
  net = Symbol::Apply("FullyConnected", {net}, {{"num_hidden", std::to_string(hidden)}});
  net = Symbol::Apply("Activation", {net}, {{"act_type", "relu"}});
  net = Symbol::Apply("FullyConnected", {net}, {{"num_hidden", "10"}});
  return Symbol::Apply("SoftmaxOutput", {net}, {}, "softmax");
}

void BM_Step(benchmark::State& state) {
  constexpr int kBatch = 32, kInputs = 64;
  const int hidden = static_cast<int>(state.range(0));
  const auto executor =
      SimpleBind(Perceptron(hidden), Device::Cpu(), {.shapes = {{"data", {kBatch, kInputs}}}});
  for (auto& [name, array] : executor->arg_dict()) array = 0.01f;
  for (auto _ : state) {
    executor->Forward(/*is_train=*/true);
    executor->Backward({});
    for (const auto& [name, gradient] : executor->grad_dict()) gradient.WaitToRead();
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
  // Three products for each layer: forward, and the gradients of weight and input.
  state.counters["flop/s"] = benchmark::Counter(6.0 * kBatch * hidden * (kInputs + 10),
                                                benchmark::Counter::kIsIterationInvariantRate);
}
// The cost of the graph itself, and of its arithmetic.
BENCHMARK(BM_Step)->Arg(8)->Arg(1024)->UseRealTime();

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();
