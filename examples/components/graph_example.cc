// A graph of operators and its gradient, without arrays: compile it, list the calls and their
// memory.
#include <cstdio>
#include <vector>

#include "tessera/graph/compile.h"
#include "tessera/graph/passes/memory_plan.h"
#include "tessera/ops/registry.h"

using namespace tessera;  // NOLINT

int main() {
  const auto make = [](const char* op, const ParameterMap& parameters, const char* name,
                       const graph::NodeEntry& input) {
    return graph::MakeNode(OperatorRegistry::Get().Create(op, parameters), name, {input});
  };
  graph::NodeEntry x = graph::MakeVariable("data");
  x = make("FullyConnected", {{"num_hidden", "8"}}, "fc", x);
  x = make("Activation", {{"act_type", "tanh"}}, "tanh", x);
  // The arguments are data, fc_weight and fc_bias, in the order of the graph.
  const std::vector<OpReqType> requests = {kNullOp, kWriteTo, kWriteTo};
  graph::CompiledGraph compiled = graph::Compile({x}, {{"data", {32, 4}}}, {}, requests);
  std::printf("fc_weight %s\n", compiled.program.values[1].shape.ToString().c_str());
  for (const graph::Step& step : compiled.program.steps) {
    std::printf("%s ", step.node->name.c_str());
  }
  const graph::MemoryPlan plan = graph::PlanMemory(&compiled.program);
  std::printf("\nbytes of memory: %d\n", static_cast<int>(plan.SizeBytes()));
}
