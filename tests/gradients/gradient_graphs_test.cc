// The gradients that operators have as graphs (OperatorProperty::BuildGradient), for every case of
// every operator: the first gradient equals Backward, and the second and third are the derivatives
// of the first and second, by differences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/passes/gradient.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/testing/operator_harness.h"
#include "tessera/ops/testing/operator_row.h"
#include "tessera/tests/gradients/graph_values.h"

namespace tessera::gradient_testing {
namespace {

using graph::BuildGradients;
using graph::GradientForm;
using graph::IndexedGraph;
using graph::NodeEntry;
using ops_testing::Fill;
using ops_testing::OperatorCase;
using ops_testing::OperatorRow;
using ops_testing::Values;

/// Larger cases take too long.
constexpr index_t kMostElements = 2000;
constexpr int kMostNodes = 1500;
/// The error of a first gradient, relative to 1 + its magnitude.
constexpr double kFirstTolerance = 1e-12;
/// The error of a derivative by differences, relative to the sum of its terms' magnitudes.
constexpr double kDifferenceTolerance = 1e-6;
constexpr double kStep = 1e-4;

std::vector<NodeEntry> Present(const std::vector<NodeEntry>& entries) {
  std::vector<NodeEntry> present;
  for (const NodeEntry& entry : entries) {
    if (entry.node != nullptr) present.push_back(entry);
  }
  return present;
}

/// A sum of values times weights.
struct WeightedSum {
  double value = 0;
  double magnitude = 0;  // the sum of the absolute terms

  void Add(const Values& values, const Values& weights) {
    for (index_t i = 0; i < values.size(); ++i) {
      const double term = values[i] * weights[i];
      value += term;
      magnitude += std::abs(term);
    }
  }
};

/// An operator with a case's inputs, and its gradients of rising order.
class GradientChain {
 public:
  GradientChain(const OperatorRow& row, const OperatorCase& test_case, bool is_train = true)
      : random_(ops_testing::TestSeed()), is_train_(is_train) {
    const std::shared_ptr<const OperatorProperty> property =
        OperatorRegistry::Get().Create(row.name, test_case.parameters);
    std::vector<TShape> in_shape = test_case.inputs, out_shape = test_case.outputs;
    out_shape.resize(property->ListOutputs().size());
    property->InferShape(&in_shape, &out_shape);
    std::vector<DType> in_type(in_shape.size(), DType::kFloat64),
        out_type(out_shape.size(), DType::kUnknown);
    for (size_t i = 0; i < std::min(in_type.size(), test_case.fixed_types.size()); ++i) {
      if (test_case.fixed_types[i] != DType::kUnknown) in_type[i] = test_case.fixed_types[i];
    }
    property->InferType(&in_type, &out_type);
    node_ = graph::MakeNode(property, "op", {}).node;
    for (size_t i = 0; i < in_shape.size(); ++i) {
      const Fill fill = i < test_case.fills.size() ? test_case.fills[i]
                        : IsReal(in_type[i])       ? Fill()
                                                   : Fill::Integers(0, 9);
      const NodeEntry& input = node_->inputs[i];
      feed_[input.node->name] = {fill.Make(in_shape[i], &random_), in_type[i]};
      size_ += in_shape[i].Size();
      if (property->ArgumentHasGradient(static_cast<int>(i)) && IsReal(in_type[i])) {
        variables_.push_back(input);
      }
    }
    for (int k = 0; k < property->NumVisibleOutputs(); ++k) heads_.push_back({node_, k});
    for (const TShape& shape : out_shape) size_ += shape.Size();
  }

  index_t size() const { return size_; }
  const std::vector<NodeEntry>& variables() const { return variables_; }
  const std::vector<NodeEntry>& heads() const { return heads_; }
  const Feed& feed() const { return feed_; }

  /// Replaces the heads by their gradients, whose head gradients become variables.
  void Differentiate() {
    ++order_;
    const auto result = BuildGradients(heads_, variables_, GradientForm::kDifferentiable);
    const std::vector<Values> values = Evaluate(heads_, feed_, is_train_);
    std::vector<NodeEntry> heads = Present(result.gradients);
    const IndexedGraph graph(heads);
    for (size_t i = 0; i < values.size(); ++i) {
      const NodeEntry& head_grad = result.head_gradients[i];
      head_grad.node->name = "head" + std::to_string(order_) + "_" + std::to_string(i);
      feed_[head_grad.node->name].values = Fill().Make(values[i].shape, &random_);
      if (graph.Contains(head_grad.node.get())) variables_.push_back(head_grad);
    }
    heads_ = std::move(heads);
  }

  /// Compares the first gradients, before Differentiate, with those of Backward.
  void ExpectBackward() {
    const auto by_graph = BuildGradients(heads_, variables_, GradientForm::kDifferentiable);
    const auto by_operator = BuildGradients(heads_, variables_, GradientForm::kBackward);
    Feed feed = feed_;
    const std::vector<Values> outputs = Evaluate(heads_, feed_, is_train_);
    for (size_t i = 0; i < outputs.size(); ++i) {
      feed["_head_grad_" + std::to_string(i)].values = Fill().Make(outputs[i].shape, &random_);
    }
    const auto evaluate = [&](const NodeEntry& gradient, const NodeEntry& variable) {
      if (gradient.node == nullptr) return Values(feed.at(variable.node->name).values.shape);
      std::vector<NodeEntry> heads = heads_;
      heads.push_back(gradient);
      return Evaluate(heads, feed, is_train_).back();
    };
    for (size_t i = 0; i < variables_.size(); ++i) {
      SCOPED_TRACE("the gradient of " + variables_[i].node->name);
      const Values actual = evaluate(by_graph.gradients[i], variables_[i]);
      const Values expected = evaluate(by_operator.gradients[i], variables_[i]);
      ASSERT_EQ(actual.shape, expected.shape);
      for (index_t k = 0; k < actual.size(); ++k) {
        if (std::isnan(expected[k]) || actual[k] == expected[k]) continue;
        ASSERT_LE(std::abs(actual[k] - expected[k]), kFirstTolerance * (1 + std::abs(expected[k])))
            << "element " << k << ": got " << actual[k] << ", expected " << expected[k];
      }
    }
  }

  /// Compares the derivative of a weighted sum of the heads in a random direction of all variables
  /// with differences. Returns false if it is not defined there.
  bool ExpectDerivative() {
    const auto result = BuildGradients(heads_, variables_, GradientForm::kDifferentiable);
    const std::vector<Values> values = Evaluate(heads_, feed_, is_train_);
    std::vector<Values> weights;
    Feed feed = feed_;
    for (size_t i = 0; i < values.size(); ++i) {
      weights.push_back(Fill().Make(values[i].shape, &random_));
      feed[result.head_gradients[i].node->name].values = weights.back();
    }
    std::map<std::string, Values> direction;
    for (const NodeEntry& variable : variables_) {
      const std::string& name = variable.node->name;
      direction[name] = Fill().Make(feed.at(name).values.shape, &random_);
    }
    const auto sum_at = [&](double distance) {
      Feed moved = feed_;
      for (const auto& [name, slope] : direction) {
        Values& point = moved.at(name).values;
        for (index_t i = 0; i < point.size(); ++i) point[i] += distance * slope[i];
      }
      WeightedSum sum;
      const std::vector<Values> there = Evaluate(heads_, moved, is_train_);
      for (size_t i = 0; i < there.size(); ++i) sum.Add(there[i], weights[i]);
      return sum.value;
    };
    const auto difference = [&](double step) {
      return (8 * (sum_at(step) - sum_at(-step)) - (sum_at(2 * step) - sum_at(-2 * step))) /
             (12 * step);
    };
    WeightedSum actual;
    std::vector<NodeEntry> wanted;
    for (size_t i = 0; i < variables_.size(); ++i) {
      if (result.gradients[i].node == nullptr) continue;
      actual.Add(Evaluate({result.gradients[i]}, feed, is_train_).front(),
                 direction.at(variables_[i].node->name));
    }
    const double expected = difference(kStep), again = difference(kStep / 2);
    const double bound = kDifferenceTolerance * (1 + actual.magnitude);
    // Where the two differ, the function has a jump, or is too steep.
    if (!std::isfinite(expected) || !(std::abs(expected - again) <= bound)) return false;
    EXPECT_LE(std::abs(actual.value - expected), bound)
        << "got " << actual.value << ", expected " << expected;
    return true;
  }

 private:
  std::mt19937_64 random_;
  const bool is_train_;
  std::shared_ptr<graph::Node> node_;
  Feed feed_;
  std::vector<NodeEntry> variables_, heads_;
  index_t size_ = 0;
  int order_ = 0;
};

bool HasDouble(const OperatorCase& test_case) {
  const auto& dtypes = test_case.dtypes;
  return std::find(dtypes.begin(), dtypes.end(), DType::kFloat64) != dtypes.end();
}

/// Returns whether the case's gradients are graphs of operators alone, in double.
bool HasGraph(const GradientChain& chain) {
  const auto gradients =
      BuildGradients(chain.heads(), chain.variables(), GradientForm::kDifferentiable).gradients;
  return !HasBackwardNode(Present(gradients));
}

/// Returns a row's cases in which some argument has a gradient.
std::vector<const OperatorCase*> CasesWithGradient(const OperatorRow& row) {
  std::vector<const OperatorCase*> cases;
  for (const OperatorCase& test_case : row.cases) {
    const auto property = OperatorRegistry::Get().Create(row.name, test_case.parameters);
    if (!property->HasGradient() || !HasDouble(test_case)) continue;
    if (!GradientChain(row, test_case).variables().empty()) cases.push_back(&test_case);
  }
  return cases;
}

TEST(GradientGraphsTest, EveryOperatorHasAGraphOrIsListed) {
  std::vector<std::string> without;
  for (const OperatorRow& row : ops_testing::OperatorRows()) {
    const auto cases = CasesWithGradient(row);
    const auto has_graph = [&](const OperatorCase* c) { return HasGraph(GradientChain(row, *c)); };
    if (!cases.empty() && std::none_of(cases.begin(), cases.end(), has_graph)) {
      without.push_back(row.name);
    }
  }
  // They need functions for which there is no operator, hold for symmetric matrices alone, or are
  // densities and likelihoods, which have no second gradient in MXNet either.
  EXPECT_THAT(
      without,
      ::testing::UnorderedElementsAre(
          "BilinearSampler", "CTCLoss", "IdentityAttachKLSparseReg", "LRN",
          "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput", "MakeLoss",
          "RNN", "ROIPooling", "SVMOutput", "SoftmaxOutput", "SpatialTransformer",
          "_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution",
          "_contrib_box_nms", "_contrib_hawkesll", "_linalg_potrf", "_linalg_syevd",
          "_random_pdf_dirichlet", "_random_pdf_exponential", "_random_pdf_gamma",
          "_random_pdf_generalized_negative_binomial", "_random_pdf_negative_binomial",
          "_random_pdf_normal", "_random_pdf_poisson", "_random_pdf_uniform", "_sample_multinomial",
          "gamma", "gammaln", "sort", "topk"));
}

TEST(GradientGraphsTest, OperatorsThatMxnetDifferentiatesToZeroAreDifferentiable) {
  std::set<std::string> names = {
      "_contrib_MultiBoxDetection",
      "_contrib_MultiBoxPrior",
      "_contrib_MultiBoxTarget",
      "_contrib_Proposal",
      "_contrib_arange_like",
      "_contrib_bipartite_matching",
      "_contrib_box_decode",
      "_contrib_box_encode",
      "_contrib_box_iou",
      "_contrib_dequantize",
      "_contrib_index_array",
      "_contrib_quantize",
      "_contrib_quantize_v2",
      "_contrib_quantized_batch_norm",
      "_contrib_quantized_concat",
      "_contrib_quantized_conv",
      "_contrib_quantized_elemwise_mul",
      "_contrib_quantized_embedding",
      "_contrib_quantized_flatten",
      "_contrib_quantized_fully_connected",
      "_contrib_quantized_pooling",
      "_contrib_requantize",
      "_equal",
      "_equal_scalar",
      "_logical_and",
      "_ravel_multi_index",
      "_unravel_index",
      "argmax",
      "argmin",
      "argsort",
      "broadcast_equal",
      "broadcast_logical_or",
      "ceil",
      "fix",
      "floor",
      "logical_not",
      "one_hot",
      "ones_like",
      "rint",
      "round",
      "shape_array",
      "sign",
      "size_array",
      "trunc",
      "zeros_like",
  };
  for (const OperatorRow& row : ops_testing::OperatorRows()) {
    if (names.erase(row.name) == 0) continue;
    SCOPED_TRACE(row.name);
    const NodeEntry out = graph::MakeNode(
        OperatorRegistry::Get().Create(row.name, row.cases.front().parameters), "op", {});
    EXPECT_NO_THROW(BuildGradients({{out.node, 0}}, out.node->inputs));
  }
  EXPECT_THAT(names, ::testing::IsEmpty()) << "operators without a row";
}

TEST(GradientGraphsTest, StatisticsOfAnotherTypeAreConverted) {
  const NodeEntry out = {
      graph::MakeNode(OperatorRegistry::Get().Create("BatchNorm", {{"fix_gamma", "False"}}), "op",
                      {})
          .node,
      0};
  const std::vector<NodeEntry> variables(out.node->inputs.begin(), out.node->inputs.begin() + 3);
  std::mt19937_64 random(ops_testing::TestSeed());
  Feed feed;
  for (const char* const name : {"op_data", "_head_grad_0"}) {
    feed[name] = {Fill().Make({4, 3, 5}, &random), DType::kFloat16};
  }
  for (const NodeEntry& input : out.node->inputs) {
    const std::string& name = input.node->name;
    if (name != "op_data") feed[name] = {Fill::Uniform(1, 2).Make({3}, &random), DType::kFloat32};
  }
  const auto gradients = [&](GradientForm form) {
    std::vector<NodeEntry> heads = {out};
    for (const NodeEntry& gradient : BuildGradients({out}, variables, form).gradients) {
      heads.push_back(gradient);
    }
    return Evaluate(heads, feed);
  };
  const std::vector<Values> actual = gradients(GradientForm::kDifferentiable);
  const std::vector<Values> expected = gradients(GradientForm::kBackward);
  for (size_t k = 0; k < actual.size(); ++k) {
    ASSERT_EQ(actual[k].shape, expected[k].shape);
    for (index_t i = 0; i < actual[k].size(); ++i) {
      EXPECT_NEAR(actual[k][i], expected[k][i], 0.05) << "gradient " << k << ", element " << i;
    }
  }
}

class GradientGraphTest : public ::testing::TestWithParam<const OperatorRow*> {};

TEST_P(GradientGraphTest, EqualsBackwardAndHasDerivatives) {
  const OperatorRow& row = *GetParam();
  bool third_compared = false;
  for (const OperatorCase* const test_case : CasesWithGradient(row)) {
    for (const bool is_train : {true, false}) {
      SCOPED_TRACE("case " + test_case->name + (is_train ? " in training" : ""));
      GradientChain chain(row, *test_case, is_train);
      if (test_case->large || chain.size() > kMostElements || !HasGraph(chain)) continue;
      if (!IsInDouble(chain.heads(), chain.feed())) continue;
      chain.ExpectBackward();
      if (HasFatalFailure()) return;
      for (int order = 2; order <= 3; ++order) {
        SCOPED_TRACE("order " + std::to_string(order));
        chain.Differentiate();
        if (chain.heads().empty()) third_compared = true;  // further ones are 0
        if (chain.heads().empty() || IndexedGraph(chain.heads()).num_nodes() > kMostNodes) break;
        if (!chain.ExpectDerivative()) break;
        third_compared |= order == 3;
      }
    }
  }
  EXPECT_TRUE(third_compared);
}

INSTANTIATE_TEST_SUITE_P(All, GradientGraphTest, ::testing::ValuesIn([] {
                           std::vector<const OperatorRow*> rows;
                           for (const OperatorRow& row : ops_testing::OperatorRows()) {
                             const auto cases = CasesWithGradient(row);
                             const bool any = std::any_of(
                                 cases.begin(), cases.end(),
                                 [&](const auto* c) { return HasGraph(GradientChain(row, *c)); });
                             if (any) rows.push_back(&row);
                           }
                           return rows;
                         }()),
                         [](const auto& info) { return info.param->name; });

}  // namespace
}  // namespace tessera::gradient_testing
