#include "tessera/graph/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/graph/testing/evaluate.h"

namespace tessera::graph {
namespace {

using graph_testing::Apply;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Names the steps.
std::vector<std::string> Names(const CompiledGraph& compiled) {
  std::vector<std::string> names;
  for (const Step& step : compiled.program.steps) names.push_back(step.node->name);
  return names;
}

/// Returns the values of a kind, by index.
std::map<int, Value> ValuesOf(const CompiledGraph& compiled, ValueKind kind) {
  std::map<int, Value> values;
  for (const Value& value : compiled.program.values) {
    if (value.kind == kind) values.emplace(value.index, value);
  }
  return values;
}

/// Checks that `compile` throws an error with that code and returns its text.
template <typename Fn>
std::string ErrorOf(absl::StatusCode code, const Fn& compile) {
  try {
    compile();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

/// tanh(x * weight' + bias), with 8 outputs.
NodeEntry Layer() {
  const NodeEntry fc = Apply("FullyConnected", "fc", {MakeVariable("data")}, {{"num_hidden", "8"}});
  return Apply("tanh", "out", {fc});
}

TEST(CompileTest, InfersAndListsTheSteps) {
  const CompiledGraph compiled =
      Compile({Layer()}, {{"data", {32, 4}}}, {}, {kNullOp, kNullOp, kNullOp});
  EXPECT_TRUE(compiled.complete);
  EXPECT_THAT(Names(compiled), ElementsAre("fc", "out"));
  EXPECT_EQ(compiled.program.num_forward_steps, 2);
  const std::map<int, Value> arguments = ValuesOf(compiled, ValueKind::kArgument);
  ASSERT_EQ(arguments.size(), 3u);
  EXPECT_EQ(arguments.at(1).shape, TShape({8, 4}));
  EXPECT_EQ(arguments.at(2).shape, TShape({8}));
  EXPECT_EQ(arguments.at(2).dtype, DType::kFloat32);
  EXPECT_THAT(compiled.program.head_needs_gradient, ElementsAre(false));
}

TEST(CompileTest, GradientsFollowTheGraph) {
  const CompiledGraph compiled = Compile({Layer()}, {{"data", {32, 4}}},
                                         {{"data", DType::kFloat64}}, {kNullOp, kWriteTo, kAddTo});
  EXPECT_THAT(Names(compiled), ElementsAre("fc", "out", "out_backward", "fc_backward"));
  EXPECT_EQ(compiled.program.num_forward_steps, 2);
  EXPECT_THAT(compiled.program.head_needs_gradient, ElementsAre(true));
  const std::map<int, Value> gradients = ValuesOf(compiled, ValueKind::kGradient);
  ASSERT_EQ(gradients.size(), 2u);
  EXPECT_EQ(gradients.at(1).shape, TShape({8, 4}));
  EXPECT_EQ(gradients.at(1).dtype, DType::kFloat64);
  EXPECT_THAT(compiled.program.steps.back().req, ElementsAre(kNullOp, kWriteTo, kAddTo));
}

TEST(CompileTest, ValuesThatTheCallerComputesAreFixed) {
  const NodeEntry conv = Apply("Convolution", "conv", {MakeVariable("data")},
                               {{"kernel", "(3,3)"}, {"num_filter", "4"}});
  const NodeEntry norm = Apply("BatchNorm", "norm", {conv});
  const NodeEntry range = Apply("_arange", "range", {}, {{"start", "0"}, {"stop", "4"}});
  const NodeEntry out = Apply("broadcast_add", "out", {norm, range});
  const std::vector<OpReqType> requests(5, kNullOp);  // data, weight, bias, gamma, beta
  const auto compile = [&](bool splits) {
    return Compile({out}, {{"data", {2, 3, 6, 6}}}, {}, requests, {.splits = splits});
  };
  const CompiledGraph compiled = compile(true);
  EXPECT_THAT(Names(compiled), ElementsAre("norm", "out"));
  EXPECT_EQ(compiled.constants.size(), 1u);
  EXPECT_EQ(compiled.parameters.size(), 2u);
  const std::map<int, Value> fixed = ValuesOf(compiled, ValueKind::kFixed);
  ASSERT_EQ(fixed.size(), 3u);
  EXPECT_EQ(fixed.at(0).shape, TShape({4}));
  EXPECT_EQ(fixed.at(1).shape, compiled.parameters[0].shape);
  EXPECT_EQ(fixed.at(2).shape, compiled.parameters[1].shape);
  const CompiledGraph whole = compile(false);
  EXPECT_THAT(Names(whole), ElementsAre("conv", "norm", "range", "out"));
  EXPECT_THAT(whole.constants, IsEmpty());
  EXPECT_THAT(ValuesOf(whole, ValueKind::kFixed), IsEmpty());
}

TEST(CompileTest, UnreadResultsAreComputedToBeLookedAt) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry a = Apply("tanh", "a", {x}), b = Apply("tanh", "b", {x});
  const NodeEntry halves = Apply("SliceChannel", "halves", {Apply("elemwise_add", "sum", {a, b})},
                                 {{"num_outputs", "2"}, {"axis", "0"}});
  const auto compile = [&](bool keeps_unread) {
    return Compile({halves}, {{"x", {4}}}, {}, {kNullOp}, {.keeps_unread = keeps_unread});
  };
  EXPECT_THAT(Names(compile(false)), ElementsAre("a", "sum", "halves"));
  EXPECT_THAT(compile(false).program.steps.back().req, ElementsAre(kWriteTo, kNullOp));
  EXPECT_THAT(Names(compile(true)), ElementsAre("a", "b", "sum", "halves"));
  EXPECT_THAT(compile(true).program.steps.back().req, ElementsAre(kWriteTo, kWriteTo));
}

/// Returns what compiling with fusion writes about the groups.
std::string DumpOfGroups(const std::vector<NodeEntry>& heads,
                         const std::map<std::string, TShape>& shapes) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "fused";
  std::filesystem::remove_all(folder);
  setenv("TESSERA_DUMP_GRAPH", folder.c_str(), /*overwrite=*/1);
  Compile(heads, shapes, {}, std::vector<OpReqType>(shapes.size(), kNullOp), {.fuses = true});
  unsetenv("TESSERA_DUMP_GRAPH");
  std::ostringstream text;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().filename().string().ends_with("fuse_maps.txt")) {
      text << std::ifstream(file.path()).rdbuf();
    }
  }
  return text.str();
}

TEST(CompileTest, ALayerBelongsToTheGroupBehindIt) {
  const NodeEntry layer =
      Apply("FullyConnected", "layer", {MakeVariable("x"), MakeVariable("w"), MakeVariable("b")},
            {{"num_hidden", "3"}});
  const NodeEntry sum = Apply("elemwise_add", "sum", {layer, MakeVariable("y")});
  const std::string text = DumpOfGroups({Apply("Activation", "out", {sum}, {{"act_type", "relu"}})},
                                        {{"x", {2, 4}}, {"w", {3, 4}}, {"b", {3}}, {"y", {2, 3}}});
  for (const char* line : {" layer (%0, %1, %2) in group 0\n", " sum (%3, %4) in group 0\n",
                           " out (%5) in group 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(CompileTest, ElementwiseStepsAreJoinedWhereTheCallerWantsIt) {
  const NodeEntry out = Apply(
      "tanh", "out", {Apply("elemwise_mul", "product", {MakeVariable("x"), MakeVariable("y")})});
  const auto names = [&](const CompileOptions& options) {
    return Names(
        Compile({out}, {{"x", {4}}, {"y", {4}}}, {}, std::vector<OpReqType>(2, kNullOp), options));
  };
  EXPECT_THAT(names({}), ElementsAre("product", "out"));
  EXPECT_THAT(names({.fuses = true}), ElementsAre("product+out"));
  EXPECT_THAT(names({.keeps_unread = true, .fuses = true}), ElementsAre("product", "out"));
  EXPECT_THAT(DumpOfGroups({out}, {{"x", {4}}, {"y", {4}}}),
              AllOf(HasSubstr("elemwise_mul() product (%0, %1) in group 0\n"),
                    HasSubstr("tanh() out (%2) in group 0\n")));
  setenv("TESSERA_FUSE", "0", /*overwrite=*/1);
  EXPECT_THAT(names({.fuses = true}), ElementsAre("product", "out"));
  unsetenv("TESSERA_FUSE");
}

TEST(CompileTest, VariablesHaveDevicesEvenIfNoStepNeedsThem) {
  const NodeEntry x = MakeVariable("x"), like = MakeVariable("like");
  like.node->attributes.Set("ctx_group", "g2");
  NodeEntry twice = Apply("_mul_scalar", "twice", {x}, {{"scalar", "2"}});
  twice.node->attributes.Set("ctx_group", "g1");
  // Inference replaces zeros_like, which reads the shape of a result alone.
  const NodeEntry zeros = Apply("zeros_like", "zeros", {Apply("tanh", "tanh", {like})});
  const CompiledGraph compiled =
      Compile({twice, zeros}, {{"x", {4}}, {"like", {2}}}, {}, {kNullOp, kNullOp},
              {.groups = {{"g1", Device::Cpu(1)}, {"g2", Device::Cpu(2)}}});
  const std::map<int, Value> arguments = ValuesOf(compiled, ValueKind::kArgument);
  ASSERT_EQ(arguments.size(), 2u);
  const std::vector<Device>& devices = compiled.program.devices;
  const auto device_of = [&](int argument) {
    return devices[static_cast<size_t>(arguments.at(argument).device)];
  };
  EXPECT_EQ(device_of(0), Device::Cpu());
  EXPECT_EQ(device_of(1), Device::Cpu(2));
  EXPECT_EQ(std::count(devices.begin(), devices.end(), Device::Cpu(1)), 1);
}

TEST(CompileTest, VariablesMayHaveOneNameIfTheyAreKnownInOrder) {
  const NodeEntry x = MakeVariable("x"), other = MakeVariable("x");
  const NodeEntry out =
      Apply("broadcast_mul", "out", {Apply("tanh", "a", {x}), Apply("tanh", "b", {other})});
  const CompiledGraph compiled =
      Compile({out}, {.shapes = {{2, 3}, {1, 3}}, .types = {DType::kFloat32, DType::kFloat32}},
              {kNullOp, kWriteTo});
  EXPECT_TRUE(compiled.complete);
  EXPECT_EQ(ValuesOf(compiled, ValueKind::kOutput).at(0).shape, TShape({2, 3}));
  EXPECT_EQ(ValuesOf(compiled, ValueKind::kGradient).at(1).shape, TShape({1, 3}));
}

TEST(CompileTest, AGraphOfUnknownShapesMayStayIncomplete) {
  const KnownVariables known{.shapes = {TShape(), TShape(), TShape()},
                             .types = std::vector<DType>(3, DType::kFloat32)};
  const std::vector<OpReqType> requests(3, kNullOp);
  const CompiledGraph compiled = Compile({Layer()}, known, requests, {.may_be_incomplete = true});
  EXPECT_FALSE(compiled.complete);
  EXPECT_THAT(compiled.program.steps, IsEmpty());
  EXPECT_THAT(ErrorOf(Error::kInvalidArgument, [&] { Compile({Layer()}, known, requests); }),
              AllOf(HasSubstr("Compile: the shape of \"data\""), HasSubstr("expected a known one"),
                    HasSubstr("more inputs")));
}

TEST(CompileErrorTest, NamesWhatWhereFoundAndExpected) {
  const std::vector<OpReqType> requests(3, kNullOp);
  EXPECT_THAT(ErrorOf(Error::kInvalidArgument,
                      [&] { Compile({Layer()}, {}, {}, requests, {.caller = "Bind"}); }),
              AllOf(HasSubstr("Bind: the shape of \"data\""), HasSubstr("expected a known one")));
  EXPECT_THAT(
      ErrorOf(Error::kInvalidArgument,
              [&] {
                Compile({Layer()}, {{"data", {32, 4}}, {"fc_weight", {8, 5}}}, {}, requests);
              }),
      AllOf(HasSubstr("node \"fc\""), HasSubstr("(8,5)"), HasSubstr("expected (8,4)")));
  EXPECT_THAT(ErrorOf(Error::kInvalidArgument,
                      [&] {
                        Compile({Layer()}, {{"dat", {32, 4}}}, {}, requests);
                      }),
              AllOf(HasSubstr("\"dat\""), HasSubstr("did you mean \"data\"?")));
  EXPECT_THAT(ErrorOf(Error::kInvalidArgument,
                      [&] {
                        Compile({Layer()}, {{"data", {32, 4}}}, {}, {kNullOp});
                      }),
              HasSubstr("Compile: 1 gradient requests were given, expected 3"));
  EXPECT_THAT(ErrorOf(Error::kInvalidArgument,
                      [&] {
                        Compile({Layer()}, {.shapes = {{32, 4}}, .types = {}}, requests);
                      }),
              HasSubstr("1 shapes and 0 types were given, expected 3 of each"));
  EXPECT_THAT(ErrorOf(Error::kInvalidArgument,
                      [&] {
                        Compile({Layer()},
                                {.shapes = {{32, 4}, TShape(), TShape()},
                                 .types = std::vector<DType>(3, DType::kUnknown)},
                                requests);
                      }),
              AllOf(HasSubstr("element type of \"data\" is unknown"), HasSubstr("more inputs")));
}

TEST(CompileErrorTest, NamesTheNodeOfAGradientAndOfAGroup) {
  const NodeEntry hot = Apply("_onehot_encode", "hot", {MakeVariable("x"), MakeVariable("y")});
  EXPECT_THAT(ErrorOf(Error::kInvalidArgument,
                      [&] {
                        Compile({hot}, {{"x", {4}}, {"y", {4, 3}}}, {}, {kWriteTo, kNullOp});
                      }),
              AllOf(HasSubstr("node \"hot\""), HasSubstr("_onehot_encode, which has none")));
  const NodeEntry out = Layer();
  out.node->attributes.Set("ctx_group", "g2");
  const auto compile_with_group = [&] {
    Compile({out}, {{"data", {32, 4}}}, {}, std::vector<OpReqType>(3, kNullOp),
            {.groups = {{"g1", Device::Cpu(1)}}});
  };
  EXPECT_THAT(ErrorOf(Error::kInvalidArgument, compile_with_group),
              AllOf(HasSubstr("\"out\""), HasSubstr("\"g2\""), HasSubstr("only for g1")));
}

}  // namespace
}  // namespace tessera::graph
