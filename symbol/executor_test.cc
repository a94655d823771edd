#include "tessera/symbol/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/imperative.h"

namespace tessera {
namespace {

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

std::vector<double> Read(const NDArray& array) {
  if (array.dtype() == DType::kFloat64) {
    std::vector<double> values(static_cast<size_t>(array.shape().Size()));
    array.SyncCopyToCPU(values.data(), array.shape().Size());
    return values;
  }
  const std::vector<float> floats = array.ToVector();
  return {floats.begin(), floats.end()};
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

template <typename Call>
void ExpectError(absl::StatusCode code, const std::string& words, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
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
  executor->Forward(true);
  executor->Forward(false);
  ExpectError(Error::kFailedPrecondition, "Forward(true) first",
              [&] { executor->Backward({one}); });
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
  ExpectError(Error::kFailedPrecondition, "Forward(true)", [&] { executor->Backward({two}); });
  executor->Forward(true);
  ExpectError(kInvalid, "head gradient", [&] { executor->Backward(); });
  ExpectError(kInvalid, "2 head gradients", [&] { executor->Backward({two, two}); });
  ExpectError(kInvalid, "has none", [&] {
    SimpleBind(
        Symbol::Apply("sgd_update", {Symbol::Variable("w"), Symbol::Variable("g")}, {{"lr", "1"}}),
        Device::Cpu(), {.shapes = {{"w", {2}}}});
  });
}

}  // namespace
}  // namespace tessera
