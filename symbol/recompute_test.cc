// Forward results that the gradient computes once more, by attribute, by setting and for a memory
// budget: the results of training stay the same bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/resource/resource_manager.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/scope.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using ndarray_testing::Read;
using ::testing::Each;
using ::testing::HasSubstr;

using Results = std::vector<std::vector<double>>;

constexpr int kBlocks = 8;

/// A residual network with BatchNorm and, if it `drops`, with Dropout in some blocks.
Symbol Network(bool drops = true) {
  Symbol x = Symbol::Variable("data");
  for (int i = 0; i < kBlocks; ++i) {
    const std::string number = std::to_string(i);
    Symbol branch = Symbol::Apply(
        "Convolution", {x},
        {{"kernel", "(3,3)"}, {"pad", "(1,1)"}, {"num_filter", "4"}, {"no_bias", "True"}},
        "conv" + number);
    branch = Symbol::Apply("BatchNorm", {branch}, {{"fix_gamma", "False"}}, "norm" + number)[0];
    branch = Symbol::Apply("Activation", {branch}, {{"act_type", "relu"}}, "relu" + number);
    if (drops && i % 3 == 1) branch = Symbol::Apply("Dropout", {branch}, {}, "drop" + number)[0];
    branch = Symbol::Apply("tanh", {branch}, {}, "tanh" + number);
    x = i == 0 ? branch : Symbol::Apply("elemwise_add", {x, branch}, {}, "sum" + number);
  }
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", "5"}}, "fc");
  return Symbol::Apply("SoftmaxOutput", {x}, {}, "softmax");
}

/// Writes elements that depend on the array's name.
void Fill(const std::string& name, NDArray array) {
  std::vector<float> values(static_cast<size_t>(array.shape().Size()));
  uint32_t state = 1;
  for (const char c : name) state = state * 31 + static_cast<uint32_t>(c);
  for (float& value : values) {
    state = state * 1664525 + 1013904223;
    value = static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.4f;
    if (name.ends_with("label")) value = 2;
    if (name.ends_with("var")) value += 1;
  }
  array.SyncCopyFromCPU(values.data(), array.shape().Size());
}

std::unique_ptr<Executor> BindNetwork(int64_t memory_budget_bytes = 0, bool recomputes = false,
                                      const Symbol& symbol = Network()) {
  return SimpleBind(symbol, Device::Cpu(),
                    {.shapes = {{"data", {16, 3, 8, 8}}},
                     .memory_budget_bytes = memory_budget_bytes,
                     .recomputes = recomputes});
}

/// Returns the results of two steps in training mode and one outside of it.
Results Train(Executor* executor) {
  for (const auto& [name, array] : executor->arg_dict()) Fill(name, array);
  for (const auto& [name, array] : executor->aux_dict()) Fill(name, array);
  ResourceManager::Get()->SeedRandom(Device::Cpu(), 7);
  Results results;
  for (const bool is_train : {true, true, false}) {
    executor->Forward(is_train);
    executor->Backward();
    results.push_back(Read(executor->outputs()[0]));
    for (const auto& [name, array] : executor->grad_dict()) results.push_back(Read(array));
    for (const auto& [name, array] : executor->aux_dict()) results.push_back(Read(array));
  }
  return results;
}

/// Calls `plan`, for a budget of one byte, and returns the least budget that its error states.
int64_t LeastBudget(const std::function<void()>& plan) {
  try {
    plan();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    const std::string text = error.what(), before = "expected at least ";
    EXPECT_THAT(text, HasSubstr("memory_budget_bytes is 1, " + before));
    return std::atoll(text.c_str() + text.find(before) + before.size());
  }
  ADD_FAILURE() << "no error";
  return 0;
}

int64_t LeastBudgetOfExecutor() {
  return LeastBudget([] { BindNetwork(1); });
}

int CountLines(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(RecomputeTest, AnExecutorGivesTheBitsOfStoredTrainingWithinItsBudget) {
  const auto stored = BindNetwork();
  const int64_t stored_bytes = stored->memory_plan().planned_bytes;
  const Results expected = Train(stored.get());
  const int64_t least = LeastBudgetOfExecutor();
  EXPECT_LT(least, stored_bytes * 8 / 10);
  for (const int64_t budget : {stored_bytes, stored_bytes - 1, (stored_bytes + least) / 2, least}) {
    SCOPED_TRACE(budget);
    const auto executor = BindNetwork(budget);
    EXPECT_LE(executor->memory_plan().planned_bytes, budget);
    EXPECT_EQ(executor->DebugString() == stored->DebugString(), budget == stored_bytes);
    EXPECT_EQ(Train(executor.get()), expected);
  }
}

TEST(RecomputeTest, TheSettingRecomputesCheapSteps) {
  const auto stored = BindNetwork();
  const Results expected = Train(stored.get());
  const auto by_option = BindNetwork(0, /*recomputes=*/true);
  ASSERT_EQ(setenv("TESSERA_RECOMPUTE", "1", /*overwrite=*/1), 0);
  const auto by_setting = BindNetwork();
  ASSERT_EQ(unsetenv("TESSERA_RECOMPUTE"), 0);
  EXPECT_EQ(by_option->DebugString(), by_setting->DebugString());
  EXPECT_LT(by_setting->memory_plan().planned_bytes, stored->memory_plan().planned_bytes);
  // Each convolution and each Dropout runs once forward and once backward.
  for (const std::string name : {" conv2 ", " drop1 "}) {
    EXPECT_EQ(CountLines(by_setting->DebugString(), name), CountLines(stored->DebugString(), name));
  }
  EXPECT_EQ(Train(by_option.get()), expected);
  EXPECT_EQ(Train(by_setting.get()), expected);
}

TEST(RecomputeTest, TheAttributeRecomputesItsNodes) {
  const Results expected = Train(BindNetwork().get());
  for (const std::string key : {"force_mirroring", "__force_mirroring__"}) {
    std::optional<Symbol> network;
    {
      const AttrScope scope(key, "True");
      network = Network();
    }
    const auto executor = BindNetwork(0, false, *network);
    EXPECT_EQ(CountLines(executor->DebugString(), " conv2 "), 2);
    EXPECT_EQ(CountLines(executor->DebugString(), " drop1 "), 1);
    EXPECT_EQ(Train(executor.get()), expected);
  }
}

TEST(RecomputeTest, AllWaysTogetherGiveTheSameBits) {
  const Results expected = Train(BindNetwork().get());
  const AttrScope scope("force_mirroring", "True");
  const Symbol network = Network();
  const int64_t least = LeastBudget([&] { BindNetwork(1, true, network); });
  EXPECT_EQ(Train(BindNetwork(least, true, network).get()), expected);
}

TEST(RecomputeTest, AReshapedExecutorHasTheSameBudget) {
  const int64_t least = LeastBudgetOfExecutor();
  const auto executor = BindNetwork(least);
  const auto smaller =
      executor->Reshape({.shapes = {{"data", {8, 3, 8, 8}}}, .partial_shaping = true});
  EXPECT_LE(smaller->memory_plan().planned_bytes, least);
  EXPECT_THROW(
      executor->Reshape(
          {.shapes = {{"data", {128, 3, 8, 8}}}, .partial_shaping = true, .allow_up_sizing = true}),
      Error);
}

TEST(RecomputeTest, AMonitorSeesWhatForwardComputes) {
  const auto stored = BindNetwork(), executor = BindNetwork(LeastBudgetOfExecutor());
  const Results expected = Train(stored.get());
  std::vector<std::string> names[2];
  const auto run = [](Executor* monitored, std::vector<std::string>* seen) {
    monitored->SetMonitorCallback(
        [seen](const std::string& name, const NDArray&) { seen->push_back(name); });
    EXPECT_FALSE(Train(monitored).empty());
    monitored->SetMonitorCallback(nullptr);
  };
  run(stored.get(), &names[0]);
  run(executor.get(), &names[1]);
  EXPECT_EQ(names[0], names[1]);
  EXPECT_EQ(Train(executor.get()), expected);
}

TEST(RecomputeTest, TwoExecutorsTrainInTwoThreads) {
  const Symbol network = Network(/*drops=*/false);
  const Results expected = Train(BindNetwork(0, false, network).get());
  const int64_t least = LeastBudget([&] { BindNetwork(1, false, network); });
  std::vector<Results> results(2);
  std::vector<std::thread> threads;
  for (Results& own : results) {
    threads.emplace_back([&] { own = Train(BindNetwork(least, false, network).get()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(results, Each(expected));
}

/// The arrays of a call of the network.
struct Call {
  explicit Call(const CachedOp& op) {
    const Symbol symbol = Network();
    const InferredShapes shapes = symbol.InferShape({{"data", {16, 3, 8, 8}}});
    std::map<std::string, NDArray> arrays;
    const std::vector<std::string> arguments = symbol.ListArguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      NDArray array(shapes.arguments[i]);
      Fill(arguments[i], array);
      if (!arguments[i].ends_with("label")) array.AttachGrad();
      arrays.emplace(arguments[i], array);
    }
    const std::vector<std::string> aux_states = symbol.ListAuxiliaryStates();
    for (size_t i = 0; i < aux_states.size(); ++i) {
      NDArray array(shapes.aux_states[i]);
      Fill(aux_states[i], array);
      arrays.emplace(aux_states[i], array);
    }
    for (const std::string& name : op.input_names()) inputs.push_back(arrays.at(name));
  }

  /// Appends the gradients, and the inputs, whose aux states change.
  void AppendTo(Results* results) const {
    for (const NDArray& input : inputs) {
      results->push_back(Read(input));
      if (!input.grad().is_none()) results->push_back(Read(input.grad()));
    }
  }

  std::vector<NDArray> inputs;
};

/// Returns the results of a call, of its gradient twice, and of two calls before their gradients.
Results Differentiate(const CachedOp& op, bool train_mode) {
  const Call call(op);
  ResourceManager::Get()->SeedRandom(Device::Cpu(), 7);
  Results results;
  std::vector<NDArray> outputs;
  for (int i = 0; i < 3; ++i) {
    const autograd::Record record(train_mode);
    outputs.push_back(op(call.inputs)[0]);
  }
  outputs[0].Backward({}, {.retain_graph = true});
  call.AppendTo(&results);
  for (const NDArray& output : outputs) {
    output.Backward();
    results.push_back(Read(output));
    call.AppendTo(&results);
  }
  return results;
}

TEST(RecomputeTest, ACachedOpGivesTheBitsOfStoredTrainingWithinItsBudget) {
  for (const bool train_mode : {true, false}) {
    SCOPED_TRACE(train_mode ? "training" : "outside of training");
    const CachedOp stored(Network());
    const Results expected = Differentiate(stored, train_mode);
    const auto plan = [&](const CachedOp& op) {
      const Call call(op);
      const autograd::Record record(train_mode);
      return op.memory_plan(call.inputs).planned_bytes;
    };
    const int64_t stored_bytes = plan(stored);
    const int64_t least =
        LeastBudget([&] { plan(CachedOp(Network(), {.memory_budget_bytes = 1})); });
    EXPECT_LT(least, stored_bytes);
    for (const int64_t budget : {(stored_bytes + least) / 2, least}) {
      const CachedOp op(Network(), {.memory_budget_bytes = budget});
      EXPECT_LE(plan(op), budget);
      EXPECT_EQ(Differentiate(op, train_mode), expected);
    }
    const CachedOp cheap(Network(), {.recomputes = true});
    if (train_mode) {  // otherwise BatchNorm runs once
      EXPECT_LT(plan(cheap), stored_bytes);
    }
    EXPECT_EQ(Differentiate(cheap, train_mode), expected);
  }
}

TEST(RecomputeTest, StatesMayChangeBetweenACallAndItsGradient) {
  // Outside of training, a copy of BatchNorm would read the new averages.
  const auto run = [](const CachedOp& op) {
    const Call call(op);
    NDArray output;
    {
      const autograd::Record record(/*train_mode=*/false);
      output = op(call.inputs)[0];
    }
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      NDArray state = call.inputs[i];
      if (op.input_names()[i].find("moving") != std::string::npos) state = 3.0f;
    }
    output.Backward();
    Results results;
    call.AppendTo(&results);
    return results;
  };
  EXPECT_EQ(run(CachedOp(Network(), {.recomputes = true})), run(CachedOp(Network())));
}

}  // namespace
}  // namespace tessera
