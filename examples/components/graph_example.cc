// A graph of operators and its gradient, without arrays: infer shapes, list the calls and their
// memory.
#include <cstdio>
#include <string>

#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/passes/memory_plan.h"
#include "tessera/graph/program.h"
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
  const graph::IndexedGraph net({x});
  const graph::GraphShapes shapes = graph::InferShapes(net, {{"data", {32, 4}}});
  std::printf("fc_weight %s\n", shapes.entries[1].ToString().c_str());
  const std::vector<OpReqType> requests = {kNullOp, kWriteTo, kWriteTo};
  graph::Program program = graph::BuildProgram({x}, shapes, graph::InferTypes(net, {}), requests);
  const graph::MemoryPlan plan = graph::PlanMemory(&program);
  for (const graph::Step& step : program.steps) std::printf("%s ", step.node->name.c_str());
  std::printf("\nbytes of memory: %d\n", static_cast<int>(plan.SizeBytes()));
}
