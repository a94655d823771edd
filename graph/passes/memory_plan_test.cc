#include "tessera/graph/passes/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

using base_internal::At;

struct Planned {
  Program program;
  MemoryPlan plan;
};

NodeEntry Apply(std::string_view op, const std::vector<NodeEntry>& inputs,
                const ParameterMap& parameters = {}) {
  static int count = 0;
  return MakeNode(OperatorRegistry::Get().FindOrCreate(op, parameters),
                  std::string(op) + std::to_string(count++), inputs);
}

Planned Plan(const std::vector<NodeEntry>& heads, const std::map<std::string, TShape>& shapes,
             MemorySharing sharing = MemorySharing::kAll, OpReqType request = kWriteTo) {
  const IndexedGraph graph(heads);
  const std::vector<OpReqType> requests(graph.arguments().size(), request);
  Planned planned;
  planned.program =
      BuildProgram(heads, InferShapes(graph, shapes), InferTypes(graph, {}), requests);
  planned.plan = PlanMemory(&planned.program, sharing);
  return planned;
}

/// Heads of a random graph over matrices of two sizes.
std::vector<NodeEntry> RandomGraph(std::mt19937* random, int size) {
  std::vector<NodeEntry> pool = {MakeVariable("a"), MakeVariable("b")};
  const auto pick = [&] { return pool[(*random)() % pool.size()]; };
  for (int i = 0; i < size; ++i) {
    switch ((*random)() % 8) {
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
      case 6:  // a larger value on the way
        pool.push_back(
            Apply("slice_axis",
                  {Apply("Concat", {pick(), pick(), pick()}, {{"num_args", "3"}, {"dim", "0"}})},
                  {{"axis", "0"}, {"begin", "3"}, {"end", "6"}}));
        break;
      case 7:  // a smaller one
        pool.push_back(
            Apply("broadcast_mul", {Apply("sum", {pick()}, {{"keepdims", "1"}}), pick()}));
        break;
    }
  }
  return {pool.back(), pick(), pool[pool.size() / 2], Apply("elemwise_add", {pool[0], pool[1]})};
}

const std::map<std::string, TShape> kShapes = {{"a", {3, 40}}, {"b", {3, 40}}};

/// Runs the plan on tags instead of numbers: each byte holds the value that was written to it last,
/// and every read must find the value that it wants everywhere.
void ExpectEveryReadFindsItsValue(const Planned& planned) {
  const auto& [program, plan] = planned;
  constexpr int64_t kUnit = MemoryPlan::kAlignment;
  std::vector<std::vector<int>> holds;
  for (const MemoryPlan::Arena& arena : plan.arenas) {
    holds.emplace_back(static_cast<size_t>(arena.size_bytes / kUnit), kNoValue);
  }
  const auto is_planned = [&](int value) {
    return value != kNoValue && plan.value_arena[At(value)] != kNoValue;
  };
  const auto bytes = [&](int value) {
    EXPECT_EQ(plan.value_offset[At(value)] % kUnit, 0);
    const auto begin = static_cast<size_t>(plan.value_offset[At(value)] / kUnit);
    const auto count =
        static_cast<size_t>((program.values[At(value)].SizeBytes() + kUnit - 1) / kUnit);
    std::vector<int>& arena = holds[At(plan.value_arena[At(value)])];
    EXPECT_LE(begin + count, arena.size());
    return std::span<int>(arena).subspan(begin, count);
  };
  for (int i = 0; i < program.num_steps(); ++i) {
    const Step& step = program.steps[At(i)];
    for (const int value : step.Reads()) {
      if (!is_planned(value)) continue;
      EXPECT_THAT(bytes(value), testing::Each(value)) << "step " << i;
    }
    for (size_t k = 0; k < step.outputs.size(); ++k) {
      const int target = step.outputs[k];
      if (step.req[k] == kNullOp || !is_planned(target)) continue;
      const std::span<int> held = bytes(target);
      if (step.req[k] == kAddTo) {
        EXPECT_THAT(held, testing::Each(target)) << "step " << i;
      }
      for (const int value : step.Reads()) {
        if (!is_planned(value) || value == target) continue;
        const bool overlaps = std::find(held.begin(), held.end(), value) != held.end();
        if (overlaps) {
          EXPECT_EQ(step.req[k], kWriteInplace) << "step " << i << " overwrites what it reads";
        }
      }
      std::fill(held.begin(), held.end(), target);
    }
  }
}

/// The order that an engine makes of operations by their variables, as far as a test needs it.
class Order {
 public:
  /// Appends an operation and returns its number.
  int Push(const std::vector<int>& reads, const std::vector<int>& writes) {
    std::vector<bool> before(static_cast<size_t>(size_), false);
    const auto follow = [&](int other) {
      if (other == kNoValue) return;
      before[At(other)] = true;
      for (size_t k = 0; k < before_[At(other)].size(); ++k) {
        if (before_[At(other)][k]) before[k] = true;
      }
    };
    for (const int var : reads) follow(Find(&writer_, var));
    for (const int var : writes) {
      follow(Find(&writer_, var));
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
  static int Find(std::map<int, int>* map, int key) {
    return map->emplace(key, kNoValue).first->second;
  }

  int size_ = 0;
  std::map<int, int> writer_;
  std::map<int, std::vector<int>> readers_;
  std::vector<std::vector<bool>> before_;
};

/// Pushes runs as the plan's comment says, and expects that any two steps one of which writes bytes
/// that the other one uses are ordered. `runs` tells for each run whether it has gradient steps.
void ExpectOverlappingStepsAreOrdered(const Planned& planned, const std::vector<bool>& runs) {
  const auto& [program, plan] = planned;
  struct Use {
    int operation, step;
    bool writes;
  };
  // For each 64 bytes, the operations that use them.
  std::map<std::pair<int, int64_t>, std::vector<Use>> uses;
  std::vector<int> first_writer(program.values.size(), kNoValue);
  for (int i = program.num_steps() - 1; i >= 0; --i) {
    for (const int value : program.steps[At(i)].Writes()) first_writer[At(value)] = i;
  }
  Order order;
  for (const bool with_gradient : runs) {
    const int end = with_gradient ? program.num_steps() : program.num_forward_steps;
    for (int i = 0; i < end; ++i) {
      const Step& step = program.steps[At(i)];
      std::vector<int> declared = step.Writes();
      for (const int value : step.Writes()) {
        if (first_writer[At(value)] != i) continue;
        declared.insert(declared.end(), plan.previous[At(value)].begin(),
                        plan.previous[At(value)].end());
      }
      const int operation = order.Push(step.Reads(), declared);
      const auto use = [&](int value, bool writes) {
        if (plan.value_arena[At(value)] == kNoValue) return;
        for (int64_t byte = 0; byte < program.values[At(value)].SizeBytes(); byte += 64) {
          std::vector<Use>& list =
              uses[{plan.value_arena[At(value)], plan.value_offset[At(value)] + byte}];
          for (const Use& other : list) {
            if (other.operation == operation || (!writes && !other.writes)) continue;
            ASSERT_TRUE(order.IsBefore(other.operation, operation))
                << "steps " << other.step << " and " << i << " race";
          }
          if (writes) list.clear();  // what follows is compared with this operation alone
          list.push_back({operation, i, writes});
        }
      };
      for (const int value : step.Reads()) use(value, false);
      for (const int value : step.Writes()) use(value, true);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(MemoryPlanTest, AChainOfActivationsTakesTurnsInPlace) {
  NodeEntry x = MakeVariable("x");
  for (int i = 0; i < 20; ++i) x = Apply("_plus_scalar", {x}, {{"scalar", "1"}});
  const Planned planned = Plan({x}, {{"x", {100, 16}}});
  ExpectEveryReadFindsItsValue(planned);
  // Forward needs the bytes of one value, since the operator keeps nothing for its gradient; so
  // does backward.
  EXPECT_EQ(planned.plan.SizeBytes(), 6400);
  EXPECT_GT(planned.plan.inplace, 20);
  EXPECT_EQ(planned.plan.unplanned_bytes, (19 + 19) * 6400);
}

TEST(MemoryPlanTest, ValuesThatTheGradientNeedsAreKept) {
  NodeEntry x = MakeVariable("x");
  for (int i = 0; i < 10; ++i) x = Apply("Activation", {x}, {{"act_type", "tanh"}});
  const Planned planned = Plan({Apply("elemwise_mul", {x, MakeVariable("y")})}, {{"x", {1000}}});
  ExpectEveryReadFindsItsValue(planned);
  EXPECT_GE(planned.plan.SizeBytes(), 10 * 4000);
}

TEST(MemoryPlanTest, SmallValuesShareTheBytesOfALargeOne) {
  // A large value dies before two halves are computed and used together.
  const NodeEntry x = MakeVariable("x");
  const NodeEntry large = Apply("Concat", {x, x}, {{"num_args", "2"}, {"dim", "0"}});
  const NodeEntry total = Apply("sum", {large}, {{"axis", "0"}, {"keepdims", "1"}});
  const NodeEntry a = Apply("broadcast_add", {total, x});
  const NodeEntry b = Apply("broadcast_mul", {total, x});
  const Planned planned =
      Plan({Apply("elemwise_add", {a, b})}, {{"x", {64, 16}}}, MemorySharing::kAll, kNullOp);
  ExpectEveryReadFindsItsValue(planned);
  EXPECT_EQ(planned.plan.SizeBytes(), 2 * 4096 + 64);
}

TEST(MemoryPlanTest, RandomGraphsNeverLoseAValue) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 300; ++round) {
    const auto sharing = static_cast<MemorySharing>(random() % 4);
    const Planned planned = Plan(RandomGraph(&random, 20), kShapes, sharing);
    ExpectEveryReadFindsItsValue(planned);
    EXPECT_GE(planned.plan.SizeBytes(), planned.plan.liveness_bytes);
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST(MemoryPlanTest, StepsWhoseBytesOverlapAreOrderedByVariables) {
  std::mt19937 random(20261127);
  for (int round = 0; round < 60; ++round) {
    const auto sharing = static_cast<MemorySharing>(round % 3);
    const Planned planned = Plan(RandomGraph(&random, 15), kShapes, sharing);
    ExpectOverlappingStepsAreOrdered(planned, {true, false, false, true, true, false});
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST(MemoryPlanTest, WithinDirectionsTheGradientKeepsForwardResults) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    Planned planned = Plan(RandomGraph(&random, 20), kShapes, MemorySharing::kWithinDirection);
    // The gradient can run twice.
    std::vector<Step>& steps = planned.program.steps;
    const std::vector<Step> again(steps.begin() + planned.program.num_forward_steps, steps.end());
    steps.insert(steps.end(), again.begin(), again.end());
    ExpectEveryReadFindsItsValue(planned);
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST(MemoryPlanTest, ForwardValuesLieAlikeWhateverTheGradientUses) {
  std::mt19937 random(11);
  int64_t over_bytes = 0, apart_bytes = 0;
  for (int round = 0; round < 50; ++round) {
    const std::vector<NodeEntry> heads = RandomGraph(&random, 20);
    const Planned over = Plan(heads, kShapes, MemorySharing::kForwardFirst),
                  apart = Plan(heads, kShapes, MemorySharing::kWithinDirection);
    ASSERT_EQ(over.program.num_forward_steps, apart.program.num_forward_steps);
    for (int i = 0; i < over.program.num_forward_steps; ++i) {
      const Step& step = over.program.steps[At(i)];
      EXPECT_EQ(step.req, apart.program.steps[At(i)].req) << "step " << i;
      for (const int value : step.Writes()) {
        EXPECT_EQ(over.plan.value_arena[At(value)], apart.plan.value_arena[At(value)]);
        EXPECT_EQ(over.plan.value_offset[At(value)], apart.plan.value_offset[At(value)]);
      }
    }
    for (size_t i = 0; i < over.plan.arenas.size(); ++i) {
      EXPECT_EQ(over.plan.arenas[i].backward, apart.plan.arenas[i].backward);
      if (over.plan.arenas[i].backward) continue;
      EXPECT_EQ(over.plan.arenas[i].size_bytes, apart.plan.arenas[i].size_bytes);
    }
    over_bytes += over.plan.SizeBytes();
    apart_bytes += apart.plan.SizeBytes();
    if (HasFailure()) FAIL() << "round " << round;
  }
  EXPECT_LT(over_bytes, apart_bytes);
}

TEST(MemoryPlanTest, GradientsThatFindNoDeadBytesLieBehindForwardValues) {
  NodeEntry x = MakeVariable("x");
  for (int i = 0; i < 10; ++i) x = Apply("Activation", {x}, {{"act_type", "tanh"}});
  // Of ten results nine are values, the last one is the output. Each gradient is written over the
  // one before, the first one has 4,096 bytes of its own.
  const std::map<std::string, TShape> shapes = {{"x", {1024}}};
  const Planned all = Plan({x}, shapes), first = Plan({x}, shapes, MemorySharing::kForwardFirst);
  EXPECT_EQ(all.plan.SizeBytes(), 10 * 4096);
  EXPECT_EQ(all.plan.liveness_bytes, 10 * 4096);
  EXPECT_EQ(first.plan.SizeBytes(), 10 * 4096);
  EXPECT_EQ(first.plan.arenas[0].size_bytes, 9 * 4096);
}

TEST(MemoryPlanTest, APlanForgetsTheOneBefore) {
  std::mt19937 random(12);
  for (int round = 0; round < 20; ++round) {
    const std::vector<NodeEntry> heads = RandomGraph(&random, 20);
    const auto sharing = static_cast<MemorySharing>(round % 4);
    Planned again = Plan(heads, kShapes);
    again.plan = PlanMemory(&again.program, sharing);
    const Planned once = Plan(heads, kShapes, sharing);
    EXPECT_EQ(again.plan.value_offset, once.plan.value_offset);
    EXPECT_EQ(again.plan.inplace, once.plan.inplace);
    for (int i = 0; i < once.program.num_steps(); ++i) {
      EXPECT_EQ(again.program.steps[At(i)].req, once.program.steps[At(i)].req);
    }
  }
}

TEST(MemoryPlanTest, WithoutSharingValuesOverlapNowhere) {
  std::mt19937 random(6);
  const Planned planned = Plan(RandomGraph(&random, 20), kShapes, MemorySharing::kNone);
  EXPECT_EQ(planned.plan.inplace, 0);
  for (const std::vector<int>& previous : planned.plan.previous) EXPECT_TRUE(previous.empty());
  for (const Step& step : planned.program.steps) {
    for (size_t k = 0; k < step.outputs.size(); ++k) EXPECT_NE(step.req[k], kWriteInplace);
  }
}

TEST(MemoryPlanTest, OneDeviceHasOneArena) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry out = Apply("elemwise_mul", {Apply("exp", {x}), Apply("sin", {x})});
  EXPECT_EQ(Plan({out}, {{"x", {4}}}).plan.arenas.size(), 1u);
  EXPECT_EQ(Plan({out}, {{"x", {4}}}, MemorySharing::kWithinDirection).plan.arenas.size(), 2u);
}

TEST(MemoryPlanTest, ListsOfPreviousValuesAreLinear) {
  std::mt19937 random(7);
  const Planned planned = Plan(RandomGraph(&random, 2000), kShapes);
  size_t total = 0;
  for (const std::vector<int>& previous : planned.plan.previous) total += previous.size();
  EXPECT_LT(total, 8 * planned.plan.previous.size());
}

}  // namespace
}  // namespace tessera::graph
