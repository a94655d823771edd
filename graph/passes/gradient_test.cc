#include "tessera/graph/passes/gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/graph/backward_property.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/program.h"
#include "tessera/ops/gradient_builder.h"
#include "tessera/ops/kernel.h"

namespace tessera::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

NodeEntry Apply(std::string_view op, const std::string& name, const std::vector<NodeEntry>& inputs,
                const ParameterMap& parameters = {}) {
  return MakeNode(OperatorRegistry::Get().Create(op, parameters), name, inputs);
}

/// Returns "op name" of every operator, in order.
std::vector<std::string> Operators(const std::vector<NodeEntry>& heads) {
  std::vector<std::string> operators;
  const IndexedGraph graph(heads);
  for (const Node* node : graph.nodes()) {
    if (!node->is_variable()) {
      operators.push_back(node->property->TypeString() + " " + node->name);
    }
  }
  return operators;
}

std::vector<std::string> Variables(const std::vector<NodeEntry>& heads) {
  std::vector<std::string> names;
  const IndexedGraph graph(heads);
  for (const int id : graph.arguments()) names.push_back(graph.node(id).name);
  return names;
}

/// data^2, whose gradient is a graph of other operators besides Backward.
class SquareProperty final : public ParameterizedProperty<NoParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], (*in_shape)[0]);
    MergeShape(*this, "data", &(*in_shape)[0], (*out_shape)[0]);
    return (*in_shape)[0].known();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    const auto twice = builder->Apply1("_mul_scalar", {builder->Input(0)}, {{"scalar", "2"}});
    builder->SetInGrad(0, builder->Apply1("elemwise_mul", {builder->OutGrad(0), twice}));
    return true;
  }
};
template <typename Device, typename T>
class SquareOp final : public Operator {
 public:
  explicit SquareOp(const NoParameters&) {}
  void Forward(const OpContext&, std::span<const TBlob>, std::span<const OpReqType>,
               std::span<const TBlob>) override {}
};
TESSERA_REGISTER_OPERATOR(test_square, SquareProperty, SquareOp);

TEST(GradientTest, EachOperatorOnTheWayGetsOneBackwardNode) {
  const NodeEntry x = MakeVariable("x"), y = MakeVariable("y");
  const NodeEntry sum = Apply("elemwise_add", "sum", {x, y});
  const NodeEntry out = Apply("Activation", "act", {sum}, {{"act_type", "tanh"}});
  const Gradients gradients = BuildGradients({out}, {x, y});
  EXPECT_THAT(Operators(gradients.gradients),
              ElementsAre("elemwise_add sum", "Activation act", "_backward_Activation act_backward",
                          "_backward_elemwise_add sum_backward"));
  EXPECT_EQ(gradients.gradients[0].node, gradients.gradients[1].node);
  EXPECT_EQ(gradients.gradients[1].index, 1);
  EXPECT_EQ(gradients.gradients[0].node->forward, sum.node);
}

TEST(GradientTest, TheGradientsOfAValueReadTwiceAreSummedOnce) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry square = Apply("elemwise_mul", "square", {x, x});
  const NodeEntry out = Apply("elemwise_add", "out", {square, x});
  const NodeEntry gradient = BuildGradients({out}, {x}).gradients[0];
  EXPECT_EQ(gradient.node->property->TypeString(), "add_n");
  EXPECT_EQ(gradient.node->inputs.size(), 3u);
}

TEST(GradientTest, AValueOnWhichNothingDependsHasNoGradientNode) {
  const NodeEntry x = MakeVariable("x"), other = MakeVariable("other");
  const NodeEntry out = Apply("_mul_scalar", "out", {x}, {{"scalar", "2"}});
  const Gradients gradients = BuildGradients({out}, {other, x});
  EXPECT_EQ(gradients.gradients[0].node, nullptr);
  EXPECT_NE(gradients.gradients[1].node, nullptr);
}

TEST(GradientTest, ALossReadsNoHeadGradient) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry loss = Apply("SoftmaxOutput", "softmax", {x});
  EXPECT_THAT(Variables(BuildGradients({loss}, {x}).gradients),
              testing::UnorderedElementsAre("x", "softmax_label"));
  const NodeEntry out = Apply("_mul_scalar", "out", {x}, {{"scalar", "2"}});
  EXPECT_THAT(Variables(BuildGradients({out}, {x}).gradients), ElementsAre("_head_grad_0"));
}

TEST(GradientTest, AnOperatorWithoutAGradientIsNamed) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry step = Apply("sgd_update", "step", {x}, {{"lr", "1"}});
  const NodeEntry out = Apply("_copy", "out", {step});
  try {
    BuildGradients({out}, {x});
    FAIL() << "made a gradient";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"step\""));
    EXPECT_THAT(error.what(), HasSubstr("sgd_update"));
  }
}

TEST(GradientTest, TheDifferentiableFormUsesGraphsOfOperators) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry out = Apply("test_square", "out", {x});
  EXPECT_EQ(BuildGradients({out}, {x}).gradients[0].node->property->TypeString(),
            "_backward_test_square");
  const NodeEntry first = BuildGradients({out}, {x}, GradientForm::kDifferentiable).gradients[0];
  EXPECT_THAT(Operators({first}), ElementsAre("_mul_scalar out_grad1", "elemwise_mul out_grad3"));
  // It has a gradient itself.
  EXPECT_NE(BuildGradients({first}, {x}).gradients[0].node, nullptr);
}

TEST(GradientTest, AnIntermediateValueCanBeWanted) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry middle = Apply("_mul_scalar", "middle", {x}, {{"scalar", "2"}});
  const NodeEntry out = Apply("_mul_scalar", "out", {middle}, {{"scalar", "3"}});
  EXPECT_THAT(Operators(BuildGradients({out}, {middle}).gradients),
              ElementsAre("_backward__mul_scalar out_backward"));
}

Program Build(const std::vector<NodeEntry>& heads, const TShape& x,
              const std::vector<OpReqType>& requests) {
  const IndexedGraph graph(heads);
  return BuildProgram(heads, InferShapes(graph, {{"x", x}}), InferTypes(graph, {}), requests);
}

TEST(ProgramTest, PartsOfASumAreWrittenAndAddedInPlace) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry a = Apply("_mul_scalar", "a", {x}, {{"scalar", "2"}});
  const NodeEntry b = Apply("_mul_scalar", "b", {x}, {{"scalar", "3"}});
  const Program program = Build({Apply("elemwise_add", "out", {a, b})}, {4}, {kWriteTo});
  ASSERT_EQ(program.steps.size(), 6u);
  EXPECT_EQ(program.num_forward_steps, 3);
  const Step& first = program.steps[4];
  const Step& second = program.steps[5];
  EXPECT_EQ(first.outputs, second.outputs);
  EXPECT_EQ(first.req[0], kWriteTo);
  EXPECT_EQ(second.req[0], kAddTo);
  EXPECT_EQ(program.values[static_cast<size_t>(first.outputs[0])].kind, ValueKind::kGradient);
}

TEST(ProgramTest, ARequestToAddReachesEveryPart) {
  const NodeEntry x = MakeVariable("x");
  const Program program = Build({Apply("elemwise_mul", "out", {x, x})}, {4}, {kAddTo});
  // Both parts come from one node: one is added in place, the other by a copy.
  ASSERT_EQ(program.steps.size(), 3u);
  EXPECT_THAT(program.steps[1].req, ElementsAre(kAddTo, kWriteTo));
  EXPECT_EQ(program.steps[2].node->property->TypeString(), "_copy");
  EXPECT_THAT(program.steps[2].req, ElementsAre(kAddTo));
}

TEST(ProgramTest, WithoutRequestsThereIsNoGradient) {
  const NodeEntry x = MakeVariable("x");
  const Program program =
      Build({Apply("_mul_scalar", "a", {x}, {{"scalar", "2"}})}, {4}, {kNullOp});
  EXPECT_EQ(program.steps.size(), 1u);
  EXPECT_EQ(program.num_forward_steps, 1);
  EXPECT_THAT(program.head_needs_gradient, ElementsAre(false));
}

}  // namespace
}  // namespace tessera::graph
