#include "tessera/graph/passes/memory_plan.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

struct Planned {
  Program program;
  MemoryPlan plan;
};

NodeEntry Apply(std::string_view op, const std::vector<NodeEntry>& inputs,
                const ParameterMap& parameters = {}) {
  static int count = 0;
  return MakeNode(OperatorRegistry::Get().Create(op, parameters),
                  std::string(op) + std::to_string(count++), inputs);
}

Planned Plan(const std::vector<NodeEntry>& heads, const std::map<std::string, TShape>& shapes) {
  const IndexedGraph graph(heads);
  const std::vector<OpReqType> requests(graph.arguments().size(), kWriteTo);
  Planned planned;
  planned.program =
      BuildProgram(heads, InferShapes(graph, shapes), InferTypes(graph, {}), requests);
  planned.plan = PlanMemory(&planned.program);
  return planned;
}

/// Runs the plan on tags instead of numbers: a block holds the value that was written to it last,
/// and every read must find the value that it wants.
void ExpectEveryReadFindsItsValue(const Planned& planned) {
  const auto& [program, plan] = planned;
  std::vector<int> holds(plan.block_size_bytes.size(), kNoValue);
  const auto block = [&](int value) { return plan.value_block[static_cast<size_t>(value)]; };
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    for (const int value : step.Reads()) {
      if (block(value) == kNoValue) continue;
      EXPECT_EQ(holds[static_cast<size_t>(block(value))], value) << "step " << i;
    }
    const std::vector<int>& targets = step.outputs;
    for (size_t k = 0; k < targets.size(); ++k) {
      if (step.req[k] == kNullOp || block(targets[k]) == kNoValue) continue;
      int& held = holds[static_cast<size_t>(block(targets[k]))];
      if (step.req[k] == kAddTo) {
        EXPECT_EQ(held, targets[k]) << "step " << i;
      } else {
        for (const int value : step.Reads()) {
          if (block(value) != block(targets[k])) continue;
          EXPECT_EQ(step.req[k], kWriteInplace) << "step " << i << " overwrites what it reads";
        }
      }
      held = targets[k];
      EXPECT_GE(plan.block_size_bytes[static_cast<size_t>(block(targets[k]))],
                program.values[static_cast<size_t>(targets[k])].SizeBytes());
    }
  }
}

TEST(MemoryPlanTest, AChainOfActivationsTakesTurnsInPlace) {
  NodeEntry x = MakeVariable("x");
  for (int i = 0; i < 20; ++i) x = Apply("_plus_scalar", {x}, {{"scalar", "1"}});
  const Planned planned = Plan({x}, {{"x", {100, 10}}});
  ExpectEveryReadFindsItsValue(planned);
  // Forward needs one block, since the operator keeps nothing for its gradient; so does backward.
  EXPECT_LE(planned.plan.block_size_bytes.size(), 2u);
  EXPECT_GT(planned.plan.inplace, 20);
  EXPECT_EQ(planned.plan.unplanned_bytes, (19 + 19) * 4000);
}

TEST(MemoryPlanTest, ValuesThatTheGradientNeedsAreKept) {
  NodeEntry x = MakeVariable("x");
  for (int i = 0; i < 10; ++i) x = Apply("Activation", {x}, {{"act_type", "tanh"}});
  const Planned planned = Plan({Apply("elemwise_mul", {x, MakeVariable("y")})}, {{"x", {1000}}});
  ExpectEveryReadFindsItsValue(planned);
  EXPECT_GE(planned.plan.block_size_bytes.size(), 10u);
}

TEST(MemoryPlanTest, RandomGraphsNeverLoseAValue) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 300; ++round) {
    std::vector<NodeEntry> pool = {MakeVariable("a"), MakeVariable("b")};
    const auto pick = [&] { return pool[random() % pool.size()]; };
    for (int i = 0; i < 20; ++i) {
      switch (random() % 6) {
        case 0:
          pool.push_back(Apply("elemwise_add", {pick(), pick()}));
          break;
        case 1:
          pool.push_back(Apply("elemwise_mul", {pick(), pick()}));
          break;
        case 2:
          pool.push_back(Apply("_minus_scalar", {pick()}, {{"scalar", "2"}}));
          break;
        case 3:
          pool.push_back(Apply("Activation", {pick()}, {{"act_type", "sigmoid"}}));
          break;
        case 4:
          pool.push_back(Apply("Flatten", {pick()}));
          break;
        case 5:
          pool.push_back(Apply("elemwise_div", {pick(), pick()}));
          break;
      }
    }
    const std::vector<NodeEntry> heads = {pool.back(), pick(), pool[pool.size() / 2],
                                          Apply("elemwise_add", {pool[0], pool[1]})};
    ExpectEveryReadFindsItsValue(Plan(heads, {{"a", {3, 4}}, {"b", {3, 4}}}));
    if (HasFailure()) FAIL() << "round " << round;
  }
}

}  // namespace
}  // namespace tessera::graph
