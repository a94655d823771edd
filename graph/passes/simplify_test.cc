#include "tessera/graph/passes/simplify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/graph/testing/evaluate.h"

namespace tessera::graph {
namespace {

using graph_testing::Apply;
using graph_testing::Array;
using graph_testing::Evaluate;
using graph_testing::Operators;
using graph_testing::RandomArray;
using ::testing::ElementsAre;

/// An operator between exp and log, so that it is neither beside a variable nor an output.
std::vector<NodeEntry> Between(std::string_view op, const ParameterMap& parameters) {
  const NodeEntry e = Apply("exp", "e", {MakeVariable("x")});
  return {Apply("log", "l", {Apply(op, "op", {e}, parameters)})};
}

TEST(SimplifyTest, OperatorsThatChangeNothingAreLeftOut) {
  const std::vector<std::pair<std::string_view, ParameterMap>> cases = {
      {"_copy", {}},
      {"BlockGrad", {}},
      {"make_loss", {}},
      {"MakeLoss", {}},
      {"Dropout", {{"p", "0.9"}}},
      {"_mul_scalar", {{"scalar", "1"}}},
      {"_div_scalar", {{"scalar", "1"}}},
      {"_minus_scalar", {{"scalar", "0"}}}};
  for (const auto& [op, parameters] : cases) {
    const std::vector<NodeEntry> heads = Between(op, parameters);
    const auto simplified = SimplifyForInference(heads);
    EXPECT_THAT(Operators(simplified), ElementsAre("exp e", "log l")) << op;
    const graph_testing::Arrays arrays = {{"x", RandomArray({3, 4}, 1)}};
    EXPECT_EQ(Evaluate(simplified, arrays), Evaluate(heads, arrays)) << op;
  }
}

TEST(SimplifyTest, OperatorsThatMayChangeBitsStay) {
  for (const auto& [op, parameters] : std::vector<std::pair<std::string_view, ParameterMap>>{
           {"_plus_scalar", {{"scalar", "0"}}},  // -0 becomes 0
           {"_minus_scalar", {{"scalar", "-0.0"}}},
           {"_mul_scalar", {{"scalar", "-1"}}},
           {"_rdiv_scalar", {{"scalar", "1"}}},
           {"Dropout", {{"mode", "always"}}},
           {"relu", {}}}) {
    const std::vector<NodeEntry> heads = Between(op, parameters);
    EXPECT_EQ(SimplifyForInference(heads), heads) << op;
  }
}

/// Runs an operator that is left out on all kinds of values of one type.
template <typename T>
void ExpectIdentity(std::string_view op, const char* scalar, const std::vector<T>& values) {
  const NodeEntry out = Apply(op, "out", {MakeVariable("x")}, {{"scalar", scalar}});
  const Array x = Array::Of<T>({static_cast<index_t>(values.size())}, values);
  EXPECT_EQ(Evaluate({out}, {{"x", x}})[0].bytes, x.bytes) << op << " of " << DTypeOf<T>::value;
}

TEST(SimplifyTest, TheNumbersThatAreLeftOutKeepEveryBit) {
  using Limits = std::numeric_limits<float>;
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.5f,
                               -Limits::max(),
                               Limits::infinity(),
                               -Limits::infinity(),
                               Limits::min(),
                               Limits::denorm_min(),
                               -Limits::denorm_min(),
                               std::bit_cast<float>(0x7fc12345u),
                               std::bit_cast<float>(0xffc54321u)};
  std::vector<double> doubles(values.begin(), values.end());
  std::vector<half_t> halves;
  for (const float value : values) halves.push_back(static_cast<half_t>(value));
  for (const auto& [op, scalar] : std::vector<std::pair<std::string_view, const char*>>{
           {"_mul_scalar", "1"}, {"_div_scalar", "1"}, {"_minus_scalar", "0"}}) {
    ExpectIdentity(op, scalar, values);
    ExpectIdentity(op, scalar, doubles);
    ExpectIdentity(op, scalar, halves);
    ExpectIdentity<int32_t>(op, scalar, {0, 1, -7, INT32_MIN, INT32_MAX});
    ExpectIdentity<uint8_t>(op, scalar, {0, 1, 255});
    ExpectIdentity<int64_t>(op, scalar, {INT64_MIN, INT64_MAX, (int64_t{1} << 53) + 1});
  }
}

TEST(SimplifyTest, OutputsKeepTheirNodes) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry e = Apply("exp", "e", {x});
  const std::vector<NodeEntry> heads = {Apply("_copy", "c", {x}), Apply("BlockGrad", "b", {e})};
  EXPECT_EQ(SimplifyForInference(heads), heads);
}

TEST(SimplifyTest, ReshapesAreJoined) {
  const auto chain = [](const char* shape) {
    NodeEntry y = Apply("exp", "e", {MakeVariable("x")});
    y = Apply("Flatten", "f", {y});
    y = Apply("expand_dims", "d", {y}, {{"axis", "0"}});
    return Apply("Reshape", "r", {y}, {{"shape", shape}});
  };
  const graph_testing::Arrays arrays = {{"x", RandomArray({2, 3, 4}, 1)}};
  const NodeEntry whole = chain("(6, -1)");
  const auto joined = SimplifyForInference({whole});
  // The Reshape reads past expand_dims; what expand_dims reads is a Flatten, which it needs no
  // more.
  EXPECT_EQ(joined[0].node->inputs[0].node->name, "f");
  EXPECT_EQ(Evaluate(joined, arrays), Evaluate({whole}, arrays));
  // 0 takes an extent over from the input.
  const NodeEntry relative = chain("(0, 6, -1)");
  EXPECT_EQ(SimplifyForInference({relative}), std::vector<NodeEntry>{relative});
}

TEST(SimplifyTest, TransposesCancelOrBecomeOne) {
  const auto twice = [](const ParameterMap& first, const ParameterMap& second) {
    NodeEntry y = Apply("exp", "e", {MakeVariable("x")});
    y = Apply("transpose", "t1", {y}, first);
    return Apply("log", "l", {Apply("transpose", "t2", {y}, second)});
  };
  const graph_testing::Arrays arrays = {{"x", RandomArray({2, 3, 4}, 1)}};
  struct Case {
    ParameterMap first, second;
    std::vector<std::string> left;
  };
  for (const Case& c : std::vector<Case>{
           {{}, {}, {"exp e", "log l"}},
           {{{"axes", "(2,0,1)"}}, {{"axes", "(1,2,0)"}}, {"exp e", "log l"}},
           {{{"axes", "(2,0,1)"}}, {{"axes", "(-2,-1,0)"}}, {"exp e", "log l"}},
           {{{"axes", "(2,0,1)"}}, {{"axes", "(2,0,1)"}}, {"exp e", "transpose t2", "log l"}},
           {{}, {{"axes", "(0,2,1)"}}, {"exp e", "transpose t2", "log l"}}}) {
    const NodeEntry out = twice(c.first, c.second);
    const auto simplified = SimplifyForInference({out});
    EXPECT_EQ(Operators(simplified), c.left);
    EXPECT_EQ(Evaluate(simplified, arrays), Evaluate({out}, arrays));
  }
}

TEST(SimplifyTest, CopiesOfAStateThatChangesStay) {
  const NodeEntry w = MakeVariable("w"), g = MakeVariable("g"), state = MakeVariable("state");
  const NodeEntry before = Apply("_copy", "before", {state});
  const NodeEntry step = Apply("sgd_mom_update", "step", {w, g, state}, {{"lr", "1"}});
  const NodeEntry copy = Apply("_copy", "copy", {g});
  const NodeEntry other = Apply("sgd_mom_update", "other", {w, g, copy}, {{"lr", "1"}});
  const NodeEntry out = Apply("add_n", "out", {before, step, other}, {{"num_args", "3"}});
  EXPECT_EQ(SimplifyForInference({out}), std::vector<NodeEntry>{out});
}

}  // namespace
}  // namespace tessera::graph
