#include "tessera/ops/gradient_formula.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

namespace tessera::ops_internal {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

/// A builder whose values are texts of what was applied.
class TextBuilder final : public GradientBuilder {
 public:
  Value OutGrad(int output) override { return Add("g" + std::to_string(output)); }
  Value Input(int input) override { return Add("x" + std::to_string(input)); }
  Value Output(int output) override { return Add("y" + std::to_string(output)); }
  std::vector<Value> Apply(std::string_view op, std::span<const Value> inputs,
                           const ParameterMap& parameters) override {
    std::string text(op);
    text += '(';
    const char* separator = "";
    for (const Value input : inputs) {
      text += separator + Text(input);
      separator = ", ";
    }
    for (const auto& [name, value] : parameters) text += ", " + name + "=" + value;
    return {Add(text + ")")};
  }
  void SetInGrad(int input, Value gradient) override { gradients_[input] = Text(gradient); }

  const std::string& Text(Value value) const { return texts_.at(static_cast<size_t>(value)); }
  std::string Text(const Term& term) const {
    return term.is_number() ? NumberText(term.number()) : Text(term.value());
  }
  const std::map<int, std::string>& gradients() const { return gradients_; }

 private:
  Value Add(const std::string& text) {
    texts_.push_back(text);
    return static_cast<Value>(texts_.size()) - 1;
  }

  std::vector<std::string> texts_;
  std::map<int, std::string> gradients_;
};

class GradientFormulaTest : public ::testing::Test {
 protected:
  TextBuilder builder_;
  const Term g_{&builder_, builder_.OutGrad(0)};
  const Term x_{&builder_, builder_.Input(0)};
};

TEST_F(GradientFormulaTest, OperationsOnNumbersAreComputed) {
  const Term a = 3, b = 2;
  EXPECT_TRUE((a + b).IsNumber(5));
  EXPECT_TRUE((a - b).IsNumber(1));
  EXPECT_TRUE((a * b).IsNumber(6));
  EXPECT_TRUE((a / b).IsNumber(1.5));
  EXPECT_TRUE((-a).IsNumber(-3));
  EXPECT_TRUE(PowerOf(a, b).IsNumber(9));
  EXPECT_TRUE(IsGreater(a, b).IsNumber(1));
  EXPECT_TRUE(IsGreater(a, a).IsNumber(0));
  EXPECT_TRUE(IsGreaterEqual(a, a).IsNumber(1));
  EXPECT_TRUE(IsGreaterEqual(b, a).IsNumber(0));
  EXPECT_TRUE(IsLesser(b, a).IsNumber(1));
  EXPECT_TRUE(IsLesser(a, a).IsNumber(0));
  EXPECT_TRUE(IsLesserEqual(a, a).IsNumber(1));
  EXPECT_TRUE(IsLesserEqual(a, b).IsNumber(0));
  EXPECT_TRUE(IsEqual(a, a).IsNumber(1));
  EXPECT_TRUE(IsEqual(a, b).IsNumber(0));
  const Term nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(IsEqual(nan, nan).IsNumber(0));
}

TEST_F(GradientFormulaTest, OperatorsTakeNumbersThatValuesFoldedTo) {
  EXPECT_EQ(builder_.Text(Apply("clip", {x_ * 0})), "clip(zeros_like(x0))");
  EXPECT_EQ(builder_.Text(Apply("exp", {PowerOf(x_, 0)})), "exp(ones_like(x0))");
  EXPECT_EQ(builder_.Text(Apply("exp", {-(0 * x_ - 3)})),
            "exp(_mul_scalar(ones_like(x0), scalar=3))");
  EXPECT_EQ(builder_.Text(Apply("exp", {IsGreater(x_ * 0, -1)})), "exp(ones_like(x0))");
  EXPECT_EQ(builder_.Text(Apply("where", {g_, x_ * 0, 1})),
            "where(g0, zeros_like(x0), ones_like(g0))");
}

TEST_F(GradientFormulaTest, AFoldedNumberStillBroadcasts) {
  const Term folded = Apply("exp", {x_.Broadcast() * 0});
  EXPECT_EQ(builder_.Text(g_ * folded), "broadcast_mul(g0, exp(zeros_like(x0)))");
}

TEST_F(GradientFormulaTest, AdjointsTakeNumbersThatValuesFoldedTo) {
  const std::vector<Term> gradients =
      ApplyAdjoint({.op = "sum", .out_grads = {g_ * 0}, .inputs = {x_}});
  ASSERT_EQ(gradients.size(), 1u);
  EXPECT_EQ(builder_.Text(gradients[0]), "_adjoint(zeros_like(g0), x0, op=sum, parameters=)");
}

TEST_F(GradientFormulaTest, ANumberIsTheGradientOfEveryElement) {
  SetInGrad(&builder_, 0, g_ * 0);
  SetInGrad(&builder_, 1, 1);
  SetInGrad(&builder_, 2, g_ * 0 + 0.5);
  EXPECT_THAT(builder_.gradients(), ElementsAre(Pair(1, "ones_like(x1)"),
                                                Pair(2, "_mul_scalar(ones_like(x2), scalar=0.5)")));
}

}  // namespace
}  // namespace tessera::ops_internal
