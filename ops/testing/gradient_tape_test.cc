#include "tessera/ops/testing/gradient_tape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/testing/encoding.h"

namespace tessera::ops_testing {
namespace {

using Entry = GradientTape::Entry;
using Form = GradientTape::Form;

Entry Add(GradientTape* tape, const std::vector<double>& data) {
  Values values(TShape({static_cast<index_t>(data.size())}));
  values.data = data;
  return tape->AddVariable(Encode(values, DType::kFloat64), values.shape, DType::kFloat64);
}

Entry Call(GradientTape* tape, const std::string& op, const std::vector<Entry>& inputs,
           const ParameterMap& parameters = {}) {
  return tape->Call(OperatorRegistry::Get().FindOrCreate(op, parameters), inputs).front();
}

TEST(GradientTapeTest, CubesHaveThreeDerivatives) {
  GradientTape tape;
  const Entry x = Add(&tape, {2, -3});
  const Entry one = Add(&tape, {1, 1});
  Entry y = Call(&tape, "elemwise_mul", {x, Call(&tape, "square", {x})});
  for (const std::vector<double>& expected :
       std::vector<std::vector<double>>{{12, 27}, {12, -18}, {6, 6}}) {
    const auto gradients = tape.Differentiate({&y, 1}, {&one, 1}, {&x, 1}, Form::kGraph);
    ASSERT_TRUE(gradients.has_value());
    y = gradients->front();
    EXPECT_EQ(tape.Read(y).data, expected);
  }
}

TEST(GradientTapeTest, BothFormsAgreeAndReachHeadGradients) {
  for (const Form form : {Form::kBackward, Form::kGraph}) {
    GradientTape tape;
    const Entry x = Add(&tape, {0.25, 4});
    const Entry g = Add(&tape, {3, 5});
    const Entry y = Call(&tape, "sqrt", {x});
    const auto gradients = tape.Differentiate({&y, 1}, {&g, 1}, {&x, 1}, form);
    ASSERT_TRUE(gradients.has_value());
    EXPECT_THAT(tape.Read(gradients->front()).data, ::testing::ElementsAre(3, 1.25));
  }
}

TEST(GradientTapeTest, ValuesWithoutInfluenceHaveGradientZero) {
  GradientTape tape;
  const Entry x = Add(&tape, {1}), other = Add(&tape, {2});
  const Entry y = Call(&tape, "square", {x});
  const Entry wanted[] = {other, x};
  const auto gradients = tape.Differentiate({&y, 1}, {&other, 1}, wanted, Form::kBackward);
  ASSERT_TRUE(gradients.has_value());
  EXPECT_EQ((*gradients)[0], GradientTape::kZero);
  EXPECT_THAT(tape.Read((*gradients)[1]).data, ::testing::ElementsAre(4));
}

TEST(GradientTapeTest, OperatorsWithoutSuchAGradientEndIt) {
  GradientTape tape;
  const Entry x = Add(&tape, {1, 2});
  const Entry y = Call(&tape, "gamma", {x});
  EXPECT_FALSE(tape.Differentiate({&y, 1}, {&x, 1}, {&x, 1}, Form::kGraph).has_value());
  const Entry step = Call(&tape, "sgd_update", {x, y}, {{"lr", "0.1"}});
  try {
    tape.Differentiate({&step, 1}, {&x, 1}, {&x, 1}, Form::kBackward);
    ADD_FAILURE() << "differentiated sgd_update";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("sgd_update"));
  }
}

}  // namespace
}  // namespace tessera::ops_testing
