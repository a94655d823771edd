#include "tessera/symbol/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using base_testing::ExpectError;
using ndarray_testing::Read;
using testing::HasSubstr;
using testing::Pointwise;

void Fill(const NDArray& array, const std::vector<double>& values) {
  ASSERT_EQ(static_cast<index_t>(values.size()), array.shape().Size());
  NDArray handle = array;
  if (array.dtype() == DType::kFloat64) {
    handle.SyncCopyFromCPU(values.data(), static_cast<index_t>(values.size()));
  } else {
    const std::vector<float> floats(values.begin(), values.end());
    handle.SyncCopyFromCPU(floats.data(), static_cast<index_t>(floats.size()));
  }
}

std::vector<double> RandomValues(size_t count, std::mt19937* random) {
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  std::vector<double> values(count);
  for (double& value : values) value = uniform(*random);
  return values;
}

TEST(ExecutorTest, RunsForwardOnPresentContents) {
  const auto executor = SimpleBind(Symbol::Variable("a") * Symbol::Variable("b") + 1.0,
                                   Device::Cpu(), {.shapes = {{"a", {2, 2}}}});
  Fill(executor->arg_dict()["a"], {1, 2, 3, 4});
  Fill(executor->arg_dict()["b"], {5, 6, 7, 8});
  executor->Forward(false);
  EXPECT_THAT(executor->outputs()[0].ToVector(), testing::ElementsAre(6, 13, 22, 33));
  Fill(executor->arg_dict()["b"], {0, 0, 0, 1});
  executor->Forward(false);
  EXPECT_THAT(executor->outputs()[0].ToVector(), testing::ElementsAre(1, 1, 1, 5));
}

TEST(ExecutorTest, GradientsOfAValueReadSeveralTimesAddUp) {
  const Symbol x = Symbol::Variable("x");
  // d (x*x + x) = 2x + 1
  const auto executor = SimpleBind(x * x + x, Device::Cpu(), {.shapes = {{"x", {3}}}});
  Fill(executor->arg_dict()["x"], {1, -2, 3});
  executor->Forward(true);
  executor->Backward({NDArray::FromVector(std::vector<float>{1, 1, 10}, {3})});
  EXPECT_THAT(executor->grad_dict()["x"].ToVector(), testing::ElementsAre(3, -3, 70));
}

TEST(ExecutorTest, AddRequestAccumulatesOverCalls) {
  const auto executor = SimpleBind(Symbol::Variable("x") * 3.0, Device::Cpu(),
                                   {.shapes = {{"x", {1}}}, .grad_req = kAddTo});
  const NDArray one = NDArray::FromVector(std::vector<float>{1}, {1});
  for (int i = 1; i <= 3; ++i) {
    executor->Forward(true);
    executor->Backward({one});
    EXPECT_THAT(executor->grad_dict()["x"].ToVector(), testing::ElementsAre(3 * i));
  }
}

TEST(ExecutorTest, AnArgumentThatNothingDependsOnHasGradientZero) {
  Symbol x = Symbol::Apply("SoftmaxOutput", {Symbol::Variable("x")}, {}, "softmax");
  const auto executor = SimpleBind(x, Device::Cpu(), {.shapes = {{"x", {2, 3}}}});
  NDArray label_grad = executor->grad_dict()["softmax_label"];
  label_grad = 7.0f;
  executor->Forward(true);
  executor->Backward();
  EXPECT_THAT(label_grad.ToVector(), testing::ElementsAre(0, 0));
}

TEST(ExecutorTest, SeveralHeadsSumTheirGradients) {
  const Symbol x = Symbol::Variable("x");
  const Symbol y = x * 2.0;
  const auto executor =
      SimpleBind(Symbol::CreateGroup({y, y * 5.0, x, y}), Device::Cpu(), {.shapes = {{"x", {1}}}});
  Fill(executor->arg_dict()["x"], {3});
  executor->Forward(true);
  const auto scalar = [](float v) { return NDArray::FromVector(std::vector<float>{v}, {1}); };
  executor->Backward({scalar(1), scalar(10), scalar(100), scalar(1000)});
  // 2 * (1 + 5 * 10 + 1000) + 100
  EXPECT_THAT(executor->grad_dict()["x"].ToVector(), testing::ElementsAre(2202));
  EXPECT_THAT(executor->outputs()[1].ToVector(), testing::ElementsAre(30));
  EXPECT_THAT(executor->outputs()[2].ToVector(), testing::ElementsAre(3));
  EXPECT_THAT(executor->outputs()[3].ToVector(), testing::ElementsAre(6));
}

TEST(ExecutorTest, NoGradientIsComputedWhereNoneIsWanted) {
  const auto executor = SimpleBind(Symbol::Variable("a") * Symbol::Variable("b"), Device::Cpu(),
                                   {.shapes = {{"a", {2}}}, .no_gradient = {"a"}});
  EXPECT_TRUE(executor->grad_arrays()[0].is_none());
  EXPECT_EQ(executor->grad_dict().count("a"), 0u);
  Fill(executor->arg_dict()["a"], {4, 5});
  executor->Forward(true);
  executor->Backward({NDArray::FromVector(std::vector<float>{1, 2}, {2})});
  EXPECT_THAT(executor->grad_dict()["b"].ToVector(), testing::ElementsAre(4, 10));
}

TEST(ExecutorTest, BackwardIsCalledOnceAfterEachForward) {
  Symbol y = Symbol::Variable("y");
  for (int i = 0; i < 4; ++i) y = y * y + 1.0;
  const auto executor = SimpleBind(y, Device::Cpu(), {.shapes = {{"y", {1}}}});
  Fill(executor->arg_dict()["y"], {0.5});
  const NDArray one = NDArray::FromVector(std::vector<float>{1}, {1});
  const auto gradient = [&] { return executor->grad_dict()["y"].ToVector()[0]; };
  executor->Forward(true);
  executor->Backward({one});
  const float first = gradient();
  EXPECT_NEAR(first, 193.889, 1e-3);
  ExpectError(Error::kFailedPrecondition, "called already", [&] { executor->Backward({one}); });
  EXPECT_EQ(gradient(), first);
  executor->Forward(true);
  executor->Backward({one});
  EXPECT_EQ(gradient(), first);
}

TEST(ExecutorTest, BackwardWorksInTheModeOfItsForward) {
  // Dropout passes gradients where it passed elements; the running variance of BatchNorm is 1.
  Symbol y = Symbol::Apply("Dropout", {Symbol::Variable("x")}, {{"p", "0.5"}});
  y = Symbol::Apply("BatchNorm", {y}, {{"fix_gamma", "1"}, {"eps", "0"}}, "bn");
  const auto executor = SimpleBind(y, Device::Cpu(), {.shapes = {{"x", {4, 1}}}});
  Fill(executor->arg_dict()["x"], {1, 2, 3, 4});
  Fill(executor->aux_dict()["bn_moving_var"], {1});
  const NDArray head = NDArray::FromVector(std::vector<float>{1, 2, 3, 4}, {4, 1});
  for (int i = 0; i < 2; ++i) {
    executor->Forward(true);
    executor->Forward(false);
    EXPECT_EQ(executor->outputs()[0].shape(), (TShape{4, 1}));
    const std::vector<float> mean = executor->aux_dict()["bn_moving_mean"].ToVector();
    executor->Backward({head});
    EXPECT_THAT(executor->aux_dict()["bn_moving_mean"].ToVector(), testing::ElementsAre(mean[0]));
    const float scale = 1 / std::sqrt(executor->aux_dict()["bn_moving_var"].ToVector()[0]);
    EXPECT_THAT(executor->grad_dict()["x"].ToVector(),
                Pointwise(testing::FloatNear(1e-5f),
                          std::vector<float>{scale, 2 * scale, 3 * scale, 4 * scale}));
  }
}

/// A random graph of differentiable operators over matrices of one shape.
Symbol RandomGraph(std::mt19937* random) {
  std::vector<Symbol> pool = {Symbol::Variable("a"), Symbol::Variable("b"), Symbol::Variable("c")};
  const auto pick = [&] { return pool[(*random)() % pool.size()]; };
  const int size = 3 + static_cast<int>((*random)() % 12);
  for (int i = 0; i < size; ++i) {
    switch ((*random)() % 7) {
      case 0:
        pool.push_back(pick() + pick());
        break;
      case 1:
        pool.push_back(pick() * pick() * 0.5);
        break;
      case 2:
        pool.push_back(pick() - pick());
        break;
      case 3:
        pool.push_back(Symbol::Apply("Activation", {pick()}, {{"act_type", "tanh"}}));
        break;
      case 4:
        pool.push_back(Symbol::Apply("Activation", {pick()}, {{"act_type", "softrelu"}}));
        break;
      case 5:
        pool.push_back(Symbol::Apply("Flatten", {pick()}));
        break;
      case 6:
        pool.push_back(Symbol::Apply("FullyConnected", {pick()}, {{"num_hidden", "4"}},
                                     "fc" + std::to_string(i)));
        break;
    }
  }
  return Symbol::CreateGroup({pool.back(), pick() + pick()});
}

TEST(ExecutorTest, GradientsOfRandomGraphsMatchDifferences) {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    const Symbol graph = RandomGraph(&random);
    std::map<std::string, TShape> shapes;
    std::map<std::string, DType> types;
    for (const std::string& name : graph.ListArguments()) types[name] = DType::kFloat64;
    for (const char* name : {"a", "b", "c"}) {
      if (types.contains(name)) shapes[name] = {3, 4};
    }
    const auto executor = SimpleBind(graph, Device::Cpu(), {.shapes = shapes, .types = types});
    std::vector<std::vector<double>> arguments;
    for (const NDArray& array : executor->arg_arrays()) {
      arguments.push_back(RandomValues(static_cast<size_t>(array.shape().Size()), &random));
      Fill(array, arguments.back());
    }
    std::vector<NDArray> heads;
    std::vector<std::vector<double>> head_values;
    for (const NDArray& output : executor->outputs()) {
      head_values.push_back(RandomValues(static_cast<size_t>(output.shape().Size()), &random));
      heads.emplace_back(output.shape(), Device::Cpu(), DType::kFloat64);
      Fill(heads.back(), head_values.back());
    }
    const auto objective = [&] {
      executor->Forward(false);
      double sum = 0;
      for (size_t i = 0; i < heads.size(); ++i) {
        const std::vector<double> out = Read(executor->outputs()[i]);
        for (size_t k = 0; k < out.size(); ++k) sum += out[k] * head_values[i][k];
      }
      return sum;
    };
    executor->Forward(true);
    executor->Backward(heads);
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::vector<double> gradient = Read(executor->grad_arrays()[i]);
      for (size_t k = 0; k < gradient.size(); ++k) {
        const double step = 1e-5;
        std::vector<double> moved = arguments[i];
        moved[k] += step;
        Fill(executor->arg_arrays()[i], moved);
        const double up = objective();
        moved[k] -= 2 * step;
        Fill(executor->arg_arrays()[i], moved);
        const double down = objective();
        Fill(executor->arg_arrays()[i], arguments[i]);
        const double expected = (up - down) / (2 * step);
        ASSERT_NEAR(gradient[k], expected, 1e-5 * std::max(1.0, std::abs(expected)))
            << "round " << round << " argument " << i << " element " << k << "\n"
            << executor->DebugString();
      }
    }
  }
}

TEST(ExecutorTest, StepsOverlapWithoutMixing) {
  // Pushes many steps without a wait between them; every step reads what the one before wrote.
  const Symbol x = Symbol::Variable("x");
  const auto executor = SimpleBind(x + 1.0, Device::Cpu(), {.shapes = {{"x", {64}}}});
  for (int i = 0; i < 1000; ++i) {
    executor->Forward(false);
    CopyFromTo(executor->outputs()[0], executor->arg_arrays()[0]);
  }
  EXPECT_THAT(executor->arg_arrays()[0].ToVector(), testing::Each(1000));
}

TEST(ExecutorTest, MayGoWhileItsStepsPend) {
  NDArray output;
  {
    const auto executor =
        SimpleBind(Symbol::Variable("x") * 2.0 + 1.0, Device::Cpu(), {.shapes = {{"x", {1000}}}});
    for (int i = 0; i < 100; ++i) executor->Forward(false);
    output = executor->outputs()[0];
  }
  EXPECT_THAT(output.ToVector(), testing::Each(1));
}

TEST(ExecutorTest, WrongCallsAreErrorsThatNameTheArgument) {
  const Symbol sum = Symbol::Variable("a") + Symbol::Variable("b");
  const NDArray two(TShape{2}), three(TShape{3});
  const NDArray doubles(TShape{2}, Device::Cpu(), DType::kFloat64);
  constexpr auto kInvalid = Error::kInvalidArgument;
  ExpectError(kInvalid, "1 arguments", [&] { Bind(sum, Device::Cpu(), {.arguments = {two}}); });
  ExpectError(kInvalid, "(3,)", [&] { Bind(sum, Device::Cpu(), {.arguments = {two, three}}); });
  ExpectError(kInvalid, "\"b\"", [&] {
    Bind(sum, Device::Cpu(), {.arguments = {two, NDArray()}});
  });
  ExpectError(kInvalid, "float64", [&] {
    Bind(sum, Device::Cpu(), {.arguments = {two, doubles}});
  });
  ExpectError(kInvalid, "gradient of \"a\"", [&] {
    Bind(sum, Device::Cpu(), {.arguments = {two, two}, .gradients = {three, NDArray()}});
  });
  ExpectError(kInvalid, "give the shapes", [&] { SimpleBind(sum, Device::Cpu(), {.shapes = {}}); });

  const auto executor = SimpleBind(sum, Device::Cpu(), {.shapes = {{"a", {2}}}});
  ExpectError(Error::kFailedPrecondition, "Forward first", [&] { executor->Backward({two}); });
  executor->Forward(true);
  ExpectError(kInvalid, "head gradient", [&] { executor->Backward(); });
  ExpectError(kInvalid, "2 head gradients", [&] { executor->Backward({two, two}); });
  ExpectError(kInvalid, "has none", [&] {
    SimpleBind(
        Symbol::Apply("sgd_update", {Symbol::Variable("w"), Symbol::Variable("g")}, {{"lr", "1"}}),
        Device::Cpu(), {.shapes = {{"w", {2}}}});
  });
}

TEST(ExecutorTest, TwoVariablesOfOneNameCannotBeBound) {
  const Symbol sum = Symbol::Variable("x") + Symbol::Variable("x");
  ExpectError(Error::kInvalidArgument, "two different variables are called \"x\"", [&] {
    SimpleBind(sum, Device::Cpu(), {.shapes = {{"x", {2}}}});
  });
}

/// A perceptron with one hidden layer.
Symbol Perceptron() {
  Symbol net = Symbol::Variable("data");
  net = Symbol::Apply("FullyConnected", {net}, {{"num_hidden", "5"}}, "fc1");
  net = Symbol::Apply("Activation", {net}, {{"act_type", "tanh"}}, "act");
  net = Symbol::Apply("FullyConnected", {net}, {{"num_hidden", "3"}}, "fc2");
  return Symbol::Apply("SoftmaxOutput", {net}, {}, "softmax");
}

std::vector<float> Ramp(index_t size, float first) {
  std::vector<float> values;
  for (index_t i = 0; i < size; ++i) {
    values.push_back(first + 0.25f * static_cast<float>(i % 7) - 0.1f * static_cast<float>(i % 3));
  }
  return values;
}

void FillRamps(const Executor& executor) {
  for (const auto& [name, array] : executor.arg_dict()) {
    if (name == "softmax_label") continue;
    CopyFromTo(NDArray::FromVector(Ramp(array.shape().Size(), -0.5f), array.shape()), array);
  }
}

TEST(ExecutorTest, PartialForwardRunsOneStepAtATime) {
  const auto executor = SimpleBind(Perceptron(), Device::Cpu(), {.shapes = {{"data", {2, 4}}}});
  FillRamps(*executor);
  executor->Forward(true);
  const std::vector<float> expected = executor->outputs()[0].ToVector();
  executor->Backward();
  const std::vector<float> gradient = executor->grad_dict()["fc1_weight"].ToVector();
  NDArray output = executor->outputs()[0];
  for (int round = 0; round < 3; ++round) {
    output = 0.0f;
    EXPECT_EQ(executor->PartialForward(true, 0), 3);
    EXPECT_EQ(executor->PartialForward(true, 1), 2);
    if (round == 1) continue;  // leaves the run incomplete
    EXPECT_EQ(executor->PartialForward(true, 2), 1);
    EXPECT_THAT(output.ToVector(), testing::Each(0));
    ExpectError(Error::kFailedPrecondition, "Forward first", [&] { executor->Backward(); });
    EXPECT_EQ(executor->PartialForward(true, 3), 0);
    EXPECT_EQ(output.ToVector(), expected);
    executor->Backward();
    EXPECT_EQ(executor->grad_dict()["fc1_weight"].ToVector(), gradient);
  }
  EXPECT_EQ(executor->PartialForward(true, 4), 0);
  ExpectError(Error::kOutOfRange, "step -1", [&] { executor->PartialForward(true, -1); });
}

TEST(ExecutorTest, AMonitorReceivesEveryResultInOrder) {
  const auto executor = SimpleBind(Perceptron(), Device::Cpu(), {.shapes = {{"data", {2, 4}}}});
  FillRamps(*executor);
  executor->Forward(true);
  executor->Backward();
  const std::vector<float> expected = executor->outputs()[0].ToVector();
  const std::vector<float> gradient = executor->grad_dict()["fc1_weight"].ToVector();
  std::vector<std::string> names;
  std::map<std::string, NDArray> arrays;
  const auto note = [&](const std::string& name, const NDArray& array) {
    names.push_back(name);
    arrays[name] = array;
  };
  executor->SetMonitorCallback(note);
  executor->Forward(true);
  EXPECT_THAT(names,
              testing::ElementsAre("fc1_output", "act_output", "fc2_output", "softmax_output"));
  names.clear();
  executor->Backward();
  EXPECT_THAT(names,
              testing::ElementsAre("softmax_backward_data_grad", "softmax_backward_label_grad",
                                   "fc2_backward_data_grad", "fc2_backward_weight_grad",
                                   "fc2_backward_bias_grad", "act_backward_data_grad",
                                   "fc1_backward_data_grad", "fc1_backward_weight_grad",
                                   "fc1_backward_bias_grad", "softmax_label_zero_grad_output"));
  EXPECT_THAT(arrays["softmax_backward_label_grad"].ToVector(), testing::ElementsAre(0, 0));
  EXPECT_EQ(executor->outputs()[0].ToVector(), expected);
  EXPECT_EQ(executor->grad_dict()["fc1_weight"].ToVector(), gradient);
  // Later results did not overwrite earlier ones.
  const std::vector<float> before = arrays["fc1_output"].ToVector();
  const std::vector<float> after = arrays["act_output"].ToVector();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(std::tanh(before[i]), after[i], 1e-6);

  names.clear();
  executor->SetMonitorCallback(note, /*monitor_all=*/true);
  executor->Forward(false);
  EXPECT_THAT(std::vector<std::string>(names.begin(), names.begin() + 7),
              testing::ElementsAre("data", "fc1_data", "fc1_weight", "fc1_weight", "fc1_bias",
                                   "fc1_bias", "fc1_output"));
  names.clear();
  executor->SetMonitorCallback(nullptr);
  executor->Forward(true);
  executor->Backward();
  EXPECT_TRUE(names.empty());
  EXPECT_EQ(executor->grad_dict()["fc1_weight"].ToVector(), gradient);
}

TEST(ExecutorTest, AMonitorMayNameTheValues) {
  const auto executor = SimpleBind(Perceptron(), Device::Cpu(), {.shapes = {{"data", {2, 4}}}});
  std::vector<std::string> names;
  const auto note = [&](const std::string& name, const NDArray&) { names.push_back(name); };
  const auto types = [](const OperatorProperty& op) {
    return std::vector<std::string>(op.ListArguments().size(), op.TypeString());
  };
  executor->SetMonitorCallback(note, /*monitor_all=*/true, {.inputs = types});
  executor->Forward(false);
  EXPECT_THAT(std::vector<std::string>(names.begin(), names.begin() + 9),
              testing::ElementsAre("data", "fc1_FullyConnected", "fc1_weight", "fc1_FullyConnected",
                                   "fc1_bias", "fc1_FullyConnected", "fc1_output", "act_Activation",
                                   "act_output"));
}

TEST(ExecutorTest, AMonitorReceivesGradientsThatNothingReads) {
  const auto executor = SimpleBind(
      Symbol::Apply("FullyConnected", {Symbol::Variable("data")}, {{"num_hidden", "1"}}, "fc"),
      Device::Cpu(), {.shapes = {{"data", {1, 2}}}, .no_gradient = {"data"}});
  Fill(executor->arg_dict()["fc_weight"], {3, 4});
  std::map<std::string, NDArray> arrays;
  executor->SetMonitorCallback(
      [&](const std::string& name, const NDArray& array) { arrays[name] = array; });
  executor->Forward(true);
  executor->Backward({NDArray::FromVector(std::vector<float>{2}, {1, 1})});
  EXPECT_THAT(arrays.at("fc_backward_data_grad").ToVector(), testing::ElementsAre(6, 8));
}

TEST(ExecutorTest, AMonitorSeesANodeThatProducesNaN) {
  Symbol net = Symbol::Apply("log", {Symbol::Variable("x")}, {}, "first");
  net = Symbol::Apply("square", {net}, {}, "second");
  const auto executor = SimpleBind(net, Device::Cpu(), {.shapes = {{"x", {2}}}});
  Fill(executor->arg_dict()["x"], {1, -1});
  std::string first_nan;
  executor->SetMonitorCallback([&](const std::string& name, const NDArray& array) {
    for (const float value : array.ToVector()) {
      if (std::isnan(value) && first_nan.empty()) first_nan = name;
    }
  });
  executor->Forward(false);
  EXPECT_EQ(first_nan, "first_output");
}

TEST(ExecutorTest, ParametersAreCopiedByNameAndConverted) {
  const auto executor = SimpleBind(Perceptron(), Device::Cpu(), {.shapes = {{"data", {2, 4}}}});
  const NDArray bias = NDArray::FromVector(std::vector<float>{1, 2, 3}, {3});
  executor->CopyParamsFrom({{"fc2_bias", bias}});
  EXPECT_THAT(executor->arg_dict()["fc2_bias"].ToVector(), testing::ElementsAre(1, 2, 3));
  const NDArray doubles = Invoke("Cast", {bias * 2.0f}, {{"dtype", "float64"}})[0];
  executor->CopyParamsFrom({{"fc2_bias", doubles}, {"other", bias}}, {}, true);
  EXPECT_THAT(executor->arg_dict()["fc2_bias"].ToVector(), testing::ElementsAre(2, 4, 6));
  ExpectError(Error::kInvalidArgument, "did you mean \"fc2_bias\"", [&] {
    executor->CopyParamsFrom({{"fc2_bia", bias}});
  });
  ExpectError(Error::kInvalidArgument, "(5,)", [&] {
    executor->CopyParamsFrom({{"fc1_bias", bias}, {"fc2_bias", bias * 5.0f}});
  });
  EXPECT_THAT(executor->arg_dict()["fc2_bias"].ToVector(), testing::ElementsAre(2, 4, 6));
}

TEST(ExecutorTest, ReshapeSharesParametersAndMemory) {
  const auto large = SimpleBind(Perceptron(), Device::Cpu(), {.shapes = {{"data", {8, 4}}}});
  FillRamps(*large);
  const auto small = large->Reshape({.shapes = {{"data", {2, 4}}, {"softmax_label", {2}}}});
  EXPECT_EQ(small->outputs()[0].shape(), (TShape{2, 3}));
  large->Forward(true);
  const std::vector<float> expected = large->outputs()[0].ToVector();
  small->Forward(true);
  const std::vector<float> rows = small->outputs()[0].ToVector();
  EXPECT_EQ(rows, std::vector<float>(expected.begin(), expected.begin() + 6));
  // Weights, their gradients and the first rows of the data are the same arrays.
  small->Backward();
  EXPECT_EQ(small->grad_dict()["fc1_weight"].ToVector(),
            large->grad_dict()["fc1_weight"].ToVector());
  NDArray data = small->arg_dict()["data"];
  data = 7.0f;
  EXPECT_EQ(large->arg_dict()["data"].ToVector()[7], 7);
  EXPECT_NE(large->arg_dict()["data"].ToVector()[8], 7);
  // The results that this Forward kept are gone.
  large->Forward(true);
  small->Forward(true);
  ExpectError(Error::kFailedPrecondition, "shares the memory", [&] { large->Backward(); });
}

TEST(ExecutorTest, MemoryOutlivesTheExecutorThatItCameFrom) {
  auto first = SimpleBind(Perceptron(), Device::Cpu(), {.shapes = {{"data", {8, 4}}}});
  FillRamps(*first);
  first->Forward(true);
  const auto second = first->Reshape({.shapes = {{"data", {2, 4}}, {"softmax_label", {2}}}});
  const std::vector<float> expected = first->outputs()[0].ToVector();
  NDArray::WaitAll();
  first.reset();
  second->Forward(true);
  second->Backward();
  EXPECT_EQ(second->outputs()[0].ToVector(),
            std::vector<float>(expected.begin(), expected.begin() + 6));
}

TEST(ExecutorTest, ReshapeSharesTheMemoryOfOutputs) {
  const auto large =
      SimpleBind(Symbol::Variable("x") + 1.0, Device::Cpu(), {.shapes = {{"x", {3, 2}}}});
  large->Forward(false);
  const auto small = large->Reshape({.shapes = {{"x", {2, 2}}}});
  Fill(small->arg_dict()["x"], {1, 2, 3, 4});
  small->Forward(false);
  EXPECT_THAT(large->outputs()[0].ToVector(), testing::ElementsAre(2, 3, 4, 5, 1, 1));
  const auto larger = small->Reshape({.shapes = {{"x", {4, 2}}}, .allow_up_sizing = true});
  larger->Forward(false);
  EXPECT_THAT(small->outputs()[0].ToVector(), testing::ElementsAre(2, 3, 4, 5));
}

TEST(ExecutorTest, ReshapeRefusesWhatItIsNotAllowed) {
  const auto executor = SimpleBind(Perceptron(), Device::Cpu(), {.shapes = {{"data", {2, 4}}}});
  ExpectError(Error::kInvalidArgument, "allow_up_sizing", [&] {
    executor->Reshape({.shapes = {{"data", {4, 4}}}, .partial_shaping = true});
  });
  ExpectError(Error::kInvalidArgument, "\"fc1_weight\" changes from (5,4) to (5,3)", [&] {
    executor->Reshape({.shapes = {{"data", {2, 3}}}});
  });
  const auto larger = executor->Reshape(
      {.shapes = {{"data", {4, 4}}}, .partial_shaping = true, .allow_up_sizing = true});
  FillRamps(*larger);
  larger->Forward(true);
  larger->Backward();
  EXPECT_EQ(larger->outputs()[0].shape(), (TShape{4, 3}));
  EXPECT_EQ(larger->outputs()[0].ToVector().size(), 12u);
}

TEST(ExecutorTest, ExecutorsThatShareMemoryAreOrdered) {
  // A bucket for each length; every run uses the memory of the one before while that still pends.
  Symbol net = Symbol::Variable("x");
  for (int i = 0; i < 40; ++i) net = net * 1.0 + 1.0;
  const auto long_one = SimpleBind(net, Device::Cpu(), {.shapes = {{"x", {2000}}}});
  const auto short_one =
      SimpleBind(net, Device::Cpu(), {.shapes = {{"x", {900}}}, .shared_executor = long_one.get()});
  EXPECT_GT(short_one->memory_plan().planned_bytes, 0);
  for (int round = 0; round < 50; ++round) {
    for (Executor* executor : {long_one.get(), short_one.get()}) {
      NDArray x = executor->arg_dict()["x"];
      x = static_cast<float>(round);
      executor->Forward(true);
      const NDArray& output = executor->outputs()[0];
      const NDArray ones(output.shape());
      NDArray one = ones;
      one = 1.0f;
      executor->Backward({one});
    }
    if (round % 10 != 9) continue;
    for (Executor* executor : {long_one.get(), short_one.get()}) {
      EXPECT_THAT(executor->outputs()[0].ToVector(),
                  testing::Each(40.0f + static_cast<float>(round)));
      EXPECT_THAT(executor->grad_dict()["x"].ToVector(), testing::Each(1));
    }
  }
}

TEST(ExecutorTest, ABucketUsesTheParametersOfAnother) {
  const auto first = SimpleBind(Perceptron(), Device::Cpu(), {.shapes = {{"data", {8, 4}}}});
  const std::vector<std::string> shared = {"fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"};
  const auto second = SimpleBind(
      Perceptron(), Device::Cpu(),
      {.shapes = {{"data", {2, 4}}}, .shared_executor = first.get(), .shared_arguments = shared});
  for (const std::string& name : shared) {
    EXPECT_EQ(second->arg_dict()[name].var(), first->arg_dict()[name].var());
    EXPECT_EQ(second->grad_dict()[name].var(), first->grad_dict()[name].var());
  }
  EXPECT_NE(second->arg_dict()["data"].var(), first->arg_dict()["data"].var());
  ExpectError(Error::kInvalidArgument, "\"data\" has shape (8,4), expected (2,4)", [&] {
    SimpleBind(Perceptron(), Device::Cpu(),
               {.shapes = {{"data", {2, 4}}},
                .shared_executor = first.get(),
                .shared_arguments = {"data"}});
  });
}

TEST(ExecutorTest, GroupsOfNodesRunOnTheirDevices) {
  // fc1 and act on one device, the rest on another; the same network on one device is the model.
  Symbol net = Perceptron();
  const auto expected = SimpleBind(net, Device::Cpu(), {.shapes = {{"data", {2, 4}}}});
  const Symbol internals = net.GetInternals();
  for (const char* name : {"fc1_weight", "fc1_bias", "fc1_output", "act_output"}) {
    Symbol node = internals[name];
    node.SetAttribute("ctx_group", "first");
  }
  const auto executor =
      SimpleBind(net, Device::Cpu(0),
                 {.shapes = {{"data", {2, 4}}}, .group2ctx = {{"first", Device::Cpu(1)}}});
  EXPECT_EQ(executor->arg_dict()["fc1_weight"].device(), Device::Cpu(1));
  EXPECT_EQ(executor->grad_dict()["fc1_weight"].device(), Device::Cpu(1));
  EXPECT_EQ(executor->arg_dict()["fc2_weight"].device(), Device::Cpu(0));
  EXPECT_THAT(executor->DebugString(), HasSubstr("on cpu(1)"));
  EXPECT_THAT(executor->DebugString(), HasSubstr("copy"));
  for (Executor* each : {expected.get(), executor.get()}) {
    FillRamps(*each);
    each->Forward(true);
    each->Backward();
  }
  EXPECT_EQ(executor->outputs()[0].ToVector(), expected->outputs()[0].ToVector());
  for (const char* name : {"fc1_weight", "fc2_weight", "data"}) {
    EXPECT_EQ(executor->grad_dict()[name].ToVector(), expected->grad_dict()[name].ToVector());
  }
}

TEST(ExecutorTest, NormalizationIsFoldedIntoWeightsAndFollowsThem) {
  Symbol net =
      Symbol::Apply("FullyConnected", {Symbol::Variable("data")}, {{"num_hidden", "3"}}, "fc");
  net = Symbol::Apply("BatchNorm", {net}, {{"fix_gamma", "0"}}, "bn")[0];
  const auto training = SimpleBind(net, Device::Cpu(), {.shapes = {{"data", {2, 4}}}});
  const auto inference =
      Bind(net, Device::Cpu(),
           {.arguments = training->arg_arrays(), .aux_states = training->aux_arrays()});
  // One operator is left.
  EXPECT_THAT(inference->DebugString(), HasSubstr("0 bn -> output 0"));
  EXPECT_THAT(inference->DebugString(), testing::Not(HasSubstr("\n1 ")));
  FillRamps(*training);
  NDArray variance = training->aux_dict()["bn_moving_var"];
  const auto expect_same = [&](bool is_train) {
    training->Forward(is_train);
    inference->Forward(is_train);
    EXPECT_THAT(inference->outputs()[0].ToVector(),
                Pointwise(testing::FloatNear(1e-4f), training->outputs()[0].ToVector()));
  };
  for (const float value : {1.0f, 4.0f}) {
    variance = value;
    expect_same(false);
    expect_same(false);
    NDArray weight = training->arg_dict()["fc_weight"];
    weight *= 2.0f;
    expect_same(false);
    expect_same(true);  // the statistics of the batch, which change the moving ones twice
    expect_same(false);
  }
}

TEST(ExecutorTest, ConstantsAreComputedOnce) {
  const Symbol ones = Symbol::Apply("_ones", {}, {{"shape", "(3,)"}});
  const Symbol net = Symbol::Variable("x") * (ones * 2.0 + 1.0);
  for (const OpReqType request : {kNullOp, kWriteTo}) {
    const auto executor =
        SimpleBind(net, Device::Cpu(), {.shapes = {{"x", {3}}}, .grad_req = request});
    Fill(executor->arg_dict()["x"], {1, 2, 3});
    for (int i = 0; i < 2; ++i) {
      executor->Forward(true);
      EXPECT_THAT(executor->outputs()[0].ToVector(), testing::ElementsAre(3, 6, 9));
      if (request == kNullOp) continue;
      executor->Backward({NDArray::FromVector(std::vector<float>{1, 1, 2}, {3})});
      EXPECT_THAT(executor->grad_dict()["x"].ToVector(), testing::ElementsAre(3, 3, 6));
    }
    EXPECT_THAT(executor->DebugString(), testing::Not(HasSubstr("ones")));
  }
}

TEST(ExecutorTest, WritesAdvanceTheVersionsOfTheArrays) {
  const auto executor =
      SimpleBind(Symbol::Variable("x") * 2.0, Device::Cpu(), {.shapes = {{"x", {2}}}});
  const uint64_t output = executor->outputs()[0].var()->version();
  const uint64_t gradient = executor->grad_arrays()[0].var()->version();
  const uint64_t argument = executor->arg_arrays()[0].var()->version();
  executor->Forward(true);
  executor->Backward({NDArray::FromVector(std::vector<float>{1, 1}, {2})});
  EXPECT_GT(executor->outputs()[0].var()->version(), output);
  EXPECT_GT(executor->grad_arrays()[0].var()->version(), gradient);
  EXPECT_EQ(executor->arg_arrays()[0].var()->version(), argument);
}

TEST(ExecutorTest, AFailedStepFailsTheStepsThatReadItsResult) {
  // The index is out of range in the first run only. The steps are several engine operations.
  const Symbol index = Symbol::Variable("index");
  Symbol net = Symbol::Apply("take", {Symbol::Variable("x"), index}, {{"mode", "raise"}});
  for (int i = 0; i < 40; ++i) net = net + 1.0;
  const auto executor =
      SimpleBind(net, Device::Cpu(),
                 {.shapes = {{"x", {10, 4}}, {"index", {2}}}, .no_gradient = {"x", "index"}});
  Fill(executor->arg_dict()["index"], {1, 10});
  executor->Forward(false);
  EXPECT_THROW(executor->outputs()[0].WaitToRead(), Error);
  Fill(executor->arg_dict()["index"], {1, 9});
  executor->Forward(false);
  EXPECT_THAT(executor->outputs()[0].ToVector(), testing::Each(40));
}

}  // namespace
}  // namespace tessera
