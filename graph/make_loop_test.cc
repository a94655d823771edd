#include "tessera/graph/make_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/graph/testing/evaluate.h"
#include "tessera/ops/parameter.h"

namespace tessera::graph {
namespace {

using graph_testing::Apply;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Graphs = std::vector<std::vector<NodeEntry>>;

/// The step of x and s with the result tanh(x s) and the state x s + w. Its variables are x, s, w.
std::vector<NodeEntry> Step() {
  const NodeEntry product =
      Apply("elemwise_mul", "product", {MakeVariable("x"), MakeVariable("s")});
  return {Apply("tanh", "out", {product}),
          Apply("elemwise_add", "next", {product, MakeVariable("w")})};
}

const ParameterMap kForeach = {{"num_args", "4"},        {"num_outputs", "2"},
                               {"num_out_data", "1"},    {"in_data_locs", "[0]"},
                               {"in_state_locs", "[1]"}, {"remain_locs", "[2]"}};

TEST(MakeLoopTest, TheGradientReadsDataStatesAndResults) {
  const auto property = MakeLoop("_foreach", kForeach, {Step()});
  const LoopDescription& loop = property->loop();
  EXPECT_THAT(loop.inputs, ElementsAre(LoopInput::kData, LoopInput::kState, LoopInput::kCaptured));
  EXPECT_THAT(loop.states, ElementsAre(1));
  EXPECT_THAT(loop.gradient_reads, ElementsAre(true, false, false));
  EXPECT_EQ(property->NumVisibleOutputs(), 2);
  // tanh's gradient reads its result, which is an output, and the product's reads the state.
  ASSERT_EQ(loop.bodies[0].saved.size(), 2u);
  EXPECT_THAT(property->ListOutputs(), ElementsAre("output0", "output1", "saved0"));
  EXPECT_EQ(loop.bodies[0].saved[0].entry.node->name, "s");
  EXPECT_EQ(loop.bodies[0].saved[0].output, 2);
  EXPECT_EQ(loop.bodies[0].saved[1].entry.node->name, "out");
  EXPECT_EQ(loop.bodies[0].saved[1].output, 0);
  EXPECT_TRUE(property->HasGradient());
}

TEST(MakeLoopTest, ACachedOpIsABranchWithoutACondition) {
  const auto property = MakeLoop("_CachedOp", {{"inline_limit", "2"}}, {Step()});
  const LoopDescription& loop = property->loop();
  EXPECT_EQ(loop.kind, LoopKind::kBranch);
  EXPECT_EQ(loop.condition.index, nullptr);
  EXPECT_THAT(loop.inputs,
              ElementsAre(LoopInput::kCaptured, LoopInput::kCaptured, LoopInput::kCaptured));
  ASSERT_EQ(loop.bodies.size(), 1u);
  EXPECT_THAT(loop.bodies[0].inputs, ElementsAre(0, 1, 2));
  EXPECT_EQ(property->NumVisibleOutputs(), 2);
  EXPECT_EQ(property->GetParams().at("inline_limit"), "2");
  std::vector<TShape> in = {{2, 3}, {2, 3}, {2, 3}}, out(property->ListOutputs().size());
  EXPECT_TRUE(property->InferShape(&in, &out));
  EXPECT_EQ(out[0], (TShape{2, 3}));
  EXPECT_TRUE(property->HasGradient());
}

TEST(MakeLoopTest, ALoopsPurityIsTheStrictestOfItsOperators) {
  EXPECT_EQ(MakeLoop("_foreach", kForeach, {Step()})->purity(), Purity::kPure);
  EXPECT_EQ(NumLoopGraphs("_foreach"), 1);
  EXPECT_EQ(NumLoopGraphs("_while_loop"), 2);
  EXPECT_EQ(NumLoopGraphs("_cond"), 3);
  EXPECT_EQ(NumLoopGraphs("_CachedOp"), 1);
  EXPECT_EQ(NumLoopGraphs("tanh"), 0);
}

std::string ErrorOf(std::string_view op, const ParameterMap& parameters, const Graphs& graphs) {
  try {
    MakeLoop(op, parameters, graphs);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

/// Returns the error of _foreach with other parameters.
std::string ForeachError(const ParameterMap& changed) {
  ParameterMap parameters = changed;
  parameters.insert(kForeach.begin(), kForeach.end());
  return ErrorOf("_foreach", parameters, {Step()});
}

TEST(MakeLoopErrorTest, NamesWhatWhereFoundAndExpected) {
  EXPECT_THAT(ErrorOf("_foreach", kForeach, {Step(), Step()}),
              HasSubstr("_foreach: 2 graphs were given, expected 1"));
  EXPECT_THAT(ErrorOf("_foreach", kForeach, {{}}), HasSubstr("_foreach: graph 0 has no outputs"));
  EXPECT_THAT(ForeachError({{"num_args", "1000000000"}}),
              AllOf(HasSubstr("num_args is 1000000000"), HasSubstr("expected 1 to 4")));
  EXPECT_THAT(ForeachError({{"num_args", "3"}}),
              HasSubstr("the number of inputs is 2, expected 3"));
  EXPECT_THAT(ForeachError({{"num_outputs", "3"}}),
              HasSubstr("the number of the step's outputs is 2, expected 3"));
  EXPECT_THAT(ForeachError({{"num_out_data", "3"}}),
              HasSubstr("num_out_data has 3, expected integers in [0, 3)"));
  EXPECT_THAT(ForeachError({{"num_out_data", "2"}}),
              HasSubstr("the number of states is 1, expected 0"));
  EXPECT_THAT(ForeachError({{"in_data_locs", "[]"}}), HasSubstr("in_data_locs is empty"));
  EXPECT_THAT(ForeachError({{"in_data_locs", "[3]"}}),
              HasSubstr("in_data_locs has 3, expected integers in [0, 3)"));
  EXPECT_THAT(ForeachError({{"remain_locs", "[0]"}}),
              HasSubstr("remain_locs has variable 0 a second time"));
  EXPECT_THAT(ForeachError({{"remain_locs", "[]"}}),
              HasSubstr("the number of variables in all locations is 2, expected 3"));
}

TEST(MakeLoopErrorTest, ConditionsAndBranchesAreCheckedToo) {
  const std::vector<NodeEntry> condition = {
      Apply("_lesser_scalar", "less", {MakeVariable("s")}, {{"scalar", "5"}})};
  const ParameterMap parameters = {{"num_args", "5"},          {"num_outputs", "2"},
                                   {"num_out_data", "1"},      {"max_iterations", "4"},
                                   {"cond_input_locs", "[1]"}, {"func_input_locs", "[0, 1, 2]"},
                                   {"func_var_locs", "[1]"}};
  const auto error_of = [&](const std::string& name, const std::string& text) {
    ParameterMap changed = parameters;
    changed[name] = text;
    return ErrorOf("_while_loop", changed, {condition, Step()});
  };
  EXPECT_EQ(MakeLoop("_while_loop", parameters, {condition, Step()})->loop().states,
            std::vector<int>{1});
  EXPECT_THAT(error_of("max_iterations", "-1"),
              HasSubstr("max_iterations is -1, expected at least 0"));
  EXPECT_THAT(error_of("cond_input_locs", "[0, 1]"),
              HasSubstr("the number of cond_input_locs is 2, expected 1"));
  EXPECT_THAT(error_of("func_input_locs", "[0, 0, 2]"),
              HasSubstr("func_input_locs has input 0 a second time"));
  EXPECT_THAT(error_of("func_var_locs", "[-1]"),
              HasSubstr("func_var_locs has -1, expected integers in [0, 3)"));
  EXPECT_THAT(ErrorOf("_cond",
                      {{"num_args", "6"},
                       {"num_outputs", "1"},
                       {"cond_input_locs", "[0]"},
                       {"then_input_locs", "[0, 1, 2]"},
                       {"else_input_locs", "[0]"}},
                      {condition, Step(), condition}),
              HasSubstr("_cond: the number of a branch's outputs is 2, expected 1"));
}

}  // namespace
}  // namespace tessera::graph
