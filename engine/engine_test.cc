// The promises of an engine about the order of operations, about variables, and about operators.

#include "tessera/engine/engine.h"

#include <atomic>
#include <cstdint>
#include <latch>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/engine/testing/engine_configurations.h"

namespace tessera {
namespace {

using base_testing::ErrorOf;
using engine_internal::AllConfigurations;
using engine_internal::ConfigurationName;
using engine_internal::EngineConfigurationTest;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Device kCpu = Device::Cpu();

class EngineTest : public EngineConfigurationTest {};
INSTANTIATE_TEST_SUITE_P(All, EngineTest, testing::ValuesIn(AllConfigurations()),
                         ConfigurationName);

TEST_P(EngineTest, WritesToOneVariableRunInPushOrder) {
  Variable* variable = engine_->NewVariable();
  std::vector<int> order;  // the engine's order is its only protection
  for (int i = 0; i < 1000; ++i) {
    engine_->PushSync([&order, i](RunContext) { order.push_back(i); }, kCpu, {}, {variable});
  }
  engine_->WaitForVar(variable);
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
}

TEST_P(EngineTest, ReadsSeeTheWriteBeforeThemAndNotTheOneAfter) {
  Variable* data = engine_->NewVariable();
  int value = 0;
  std::vector<int> seen(300, -1);
  for (int round = 0; round < 100; ++round) {
    engine_->PushSync([&value, round](RunContext) { value = round; }, kCpu, {}, {data});
    for (int reader = 0; reader < 3; ++reader) {
      int* out = &seen[round * 3 + reader];
      engine_->PushSync([&value, out](RunContext) { *out = value; }, kCpu, {data}, {});
    }
  }
  engine_->WaitForAll();
  for (int i = 0; i < 300; ++i) EXPECT_EQ(seen[i], i / 3);
}

TEST_P(EngineTest, AChainThroughManyVariablesKeepsItsOrder) {
  std::vector<Variable*> variables;
  for (int i = 0; i < 100; ++i) variables.push_back(engine_->NewVariable());
  std::vector<int> values(100, 0);
  values[0] = 7;
  for (int i = 1; i < 100; ++i) {
    engine_->PushSync([&values, i](RunContext) { values[i] = values[i - 1] + 1; }, kCpu,
                      {variables[i - 1]}, {variables[i]});
  }
  engine_->WaitForVar(variables[99]);
  EXPECT_EQ(values[99], 106);
}

TEST_P(EngineTest, UpdatesAreOrderedAsWritesAreAndAdvanceTheVersion) {
  Variable *sum = engine_->NewVariable(), *input = engine_->NewVariable();
  uint64_t value = 1, expected = 1;  // the engine's order is its only protection
  std::vector<uint64_t> seen(500, 0), expected_seen;
  for (uint64_t i = 0; i < 500; ++i) {
    engine_->PushSync([&value, i](RunContext) { value = 3 * value + i; }, kCpu, {input}, {},
                      {.updates = {sum}});
    engine_->PushSync([&value, &seen, i](RunContext) { seen[i] = value; }, kCpu, {sum}, {});
    expected = 3 * expected + i;
    expected_seen.push_back(expected);
  }
  engine_->WaitForAll();
  EXPECT_EQ(seen, expected_seen);
  EXPECT_EQ(sum->version(), 500u);
  EXPECT_EQ(input->version(), 0u);
}

TEST(PriorityTest, HigherOnesRunFirstAndPrioritisedWorkBeforeAll) {
  const auto one = Engine::Create({.kind = EngineKind::kThreaded, .workers = 1});
  std::latch started(1), go(1);
  one->PushSync([&](RunContext) { started.count_down(), go.wait(); }, kCpu, {}, {});
  started.wait();
  std::vector<int> order;  // written by the only worker
  const auto push = [&](int number, int priority, FnProperty property = FnProperty::kNormal) {
    one->PushSync([&order, number](RunContext) { order.push_back(number); }, kCpu, {}, {},
                  {.property = property, .priority = priority});
  };
  push(5, 0);
  push(8, -1);
  push(3, 7);
  push(6, 0);
  push(4, 7);
  push(7, 0);
  push(9, std::numeric_limits<int>::min());
  push(2, std::numeric_limits<int>::max());
  push(1, -100, FnProperty::kCpuPrioritized);
  go.count_down();
  one->WaitForAll();
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST_P(EngineTest, OperationsOfEveryPropertyRunInTheirOrder) {
  Variable* variable = engine_->NewVariable();
  int runs = 0;
  for (const FnProperty property :
       {FnProperty::kNormal, FnProperty::kCopyFromGpu, FnProperty::kCopyToGpu,
        FnProperty::kCpuPrioritized, FnProperty::kAsync, FnProperty::kDeleteVariable,
        FnProperty::kGpuPrioritized, FnProperty::kNoSkip}) {
    const int before = runs;
    engine_->PushSync([&, before](RunContext) { runs = runs == before ? before + 1 : -100; }, kCpu,
                      {}, {variable}, {.property = property});
    engine_->WaitForVar(variable);
  }
  EXPECT_EQ(runs, 8);
}

TEST_P(EngineTest, OperationsWithManyVariablesAndWithNoneRun) {
  std::vector<Variable*> reads, writes;
  for (int i = 0; i < 20; ++i) reads.push_back(engine_->NewVariable());
  for (int i = 0; i < 10; ++i) writes.push_back(engine_->NewVariable());
  std::atomic<int> runs{0};
  for (int i = 0; i < 50; ++i) {
    engine_->PushSync([&](RunContext) { ++runs; }, kCpu, reads, writes);
    engine_->PushSync([&](RunContext) { ++runs; }, kCpu, writes, reads);
    engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {});
  }
  engine_->WaitForAll();
  EXPECT_EQ(runs, 150);
}

TEST_P(EngineTest, AFunctionLearnsWhereItRuns) {
  Variable* variable = engine_->NewVariable();
  RunContext seen;
  engine_->PushSync([&](RunContext context) { seen = context; }, Device::CpuPinned(3), {},
                    {variable});
  engine_->WaitForVar(variable);
  EXPECT_EQ(seen.device, Device::CpuPinned(3));
  EXPECT_EQ(seen.stream, nullptr);
  EXPECT_EQ(seen.engine, engine_.get());
}

TEST_P(EngineTest, TheVersionAdvancesWithEveryPushedWrite) {
  Variable* variable = engine_->NewVariable();
  Variable* other = engine_->NewVariable();
  EXPECT_EQ(variable->version(), 0u);
  for (int i = 0; i < 5; ++i) {
    engine_->PushSync([](RunContext) {}, kCpu, {other}, {variable});
    engine_->PushSync([](RunContext) {}, kCpu, {variable}, {});
  }
  EXPECT_EQ(variable->version(), 5u);
  engine_->WaitForAll();
  EXPECT_EQ(variable->version(), 5u);
  EXPECT_EQ(other->version(), 0u);
}

TEST_P(EngineTest, AVariableIsIdleWhereNoReadAndNoWritePends) {
  Variable* variable = engine_->NewVariable();
  EXPECT_TRUE(engine_->IsIdle(variable));
  const std::vector<Variable*> none, one = {variable};
  for (const bool write : {false, true}) {
    std::vector<OnComplete> pending;
    std::latch issued(1);
    engine_->PushAsync(
        [&](RunContext, OnComplete on_complete) {
          pending.push_back(std::move(on_complete));
          issued.count_down();
        },
        kCpu, write ? none : one, write ? one : none);
    issued.wait();
    EXPECT_FALSE(engine_->IsIdle(variable)) << write;
    pending[0]();
    engine_->WaitForAll();
    EXPECT_TRUE(engine_->IsIdle(variable)) << write;
  }
}

TEST_P(EngineTest, AVariableNamedTwiceIsAnErrorThatNamesIt) {
  Variable* twice = engine_->NewVariable("weights");
  Variable* other = engine_->NewVariable();
  const auto push = [&](VariableList reads, VariableList writes) {
    return ErrorOf([&] {
      engine_->PushSync([](RunContext) { ADD_FAILURE(); }, kCpu, reads, writes, {.name = "step"});
    });
  };
  for (const Error& error :
       {push({twice, other, twice}, {}), push({}, {twice, twice}), push({other, twice}, {twice})}) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("step"), HasSubstr("weights")));
  }
  const Error error =
      ErrorOf([&] { engine_->NewOperator([](RunContext) {}, {twice}, {twice}, {.name = "made"}); });
  EXPECT_THAT(error.what(), AllOf(HasSubstr("made"), HasSubstr("both read and written")));
  EXPECT_EQ(engine_->counters().pushed, 0u);
}

TEST_P(EngineTest, AVariableInTwoListsIsAnErrorThatNamesBoth) {
  Variable* variable = engine_->NewVariable("sum");
  const auto push = [&](VariableList reads, VariableList writes, VariableList updates) {
    const PushOptions options = {.name = "add", .updates = updates};
    const Error error = ErrorOf([&] {
      engine_->PushSync([](RunContext) { ADD_FAILURE(); }, kCpu, reads, writes, options);
    });
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("\"add\""), HasSubstr("sum")));
    return std::string(error.what());
  };
  EXPECT_THAT(push({variable}, {}, {variable}), HasSubstr("both read and updated"));
  EXPECT_THAT(push({}, {variable}, {variable}), HasSubstr("both written and updated"));
  EXPECT_THAT(push({}, {}, {variable, variable}), HasSubstr("updated twice"));
  EXPECT_THAT(push({variable}, {variable}, {}), HasSubstr("both read and written"));
  EXPECT_EQ(engine_->counters().pushed, 0u);
}

TEST_P(EngineTest, MergedDuplicatesAreUsedOnce) {
  Variable* data = engine_->NewVariable("data");
  std::vector<Variable*> others;
  for (int i = 0; i < 5; ++i) others.push_back(engine_->NewVariable());
  const PushOptions merged = {.name = "step", .merge_duplicates = true};
  std::atomic<int> calls{0};
  const auto call = [&calls](RunContext) { ++calls; };
  // Alone, and so many that the merged ones need less room than the named ones.
  engine_->PushSync(call, kCpu, {data, data}, {}, merged);
  EXPECT_EQ(data->version(), 0u);
  engine_->PushSync(call, kCpu, {data, others[0], data, others[0], data}, {others[1], others[1]},
                    merged);
  EXPECT_EQ(others[1]->version(), 1u);
  std::vector<Variable*> many = others;
  many.insert(many.end(), others.begin(), others.end());
  engine_->PushSync(call, kCpu, many, {data}, merged);
  EXPECT_EQ(data->version(), 1u);
  // Read and written is updated: the error of what is read skips the operation.
  engine_->PushSync([](RunContext) { throw DataLoss("lost"); }, kCpu, {}, {data});
  engine_->PushSync(call, kCpu, {data, others[0]}, {data, others[2]}, merged);
  EXPECT_EQ(ErrorOf([&] { engine_->WaitForVar(others[2]); }).code(), Error::kDataLoss);
  engine_->PushSync(call, kCpu, {}, {data, data}, merged);  // written alone: sound again
  PushOptions updates = merged;
  const std::vector<Variable*> twice = {data, data};
  updates.updates = twice;
  engine_->PushSync(call, kCpu, {data}, {}, updates);
  EngineOperator* op = engine_->NewOperator(call, {data, others[3], data}, {others[3]}, merged);
  engine_->Push(op, kCpu);
  const auto schedule = engine_->Record([&] {
    engine_->PushSync(call, kCpu, {data, data}, {others[4]}, merged);
  });
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_EQ(calls, 7);
  EXPECT_EQ(engine_->counters().skipped, 1u);
  engine_->DeleteOperator(op);
  for (Variable* variable : others) engine_->DeleteVariable(variable);
  EXPECT_EQ(ErrorOf([&] {
              engine_->PushSync(call, kCpu, {others[0], others[0]}, {}, merged);
            }).code(),
            Error::kInvalidArgument);
}

TEST_P(EngineTest, RandomReadsWithDuplicatesGiveTheSumsOfOneThread) {
  // Each operation sets a number to the mean of others, drawn with repetition, among which may be
  // the number itself.
  constexpr int kNumbers = 20, kOperations = 2000;
  std::mt19937 random(7);
  std::vector<double> expected(kNumbers, 1.0), actual = expected;
  std::vector<Variable*> variables;
  for (int i = 0; i < kNumbers; ++i) variables.push_back(engine_->NewVariable());
  for (int k = 0; k < kOperations; ++k) {
    const auto drawn = [&] { return static_cast<size_t>(random() % kNumbers); };
    std::vector<size_t> from(2 + random() % 18);
    for (size_t& i : from) i = drawn();
    const size_t to = drawn();
    const auto set = [from, to](std::vector<double>& numbers) {
      double sum = 0.0;
      for (const size_t i : from) sum += numbers[i];
      numbers[to] = sum / static_cast<double>(from.size() + 1);
    };
    set(expected);
    std::vector<Variable*> reads;
    for (const size_t i : from) reads.push_back(variables[i]);
    engine_->PushSync([set, &actual](RunContext) { set(actual); }, kCpu, reads, {variables[to]},
                      {.merge_duplicates = true});
  }
  engine_->WaitForAll();
  EXPECT_EQ(actual, expected);
}

TEST_P(EngineTest, WrongArgumentsAreErrorsAndPushNothing) {
  Variable* variable = engine_->NewVariable();
  const auto other_engine = GetParam().Make();
  Variable* foreign = other_engine->NewVariable("foreign");
  const auto nothing = [](RunContext) {};
  EXPECT_EQ(ErrorOf([&] { engine_->PushSync(nothing, kCpu, {nullptr}, {}); }).code(),
            Error::kInvalidArgument);
  EXPECT_THAT(ErrorOf([&] { engine_->PushSync(nothing, kCpu, {}, {foreign}); }).what(),
              HasSubstr("another engine"));
  EXPECT_THAT(ErrorOf([&] { engine_->WaitForVar(foreign); }).what(), HasSubstr("another engine"));
  EXPECT_EQ(ErrorOf([&] { engine_->PushSync(SyncFn(), kCpu, {}, {variable}); }).code(),
            Error::kInvalidArgument);
  EXPECT_THAT(ErrorOf([&] { engine_->PushSync(nothing, Device::Gpu(9), {}, {variable}); }).what(),
              HasSubstr("gpu(9)"));
  EXPECT_EQ(engine_->counters().pushed, 0u);
  EXPECT_EQ(variable->version(), 0u);
}

TEST_P(EngineTest, ADeletedVariableServesTheOperationsPushedBefore) {
  Variable* variable = engine_->NewVariable("short-lived");
  Variable* other = engine_->NewVariable();
  auto value = std::make_shared<int>(0);
  std::weak_ptr<int> watch = value;
  for (int i = 0; i < 10; ++i) {
    engine_->PushSync([value](RunContext) { ++*value; }, kCpu, {}, {variable});
  }
  int seen = 0;
  engine_->PushSync([value, &seen](RunContext) { seen = *value; }, kCpu, {variable}, {other});
  engine_->DeleteVariable(variable);
  value.reset();
  engine_->WaitForVar(other);
  EXPECT_EQ(seen, 10);
  engine_->WaitForAll();
  EXPECT_TRUE(watch.expired()) << "captures are released before a wait returns";
}

TEST_P(EngineTest, UseAfterDeletionIsReported) {
  Variable* variable = engine_->NewVariable("gone");
  engine_->DeleteVariable(variable);
  EXPECT_THROW(engine_->PushSync([](RunContext) {}, kCpu, {variable}, {}), Error);
  EXPECT_THROW(engine_->WaitForVar(variable), Error);
  EXPECT_THROW(engine_->Throw(variable), Error);
  EXPECT_THROW(engine_->DeleteVariable(variable), Error);
}

TEST_P(EngineTest, ARecycledVariableIsANewOne) {
  Variable* variable = engine_->NewVariable();
  engine_->PushSync([](RunContext) { throw InvalidArgument("old"); }, kCpu, {}, {variable});
  engine_->DeleteVariable(variable);
  EXPECT_THROW(engine_->WaitForAll(), Error);
  for (int i = 0; i < 200; ++i) {
    Variable* fresh = engine_->NewVariable();
    EXPECT_EQ(fresh->version(), 0u);
    engine_->WaitForVar(fresh);
    engine_->DeleteVariable(fresh);
  }
}

TEST_P(EngineTest, AnOperatorCanBePushedManyTimesWhilePushesPend) {
  Variable* input = engine_->NewVariable();
  Variable* output = engine_->NewVariable();
  int runs = 0;
  Opr* op = engine_->NewOperator([&runs](RunContext) { ++runs; }, {input}, {output});
  for (int i = 0; i < 500; ++i) engine_->Push(op, kCpu);
  engine_->DeleteOperator(op);
  engine_->WaitForVar(output);
  EXPECT_EQ(runs, 500);
}

TEST_P(EngineTest, AnOperatorLivesUntilItsLastPushIsComplete) {
  Variable* output = engine_->NewVariable();
  auto token = std::make_shared<int>(1);
  std::weak_ptr<int> watch = token;
  Opr* op = engine_->NewOperator([token](RunContext, OnComplete done) { done(); }, {}, {output});
  token.reset();
  engine_->Push(op, kCpu);
  engine_->DeleteOperator(op);
  engine_->Shutdown();
  EXPECT_TRUE(watch.expired());
}

TEST_P(EngineTest, AnOperatorOnADeletedVariableIsAnError) {
  Variable* const variable = engine_->NewVariable("gone");
  engine_->DeleteVariable(variable);
  engine_->WaitForAll();
  const Error error =
      ErrorOf([&] { engine_->NewOperator([](RunContext) {}, {}, {variable}, {.name = "made"}); });
  EXPECT_THAT(error.what(), AllOf(HasSubstr("made"), HasSubstr("gone"), HasSubstr("deleted")));
}

TEST_P(EngineTest, AnOperatorIsNotThatOfAVariableWhichTookADeletedOnesPlace) {
  Variable* old = engine_->NewVariable("old");
  Opr* op = engine_->NewOperator([](RunContext) {}, {}, {old}, {.name = "made"});
  engine_->DeleteVariable(old);
  engine_->WaitForAll();
  std::vector<Variable*> others;  // enough that one has the old one's memory
  for (int i = 0; i < 200; ++i) others.push_back(engine_->NewVariable());
  EXPECT_THROW(engine_->Push(op, kCpu), Error);
  EXPECT_THROW(engine_->Record([&] { engine_->Push(op, kCpu); }), Error);
  engine_->DeleteOperator(op);
  for (Variable* other : others) engine_->DeleteVariable(other);
}

}  // namespace
}  // namespace tessera
