// Random loops and branches, inside each other, give the numbers of the graphs in which their steps
// follow each other, called node by node with the tape.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"
#include "tessera/symbol/testing/loops.h"

namespace tessera {
namespace {

using symbol_testing::NamedSymbols;

// Gradients are summed in another order.
constexpr double kOrderOfSums = 1e-5;
constexpr int kMaxDepth = 2;  // of graphs in graphs

/// The form of loops and branches.
enum class Form {
  kLoops,     ///< nodes that run graphs
  kUnrolled,  ///< the steps one after another, and both branches, of which one counts
};

/// The values that a graph may read.
struct Scope {
  std::vector<Symbol> values;  ///< of shape (2,3)
  Symbol weight;               ///< of shape (3,3)
};

/// Makes one graph of two forms: both make the same choices.
class GraphMaker {
 public:
  GraphMaker(uint64_t seed, Form form) : random_(seed), form_(form) {}

  /// Returns a graph of the variables v0 to v3 and w.
  Symbol Make() {
    Scope scope{.values = {}, .weight = Symbol::Variable("w")};
    for (int i = 0; i < 4; ++i) {
      scope.values.push_back(Symbol::Variable("v" + std::to_string(i)));
    }
    const size_t num_variables = scope.values.size();
    scope.values.push_back(Control(scope, 0));  // at least one
    AddValues(&scope, Draw(2, 5), 0);
    std::vector<Symbol> heads = {Mixed(scope.values, 0, num_variables) + scope.values.back()};
    for (size_t i = num_variables; i < scope.values.size(); ++i) heads.push_back(scope.values[i]);
    return Symbol::CreateGroup(heads);
  }

 private:
  static Symbol Apply(const char* op, const std::vector<Symbol>& inputs,
                      const ParameterMap& parameters = {}) {
    return Symbol::Apply(op, inputs, parameters);
  }

  int Draw(int least, int most) {
    return least + static_cast<int>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  Symbol Pick(const Scope& scope) {
    return scope.values[static_cast<size_t>(Draw(0, static_cast<int>(scope.values.size()) - 1))];
  }
  Symbol NewVariable() { return Symbol::Variable("inner" + std::to_string(num_variables_++)); }

  /// Returns the tanh of the sum of values [begin, end), so that all are read.
  static Symbol Mixed(const std::vector<Symbol>& values, size_t begin, size_t end) {
    Symbol sum = values[begin];
    for (size_t i = begin + 1; i < end; ++i) sum = sum + values[i];
    return Apply("tanh", {sum});
  }

  void AddValues(Scope* scope, int count, int depth) {
    for (int i = 0; i < count; ++i) scope->values.push_back(Value(*scope, depth));
  }

  Symbol Value(const Scope& scope, int depth) {
    const Symbol a = Pick(scope), b = Pick(scope);
    switch (Draw(0, depth < kMaxDepth ? 7 : 5)) {
      case 0:
        return Apply("sin", {a + b});
      case 1:
        return Apply("sigmoid", {a}) * b;
      case 2:
        return Apply("tanh", {Apply("FullyConnected", {a, scope.weight},
                                    {{"num_hidden", "3"}, {"no_bias", "1"}})});
      case 3:
        return Apply("broadcast_sub", {a, Apply("mean", {b}, {{"axis", "0"}, {"keepdims", "1"}})});
      case 4:
        return Apply("relu", {a}) - b * 0.5;
      case 5:
        return Apply("softmax", {a}) + b;
      default:
        return Control(scope, depth);
    }
  }

  Symbol Control(const Scope& scope, int depth) {
    switch (Draw(0, 2)) {
      case 0:
        return Foreach(scope, depth);
      case 1:
        return While(scope, depth);
      default:
        return Branch(scope, depth);
    }
  }

  /// The variables that a graph run by a node reads, and the values for which they stand.
  struct Inner {
    Scope scope;
    NamedSymbols captured;
  };
  Inner Capture(const Scope& scope) {
    Inner inner;
    const auto capture = [&](const Symbol& value) {
      if (form_ == Form::kUnrolled) return value;
      Symbol variable = NewVariable();
      inner.captured.emplace_back(variable.name(), value);
      return variable;
    };
    for (int i = Draw(1, 2); i > 0; --i) inner.scope.values.push_back(capture(Pick(scope)));
    inner.scope.weight = capture(scope.weight);
    return inner;
  }

  /// Returns the outputs of a step: the result, then the states. Everything in `rows` is read.
  std::vector<Symbol> StepOutputs(const Inner& inner, const std::vector<Symbol>& rows,
                                  size_t num_states, int depth) {
    Scope scope = inner.scope;
    const size_t first = scope.values.size();
    scope.values.insert(scope.values.end(), rows.begin(), rows.end());
    AddValues(&scope, Draw(1, 4), depth + 1);
    std::vector<Symbol> outputs = {Mixed(scope.values, first, first + rows.size()) +
                                   scope.values.back()};
    // A state may be a value that another output is, or one that the step only reads.
    for (size_t i = 0; i < num_states; ++i) outputs.push_back(Apply("tanh", {Pick(scope)}));
    if (num_states > 1 && Draw(0, 1) == 1) outputs[1] = outputs[2];
    if (num_states > 0 && Draw(0, 3) == 1) outputs.back() = rows.back();
    return outputs;
  }

  /// Returns a value that depends on all outputs of a loop, whose results have rows.
  static Symbol Collected(const std::vector<Symbol>& outputs) {
    Symbol all = Apply("sum", {outputs[0]}, {{"axis", "0"}});
    for (size_t i = 1; i < outputs.size(); ++i) all = all + outputs[i];
    return Apply("tanh", {all});
  }
  static std::vector<Symbol> OutputsOf(const Symbol& symbol) {
    std::vector<Symbol> outputs;
    for (int i = 0; i < symbol.num_outputs(); ++i) outputs.push_back(symbol[i]);
    return outputs;
  }

  Symbol Foreach(const Scope& scope, int depth) {
    const auto num_states = static_cast<size_t>(Draw(0, 2));
    std::vector<Symbol> data;
    for (int i = Draw(1, 3); i > 0; --i) data.push_back(Pick(scope));
    std::vector<Symbol> states;
    for (size_t i = 0; i < num_states; ++i) states.push_back(Pick(scope));
    const Inner inner = Capture(scope);
    const auto begin = random_;
    if (form_ == Form::kLoops) {
      std::vector<Symbol> rows = {NewVariable()};
      NamedSymbols named;
      for (const Symbol& state : states) {
        rows.push_back(NewVariable());
        named.emplace_back(rows.back().name(), state);
      }
      const Symbol step = Symbol::CreateGroup(StepOutputs(inner, rows, num_states, depth));
      return Collected(OutputsOf(
          symbol_testing::Foreach(step, {{rows[0].name(), Apply("stack", data, {{"axis", "0"}})}},
                                  named, "loop", inner.captured)));
    }
    return Unrolled(inner, data, states, depth, static_cast<int>(data.size()),
                    static_cast<int>(data.size()), begin);
  }

  Symbol While(const Scope& scope, int depth) {
    const int limit = Draw(0, 3), max_steps = Draw(1, 3);
    const std::vector<Symbol> states = {Pick(scope)};
    const Inner inner = Capture(scope);
    const auto begin = random_;
    if (form_ == Form::kLoops) {
      const Symbol count = NewVariable(), state = NewVariable();
      std::vector<Symbol> outputs = StepOutputs(inner, {state}, 1, depth);
      outputs.push_back(count + 1);
      const Symbol loop = symbol_testing::While(
          count < limit, Symbol::CreateGroup(outputs),
          {{state.name(), states[0]}, {count.name(), Apply("_zeros", {}, {{"shape", "(1,)"}})}},
          max_steps, inner.captured);
      return Collected({loop[0], loop[1]});
    }
    return Unrolled(inner, {}, states, depth, std::min(limit, max_steps), max_steps, begin);
  }

  /// Returns what Collected gives for a loop. Each step makes the choices that follow `begin`.
  Symbol Unrolled(const Inner& inner, const std::vector<Symbol>& data, std::vector<Symbol> states,
                  int depth, int num_steps, int num_rows, const std::mt19937_64& begin) {
    std::vector<Symbol> results;
    for (int t = 0; t < num_steps; ++t) {
      random_ = begin;
      std::vector<Symbol> rows;
      if (!data.empty()) rows.push_back(data[static_cast<size_t>(t)]);
      rows.insert(rows.end(), states.begin(), states.end());
      std::vector<Symbol> outputs = StepOutputs(inner, rows, states.size(), depth);
      results.push_back(outputs[0]);
      states.assign(outputs.begin() + 1, outputs.end());
    }
    if (num_steps == 0) StepOutputs(inner, states, states.size(), depth);  // the same choices
    while (results.size() < static_cast<size_t>(num_rows)) {
      results.push_back(Apply("_zeros", {}, {{"shape", "(2,3)"}}));
    }
    std::vector<Symbol> outputs = {Apply("stack", results, {{"axis", "0"}})};
    outputs.insert(outputs.end(), states.begin(), states.end());
    return Collected(outputs);
  }

  Symbol Branch(const Scope& scope, int depth) {
    const Inner inner = Capture(scope);
    const Symbol condition =
        Apply("sum", {inner.scope.values[0]}, {{"axis", "(0,1)"}, {"keepdims", "1"}}) > 0;
    const auto branch = [&] {
      Scope of_branch = inner.scope;
      AddValues(&of_branch, Draw(1, 3), depth + 1);
      return of_branch.values.back();
    };
    const Symbol yes = branch(), no = branch();
    if (form_ == Form::kLoops) return symbol_testing::Cond(condition, yes, no, inner.captured);
    return Apply("broadcast_mul", {yes, condition}) + Apply("broadcast_mul", {no, 1 - condition});
  }

  std::mt19937_64 random_;
  const Form form_;
  int num_variables_ = 0;
};

using Values = std::vector<std::vector<float>>;

/// Outputs and gradients of a training run.
struct Results {
  Values outputs;
  std::map<std::string, std::vector<float>> gradients;
};

NDArray RandomArray(const TShape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(static_cast<size_t>(shape.Size()));
  for (float& value : values) value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
  return NDArray::FromVector(values, shape);
}

NDArray ArrayOf(const std::string& name, uint64_t seed) {
  const bool is_weight = name == "w";
  return RandomArray(is_weight ? TShape{3, 3} : TShape{2, 3},
                     seed * 8 + (is_weight ? 7 : static_cast<uint64_t>(name[1] - '0')));
}

std::vector<NDArray> HeadGradients(size_t count, uint64_t seed) {
  std::vector<NDArray> gradients;
  for (size_t i = 0; i < count; ++i) {
    gradients.push_back(RandomArray({2, 3}, seed * 1000 + 100 + i));
  }
  return gradients;
}

Values ReadAll(const std::vector<NDArray>& arrays) {
  Values values;
  for (const NDArray& array : arrays) values.push_back(array.ToVector());
  return values;
}

Results TrainByCachedOp(const Symbol& symbol, uint64_t seed, bool node_by_node) {
  const CachedOp op(symbol, {.node_by_node = node_by_node});
  std::vector<NDArray> inputs;
  for (const std::string& name : op.input_names()) {
    inputs.push_back(ArrayOf(name, seed));
    inputs.back().AttachGrad();
  }
  std::vector<NDArray> outputs;
  {
    const autograd::Record record;
    outputs = op(inputs);
  }
  autograd::Backward(outputs, HeadGradients(outputs.size(), seed));
  Results results{ReadAll(outputs), {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    results.gradients[op.input_names()[i]] = inputs[i].grad().ToVector();
  }
  return results;
}

Results TrainByExecutor(const Symbol& symbol, uint64_t seed) {
  BindArguments bound;
  for (const std::string& name : symbol.ListArguments()) {
    bound.arguments.push_back(ArrayOf(name, seed));
    bound.gradients.push_back(RandomArray(bound.arguments.back().shape(), seed));
  }
  const auto executor = Bind(symbol, Device::Cpu(), bound);
  executor->Forward(/*is_train=*/true);
  executor->Backward(HeadGradients(executor->outputs().size(), seed));
  Results results{ReadAll(executor->outputs()), {}};
  for (const auto& [name, gradient] : executor->grad_dict()) {
    results.gradients[name] = gradient.ToVector();
  }
  return results;
}

/// Returns the outputs of a second call in inference, which has prepared forms of weights.
Values Predict(const Symbol& symbol, uint64_t seed) {
  const CachedOp op(symbol);
  std::vector<NDArray> inputs;
  for (const std::string& name : op.input_names()) inputs.push_back(ArrayOf(name, seed));
  op(inputs);
  return ReadAll(op(inputs));
}

void ExpectGradients(const std::string& how, const Results& actual, const Results& expected) {
  for (const auto& [name, gradient] : actual.gradients) {
    // A variable that no step reads has the gradient 0.
    const auto found = expected.gradients.find(name);
    const std::vector<float> wanted =
        found == expected.gradients.end() ? std::vector<float>(gradient.size()) : found->second;
    ASSERT_EQ(gradient.size(), wanted.size()) << how << ": " << name;
    double scale = 1;
    for (const float value : wanted) scale = std::max(scale, std::abs(double{value}));
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(gradient[i], wanted[i], kOrderOfSums * scale)
          << how << ": gradient of " << name << " at " << i;
    }
  }
}

void Check(uint64_t seed) {
  const Symbol loops = GraphMaker(seed, Form::kLoops).Make();
  const Symbol unrolled = GraphMaker(seed, Form::kUnrolled).Make();
  const Results expected = TrainByCachedOp(unrolled, seed, /*node_by_node=*/true);
  for (const auto& [how, actual] :
       {std::pair("Executor", TrainByExecutor(loops, seed)),
        std::pair("CachedOp", TrainByCachedOp(loops, seed, /*node_by_node=*/false)),
        std::pair("node by node", TrainByCachedOp(loops, seed, /*node_by_node=*/true))}) {
    EXPECT_EQ(actual.outputs, expected.outputs) << how;
    ExpectGradients(how, actual, expected);
  }
  EXPECT_EQ(Predict(loops, seed), expected.outputs) << "inference";
}

uint64_t Setting(const char* text, uint64_t by_default) {
  return text == nullptr || *text == '\0' ? by_default : std::strtoull(text, nullptr, 10);
}

TEST(RandomLoopsTest, LoopsGiveTheNumbersOfTheirSteps) {
  const uint64_t graphs = Setting(std::getenv("TESSERA_TEST_GRAPHS"), 200);
  const uint64_t first = Setting(std::getenv("TESSERA_TEST_SEED"), 1);
  for (uint64_t seed = first; seed < first + graphs; ++seed) {
    try {
      Check(seed);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    if (testing::Test::HasFailure()) {
      FAIL() << "run this graph alone with TESSERA_TEST_GRAPHS=1 TESSERA_TEST_SEED=" << seed;
    }
  }
}

}  // namespace
}  // namespace tessera
