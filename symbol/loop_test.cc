// Nodes that run graphs: _foreach, _while_loop and _cond, against graphs in which the steps follow
// each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"
#include "tessera/symbol/testing/loops.h"

namespace tessera {
namespace {

using symbol_testing::Cond;
using symbol_testing::Foreach;
using symbol_testing::While;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Named = symbol_testing::NamedSymbols;
using Arrays = std::map<std::string, NDArray>;

/// Returns the variable of a name: graphs may not have two of one name.
Symbol Var(const std::string& name) {
  static auto* const variables = new std::map<std::string, Symbol>;
  Symbol& variable = (*variables)[name];
  if (variable.is_none()) variable = Symbol::Variable(name);
  return variable;
}

/// Returns the same as Foreach with the steps one after another, for at least one step.
Symbol Unrolled(const Symbol& step, const Named& data, const Named& states, int num_steps) {
  std::map<std::string, Symbol> inputs(states.begin(), states.end());
  for (const std::string& name : step.ListInputs()) inputs.try_emplace(name, Var(name));
  const size_t num_results = static_cast<size_t>(step.num_outputs()) - states.size();
  std::vector<std::vector<Symbol>> results(num_results);
  for (int t = 0; t < num_steps; ++t) {
    for (const auto& [name, symbol] : data) {
      const Symbol slice = Symbol::Apply(
          "slice_axis", {symbol},
          {{"axis", "0"}, {"begin", std::to_string(t)}, {"end", std::to_string(t + 1)}});
      inputs[name] = Symbol::Apply("squeeze", {slice}, {{"axis", "0"}});
    }
    const Symbol outputs = step.Compose(inputs);
    for (size_t i = 0; i < num_results; ++i) {
      results[i].push_back(outputs[static_cast<int>(i)]);
    }
    for (size_t i = 0; i < states.size(); ++i) {
      inputs[states[i].first] = outputs[static_cast<int>(num_results + i)];
    }
  }
  std::vector<Symbol> all;
  for (const std::vector<Symbol>& rows : results) {
    all.push_back(Symbol::Apply("stack", rows, {{"axis", "0"}}));
  }
  for (const auto& [name, symbol] : states) all.push_back(inputs.at(name));
  return Symbol::CreateGroup(all);
}

NDArray Random(const TShape& shape, int seed) {
  std::vector<float> values(static_cast<size_t>(shape.Size()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i + 1) * 1.7f + static_cast<float>(seed));
  }
  return NDArray::FromVector(values, shape);
}

/// Arrays of a call and of its gradient.
struct Results {
  std::vector<std::vector<float>> outputs;
  std::map<std::string, std::vector<float>> gradients;
};

std::vector<NDArray> HeadGradients(const std::vector<NDArray>& outputs) {
  std::vector<NDArray> gradients;
  for (const NDArray& output : outputs) {
    gradients.push_back(Random(output.shape(), static_cast<int>(gradients.size()) + 50));
  }
  return gradients;
}

Results RunExecutor(const Symbol& symbol, const Arrays& arrays) {
  BindArguments bound;
  const std::vector<std::string> names = symbol.ListArguments();
  for (const std::string& name : names) {
    const NDArray& array = arrays.at(name);
    bound.arguments.push_back(array);
    NDArray gradient(array.shape());
    gradient = 7.0f;
    bound.gradients.push_back(gradient);
  }
  for (const std::string& name : symbol.ListAuxiliaryStates()) {
    bound.aux_states.push_back(arrays.at(name));
  }
  const auto executor = Bind(symbol, Device::Cpu(), bound);
  executor->Forward(/*is_train=*/true);
  executor->Backward(HeadGradients(executor->outputs()));
  Results results;
  for (const NDArray& output : executor->outputs()) results.outputs.push_back(output.ToVector());
  for (const auto& [name, gradient] : executor->grad_dict()) {
    results.gradients[name] = gradient.ToVector();
  }
  return results;
}

Results RunCachedOp(const Symbol& symbol, const Arrays& arrays, bool node_by_node) {
  const CachedOp op(symbol, {.node_by_node = node_by_node});
  const std::vector<std::string> aux = symbol.ListAuxiliaryStates();
  std::vector<NDArray> inputs;
  for (const std::string& name : op.input_names()) {
    NDArray array = arrays.at(name);
    if (std::find(aux.begin(), aux.end(), name) == aux.end()) {
      array = array.Copy(Device::Cpu());
      array.AttachGrad();
    }
    inputs.push_back(array);
  }
  std::vector<NDArray> outputs;
  {
    const autograd::Record record;
    outputs = op(inputs);
  }
  autograd::Backward(outputs, HeadGradients(outputs));
  Results results;
  for (const NDArray& output : outputs) results.outputs.push_back(output.ToVector());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].grad().is_none()) continue;
    results.gradients[op.input_names()[i]] = inputs[i].grad().ToVector();
  }
  return results;
}

std::vector<float> RunForInference(const Symbol& symbol, const Arrays& arrays) {
  const CachedOp op(symbol);
  std::vector<NDArray> inputs;
  for (const std::string& name : op.input_names()) inputs.push_back(arrays.at(name));
  return op(inputs)[0].ToVector();
}

void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected,
                const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    // Sums of gradients have other orders.
    ASSERT_NEAR(actual[i], expected[i], 1e-5 * std::max(1.0f, std::abs(expected[i])))
        << what << " at " << i;
  }
}

/// Checks that a graph with a loop computes what another graph computes: outputs to the bit, and
/// gradients up to the order of their sums. Variables that the other graph does not have must have
/// the gradient 0.
void ExpectSame(const Symbol& loop, const Symbol& plain, const Arrays& arrays) {
  const Results expected = RunExecutor(plain, arrays);
  for (const auto& [how, actual] :
       {std::pair("executor", RunExecutor(loop, arrays)),
        std::pair("cached op", RunCachedOp(loop, arrays, /*node_by_node=*/false)),
        std::pair("node by node", RunCachedOp(loop, arrays, /*node_by_node=*/true)),
        std::pair("loaded", RunExecutor(Symbol::FromJson(loop.ToJson()), arrays))}) {
    EXPECT_EQ(actual.outputs, expected.outputs) << how;
    for (const auto& [name, gradient] : actual.gradients) {
      const auto found = expected.gradients.find(name);
      ExpectNear(
          gradient,
          found == expected.gradients.end() ? std::vector<float>(gradient.size()) : found->second,
          std::string(how) + ": gradient of " + name);
    }
  }
  EXPECT_EQ(RunForInference(loop, arrays), expected.outputs[0]);
}

/// A recurrent cell with two results and two states: h' = tanh(x w + h u), c' = c h' + x.
Symbol Cell() {
  const Symbol x = Var("x"), h = Var("h"), c = Var("c");
  const auto dense = [](const Symbol& in, const std::string& weight) {
    return Symbol::Apply("FullyConnected", {in, Var(weight)},
                         {{"num_hidden", "3"}, {"no_bias", "1"}});
  };
  const Symbol next = Symbol::Apply("tanh", {dense(x, "w") + dense(h, "u")});
  const Symbol sum = c * next + x;
  return Symbol::CreateGroup({next * sum, sum, next, sum});
}
const Named kCellData = {{"x", Var("data")}};
const Named kCellStates = {{"h", Var("h0")}, {"c", Var("c0")}};

Arrays CellArrays(index_t num_steps) {
  return {{"data", Random({num_steps, 2, 3}, 1)},
          {"h0", Random({2, 3}, 2)},
          {"c0", Random({2, 3}, 3)},
          {"w", Random({3, 3}, 4)},
          {"u", Random({3, 3}, 5)}};
}

TEST(LoopTest, ForeachIsItsStepsOneAfterAnother) {
  for (const int num_steps : {1, 2, 5}) {
    SCOPED_TRACE(num_steps);
    ExpectSame(Foreach(Cell(), kCellData, kCellStates),
               Unrolled(Cell(), kCellData, kCellStates, num_steps), CellArrays(num_steps));
  }
}

TEST(LoopTest, ALoopInsideAGraphHasTheGradientsOfBothSides) {
  const auto around = [](const Symbol& loop) {
    return Symbol::CreateGroup(
        {Symbol::Apply("sum", {loop[0] * loop[1]}, {{"axis", "0"}}), loop[3] * Var("h0")});
  };
  const Named data = {{"x", Symbol::Apply("sin", {Var("data")})}};
  ExpectSame(around(Foreach(Cell(), data, kCellStates)),
             around(Unrolled(Cell(), data, kCellStates, 4)), CellArrays(4));
}

TEST(LoopTest, OutputsMayBeVariablesAndOccurTwice) {
  const Symbol x = Var("x"), s = Var("s"), t = Var("t");
  // The states change places; t also is a result, twice.
  const Symbol step = Symbol::CreateGroup({t, t, x * s, t, s});
  const Named data = {{"x", Var("data")}}, states = {{"s", Var("s0")}, {"t", Var("t0")}};
  ExpectSame(Foreach(step, data, states), Unrolled(step, data, states, 3),
             {{"data", Random({3, 4}, 1)}, {"s0", Random({4}, 2)}, {"t0", Random({4}, 3)}});
}

TEST(LoopTest, LoopsOfTheSameInputsStayApart) {
  // All parameters of the nodes are equal, too: the graphs alone differ.
  const Named data = {{"x", Var("data")}}, states = {{"s", Var("s0")}};
  const auto both = [&](const auto& make) {
    const Symbol sum = Symbol::CreateGroup({Var("x") * Var("s"), Var("x") + Var("s")});
    const Symbol difference = Symbol::CreateGroup({Var("x") * Var("s"), Var("x") - Var("s")});
    const Symbol a = make(sum), b = make(difference);
    return Symbol::CreateGroup({a[0] * b[0], a[1] + b[1]});
  };
  ExpectSame(both([&](const Symbol& step) { return Foreach(step, data, states); }),
             both([&](const Symbol& step) { return Unrolled(step, data, states, 3); }),
             {{"data", Random({3, 4}, 1)}, {"s0", Random({4}, 2)}});
}

TEST(LoopTest, TheGradientOfAStepHasItsRandomNumbers) {
  // Each step drops other elements: the gradient of x is the result's factor.
  const Symbol dropped = Symbol::Apply("Dropout", {Var("x")}, {{"p", "0.5"}});
  const Symbol loop = Foreach(dropped, {{"x", Var("data")}}, {});
  NDArray ones(TShape{8, 16});
  ones = 1.0f;
  const NDArray gradient = Random({8, 16}, 50);  // as HeadGradients has it
  for (const Results& results :
       {RunExecutor(loop, {{"data", ones}}), RunCachedOp(loop, {{"data", ones}}, false)}) {
    std::vector<float> expected = gradient.ToVector();
    for (size_t i = 0; i < expected.size(); ++i) expected[i] *= results.outputs[0][i];
    EXPECT_EQ(results.gradients.at("data"), expected);
    EXPECT_THAT(results.outputs[0], AllOf(Contains(0), Contains(2)));
  }
}

TEST(LoopTest, LaterCallsReadWhatTheirArraysHaveThen) {
  // The form of the weights, and memory of the call before, must not stay.
  const Symbol loop = Foreach(Cell(), kCellData, kCellStates);
  const CachedOp op(loop);
  const Arrays first = CellArrays(4);
  for (const int seed : {4, 9, 4}) {
    Arrays arrays = first;
    NDArray weights = arrays.at("w");
    CopyFromTo(Random({3, 3}, seed), weights);
    std::vector<NDArray> inputs;
    for (const std::string& name : op.input_names()) inputs.push_back(arrays.at(name));
    EXPECT_EQ(op(inputs)[0].ToVector(), RunExecutor(loop, arrays).outputs[0]) << seed;
  }
}

TEST(LoopTest, LoopsNest) {
  // Each step of the outer loop runs the rows of its data through the inner one.
  const Symbol inner_step = Symbol::CreateGroup(
      {Symbol::Apply("tanh", {Var("y") * Var("w") + Var("r")}), Var("r") * Var("w") + Var("y")});
  const Named inner_data = {{"y", Var("x")}}, inner_states = {{"r", Var("s")}};
  const Named data = {{"x", Var("data")}}, states = {{"s", Var("s0")}};
  const auto step = [](const Symbol& inner) {
    return Symbol::CreateGroup({Symbol::Apply("sum", {inner[0]}, {{"axis", "0"}}), inner[1]});
  };
  ExpectSame(Foreach(step(Foreach(inner_step, inner_data, inner_states, "inner")), data, states),
             Unrolled(step(Unrolled(inner_step, inner_data, inner_states, 2)), data, states, 3),
             {{"data", Random({3, 2, 4}, 1)}, {"s0", Random({4}, 2)}, {"w", Random({4}, 3)}});
}

TEST(LoopTest, NoStepsLeaveTheStates) {
  const Symbol loop = Foreach(Cell(), kCellData, kCellStates);
  const Arrays arrays = CellArrays(0);
  for (const Results& results : {RunExecutor(loop, arrays), RunCachedOp(loop, arrays, false)}) {
    EXPECT_TRUE(results.outputs[0].empty());
    EXPECT_EQ(results.outputs[2], arrays.at("h0").ToVector());
    EXPECT_EQ(results.outputs[3], arrays.at("c0").ToVector());
    EXPECT_EQ(results.gradients.at("h0"), Random({2, 3}, 52).ToVector());
    EXPECT_EQ(results.gradients.at("c0"), Random({2, 3}, 53).ToVector());
    EXPECT_EQ(results.gradients.at("w"), std::vector<float>(9));
  }
}

TEST(LoopTest, GradientsMayBeLeftOutOrAddedTo) {
  const Symbol loop = Foreach(Cell(), kCellData, kCellStates);
  const Arrays arrays = CellArrays(3);
  const Results expected = RunExecutor(loop, arrays);
  BindArguments bound;
  std::map<std::string, NDArray> gradients;
  for (const std::string& name : loop.ListArguments()) {
    bound.arguments.push_back(arrays.at(name));
    NDArray gradient(arrays.at(name).shape());
    gradient = 2.0f;
    const bool has_gradient = name == "w" || name == "h0" || name == "data";
    bound.gradients.push_back(has_gradient ? gradient : NDArray());
    bound.grad_requests.push_back(!has_gradient ? kNullOp : name == "h0" ? kWriteTo : kAddTo);
    gradients[name] = gradient;
  }
  const auto executor = Bind(loop, Device::Cpu(), bound);
  executor->Forward(true);
  executor->Backward(HeadGradients(executor->outputs()));
  for (const std::string name : {"w", "h0", "data"}) {
    std::vector<float> sum = expected.gradients.at(name);
    if (name != "h0") {
      for (float& value : sum) value += 2;
    }
    ExpectNear(gradients.at(name).ToVector(), sum, name);
  }
  EXPECT_THAT(gradients.at("c0").ToVector(), ::testing::Each(2));
}

TEST(LoopTest, EachStepChangesAuxiliaryStates) {
  const Symbol norm =
      Symbol::Apply("BatchNorm", {Var("x"), Var("gamma"), Var("beta"), Var("mean"), Var("var")},
                    {{"momentum", "0.5"}, {"fix_gamma", "0"}});
  const Symbol step = Symbol::CreateGroup({norm, Var("s") + norm});
  const Named data = {{"x", Var("data")}}, states = {{"s", Var("s0")}};
  const auto arrays = [] {
    return Arrays{{"data", Random({3, 4, 2}, 1)},
                  {"s0", Random({4, 2}, 2)},
                  {"gamma", Random({2}, 3)},
                  {"beta", Random({2}, 4)},
                  {"mean", NDArray::FromVector(std::vector<float>{0, 0}, {2})},
                  {"var", NDArray::FromVector(std::vector<float>{1, 1}, {2})}};
  };
  const Arrays of_loop = arrays(), of_steps = arrays();
  const Symbol loop = Foreach(step, data, states);
  EXPECT_THAT(loop.ListAuxiliaryStates(), ElementsAre("mean", "var"));
  const Results actual = RunExecutor(loop, of_loop);
  const Results expected = RunExecutor(Unrolled(step, data, states, 3), of_steps);
  EXPECT_EQ(actual.outputs, expected.outputs);
  for (const char* name : {"data", "gamma", "beta", "s0"}) {
    ExpectNear(actual.gradients.at(name), expected.gradients.at(name), name);
  }
  for (const char* name : {"mean", "var"}) {
    EXPECT_EQ(of_loop.at(name).ToVector(), of_steps.at(name).ToVector());
  }
}

/// i < limit, and i' = i + 1, s' = s w + i with the result s w.
Symbol Condition() { return Symbol::Apply("broadcast_lesser", {Var("i"), Var("limit")}); }
Symbol CountingStep() {
  const Symbol product = Var("s") * Var("w");
  return Symbol::CreateGroup(
      {product, Var("i") + 1, Symbol::Apply("broadcast_add", {product, Var("i")})});
}
const Named kCountingStates = {{"i", Var("i0")}, {"s", Var("s0")}};

Arrays CountingArrays(float limit) {
  return {{"i0", NDArray::FromVector(std::vector<float>{0}, {1})},
          {"limit", NDArray::FromVector(std::vector<float>{limit}, {1})},
          {"s0", Random({4}, 1)},
          {"w", Random({4}, 2)}};
}

/// Returns what the loop gives after that many steps.
Symbol UnrolledCounting(int num_steps, int max_iterations) {
  const Symbol steps = Unrolled(CountingStep(), {}, kCountingStates, num_steps);
  if (num_steps == max_iterations) return steps;
  const Symbol rows = Symbol::Apply(
      "Concat",
      {steps[0],
       Symbol::Apply("_zeros", {},
                     {{"shape", "(" + std::to_string(max_iterations - num_steps) + ",4)"}})},
      {{"dim", "0"}});
  return Symbol::CreateGroup({rows, steps[1], steps[2]});
}

TEST(LoopTest, WhileEndsAtItsConditionOrItsLimit) {
  const Symbol loop = While(Condition(), CountingStep(), kCountingStates, 5);
  for (const int num_steps : {1, 3, 5}) {
    SCOPED_TRACE(num_steps);
    ExpectSame(loop, UnrolledCounting(num_steps, 5), CountingArrays(static_cast<float>(num_steps)));
  }
  SCOPED_TRACE("the limit");
  ExpectSame(loop, UnrolledCounting(5, 5), CountingArrays(9));
}

TEST(LoopTest, AConditionThatIsFalseAtOnceLeavesTheStates) {
  const Symbol loop = While(Condition(), CountingStep(), kCountingStates, 3);
  const Arrays arrays = CountingArrays(0);
  for (const Results& results : {RunExecutor(loop, arrays), RunCachedOp(loop, arrays, true)}) {
    EXPECT_EQ(results.outputs[0], std::vector<float>(12));
    EXPECT_EQ(results.outputs[1], std::vector<float>{0});
    EXPECT_EQ(results.outputs[2], arrays.at("s0").ToVector());
    EXPECT_EQ(results.gradients.at("s0"), Random({4}, 52).ToVector());
    EXPECT_EQ(results.gradients.at("w"), std::vector<float>(4));
    EXPECT_EQ(results.gradients.at("limit"), std::vector<float>{0});
  }
}

TEST(LoopTest, CondRunsOneBranchAndHasItsGradient) {
  const Symbol condition = Symbol::Apply("broadcast_greater", {Var("p"), Var("q")});
  const Symbol yes = Symbol::CreateGroup({Symbol::Apply("tanh", {Var("a") * Var("b")}), Var("a")});
  const Symbol no = Symbol::CreateGroup({Var("b") * Var("b") * Var("c"), Var("c") + 1});
  const Symbol branch = Cond(condition, yes, no);
  for (const float p : {1.0f, -1.0f}) {
    SCOPED_TRACE(p);
    ExpectSame(branch, p > 0 ? yes : no,
               {{"p", NDArray::FromVector(std::vector<float>{p}, {1})},
                {"q", NDArray::FromVector(std::vector<float>{0}, {1})},
                {"a", Random({3}, 1)},
                {"b", Random({3}, 2)},
                {"c", Random({3}, 3)}});
  }
}

TEST(LoopTest, BranchesStandInLoops) {
  const Symbol branch =
      Cond(Symbol::Apply("sum", {Var("x")}) > 0, Var("s") * Var("x"), Var("s") - Var("w"));
  const Symbol step = Symbol::CreateGroup({branch * Var("w"), branch});
  const Named data = {{"x", Var("data")}}, states = {{"s", Var("s0")}};
  const std::vector<float> rows = {1, 2, -3, 1, 2, 2};
  const Arrays arrays = {
      {"data", NDArray::FromVector(rows, {3, 2})}, {"s0", Random({2}, 1)}, {"w", Random({2}, 2)}};
  // The sums are 3, -2 and 4.
  const Symbol w = Var("w");
  const auto row = [](int t) {
    const Symbol slice = Symbol::Apply(
        "slice_axis", {Var("data")},
        {{"axis", "0"}, {"begin", std::to_string(t)}, {"end", std::to_string(t + 1)}});
    return Symbol::Apply("squeeze", {slice}, {{"axis", "0"}});
  };
  const Symbol first = Var("s0") * row(0), second = first - w, third = second * row(2);
  const Symbol results =
      Symbol::Apply("stack", {first * w, second * w, third * w}, {{"axis", "0"}});
  ExpectSame(Foreach(step, data, states), Symbol::CreateGroup({results, third}), arrays);
}

TEST(LoopTest, ShapesGoThroughGraphsInBothDirections) {
  const Symbol loop = Foreach(Cell(), kCellData, kCellStates);
  const InferredShapes forward = loop.InferShape({{"data", {7, 2, 3}}});
  EXPECT_TRUE(forward.complete);
  EXPECT_THAT(forward.outputs,
              ElementsAre(TShape{7, 2, 3}, TShape{7, 2, 3}, TShape{2, 3}, TShape{2, 3}));
  // data, h0, c0, w, u
  EXPECT_EQ(forward.arguments[1], (TShape{2, 3}));
  const InferredTypes types = loop.InferType({{"data", DType::kFloat64}});
  EXPECT_EQ(types.outputs[0], DType::kFloat64);
  EXPECT_EQ(types.arguments[3], DType::kFloat64);
  const InferredShapes partial =
      loop.InferShapePartial({{"data", TShape::Parse("(None,None,3)")}, {"h0", {2, 3}}});
  EXPECT_EQ(partial.outputs[0], TShape::Parse("(None,2,3)"));
  EXPECT_FALSE(partial.complete);
}

TEST(LoopTest, AStateWithoutExtentsIsLikeItsReader) {
  // As MXNet's recurrent cells begin: the batch of the zeros is that of the data.
  const Symbol zeros = Symbol::Apply("_zeros", {}, {{"shape", "(0,3)"}});
  const Named states = {{"h", zeros}, {"c", zeros}};
  const Symbol loop = Foreach(Cell(), kCellData, states);
  Arrays arrays = CellArrays(2);
  const std::vector<float> expected = RunExecutor(loop, arrays).outputs[0];
  EXPECT_EQ(RunCachedOp(loop, arrays, /*node_by_node=*/true).outputs[0], expected);
}

TEST(LoopTest, RandomNumbersAreOthersInEachStep) {
  const Symbol drawn = Symbol::Apply("_random_uniform", {}, {{"shape", "(4,)"}});
  const Symbol step = Symbol::CreateGroup({drawn + Var("x") + Var("s"), Var("s")});
  const Symbol loop = Foreach(step, {{"x", Var("data")}}, {{"s", Var("s0")}});
  NDArray zeros(TShape{2, 4}), state(TShape{4});
  zeros = 0.0f;
  state = 0.0f;
  const std::vector<float> rows = RunForInference(loop, {{"data", zeros}, {"s0", state}});
  EXPECT_NE(std::vector<float>(rows.begin(), rows.begin() + 4),
            std::vector<float>(rows.begin() + 4, rows.end()));
}

template <typename Call>
std::string ErrorOf(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(LoopErrorTest, ShapesThatDoNotFitNameTheNodeAndTheRule) {
  const Symbol loop = Foreach(Cell(), kCellData, kCellStates);
  EXPECT_THAT(ErrorOf([&] {
                loop.InferShape({{"data", {7, 2, 3}}, {"h0", {2, 4}}});
              }),
              AllOf(HasSubstr("node \"loop\": "), HasSubstr("(2,4)")));
  EXPECT_THAT(ErrorOf([&] {
                loop.InferShape({{"data", TShape(std::initializer_list<index_t>{})}});
              }),
              AllOf(HasSubstr("_foreach: data0 has shape ()"), HasSubstr("at least one axis")));
  const Symbol two = Foreach(Var("x") * Var("y"), {{"x", Var("a")}, {"y", Var("b")}}, {});
  EXPECT_THAT(ErrorOf([&] {
                two.InferShape({{"a", {3, 2}}, {"b", {4, 2}}});
              }),
              HasSubstr("_foreach: data1 has shape (4,2), expected 3 rows, one for each step"));
  const Symbol loop_of_many = While(Symbol::Apply("broadcast_lesser", {Var("s"), Var("w")}),
                                    Var("s") * Var("w"), {{"s", Var("s0")}}, 2);
  EXPECT_THAT(ErrorOf([&] {
                loop_of_many.InferShape({{"s0", {4}}, {"w", {4}}});
              }),
              HasSubstr("_while_loop: the condition has shape (4,), expected one element"));
}

TEST(LoopErrorTest, AnErrorInAStepNamesTheStep) {
  const Symbol picked = Symbol::Apply("take", {Var("table"), Var("x")}, {{"mode", "raise"}});
  const Symbol loop = Foreach(picked, {{"x", Var("data")}}, {});
  const CachedOp op(loop);
  const NDArray rows = NDArray::FromVector(std::vector<float>{0, 1, 9}, {3, 1});
  const NDArray table = Random({2, 2}, 1);
  const std::vector<NDArray> inputs = op.input_names()[0] == "data"
                                          ? std::vector<NDArray>{rows, table}
                                          : std::vector<NDArray>{table, rows};
  try {
    op(inputs)[0].WaitToRead();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kOutOfRange);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("node \"loop\""), HasSubstr("step 2: ")));
  }
}

TEST(LoopErrorTest, AGradientThroughAGraphWithoutOneSaysWhy) {
  const Symbol loop = Foreach(Symbol::Apply("_shuffle", {Var("x")}), {{"x", Var("data")}}, {});
  EXPECT_THAT(ErrorOf([&] { loop.Grad({"data"}); }),
              AllOf(HasSubstr("node \"loop\": a gradient is wanted through _foreach"),
                    HasSubstr("_shuffle, which has none")));
}

}  // namespace
}  // namespace tessera
