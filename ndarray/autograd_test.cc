#include "tessera/ndarray/autograd.h"

#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/recorded_function.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using base_testing::ExpectError;
using ndarray_testing::Vector;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::Pointwise;

NDArray VariableOf(const std::vector<float>& values, OpReqType req = kWriteTo) {
  NDArray array = Vector(values);
  array.AttachGrad(req);
  return array;
}

NDArray Op(const char* op, const NDArray& x, const ParameterMap& parameters = {}) {
  return Invoke(op, {x}, parameters)[0];
}

TEST(AutogradScopeTest, ScopesNestAndBelongToAThread) {
  EXPECT_FALSE(autograd::IsRecording());
  EXPECT_FALSE(autograd::IsTraining());
  {
    const autograd::Record record;
    EXPECT_TRUE(autograd::IsRecording());
    EXPECT_TRUE(autograd::IsTraining());
    {
      const autograd::Pause pause;
      EXPECT_FALSE(autograd::IsRecording());
      EXPECT_FALSE(autograd::IsTraining());
      const autograd::TrainMode train;
      EXPECT_FALSE(autograd::IsRecording());
      EXPECT_TRUE(autograd::IsTraining());
    }
    const autograd::PredictMode predict;
    EXPECT_TRUE(autograd::IsRecording());
    EXPECT_FALSE(autograd::IsTraining());
    std::thread([] { EXPECT_FALSE(autograd::IsRecording()); }).join();
  }
  EXPECT_FALSE(autograd::IsRecording());
  EXPECT_FALSE(autograd::SetRecording(true));
  EXPECT_TRUE(autograd::SetRecording(false));
}

TEST(AutogradTest, BackwardWritesTheGradientOfEachVariable) {
  NDArray x = VariableOf({1, 2, 3});
  NDArray w = VariableOf({4, 5, 6});
  NDArray loss;
  {
    const autograd::Record record;
    loss = x * w + x;
  }
  loss.Backward();
  EXPECT_THAT(loss.ToVector(), ElementsAre(5, 12, 21));
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(5, 6, 7));
  EXPECT_THAT(w.grad().ToVector(), ElementsAre(1, 2, 3));
}

TEST(AutogradTest, ACopiedHandleIsTheSameVariable) {
  const NDArray x = VariableOf({2});
  const NDArray same = x;
  NDArray y;
  {
    const autograd::Record record;
    y = same * same;
  }
  y.Backward();
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(4));
}

TEST(AutogradTest, HeadGradientsWeightTheHeads) {
  NDArray x = VariableOf({1, 2});
  NDArray y, z;
  {
    const autograd::Record record;
    y = x * 3.0f;
    z = x * x;
  }
  autograd::Backward({y, z}, {Vector({1, 10}), NDArray()});
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(3 + 2, 30 + 4));
}

TEST(AutogradTest, AVariableMayBeWrittenBetweenStepsAndNotWithinOne) {
  NDArray w = NDArray::FromVector(std::vector<float>{2}, {1});
  w.AttachGrad();
  const auto square = [&w] {
    const autograd::Record record;
    return w * w;
  };
  for (int step = 0; step < 3; ++step) {
    square().Backward();
    Invoke("sgd_update", {w, w.grad()}, {w}, {{"lr", "0.25"}});
  }
  EXPECT_THAT(w.ToVector(), testing::ElementsAre(0.25f));
  const NDArray before = square();
  Invoke("sgd_update", {w, w.grad()}, {w}, {{"lr", "0.25"}});
  NDArray both;
  {
    const autograd::Record record;
    both = before + w * 1.0f + w * w;
  }
  EXPECT_THROW(both.Backward(), Error);
}

TEST(AutogradTest, RequestsSayHowGradientsAreWritten) {
  NDArray written = VariableOf({1}), added = VariableOf({1}, kAddTo),
          without = VariableOf({1}, kNullOp);
  for (int i = 0; i < 3; ++i) {
    NDArray y;
    {
      const autograd::Record record;
      y = written * 2.0f + added * 2.0f + without;
    }
    y.Backward();
  }
  EXPECT_THAT(written.grad().ToVector(), ElementsAre(2));
  EXPECT_THAT(added.grad().ToVector(), ElementsAre(6));
  EXPECT_TRUE(without.grad().is_none());
}

TEST(AutogradTest, MarkVariablesTakesGradientArrays) {
  const NDArray x = Vector({3});
  NDArray gradient = Vector({100});
  const OpReqType add[] = {kAddTo};
  autograd::MarkVariables({&x, 1}, {&gradient, 1}, add);
  NDArray y;
  {
    const autograd::Record record;
    y = x * x;
  }
  y.Backward();
  EXPECT_THAT(gradient.ToVector(), ElementsAre(106));
  const NDArray wrong({2});
  ExpectError(Error::kInvalidArgument, "gradient 0 is (2,)", [&] {
    autograd::MarkVariables({&x, 1}, {&wrong, 1}, add);
  });
  ExpectError(Error::kInvalidArgument, "1 variables, 0 gradients", [&] {
    autograd::MarkVariables({&x, 1}, {}, add);
  });
}

TEST(AutogradTest, BackwardMarksGradientsAsFresh) {
  NDArray x = VariableOf({3}), other = VariableOf({3});
  EXPECT_FALSE(autograd::IsGradientFresh(x));
  NDArray y;
  {
    const autograd::Record record;
    y = x * x;
  }
  y.Backward();
  EXPECT_TRUE(autograd::IsGradientFresh(x));
  EXPECT_FALSE(autograd::IsGradientFresh(other));
  autograd::SetGradientFresh(x, false);
  EXPECT_FALSE(autograd::IsGradientFresh(x));
  ExpectError(Error::kFailedPrecondition, "has no gradient",
              [] { autograd::SetGradientFresh(Vector({1}), true); });
}

TEST(AutogradTest, NothingIsRecordedOutsideOfRecordOrWithoutVariables) {
  NDArray x = VariableOf({1});
  const NDArray outside = x * x;
  ExpectError(Error::kFailedPrecondition, "head 0 of shape (1,) is not on the tape",
              [&] { outside.Backward(); });
  const autograd::Record record;
  const NDArray constant = Vector({1}) * 2.0f;
  ExpectError(Error::kFailedPrecondition, "is not on the tape", [&] { constant.Backward(); });
  const NDArray detached = (x * x).Detach();
  ExpectError(Error::kFailedPrecondition, "is not on the tape", [&] { detached.Backward(); });
  ExpectError(Error::kInvalidArgument, "head 0 is no array",
              [&] { autograd::Backward({NDArray()}); });
}

TEST(AutogradTest, DetachAndPauseStopTheGradient) {
  NDArray x = VariableOf({2});
  NDArray y;
  {
    const autograd::Record record;
    NDArray constant;
    {
      const autograd::Pause pause;
      constant = x * x;
    }
    y = x * x.Detach() + x * constant;
  }
  y.Backward();
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(2 + 4));
}

TEST(AutogradTest, AGradientThatDoesNotReachAVariableIsZero) {
  NDArray x = VariableOf({1, 2});
  x.grad() = 7.0f;
  NDArray y;
  {
    const autograd::Record record;
    y = Op("BlockGrad", x) + Op("zeros_like", x);
  }
  y.Backward();
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(0, 0));
}

TEST(AutogradTest, TheTapeIsFreedUnlessItIsRetained) {
  NDArray x = VariableOf({3});
  NDArray y, z;
  {
    const autograd::Record record;
    y = x * x;
    z = y * y;
  }
  z.Backward({}, {.retain_graph = true});
  z.Backward();
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(4 * 27));
  ExpectError(Error::kFailedPrecondition, "retain_graph", [&] { z.Backward(); });
  ExpectError(Error::kFailedPrecondition, "retain_graph", [&] { y.Backward(); });
  // A value whose history was freed counts as computed elsewhere.
  NDArray again;
  {
    const autograd::Record record;
    again = z * x;
  }
  again.Backward();
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(81));
}

TEST(AutogradTest, AGraphThatNeedsFreedValuesSaysSo) {
  NDArray x = VariableOf({3});
  NDArray y, first, second;
  {
    const autograd::Record record;
    y = x * x;
    first = y * 2.0f;
    second = y * 3.0f;
  }
  first.Backward();
  ExpectError(Error::kFailedPrecondition, "elemwise_mul were freed by an earlier Backward",
              [&] { second.Backward(); });
}

TEST(AutogradTest, AWriteToAnArrayThatIsStillNeededIsAnError) {
  NDArray x = VariableOf({3});
  NDArray factor = Vector({2});
  NDArray y;
  {
    const autograd::Record record;
    y = x * factor;
  }
  factor = 5.0f;
  ExpectError(Error::kFailedPrecondition, "written after it was recorded", [&] { y.Backward(); });
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(0));
  // A value that no gradient reads may be written.
  NDArray term = Vector({2});
  {
    const autograd::Record record;
    y = x + term;
  }
  term = 5.0f;
  y.Backward();
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(1));
}

TEST(AutogradTest, WorkInPlaceOnTheTapeIsAnError) {
  NDArray x = VariableOf({3});
  const autograd::Record record;
  NDArray y = x * x;
  ExpectError(Error::kFailedPrecondition, "overwrite an array that is on the tape",
              [&] { y += x; });
  ExpectError(Error::kFailedPrecondition, "overwrite an array that is on the tape",
              [&] { x += Vector({1}); });
  ExpectError(Error::kFailedPrecondition, "overwrite an array that is on the tape",
              [&] { y.Assign({0}, 1.0f); });
  NDArray constant = Vector({1});
  constant += Vector({1});
  EXPECT_THAT(constant.ToVector(), ElementsAre(2));
}

TEST(AutogradTest, ViewsAreRecordedAndShareMemory) {
  NDArray x = NDArray::FromVector(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
  x.AttachGrad();
  NDArray y;
  {
    const autograd::Record record;
    const NDArray rows = x.Slice(1, 3);
    EXPECT_EQ(rows.data().dptr_, static_cast<float*>(x.data().dptr_) + 2);
    const NDArray row = x.At(2);
    EXPECT_EQ(row.shape(), TShape({2}));
    const NDArray column = x.Index({AxisSlice{}, 1});
    y = Op("sum", rows.Reshape({-1}) * 2.0f) + Op("sum", row * row) + Op("sum", column * 10.0f) +
        Op("sum", x.Reshape(TShape({6})).At(0) * 100.0f);
  }
  y.Backward();
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(100, 10, 2, 2 + 10, 2 + 2 * 5, 2 + 2 * 6 + 10));
}

TEST(AutogradTest, AWeightOfManyStepsHasOneGradient) {
  NDArray w = VariableOf({1.5f}, kAddTo);
  w.grad() = 1.0f;
  NDArray h = Vector({1});
  {
    const autograd::Record record;
    for (int i = 0; i < 20; ++i) h = h * w + w;
  }
  h.Backward();
  // h_n = w h_(n-1) + w: differentiated by hand in double.
  double value = 1, derivative = 0;
  for (int i = 0; i < 20; ++i) {
    derivative = value + 1.5 * derivative + 1;
    value = 1.5 * value + 1.5;
  }
  EXPECT_NEAR(w.grad().ToVector()[0], 1 + derivative, derivative * 1e-5);
}

TEST(AutogradTest, TrainingModeIsThatOfTheRecord) {
  NDArray x = NDArray::FromVector(std::vector<float>(1000, 1.0f), {1000});
  x.AttachGrad();
  NDArray y;
  {
    const autograd::Record record;
    y = Op("Dropout", x, {{"p", "0.5"}});
  }
  y.Backward();
  // The mask of Forward is that of Backward.
  EXPECT_EQ(y.ToVector(), x.grad().ToVector());
  EXPECT_THAT(y.ToVector(), ::testing::Contains(0.0f));
  EXPECT_THAT(y.ToVector(), ::testing::Contains(2.0f));
  {
    const autograd::Record record(/*train_mode=*/false);
    y = Op("Dropout", x, {{"p", "0.5"}});
  }
  y.Backward();
  EXPECT_THAT(y.ToVector(), Each(1.0f));
  EXPECT_THAT(x.grad().ToVector(), Each(1.0f));
}

TEST(AutogradTest, AuxiliaryStatesChangeInTraining) {
  NDArray x = NDArray::FromVector(std::vector<float>{1, 3}, {2, 1});
  x.AttachGrad();
  const NDArray gamma = VariableOf({1}), beta = VariableOf({0});
  const NDArray mean = Vector({0}), variance = Vector({1});
  const std::vector<NDArray> inputs = {x, gamma, beta, mean, variance};
  NDArray y;
  {
    const autograd::Record record;
    y = Invoke("BatchNorm", inputs, {{"momentum", "0.5"}, {"fix_gamma", "False"}})[0];
  }
  autograd::Backward({y}, {NDArray::FromVector(std::vector<float>{1, 0}, {2, 1})});
  EXPECT_THAT(mean.ToVector(), ElementsAre(1));
  EXPECT_THAT(beta.grad().ToVector(), ElementsAre(1));
  EXPECT_NEAR(gamma.grad().ToVector()[0], -1, 1e-3);
}

TEST(AutogradGradTest, ReturnsGradientsOfAnyArrays) {
  NDArray x = VariableOf({2});
  const NDArray other = VariableOf({5});
  NDArray y, z;
  {
    const autograd::Record record;
    y = x * x;
    z = y * y;
  }
  const std::vector<NDArray> gradients = autograd::Grad({z}, {x, y, other});
  EXPECT_THAT(gradients[0].ToVector(), ElementsAre(32));
  EXPECT_THAT(gradients[1].ToVector(), ElementsAre(8));
  EXPECT_THAT(gradients[2].ToVector(), ElementsAre(0));
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(0));
  const NDArray constant = Vector({1});
  ExpectError(Error::kFailedPrecondition, "variable 0 of shape (1,) is not on the tape", [&] {
    const autograd::Record record;
    autograd::Grad({x * x}, {constant});
  });
}

TEST(AutogradGradTest, AHeadThatIsAVariableHasItsHeadGradient) {
  NDArray x = VariableOf({2});
  const NDArray weight = Vector({3});
  const NDArray gradient = autograd::Grad({x}, {x}, {weight})[0];
  EXPECT_THAT(gradient.ToVector(), ElementsAre(3));
  NDArray copy = gradient;
  copy = 0.0f;
  EXPECT_THAT(weight.ToVector(), ElementsAre(3));
}

TEST(AutogradGradTest, GradientsOfOtherTypesThanTheDataHaveGradients) {
  NDArray x = NDArray::FromVector(std::vector<float>{1, 3}, {2, 1}).AsType(DType::kFloat16);
  x.AttachGrad();
  const NDArray gamma = VariableOf({1}), beta = VariableOf({0});
  const std::vector<NDArray> inputs = {x, gamma, beta, Vector({0}), Vector({0.75f})};
  NDArray first, second;
  {
    const autograd::Record record;
    const NDArray y = Invoke("BatchNorm", inputs,
                             {{"eps", "0.25"}, {"fix_gamma", "0"}, {"use_global_stats", "1"}})[0];
    first = autograd::Grad({y}, {gamma}, {}, {.create_graph = true})[0];
    second = autograd::Grad({first}, {x})[0];
  }
  EXPECT_EQ(first.dtype(), DType::kFloat32);
  EXPECT_THAT(first.ToVector(), ElementsAre(4));
  EXPECT_EQ(second.dtype(), DType::kFloat16);
  EXPECT_THAT(second.ToVector(), ElementsAre(1, 1));
}

TEST(AutogradGradTest, GradientsHaveGradients) {
  NDArray x = VariableOf({0.5f, 1.0f});
  NDArray first, second;
  {
    const autograd::Record record;
    const NDArray y = Op("sin", x) * x;
    first = autograd::Grad({y}, {x}, {}, {.create_graph = true})[0];
    second = autograd::Grad({first}, {x}, {}, {.create_graph = true})[0];
  }
  second.Backward();
  const std::vector<float> values = {0.5f, 1.0f};
  for (size_t i = 0; i < 2; ++i) {
    const double v = values[i];
    EXPECT_NEAR(first.ToVector()[i], std::cos(v) * v + std::sin(v), 1e-5);
    EXPECT_NEAR(second.ToVector()[i], 2 * std::cos(v) - v * std::sin(v), 1e-5);
    EXPECT_NEAR(x.grad().ToVector()[i], -3 * std::sin(v) - v * std::cos(v), 1e-5);
  }
}

/// The gradients of a sum of results, one vector for each input.
struct InputGradients {
  std::vector<std::vector<float>> kernel;  ///< by Backward
  std::vector<std::vector<float>> graph;   ///< as recorded calls
  std::vector<std::vector<float>> second;  ///< of the sum of those
};

InputGradients GradientsOf(const char* op, const ParameterMap& parameters,
                           const std::vector<std::vector<float>>& inputs) {
  std::vector<NDArray> variables;
  for (const std::vector<float>& input : inputs) variables.push_back(VariableOf(input));
  const auto values = [](const std::vector<NDArray>& arrays) {
    std::vector<std::vector<float>> result;
    for (const NDArray& array : arrays) result.push_back(array.ToVector());
    return result;
  };
  InputGradients gradients;
  const auto call = [&] { return Invoke(op, variables, parameters); };
  std::vector<NDArray> y;
  {
    const autograd::Record record;
    y = call();
  }
  gradients.kernel = values(autograd::Grad(y, variables));
  std::vector<NDArray> first, second;
  {
    const autograd::Record record;
    first = autograd::Grad(call(), variables, {}, {.create_graph = true});
    second = autograd::Grad(first, variables, {}, {.create_graph = true});
  }
  gradients.graph = values(first);
  gradients.second = values(second);
  return gradients;
}

TEST(AutogradGradTest, GradientsAtZerosAreLimitsOrSubgradients) {
  using Rows = std::vector<std::vector<float>>;
  struct Case {
    const char* op;
    ParameterMap parameters;
    Rows inputs, first, second;
  };
  for (const Case& c : std::vector<Case>{
           {"_power_scalar", {{"scalar", "0"}}, {{0, 2}}, {{0, 0}}, {{0, 0}}},
           {"_power_scalar", {{"scalar", "1"}}, {{0, 2}}, {{1, 1}}, {{0, 0}}},
           {"_power_scalar", {{"scalar", "2"}}, {{0, 2}}, {{0, 4}}, {{2, 2}}},
           {"_power_scalar", {{"scalar", "3"}}, {{0, 2}}, {{0, 12}}, {{0, 12}}},
           {"_rpower_scalar", {{"scalar", "0"}}, {{0, 1, 2}}, {{0, 0, 0}}, {{0, 0, 0}}},
           {"_power", {}, {{0, 0, 0}, {0, 2, 3}}, {{0, 0, 0}, {0, 0, 0}}, {{0, 2, 0}, {0, 0, 0}}},
           {"broadcast_power", {}, {{0}, {0, 2, 3}}, {{0}, {0, 0, 0}}, {{2}, {0, 0, 0}}},
           {"_hypot", {}, {{0, 3}, {0, 0}}, {{0, 1}, {0, 0}}, {{0, 0}, {0, 1.0f / 3}}},
           {"broadcast_hypot", {}, {{0}, {0, 0}}, {{0}, {0, 0}}, {{0}, {0, 0}}},
           {"_hypot_scalar", {{"scalar", "0"}}, {{0, -2}}, {{0, -1}}, {{0, 0}}},
           {"norm", {}, {{0, 0}}, {{0, 0}}, {{0, 0}}},
           {"norm", {{"axis", "0"}, {"keepdims", "True"}}, {{0, 0}}, {{0, 0}}, {{0, 0}}},
           {"norm", {{"ord", "1"}}, {{0, 2}}, {{0, 1}}, {{0, 0}}}}) {
    const InputGradients gradients = GradientsOf(c.op, c.parameters, c.inputs);
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      EXPECT_THAT(gradients.kernel[i], Pointwise(FloatEq(), c.first[i])) << c.op;
      EXPECT_THAT(gradients.graph[i], Pointwise(FloatEq(), c.first[i])) << c.op;
      EXPECT_THAT(gradients.second[i], Pointwise(FloatEq(), c.second[i])) << c.op;
    }
  }
}

TEST(AutogradGradTest, GradientsAreFiniteWhereSquaresOverflow) {
  const auto expect_near = [](const char* op, const std::vector<std::vector<float>>& inputs,
                              size_t input, float expected) {
    const InputGradients gradients = GradientsOf(op, {}, inputs);
    EXPECT_FLOAT_EQ(gradients.kernel[input][0], expected) << op;
    EXPECT_FLOAT_EQ(gradients.graph[input][0], expected) << op;
  };
  expect_near("arcsinh", {{1e30f}}, 0, 1e-30f);
  expect_near("arccosh", {{1e30f}}, 0, 1e-30f);
  expect_near("elemwise_div", {{1e30f}, {1e30f}}, 1, -1e-30f);
  expect_near("elemwise_div", {{1e-30f}, {1e-25f}}, 1, -1e20f);
  expect_near("norm", {{3e30f, 4e30f}}, 0, 0.6f);
}

TEST(AutogradGradTest, TheGradientOfANormalizationIsFiniteWhereSquaresOverflow) {
  NDArray x = Vector({3e30f, 4e30f}).Reshape({1, 2});
  x.AttachGrad();
  NDArray first;
  {
    const autograd::Record record;
    const NDArray y = Op("L2Normalization", x);
    first = autograd::Grad({y}, {x}, {Vector({1, 0}).Reshape({1, 2})}, {.create_graph = true})[0];
  }
  EXPECT_NEAR(first.ToVector()[0] * 1e30f, 0.128, 1e-6);
  EXPECT_NEAR(first.ToVector()[1] * 1e30f, -0.096, 1e-6);
}

TEST(AutogradGradTest, TheGradientOfALinearFunctionHasGradientZero) {
  NDArray x = VariableOf({0.5f, 1.0f});
  const NDArray weight = Vector({3, 4});
  NDArray first, second;
  {
    const autograd::Record record;
    first = autograd::Grad({x * 2.0f}, {x}, {weight}, {.create_graph = true})[0];
    second = autograd::Grad({first}, {x}, {}, {.create_graph = true})[0];
  }
  EXPECT_THAT(first.ToVector(), ElementsAre(6, 8));
  EXPECT_THAT(second.ToVector(), ElementsAre(0, 0));
}

/// y = x^2, with a gradient of its own.
class Square final : public autograd::Function {
 public:
  explicit Square(size_t num_gradients = 1) : num_gradients_(num_gradients) {}

 private:
  std::vector<NDArray> Forward(const std::vector<NDArray>& inputs) override {
    EXPECT_FALSE(autograd::IsRecording());
    x_ = inputs[0];
    return {x_ * x_};
  }
  std::vector<NDArray> Backward(const std::vector<NDArray>& out_grads) override {
    EXPECT_FALSE(autograd::IsRecording());
    return std::vector<NDArray>(num_gradients_, out_grads[0] * x_ * 2.0f);
  }
  std::string name() const override { return "Square"; }

  const size_t num_gradients_;
  NDArray x_;
};

TEST(AutogradFunctionTest, AFunctionBringsItsGradient) {
  NDArray x = VariableOf({3}, kAddTo);
  NDArray y;
  {
    const autograd::Record record;
    y = autograd::Call(std::make_shared<Square>(), {x})[0] * 10.0f + x;
  }
  y.Backward();
  EXPECT_THAT(y.ToVector(), ElementsAre(93));
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(61));
  EXPECT_THAT(autograd::Call(std::make_shared<Square>(), {x})[0].ToVector(), ElementsAre(9));
}

TEST(AutogradFunctionTest, AWrongNumberOfGradientsSaysSo) {
  NDArray x = VariableOf({3});
  NDArray y;
  {
    const autograd::Record record;
    y = autograd::Call(std::make_shared<Square>(2), {x})[0];
  }
  ExpectError(Error::kInvalidArgument, "Square: Backward returned 2 gradients, expected 1",
              [&] { y.Backward(); });
}

TEST(AutogradTest, ADeepTapeIsFreedWithoutRecursion) {
  NDArray x = VariableOf({1});
  NDArray y = x;
  {
    const autograd::Record record;
    for (int i = 0; i < 20000; ++i) y = y + 1.0f;
  }
  y.Backward();
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(1));
  {
    const autograd::Record record;
    for (int i = 0; i < 20000; ++i) y = y + x;
  }
  y = NDArray();
}

TEST(AutogradTest, ErrorsOfOperationsSurfaceAtTheGradient) {
  NDArray x = NDArray::FromVector(std::vector<float>{1, 2}, {1, 2});
  x.AttachGrad();
  NDArray y;
  {
    const autograd::Record record;
    const NDArray picked = Invoke("take", {x, Vector({7})}, {{"mode", "raise"}})[0];
    y = picked * picked;
  }
  y.Backward();
  ExpectError(Error::kOutOfRange, "take", [&] { x.grad().WaitToRead(); });
}

TEST(AutogradTest, ThreadsRecordWithTheSameVariables) {
  const NDArray w = VariableOf({2});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&w, t] {
      for (int i = 0; i < 50; ++i) {
        const NDArray x = VariableOf({static_cast<float>(t)});
        NDArray y;
        {
          const autograd::Record record;
          y = x * w;
        }
        EXPECT_THAT(autograd::Grad({y}, {x})[0].ToVector(), ElementsAre(2));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(NDArrayIndexTest, PartsAreViewsOrCopies) {
  const NDArray x =
      NDArray::FromVector(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3, 4});
  const auto values = [&x](std::initializer_list<AxisIndex> indices) {
    return x.Index(indices).ToVector();
  };
  EXPECT_THAT(values({1}), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(values({-1, -2}), ElementsAre(10));
  EXPECT_EQ(x.Index({1, 2}).shape(), TShape({}));
  EXPECT_THAT(values({AxisSlice{.step = 2}, AxisSlice{.begin = 1, .end = 3}}),
              ElementsAre(1, 2, 9, 10));
  EXPECT_THAT(values({0, AxisSlice{.step = -1}}), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(values({0, AxisSlice{.begin = 2, .end = -100, .step = -2}}), ElementsAre(2, 0));
  EXPECT_THAT(values({AxisSlice{.begin = 2, .end = 1}}), ElementsAre());
  EXPECT_EQ(x.Index({AxisSlice{.begin = 2, .end = 1}}).shape(), TShape({0, 4}));
  EXPECT_EQ(x.Index({1, AxisSlice{.begin = 1}}).data().dptr_,
            static_cast<float*>(x.data().dptr_) + 5);
  ExpectError(Error::kOutOfRange, "index 3 of axis 0 with extent 3", [&] { x.Index({3}); });
  ExpectError(Error::kInvalidArgument, "3 axes were indexed", [&] { x.Index({0, 0, 0}); });
  ExpectError(Error::kInvalidArgument, "the step of axis 1 is 0", [&] {
    x.Index({0, AxisSlice{.step = 0}});
  });
}

TEST(NDArrayIndexTest, AssignWritesAPart) {
  NDArray x({2, 3});
  x = 0.0f;
  x.Assign({0}, 1.0f);
  x.Assign({AxisSlice{}, AxisSlice{.step = 2}}, Vector({5, 6}));
  EXPECT_THAT(x.ToVector(), ElementsAre(5, 1, 6, 5, 0, 6));
  x.Assign({AxisSlice{}, 1},
           NDArray::FromVector(std::vector<float>{8, 9}, {2}).AsType(DType::kInt32));
  EXPECT_THAT(x.ToVector(), ElementsAre(5, 8, 6, 5, 9, 6));
  ExpectError(Error::kInvalidArgument, "values of shape (2,) do not fit a part of shape (3,)", [&] {
    x.Assign({0}, Vector({1, 2}));
  });
}

TEST(NDArrayArithmeticTest, ShapesAreBroadcastAndNumbersStandOnEitherSide) {
  const NDArray column = NDArray::FromVector(std::vector<float>{1, 2}, {2, 1});
  const NDArray row = NDArray::FromVector(std::vector<float>{10, 20}, {1, 2});
  EXPECT_THAT((column + row).ToVector(), ElementsAre(11, 21, 12, 22));
  EXPECT_THAT((row / column).ToVector(), ElementsAre(10, 20, 5, 10));
  EXPECT_THAT((1.0f - column).ToVector(), ElementsAre(0, -1));
  EXPECT_THAT((2.0f / column).ToVector(), ElementsAre(2, 1));
  EXPECT_THAT((-column).ToVector(), ElementsAre(-1, -2));
  EXPECT_THAT((column < 2.0f).ToVector(), ElementsAre(1, 0));
  EXPECT_THAT((column == column).ToVector(), ElementsAre(1, 1));
  EXPECT_THAT((column * 10.0f >= row).ToVector(), ElementsAre(1, 0, 1, 1));
  ExpectError(Error::kInvalidArgument, "broadcast_add", [&] { column + NDArray({3, 3}); });
}

TEST(NDArrayConversionTest, CopiesConvert) {
  const NDArray x = Vector({1.5f, -2.5f});
  EXPECT_EQ(x.AsType(DType::kInt32).dtype(), DType::kInt32);
  EXPECT_THAT(x.AsType(DType::kInt32).ToVector(), ElementsAre(1, -2));
  const NDArray doubles({2}, Device::Cpu(1), DType::kFloat64);
  x.CopyTo(doubles);
  EXPECT_THAT(doubles.ToVector(), ElementsAre(1.5f, -2.5f));
  EXPECT_EQ(x.AsInContext(Device::Cpu(1)).device(), Device::Cpu(1));
  EXPECT_EQ(x.AsInContext(Device::Cpu()).data().dptr_, x.data().dptr_);
}

TEST(AutogradTest, GradientsCrossDevices) {
  NDArray x = VariableOf({2}, kAddTo);
  NDArray y;
  {
    const autograd::Record record;
    const NDArray there = x.AsInContext(Device::Cpu(1));
    y = there * there + x.Copy(Device::Cpu()).AsInContext(Device::Cpu(1));
  }
  y.Backward();
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(5));
}

TEST(NDArrayReshapeTest, ReadsMxnetsCodes) {
  const NDArray x({2, 3, 4});
  EXPECT_EQ(x.Reshape({0, -1}).shape(), TShape({2, 12}));
  EXPECT_EQ(x.Reshape({-3, 0}).shape(), TShape({6, 4}));
  EXPECT_EQ(x.Reshape({-4, 1, 2, -2}).shape(), TShape({1, 2, 3, 4}));
  EXPECT_EQ(x.Reshape({-1, 0}, /*reverse=*/true).shape(), TShape({6, 4}));
}

}  // namespace
}  // namespace tessera
