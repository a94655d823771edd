// A program that links one family of operators beside the core can differentiate each of them
// twice: what the family's gradients call by name comes along with it.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/graph/passes/gradient.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/testing/operator_row.h"
#include "tessera/tests/gradients/graph_values.h"

namespace tessera::gradient_testing {
namespace {

using graph::BuildGradients;
using graph::GradientForm;
using graph::NodeEntry;
using ops_testing::OperatorCase;
using ops_testing::OperatorRow;

/// Returns the gradients that are not zero.
std::vector<NodeEntry> Differentiate(const std::vector<NodeEntry>& heads,
                                     const std::vector<NodeEntry>& variables) {
  std::vector<NodeEntry> gradients;
  for (const NodeEntry& gradient :
       BuildGradients(heads, variables, GradientForm::kDifferentiable).gradients) {
    if (gradient.node != nullptr) gradients.push_back(gradient);
  }
  return gradients;
}

TEST(FamilyGradientsTest, EachOperatorIsDifferentiatedTwice) {
  ASSERT_FALSE(ops_testing::OperatorRows().empty());
  for (const OperatorRow& row : ops_testing::OperatorRows()) {
    for (const OperatorCase& test_case : row.cases) {
      SCOPED_TRACE(row.name + ", case " + test_case.name);
      const std::shared_ptr<const OperatorProperty> property =
          OperatorRegistry::Get().Create(row.name, test_case.parameters);
      if (!property->HasGradient()) continue;
      std::vector<TShape> in_shape = test_case.inputs, out_shape = test_case.outputs;
      out_shape.resize(property->ListOutputs().size());
      property->InferShape(&in_shape, &out_shape);
      const std::shared_ptr<graph::Node> node = graph::MakeNode(property, "op", {}).node;
      std::vector<NodeEntry> heads;
      for (int k = 0; k < property->NumVisibleOutputs(); ++k) heads.push_back({node, k});
      std::vector<NodeEntry> variables;
      for (size_t i = 0; i < in_shape.size(); ++i) {
        if (property->ArgumentHasGradient(static_cast<int>(i)))
          variables.push_back(node->inputs[i]);
      }
      if (variables.empty()) continue;
      std::vector<NodeEntry> gradients;
      EXPECT_NO_THROW(gradients = Differentiate(heads, variables));
      // An operator's own Backward has no second gradient.
      if (gradients.empty() || HasBackwardNode(gradients)) continue;
      EXPECT_NO_THROW(Differentiate(gradients, variables));
    }
  }
}

}  // namespace
}  // namespace tessera::gradient_testing
