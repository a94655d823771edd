// The passes of a binding over a chain of layers with gradients: inference, gradient, memory plan.
// Items are operators of the forward graph.
#include <map>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/passes/memory_plan.h"
#include "tessera/graph/program.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

std::vector<NodeEntry> Chain(int layers) {
  NodeEntry x = MakeVariable("data");
  for (int i = 0; i < layers; ++i) {
    const std::string number = std::to_string(i);
    x = MakeNode(OperatorRegistry::Get().Create("FullyConnected", {{"num_hidden", "16"}}),
                 "fc" + number, {x});
    x = MakeNode(OperatorRegistry::Get().Create("Activation", {{"act_type", "tanh"}}),
                 "tanh" + number, {x});
  }
  return {x};
}

void BM_Program(benchmark::State& state) {
  const std::vector<NodeEntry> heads = Chain(static_cast<int>(state.range(0)) / 2);
  const std::map<std::string, TShape> shapes = {{"data", {32, 16}}};
  for (auto _ : state) {
    const IndexedGraph graph(heads);
    Program program = BuildProgram(heads, InferShapes(graph, shapes), InferTypes(graph, {}),
                                   std::vector<OpReqType>(graph.arguments().size(), kWriteTo));
    benchmark::DoNotOptimize(PlanMemory(&program));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Program)->Arg(20)->Arg(2000)->UseRealTime();

}  // namespace
}  // namespace tessera::graph

BENCHMARK_MAIN();
