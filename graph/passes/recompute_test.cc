#include "tessera/graph/passes/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/node.h"
#include "tessera/graph/passes/memory_plan.h"
#include "tessera/graph/program.h"
#include "tessera/graph/testing/evaluate.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"

namespace tessera::graph {
namespace {

using base_internal::At;
using graph_testing::Apply;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Returns the program of a graph with the gradients of the arguments of these names, or of all.
Program Build(const std::vector<NodeEntry>& heads, const std::map<std::string, TShape>& shapes,
              const std::vector<std::string>& wanted = {}) {
  const IndexedGraph graph(heads);
  std::vector<OpReqType> requests;
  for (const int id : graph.arguments()) {
    const bool is_wanted = wanted.empty() || std::find(wanted.begin(), wanted.end(),
                                                       graph.node(id).name) != wanted.end();
    requests.push_back(is_wanted ? kWriteTo : kNullOp);
  }
  return BuildProgram(heads, InferShapes(graph, shapes), InferTypes(graph, {}), requests);
}

std::vector<std::string> Names(const Program& program) {
  std::vector<std::string> names;
  for (const Step& step : program.steps) names.push_back(step.node->name);
  return names;
}

int64_t Count(const Program& program, const std::string& name) {
  const std::vector<std::string> names = Names(program);
  return std::count(names.begin(), names.end(), name);
}

NodeEntry Marked(const NodeEntry& entry, const std::string& text = "True") {
  entry.node->attributes.Set(std::string(AttributeName(*entry.node, "__force_mirroring__")), text);
  return entry;
}

NodeEntry Layer(const std::string& name, const NodeEntry& input) {
  return Apply("FullyConnected", name, {input}, {{"num_hidden", "8"}});
}

/// Checks that each step reads values that an earlier one has written.
void ExpectWrittenBeforeRead(const Program& program) {
  std::vector<bool> is_written(program.values.size(), false);
  for (const Step& step : program.steps) {
    for (const int value : step.Reads()) {
      const bool is_planned = program.values[At(value)].kind == ValueKind::kIntermediate;
      EXPECT_TRUE(!is_planned || is_written[At(value)]) << step.node->name;
    }
    for (const int value : step.Writes()) is_written[At(value)] = true;
  }
}

TEST(RecomputeTest, ACopyOfAMarkedStepRunsRightBeforeItsReader) {
  const std::map<std::string, TShape> shapes = {{"data", {128, 8}}};
  for (const std::string text : {"True", "true", "1", "False", "0"}) {
    const NodeEntry act = Marked(Apply("tanh", "act", {Layer("fc1", MakeVariable("data"))}), text);
    Program program = Build({Layer("fc2", act)}, shapes);
    const std::vector<std::string> stored = Names(program);
    RecomputeMarked(&program, MarkedSteps::kByAttribute);
    if (text == "False" || text == "0") {
      EXPECT_EQ(Names(program), stored);
      continue;
    }
    EXPECT_THAT(Names(program), ElementsAre("fc1", "act", "fc2", "act", "fc2_backward",
                                            "act_backward", "fc1_backward"));
    EXPECT_EQ(program.num_forward_steps, 3);
    const int kept = program.steps[1].outputs[0], copy = program.steps[3].outputs[0];
    EXPECT_THAT(program.steps[2].inputs, Contains(kept));
    EXPECT_EQ(program.steps[3].inputs, program.steps[1].inputs);
    EXPECT_THAT(program.steps[4].inputs, AllOf(Contains(copy), Not(Contains(kept))));
    EXPECT_THAT(program.steps[5].inputs, Not(Contains(kept)));
    ExpectWrittenBeforeRead(program);
  }
}

TEST(RecomputeTest, ACopyOfBatchNormChangesNoAverage) {
  const auto build = [](const ParameterMap& parameters) {
    const NodeEntry norm =
        Apply("BatchNorm", "norm", {Layer("fc1", MakeVariable("data"))}, parameters);
    return Build({Layer("fc2", norm)}, {{"data", {256, 8}}});
  };
  Program program = build({});
  RecomputeMarked(&program, MarkedSteps::kCheapToo);
  ASSERT_THAT(Names(program), ElementsAre("fc1", "norm", "fc2", "norm", "fc2_backward",
                                          "norm_backward", "fc1_backward"));
  const Step& copy = program.steps[3];
  // Mean and variance are stored, since they are small.
  EXPECT_THAT(copy.req, ElementsAre(kWriteTo, kNullOp, kNullOp, kNullOp, kNullOp));
  EXPECT_THAT(copy.Writes(), ElementsAre(copy.outputs[0]));
  EXPECT_THAT(program.steps[5].inputs,
              AllOf(Contains(program.steps[1].outputs[1]), Contains(program.steps[1].outputs[2])));

  Program kept = build({});
  kept.repeats_mutating = false;
  RecomputeMarked(&kept, MarkedSteps::kCheapToo);
  EXPECT_EQ(Count(kept, "norm"), 1);
  Program global = build({{"use_global_stats", "1"}});
  RecomputeMarked(&global, MarkedSteps::kCheapToo);
  EXPECT_EQ(Count(global, "norm"), 1);
}

TEST(RecomputeTest, RandomStepsAreStored) {
  const NodeEntry drop =
      Marked(Apply("Dropout", "drop", {Marked(Layer("fc1", MakeVariable("data")))}));
  Program program =
      Build({Layer("fc2", Marked(Apply("tanh", "act", {drop})))}, {{"data", {128, 8}}});
  RecomputeMarked(&program, MarkedSteps::kByAttribute);
  EXPECT_EQ(Count(program, "drop"), 1);
  EXPECT_EQ(Count(program, "act"), 2);
}

TEST(RecomputeTest, WhatAnotherStepChangesIsNotReadAgain) {
  const NodeEntry x = MakeVariable("x"), state = MakeVariable("state");
  const NodeEntry product = Marked(Apply("elemwise_mul", "product", {x, state}));
  const NodeEntry act = Marked(Apply("tanh", "act", {product}));
  const NodeEntry out = Apply("elemwise_mul", "out", {act, x});
  const NodeEntry update = Apply("sgd_mom_update", "update",
                                 {MakeVariable("w"), MakeVariable("g"), state}, {{"lr", "0.1"}});
  const TShape shape = {16};
  Program program =
      Build({out, update}, {{"x", shape}, {"state", shape}, {"w", shape}, {"g", shape}}, {"x"});
  RecomputeMarked(&program, MarkedSteps::kByAttribute);
  EXPECT_EQ(Count(program, "product"), 1);
  EXPECT_EQ(Count(program, "act"), 2);
}

TEST(RecomputeTest, CopiesHaveAWorkspaceOfTheirOwn) {
  const NodeEntry fc1 = Marked(Layer("fc1", MakeVariable("data")));
  Program program = Build({Layer("fc2", fc1)}, {{"data", {128, 8}}});
  program.steps[0].workspace = program.num_values();
  program.values.push_back({.shape = {1000}, .dtype = DType::kUint8});
  RecomputeMarked(&program, MarkedSteps::kByAttribute);
  ASSERT_EQ(Names(program)[2], "fc1");
  const int workspace = program.steps[2].workspace;
  ASSERT_NE(workspace, kNoValue);
  EXPECT_NE(workspace, program.steps[0].workspace);
  EXPECT_EQ(program.values[At(workspace)].SizeBytes(), 1000);
}

/// Layers of tanh, whose results all have 4 KiB.
Program Chain(int layers) {
  NodeEntry y = MakeVariable("x");
  for (int i = 0; i < layers; ++i) y = Apply("tanh", "t" + std::to_string(i), {y});
  return Build({y}, {{"x", {1024}}});
}

int64_t PlannedBytes(Program program, MemorySharing sharing = MemorySharing::kAll) {
  return PlanMemory(&program, sharing).SizeBytes();
}

TEST(RecomputeTest, CheapCopiesFormShortChains) {
  Program program = Chain(20);
  RecomputeMarked(&program, MarkedSteps::kCheapToo);
  // Each fifth result is stored; the last one is the output.
  EXPECT_EQ(program.num_steps(), 20 + 20 + 16);
  for (const std::string name : {"t4", "t9", "t14", "t19"}) {
    EXPECT_EQ(Count(program, name), 1) << name;
  }
  ExpectWrittenBeforeRead(program);
}

TEST(RecomputeTest, TheSettingIsReadFromTheEnvironment) {
  EXPECT_FALSE(RecomputationIsOn());
  ASSERT_EQ(setenv("TESSERA_RECOMPUTE", "1", /*overwrite=*/1), 0);
  EXPECT_TRUE(RecomputationIsOn());
  ASSERT_EQ(unsetenv("TESSERA_RECOMPUTE"), 0);
}

/// Returns the smallest budget, as the error for a smaller one states it.
int64_t LeastBudget(Program program, MemorySharing sharing) {
  try {
    FitMemoryBudget(&program, sharing, 1, "Test");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    const std::string text = error.what();
    EXPECT_THAT(text, HasSubstr("Test: memory_budget_bytes is 1, expected at least "));
    EXPECT_THAT(text,
                HasSubstr("(" + std::to_string(PlannedBytes(program, sharing)) + " without it)"));
    const std::string before = "expected at least ";
    return std::atoll(text.c_str() + text.find(before) + before.size());
  }
  ADD_FAILURE() << "no error";
  return 0;
}

TEST(RecomputeTest, AChainFitsInASmallPartOfItsResults) {
  const Program chain = Chain(64);
  for (const MemorySharing sharing : {MemorySharing::kAll, MemorySharing::kForwardFirst}) {
    const int64_t stored = PlannedBytes(chain, sharing), least = LeastBudget(chain, sharing);
    // Stages of 11, 10, 9, … results, each beside those that end the stages before it.
    EXPECT_LE(least, stored * 3 / 10);
    int num_steps = chain.num_steps();  // grows as the budget shrinks
    for (const int64_t budget : {stored, stored * 3 / 4, stored / 2, least}) {
      Program fitted = chain;
      EXPECT_EQ(FitMemoryBudget(&fitted, sharing, budget, "Test"), budget < stored);
      EXPECT_LE(PlannedBytes(fitted, sharing), budget);
      EXPECT_GE(fitted.num_steps(), num_steps);
      EXPECT_EQ(fitted.num_forward_steps, 64);
      ExpectWrittenBeforeRead(fitted);
      num_steps = fitted.num_steps();
    }
    EXPECT_GT(num_steps, chain.num_steps());
  }
}

TEST(RecomputeTest, StagesOfBlocksWithBranchesEndBetweenThem) {
  NodeEntry x = MakeVariable("data");
  for (int i = 0; i < 16; ++i) {
    const std::string number = std::to_string(i);
    NodeEntry branch = Apply("tanh", "a" + number, {Layer("f" + number, x)});
    branch = Apply("tanh", "b" + number, {Layer("g" + number, branch)});
    x = Apply("elemwise_add", "x" + number, {branch, x});
  }
  const Program stored = Build({Layer("last", x)}, {{"data", {512, 8}}});
  Program program = stored;
  const int64_t least = LeastBudget(program, MemorySharing::kAll);
  EXPECT_LE(least, PlannedBytes(stored) * 45 / 100);
  ASSERT_TRUE(FitMemoryBudget(&program, MemorySharing::kAll, least, "Test"));
  EXPECT_LE(PlannedBytes(program), least);
  ExpectWrittenBeforeRead(program);
  // Nothing is computed a third time, and the last stage is stored.
  for (int i = 0; i < 16; ++i) EXPECT_LE(Count(program, "x" + std::to_string(i)), 2);
  EXPECT_EQ(Count(program, "b15"), 1);
}

TEST(RecomputeTest, AProgramWithoutAGradientCannotBecomeSmaller) {
  const NodeEntry y = Apply("tanh", "b", {Apply("tanh", "a", {MakeVariable("x")})});
  const IndexedGraph graph({y});
  const std::map<std::string, TShape> shapes = {{"x", {1024}}};
  const Program program =
      BuildProgram({y}, InferShapes(graph, shapes), InferTypes(graph, {}), {kNullOp});
  EXPECT_EQ(LeastBudget(program, MemorySharing::kAll), PlannedBytes(program));
}

}  // namespace
}  // namespace tessera::graph
