#include "tessera/symbol/run/prepared_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/ops/registry.h"
#include "tessera/storage/storage.h"

namespace tessera::symbol_internal {
namespace {

using base_internal::At;
using graph::IndexedGraph;
using graph::kNoValue;
using graph::MemoryPlan;
using graph::MemorySharing;
using graph::NodeEntry;
using graph::Program;
using graph::Step;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

NodeEntry Apply(std::string_view op, const std::vector<NodeEntry>& inputs,
                const ParameterMap& parameters = {}) {
  static int count = 0;
  return graph::MakeNode(OperatorRegistry::Get().FindOrCreate(op, parameters),
                         std::string(op) + std::to_string(count++), inputs);
}

PreparedProgram Prepare(const std::vector<NodeEntry>& heads, const TShape& shape,
                        const std::vector<OpReqType>& requests,
                        MemorySharing sharing = MemorySharing::kAll,
                        SegmentSize size = SegmentSize::kManySteps) {
  const IndexedGraph graph(heads);
  std::map<std::string, TShape> shapes;
  for (const int id : graph.arguments()) shapes[graph.node(id).name] = shape;
  Program program =
      BuildProgram(heads, InferShapes(graph, shapes), InferTypes(graph, {}), requests);
  return PreparedProgram(std::move(program), sharing, size);
}

NodeEntry Chain(NodeEntry x, int size) {
  for (int i = 0; i < size; ++i) x = Apply("_plus_scalar", {x}, {{"scalar", "1"}});
  return x;
}

TEST(PreparedProgramTest, ShortStepsRunTogetherAndLongOnesAlone) {
  const NodeEntry x = graph::MakeVariable("x");
  const PreparedProgram short_steps = Prepare({Chain(x, 40)}, {16}, {kNullOp});
  ASSERT_EQ(short_steps.forward().size(), 3u);
  EXPECT_EQ(short_steps.forward()[1].begin, 16);
  EXPECT_EQ(short_steps.forward()[1].end, 32);
  EXPECT_THAT(short_steps.backward(), IsEmpty());
  EXPECT_EQ(Prepare({Chain(x, 5)}, {100, 1000}, {kNullOp}).forward().size(), 5u);
  EXPECT_EQ(Prepare({Chain(x, 5)}, {16}, {kNullOp}, MemorySharing::kNone, SegmentSize::kOneStep)
                .forward()
                .size(),
            5u);
}

TEST(PreparedProgramTest, ASegmentDeclaresOneVariableForItsResults) {
  const NodeEntry x = graph::MakeVariable("x");
  const PreparedProgram program = Prepare({Chain(x, 40)}, {16}, {kNullOp});
  EXPECT_EQ(program.intermediate_variables().size(), 3u);
  const int argument = 0, output = program.program().head_values[0];
  const std::vector<int>& own = program.intermediate_variables();
  EXPECT_THAT(program.forward()[0].reads, ElementsAre(argument));
  // Bytes pass in place from segment to segment, and from run to run.
  EXPECT_THAT(program.forward()[0].writes, testing::IsSupersetOf({own[0], own[2]}));
  EXPECT_THAT(program.forward()[1].updates, ElementsAre(own[0]));
  EXPECT_THAT(program.forward()[1].writes, ElementsAre(own[1]));
  EXPECT_THAT(program.forward()[2].writes, testing::Contains(output));
}

TEST(PreparedProgramTest, ContentsThatASegmentUsesAreNotPlainWrites) {
  // The moving statistics change, and the gradient is added to.
  const NodeEntry x = graph::MakeVariable("x");
  const NodeEntry norm = Apply("BatchNorm", {x}, {{"fix_gamma", "1"}});
  const IndexedGraph graph({norm});
  Program built = BuildProgram({norm}, InferShapes(graph, {{"x", {8, 4}}}), InferTypes(graph, {}),
                               {kAddTo, kNullOp, kNullOp});
  const PreparedProgram program(std::move(built), MemorySharing::kAll);
  ASSERT_EQ(program.forward().size(), 1u);
  EXPECT_EQ(program.forward()[0].kept.size(), 2u);
  ASSERT_EQ(program.backward().size(), 1u);
  ASSERT_EQ(program.backward()[0].kept.size(), 1u);
  const int gradient = program.backward()[0].kept[0];
  EXPECT_EQ(program.program().values[At(gradient)].kind, graph::ValueKind::kGradient);
}

TEST(PreparedProgramTest, GradientsThatAreNotRequestedAreLeftOut) {
  const NodeEntry a = graph::MakeVariable("a"), b = graph::MakeVariable("b");
  // d (exp(a) * sin(b)): steps exp, sin, mul, then the gradients of mul, and of sin and exp.
  const NodeEntry out = Apply("elemwise_mul", {Apply("exp", {a}), Apply("sin", {b})});
  const PreparedProgram program =
      Prepare({out}, {4}, {kWriteTo, kWriteTo}, MemorySharing::kWithinDirection);
  ASSERT_EQ(program.program().num_steps(), 6);
  const auto used = [](const StepCalls& calls) {
    std::vector<bool> result;
    for (const auto& call : calls) result.push_back(call != nullptr);
    return result;
  };
  const OpReqType all[] = {kWriteTo, kWriteTo}, first[] = {kAddTo, kNullOp},
                  none[] = {kNullOp, kNullOp};
  const StepCalls same = program.CallsFor(all);
  for (size_t i = 3; i < 6; ++i) EXPECT_EQ(same[i], program.calls()[i]);
  EXPECT_THAT(used(program.CallsFor(first)), testing::Contains(true).Times(2));
  EXPECT_THAT(used(program.CallsFor(none)), testing::Each(false));
}

/// A convolution of 8 x 8 pixels with its gradients.
PreparedProgram Convolution(MemorySharing sharing) {
  const NodeEntry conv = Apply("Convolution", {graph::MakeVariable("x")},
                               {{"kernel", "(3,3)"}, {"num_filter", "4"}, {"no_bias", "1"}});
  const IndexedGraph graph({conv});
  Program program = BuildProgram({conv}, InferShapes(graph, {{"x", {2, 3, 8, 8}}}),
                                 InferTypes(graph, {}), {kWriteTo, kWriteTo});
  return PreparedProgram(std::move(program), sharing);
}

TEST(PreparedProgramTest, WorkspaceThatAnOperatorStatesLiesInThePlan) {
  const PreparedProgram prepared = Convolution(MemorySharing::kAll);
  const Program& program = prepared.program();
  ASSERT_EQ(program.num_steps(), 2);
  const int workspace = program.steps[1].workspace;
  ASSERT_NE(workspace, kNoValue);
  const int64_t size_bytes = program.values[At(workspace)].SizeBytes();
  EXPECT_GT(size_bytes, 0);
  EXPECT_GE(prepared.plan().SizeBytes(), size_bytes);
  EXPECT_EQ(prepared.MemorySummary().values, 0);  // all results lie in arrays
  // No variable of a shared workspace keeps the segment from others.
  EXPECT_THAT(prepared.forward()[0].resources, IsEmpty());
  EXPECT_THAT(prepared.backward()[0].resources, IsEmpty());
  // Planned again, the program keeps its values.
  const PreparedProgram again(program, MemorySharing::kWithinDirection);
  EXPECT_EQ(again.program().num_values(), program.num_values());
  EXPECT_EQ(again.intermediate_variables(), prepared.intermediate_variables());
  EXPECT_THAT(again.backward()[0].resources, IsEmpty());
  // A thread for which the operator has stated no workspace may have planned first.
  Program without = program;
  without.steps[1].workspace = kNoValue;
  EXPECT_EQ(PreparedProgram(without, MemorySharing::kWithinDirection).program().num_values(),
            program.num_values());

  // A repeated mask that nothing reads is workspace. The variable of the random generator stays.
  const NodeEntry dropout = Apply("Dropout", {graph::MakeVariable("x")},
                                  {{"p", "0.5"}, {"mode", "always"}, {"axes", "(1,)"}});
  const PreparedProgram dropping = Prepare({dropout}, {10, 4}, {kNullOp});
  const int mask = dropping.program().steps[0].workspace;
  ASSERT_NE(mask, kNoValue);
  EXPECT_EQ(dropping.program().values[At(mask)].SizeBytes(), 40);
  EXPECT_EQ(dropping.plan().SizeBytes(), 64);
  EXPECT_THAT(dropping.forward()[0].resources, testing::SizeIs(1));
}

TEST(PreparedProgramTest, AnUnwantedGradientOfABroadcastOperandTakesNoWorkspace) {
  const NodeEntry product =
      Apply("broadcast_mul", {graph::MakeVariable("x"), graph::MakeVariable("mask")});
  const IndexedGraph graph({product});
  for (const OpReqType of_mask : {kNullOp, kWriteTo}) {
    Program built = BuildProgram({product}, InferShapes(graph, {{"x", {4, 3}}, {"mask", {4, 1}}}),
                                 InferTypes(graph, {}), {kWriteTo, of_mask});
    const PreparedProgram prepared(std::move(built), MemorySharing::kAll);
    ASSERT_EQ(prepared.program().num_steps(), 2);
    EXPECT_EQ(prepared.program().steps[1].workspace != kNoValue, of_mask != kNullOp);
  }
}

TEST(PreparedProgramTest, ARunUsesAtMostThePlannedWorkspace) {
  const PreparedProgram prepared = Convolution(MemorySharing::kAll);
  const Program& program = prepared.program();
  // Each value has memory that begins at a line of the cache and ends at a guard zone.
  constexpr size_t kGuard = 4096, kLine = 64;
  std::vector<std::vector<std::byte>> memory;
  std::vector<void*> pointers;
  std::vector<std::span<std::byte>> guards;
  for (const graph::Value& value : program.values) {
    const auto size = static_cast<size_t>(value.SizeBytes());
    memory.emplace_back(size + kGuard + kLine, std::byte{0});
    const size_t misplaced = reinterpret_cast<uintptr_t>(memory.back().data()) % kLine;
    std::byte* const begin = memory.back().data() + (kLine - misplaced) % kLine;
    pointers.push_back(begin);
    guards.emplace_back(begin + size, kGuard);
    std::fill(guards.back().begin(), guards.back().end(), std::byte{0x5A});
  }
  const int64_t before = Storage::Get()->Stats(Device::Cpu()).allocations;
  prepared.Run(prepared.calls(), 0, program.num_steps(), {}, nullptr, {.pointers = pointers});
  EXPECT_EQ(Storage::Get()->Stats(Device::Cpu()).allocations, before);
  for (const std::span<std::byte> guard : guards) {
    EXPECT_THAT(guard, testing::Each(std::byte{0x5A}));
  }
}

TEST(PreparedProgramTest, CallsWithOtherRequestsHaveTheSameOperatorAndResources) {
  const NodeEntry x = graph::MakeVariable("x");
  const PreparedProgram program =
      Prepare({Apply("prod", {x}, {{"axis", "1"}})}, {4, 4}, {kWriteTo});
  const OpReqType add[] = {kAddTo};
  const StepCalls calls = program.CallsFor(add);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_NE(calls[1], program.calls()[1]);
  EXPECT_EQ(calls[1]->op(), program.calls()[1]->op());
  EXPECT_EQ(calls[1]->resource_vars(), program.calls()[1]->resource_vars());
  EXPECT_THAT(calls[1]->req(), ElementsAre(kAddTo));
}

/// The order that an engine makes of operations by their variables.
class Order {
 public:
  int Push(const std::vector<int>& reads, const std::vector<int>& writes) {
    std::vector<bool> before(static_cast<size_t>(size_), false);
    const auto follow = [&](int other) {
      before[At(other)] = true;
      for (size_t k = 0; k < before_[At(other)].size(); ++k) {
        if (before_[At(other)][k]) before[k] = true;
      }
    };
    for (const auto* list : {&reads, &writes}) {
      for (const int var : *list) {
        const auto writer = writer_.find(var);
        if (writer != writer_.end()) follow(writer->second);
      }
    }
    for (const int var : writes) {
      for (const int reader : readers_[var]) follow(reader);
    }
    for (const int var : reads) readers_[var].push_back(size_);
    for (const int var : writes) {
      writer_[var] = size_;
      readers_[var].clear();
    }
    before_.push_back(std::move(before));
    return size_++;
  }
  bool IsBefore(int first, int second) const { return before_[At(second)][At(first)]; }

 private:
  int size_ = 0;
  std::map<int, int> writer_;
  std::map<int, std::vector<int>> readers_;
  std::vector<std::vector<bool>> before_;
};

std::vector<NodeEntry> RandomGraph(std::mt19937* random) {
  std::vector<NodeEntry> pool = {graph::MakeVariable("a"), graph::MakeVariable("b")};
  const auto pick = [&] { return pool[(*random)() % pool.size()]; };
  for (int i = 0; i < 60; ++i) {
    switch ((*random)() % 4) {
      case 0:
        pool.push_back(Apply("elemwise_add", {pick(), pick()}));
        break;
      case 1:
        pool.push_back(Apply("elemwise_mul", {pick(), pick()}));
        break;
      case 2:
        pool.push_back(Apply("Activation", {pick()}, {{"act_type", "tanh"}}));
        break;
      case 3:  // a long step
        pool.push_back(
            Apply("broadcast_mul", {Apply("sum", {Apply("tile", {pick()}, {{"reps", "(700,1)"}})},
                                          {{"axis", "0"}, {"keepdims", "1"}}),
                                    pick()}));
        break;
    }
  }
  return {pool.back(), pick()};
}

TEST(PreparedProgramTest, SegmentsWhoseBytesOverlapAreOrderedByVariables) {
  std::mt19937 random(20261127);
  for (int round = 0; round < 8; ++round) {
    const std::vector<NodeEntry> heads = RandomGraph(&random);
    const std::vector<OpReqType> requests(IndexedGraph(heads).arguments().size(), kWriteTo);
    const PreparedProgram prepared =
        Prepare(heads, {1, 96}, requests, static_cast<MemorySharing>(round % 3));
    const Program& program = prepared.program();
    const MemoryPlan& plan = prepared.plan();
    struct Use {
      int operation;
      bool writes;
    };
    std::map<std::pair<int, int64_t>, std::vector<Use>> uses;  // of each 64 bytes
    std::map<int, std::vector<Use>> array_uses;                // of each value in an array
    Order order;
    const auto note = [&](std::vector<Use>* list, int operation, bool writes) {
      for (const Use& other : *list) {
        if (other.operation == operation || (!writes && !other.writes)) continue;
        ASSERT_TRUE(order.IsBefore(other.operation, operation)) << "round " << round;
      }
      list->push_back({operation, writes});
    };
    for (const bool with_gradient : {true, false, false, true, true}) {
      std::vector<Segment> segments(prepared.forward().begin(), prepared.forward().end());
      if (with_gradient) {
        segments.insert(segments.end(), prepared.backward().begin(), prepared.backward().end());
      }
      for (const Segment& segment : segments) {
        std::vector<int> writes = segment.writes;
        writes.insert(writes.end(), segment.updates.begin(), segment.updates.end());
        const int operation = order.Push(segment.reads, writes);
        const auto use = [&](int value, bool is_write) {
          if (plan.value_arena[At(value)] == kNoValue) {
            note(&array_uses[value], operation, is_write);
            return;
          }
          for (int64_t byte = 0; byte < program.values[At(value)].SizeBytes(); byte += 64) {
            note(&uses[{plan.value_arena[At(value)], plan.value_offset[At(value)] + byte}],
                 operation, is_write);
            if (testing::Test::HasFatalFailure()) return;
          }
        };
        for (int i = segment.begin; i < segment.end; ++i) {
          for (const int value : program.steps[At(i)].Reads()) use(value, false);
          for (const int value : program.steps[At(i)].Writes()) use(value, true);
        }
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::symbol_internal
