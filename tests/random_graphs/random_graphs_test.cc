// Random graphs give the same numbers whether they are called node by node with the tape, bound by
// an Executor or compiled by a CachedOp, and the numbers of an interpreter in double. BUILD runs
// this file on engines of one and of two workers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/tests/random_graphs/double_reference.h"
#include "tessera/tests/random_graphs/random_graph.h"
#include "tessera/tests/random_graphs/ways.h"

namespace tessera {
namespace {

/// Bounds of |actual - expected| / max(largest |expected|, 1): two float32 runs whose gradients are
/// summed in another order, a float32 run beside the reference, and a float64 run beside it.
constexpr double kOrderOfSums = 1e-6;
constexpr double kFloat32 = 1e-4;
constexpr double kFloat64 = 1e-12;

uint64_t Setting(const char* text, uint64_t by_default) {
  return text == nullptr || *text == '\0' ? by_default : std::strtoull(text, nullptr, 10);
}

/// Returns the largest difference of two lists of arrays in the units of the bounds above. It is
/// infinite if sizes differ or a number is NaN.
double Difference(const DoubleArrays& actual, const DoubleArrays& expected) {
  if (actual.size() != expected.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i].size() != expected[i].size()) return INFINITY;
    double scale = 1;
    for (const double value : expected[i]) scale = std::max(scale, std::abs(value));
    for (size_t j = 0; j < actual[i].size(); ++j) {
      const double difference = std::abs(actual[i][j] - expected[i][j]) / scale;
      if (!(difference <= largest)) largest = std::isnan(difference) ? INFINITY : difference;
    }
  }
  return largest;
}

/// Returns the first array and element that differ most, for a failure's message.
std::string Where(const DoubleArrays& actual, const DoubleArrays& expected) {
  if (actual.size() != expected.size()) return "different numbers of arrays";
  size_t array = 0, element = 0;
  double largest = -1;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i].size() != expected[i].size())
      return "array " + std::to_string(i) + ": sizes differ";
    for (size_t j = 0; j < actual[i].size(); ++j) {
      const double difference = std::abs(actual[i][j] - expected[i][j]);
      if (difference <= largest) continue;
      largest = std::isnan(difference) ? INFINITY : difference;
      array = i;
      element = j;
    }
  }
  if (largest < 0) return "no elements";
  return "array " + std::to_string(array) + ", element " + std::to_string(element) + ": " +
         std::to_string(actual[array][element]) + ", expected " +
         std::to_string(expected[array][element]);
}

class GraphCheck {
 public:
  explicit GraphCheck(const RandomGraph& graph) : graph_(graph), reference_(graph, kMaskSeed) {}

  void Run() {
    CheckTraining();
    CheckPrediction();
    const RunResult executor = TrainByExecutor(graph_), compiled = TrainByCachedOp(graph_);
    CheckFusion(executor, compiled);
    CheckRecomputation(executor, compiled);
    if (graph_.is_derivative) CheckDifferences();
  }

 private:
  void Expect(const char* what, const DoubleArrays& actual, const DoubleArrays& expected,
              double bound) {
    const double difference = Difference(actual, expected);
    if (difference <= bound) return;
    ADD_FAILURE() << what << " differ by " << difference << ", allowed " << bound << "; "
                  << Where(actual, expected) << "\n"
                  << graph_.ToString();
  }

  DoubleArrays Inputs() const {
    DoubleArrays inputs;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) inputs.push_back(graph_.Contents(i));
    return inputs;
  }

  void CheckTraining() {
    const RunResult imperative = TrainImperatively(graph_);
    // One kernel after the other in one order: only sums of gradients may have another.
    const double sums = !graph_.has_sums ? 0 : kOrderOfSums;
    const RunResult executor = TrainByExecutor(graph_), compiled = TrainByCachedOp(graph_);
    Expect("outputs of Executor and tape", executor.heads, imperative.heads, 0);
    Expect("outputs of CachedOp and tape", compiled.heads, imperative.heads, 0);
    Expect("inputs after Executor and tape", executor.inputs, imperative.inputs, 0);
    Expect("inputs after CachedOp and tape", compiled.inputs, imperative.inputs, 0);
    Expect("gradients of Executor and tape", executor.gradients, imperative.gradients, sums);
    Expect("gradients of CachedOp and tape", compiled.gradients, imperative.gradients, sums);

    // A rounding in float32 may fall on the other side of a kink.
    if (graph_.dtype == DType::kFloat32 && !graph_.is_smooth) return;
    const double bound = graph_.dtype == DType::kFloat64 ? kFloat64 : kFloat32;
    Expect("outputs of tape and reference", imperative.heads, reference_.Forward(Inputs(), true),
           bound);
    Expect("states of tape and reference", imperative.inputs, reference_.Inputs(), bound);
    Expect("gradients of tape and reference", imperative.gradients, ReferenceGradients(), bound);
  }

  /// Checks that element-wise nodes give the same bits joined and one by one.
  void CheckFusion(const RunResult& executor, const RunResult& compiled) {
    const DoubleArrays bound = PredictByExecutor(graph_), called = PredictByCachedOp(graph_);
    setenv("TESSERA_FUSE", "0", /*overwrite=*/1);
    ExpectSame("and without fusion, by Executor", executor, TrainByExecutor(graph_));
    ExpectSame("and without fusion, by CachedOp", compiled, TrainByCachedOp(graph_));
    Expect("predictions of an Executor with and without fusion", bound, PredictByExecutor(graph_),
           0);
    Expect("predictions of a CachedOp with and without fusion", called, PredictByCachedOp(graph_),
           0);
    unsetenv("TESSERA_FUSE");
  }

  /// Checks that training gives the same bits if the gradient computes forward results once more.
  void CheckRecomputation(const RunResult& executor, const RunResult& compiled) {
    const auto check = [&](const std::string& what, const Recomputation& recomputation) {
      ExpectSame("and without recomputation " + what + ", by Executor", executor,
                 TrainByExecutor(graph_, recomputation));
      ExpectSame("and without recomputation " + what + ", by CachedOp", compiled,
                 TrainByCachedOp(graph_, recomputation));
    };
    check("of all nodes", {.marks_all = true});
    setenv("TESSERA_RECOMPUTE", "1", /*overwrite=*/1);
    check("of cheap nodes", {});
    unsetenv("TESSERA_RECOMPUTE");
    // The least budget differs, since gradients of a CachedOp use other bytes.
    const Recomputation for_executor{.memory_budget_bytes = LeastBudget(TrainByExecutor)};
    ExpectSame("and without the least budget, by Executor", executor,
               TrainByExecutor(graph_, for_executor));
    const Recomputation for_cached_op{.memory_budget_bytes = LeastBudget(TrainByCachedOp)};
    ExpectSame("and without the least budget, by CachedOp", compiled,
               TrainByCachedOp(graph_, for_cached_op));
  }

  /// Returns the least budget of a way to train, which the error for a smaller one tells; 1 if no
  /// memory is planned.
  int64_t LeastBudget(RunResult (*train)(const RandomGraph&, const Recomputation&)) const {
    try {
      train(graph_, {.memory_budget_bytes = 1});
    } catch (const Error& error) {
      const std::string text = error.what(), before = "expected at least ";
      const size_t at = text.find(before);
      if (at == std::string::npos) throw;
      return std::atoll(text.c_str() + at + before.size());
    }
    return 1;
  }

  void ExpectSame(const std::string& what, const RunResult& one, const RunResult& other) {
    const std::string with = " with " + what;
    Expect(("outputs" + with).c_str(), one.heads, other.heads, 0);
    Expect(("gradients" + with).c_str(), one.gradients, other.gradients, 0);
    Expect(("inputs" + with).c_str(), one.inputs, other.inputs, 0);
  }

  /// Returns the gradients after a forward run of the reference, with what they are added to.
  DoubleArrays ReferenceGradients() {
    DoubleArrays heads;
    for (size_t i = 0; i < graph_.heads.size(); ++i) heads.push_back(graph_.HeadGradient(i));
    DoubleArrays gradients = reference_.Backward(heads);
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (graph_.inputs[i].request != kAddTo) continue;
      const std::vector<double> old = graph_.OldGradient(i);
      for (size_t j = 0; j < old.size(); ++j) gradients[i][j] += old[j];
    }
    return gradients;
  }

  void CheckPrediction() {
    const DoubleArrays imperative = PredictImperatively(graph_, /*in_place=*/false);
    Expect("predictions in place and not", PredictImperatively(graph_, /*in_place=*/true),
           imperative, 0);
    // A pass may fold a BatchNorm into the layer before it.
    const double folded = graph_.normalizes ? 1e-5 : 0;
    Expect("predictions of Executor and calls", PredictByExecutor(graph_), imperative, folded);
    Expect("predictions of CachedOp and calls", PredictByCachedOp(graph_), imperative, folded);
    if (graph_.dtype == DType::kFloat32 && !graph_.is_smooth) return;
    Expect("predictions of calls and reference", imperative, reference_.Forward(Inputs(), false),
           graph_.dtype == DType::kFloat64 ? kFloat64 : kFloat32);
  }

  /// Returns the sum of the heads, weighted by their gradients.
  double Loss(const DoubleArrays& inputs) {
    const DoubleArrays heads = reference_.Forward(inputs, true);
    double loss = 0;
    for (size_t i = 0; i < heads.size(); ++i) {
      const std::vector<double> weights = graph_.HeadGradient(i);
      for (size_t j = 0; j < weights.size(); ++j) loss += weights[j] * heads[i][j];
    }
    return loss;
  }

  /// Compares a sample of the reference's gradients with differences.
  void CheckDifferences() {
    constexpr double kStep = 1e-5;
    const double loss = Loss(Inputs());
    DoubleArrays heads;
    for (size_t i = 0; i < graph_.heads.size(); ++i) heads.push_back(graph_.HeadGradient(i));
    const DoubleArrays gradients = reference_.Backward(heads);
    std::mt19937_64 random(graph_.seed);
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].empty()) continue;
      const size_t j = static_cast<size_t>(random() % gradients[i].size());
      DoubleArrays inputs = Inputs();
      inputs[i][j] += kStep;
      const double above = (Loss(inputs) - loss) / kStep;
      inputs[i][j] -= 2 * kStep;
      const double below = (loss - Loss(inputs)) / kStep;
      const double scale = std::max({1.0, std::abs(above), std::abs(below)});
      // Two slopes: a kink, at which every number between them is a gradient.
      if (std::abs(above - below) > 0.05 * scale && !graph_.is_smooth) continue;
      EXPECT_NEAR(gradients[i][j], (above + below) / 2, 1e-4 * scale)
          << "gradient of input " << i << ", element " << j << "\n"
          << graph_.ToString();
    }
  }

  const RandomGraph& graph_;
  DoubleReference reference_;
};

TEST(RandomGraphsTest, TapeExecutorAndCachedOpGiveTheSameNumbers) {
  const uint64_t graphs = Setting(std::getenv("TESSERA_TEST_GRAPHS"), 200);
  const uint64_t first = Setting(std::getenv("TESSERA_TEST_SEED"), 1);
  for (uint64_t seed = first; seed < first + graphs; ++seed) {
    const RandomGraph graph = MakeRandomGraph(seed);
    try {
      GraphCheck(graph).Run();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << "\n" << graph.ToString();
    }
    if (testing::Test::HasFailure()) {
      FAIL() << "run this graph alone with TESSERA_TEST_GRAPHS=1 TESSERA_TEST_SEED=" << graph.seed;
    }
  }
}

TEST(RandomGraphsTest, TheGeneratorReachesEveryKindOfNode) {
  std::set<std::string> ops;
  int several_outputs = 0, sums = 0, states = 0, adds = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const RandomGraph graph = MakeRandomGraph(seed);
    for (const RandomGraph::Node& node : graph.nodes) {
      ops.insert(node.op);
      several_outputs += node.num_visible > 1;
    }
    for (const RandomGraph::Input& input : graph.inputs) {
      states += input.role == RandomGraph::Role::kState;
      adds += input.request == kAddTo;
    }
    sums += graph.has_sums;
  }
  EXPECT_GE(ops.size(), 50u);
  EXPECT_GE(several_outputs, 40);
  EXPECT_GE(sums, 100);
  EXPECT_GE(states, 40);
  EXPECT_GE(adds, 100);
}

}  // namespace
}  // namespace tessera
