#include "tessera/graph/passes/fuse_maps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/graph/backward_property.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/program.h"
#include "tessera/graph/testing/evaluate.h"
#include "tessera/ops/elemwise/fused/fused_map.h"
#include "tessera/ops/operator.h"
#include "tessera/resource/resource.h"
#include "tessera/tensor/tblob.h"

namespace tessera::graph {
namespace {

using base_internal::At;
using graph_testing::Apply;
using graph_testing::Array;
using graph_testing::RandomArray;
using ::testing::ElementsAre;
using ::testing::SizeIs;

/// Returns the program of a graph with gradients of all arguments as `request` says.
Program Build(const std::vector<NodeEntry>& heads, const std::map<std::string, TShape>& shapes,
              OpReqType request = kNullOp, DType dtype = DType::kFloat32) {
  const IndexedGraph graph(heads);
  std::map<std::string, DType> types;
  for (const auto& [name, shape] : shapes) types[name] = dtype;
  return BuildProgram(heads, InferShapes(graph, shapes), InferTypes(graph, types),
                      std::vector<OpReqType>(graph.arguments().size(), request));
}

std::vector<std::string> Names(const Program& program) {
  std::vector<std::string> names;
  for (const Step& step : program.steps) names.push_back(step.node->name);
  return names;
}

/// Workspace of a call.
class Workspace final : public Resource {
 public:
  explicit Workspace(ResourceRequest request) : request_(request) {}

  ResourceRequest request() const override { return request_; }
  Device device() const override { return Device::Cpu(); }
  void* GetSpaceBytes(int64_t size_bytes) override {
    space_.resize(At(size_bytes) / sizeof(double) + 1);
    return space_.data();
  }
  PhiloxState* GetRandomState() override { return nullptr; }

 private:
  const ResourceRequest request_;
  std::vector<double> space_;
};

/// The resources of a call.
struct Resources {
  explicit Resources(const std::vector<ResourceRequest>& requests) {
    for (const ResourceRequest request : requests) {
      spaces.push_back(std::make_unique<Workspace>(request));
      pointers.push_back(spaces.back().get());
    }
  }
  std::vector<std::unique_ptr<Workspace>> spaces;
  std::vector<Resource*> pointers;
};

/// Calls the operator of a step on arrays by value.
void RunStep(const Step& step, std::vector<Array>* arrays) {
  const auto blob = [&](int value) {
    if (value == kNoValue) return TBlob();
    Array& array = (*arrays)[At(value)];
    return TBlob(array.bytes.data(), array.shape, array.dtype, Device::Cpu());
  };
  std::vector<TBlob> inputs, outputs;
  for (const int value : step.inputs) inputs.push_back(blob(value));
  for (const int value : step.outputs) outputs.push_back(blob(value));
  const auto* const backward = dynamic_cast<const BackwardProperty*>(step.node->property.get());
  if (backward == nullptr) {
    const Resources resources(step.node->property->ForwardResource(step.in_shapes));
    step.node->property->CreateOperator(Device::Cpu(), step.in_shapes, step.in_types)
        ->Forward({.is_train = true, .requested = resources.pointers}, inputs, step.req, outputs);
    return;
  }
  const Resources resources(backward->forward()->BackwardResource(step.in_shapes));
  std::vector<TBlob> out_grad(At(backward->num_forward_outputs())),
      out_data = out_grad, in_data(At(backward->num_forward_inputs()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& [role, index] = backward->sources()[i];
    auto& list = role == BackwardProperty::Role::kOutGrad  ? out_grad
                 : role == BackwardProperty::Role::kInData ? in_data
                                                           : out_data;
    list[At(index)] = inputs[i];
  }
  backward->forward()
      ->CreateOperator(Device::Cpu(), step.in_shapes, step.in_types)
      ->Backward({.is_train = true, .requested = resources.pointers}, out_grad, in_data, out_data,
                 step.req, outputs);
}

/// Runs all steps and returns the outputs and gradients. Intermediate values that no step has
/// written have other contents each time, so that a step which reads one too early is noticed.
std::vector<Array> Run(const Program& program, unsigned seed) {
  std::vector<Array> arrays;
  for (size_t i = 0; i < program.values.size(); ++i) {
    const Value& value = program.values[i];
    const unsigned contents =
        value.kind == ValueKind::kIntermediate ? seed + 1000 : static_cast<unsigned>(i);
    Array array = RandomArray(value.shape, contents);
    array.dtype = value.dtype;
    array.bytes.resize(At(value.SizeBytes()));
    if (value.dtype == DType::kFloat64) {
      const std::vector<float> floats = RandomArray(value.shape, contents).Values();
      array = Array::Of(value.shape, std::vector<double>(floats.begin(), floats.end()));
    }
    arrays.push_back(std::move(array));
  }
  for (const Step& step : program.steps) RunStep(step, &arrays);
  std::vector<Array> results;
  for (size_t i = 0; i < program.values.size(); ++i) {
    const ValueKind kind = program.values[i].kind;
    if (kind == ValueKind::kOutput || kind == ValueKind::kGradient) results.push_back(arrays[i]);
  }
  return results;
}

/// Checks that arrays have the same bits, any NaN being like any other.
template <typename T>
void ExpectSameBits(const Array& actual, const Array& expected) {
  const std::vector<T> a = actual.Values<T>(), b = expected.Values<T>();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_TRUE(a[i] == b[i] && std::signbit(a[i]) == std::signbit(b[i]))
        << "element " << i << " is " << a[i] << ", expected " << b[i];
  }
}

/// Checks the limits of a group, and that it has several members. A producer and an operator on
/// rows count by themselves.
void CheckGroup(const Step& step, const FusedSteps& group) {
  EXPECT_EQ(step.node, group.node);
  EXPECT_GE(group.members.size(), 2u);
  const bool has_producer = step.node->property->TypeString() != "FusedMap";
  const size_t own = has_producer ? group.members[0]->inputs.size() : 0;
  const bool has_rows = group.members.back()->property->TypeString() == "softmax";
  EXPECT_LE(group.members.size(),
            At(FusedMap::kMaxStages) + (has_producer ? 1 : 0) + (has_rows ? 1 : 0));
  EXPECT_LE(step.inputs.size(), At(FusedMap::kMaxInputs) + own);
}

/// Joins the steps of a program, checks that the results stay the same, and returns the groups.
std::vector<FusedSteps> FuseAndCheck(Program* program) {
  const Program before = *program;
  const std::vector<FusedSteps> groups = FuseMaps(program);
  EXPECT_EQ(program->num_fused_steps, static_cast<int>(groups.size()));
  const std::vector<Array> results = Run(*program, 1), expected = Run(before, 2);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].dtype == DType::kFloat64) {
      ExpectSameBits<double>(results[i], expected[i]);
    } else {
      ExpectSameBits<float>(results[i], expected[i]);
    }
  }
  // Each step is in its place or in one group.
  std::map<const Node*, const FusedSteps*> group_of;
  for (const FusedSteps& group : groups) group_of[group.node.get()] = &group;
  int num_members = 0;
  for (const Step& step : program->steps) {
    const auto group = group_of.find(step.node.get());
    if (group == group_of.end()) {
      ++num_members;
    } else {
      CheckGroup(step, *group->second);
      num_members += static_cast<int>(group->second->members.size());
    }
  }
  EXPECT_EQ(num_members, before.num_steps());
  return groups;
}

NodeEntry Scaled(const std::string& name, const NodeEntry& x, const std::string& by = "2") {
  return Apply("_mul_scalar", name, {x}, {{"scalar", by}});
}

TEST(FuseMapsTest, AChainBecomesOneStepThatReadsAndWritesOnce) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry a = Apply("elemwise_mul", "a", {x, MakeVariable("y")});
  const NodeEntry b = Apply("broadcast_add", "b", {a, MakeVariable("bias")});
  const NodeEntry c = Apply("Activation", "c", {b}, {{"act_type", "relu"}});
  Program program = Build({c}, {{"x", {4, 3}}, {"y", {4, 3}}, {"bias", {3}}});
  const std::vector<FusedSteps> groups = FuseAndCheck(&program);
  EXPECT_THAT(Names(program), ElementsAre("a+b+c"));
  EXPECT_EQ(program.num_forward_steps, 1);
  EXPECT_THAT(program.steps[0].inputs, SizeIs(3));
  EXPECT_THAT(program.steps[0].outputs, ElementsAre(program.head_values[0]));
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].members[1].get(), b.node.get());
}

TEST(FuseMapsTest, GradientsAreGroupsOfTheirOwn) {
  const NodeEntry x = MakeVariable("x"), y = MakeVariable("y");
  const NodeEntry product = Apply("elemwise_mul", "product", {x, y});
  const NodeEntry out = Apply("tanh", "out", {product});
  for (const OpReqType request : {kWriteTo, kAddTo}) {
    Program program = Build({out}, {{"x", {4, 3}}, {"y", {4, 3}}}, request);
    FuseAndCheck(&program);
    EXPECT_THAT(Names(program), ElementsAre("product+out", "out_backward+product_backward"));
    EXPECT_EQ(program.num_forward_steps, 1);
    EXPECT_THAT(program.steps[0].outputs, SizeIs(1));  // tanh's gradient reads its output
    EXPECT_THAT(program.steps[1].req, ElementsAre(request, request));
  }
}

TEST(FuseMapsTest, AGroupDoesNotReachOverAStepThatReadsIt) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry e = Apply("exp", "e", {x}), more = Scaled("more", e);
  const NodeEntry sum = Apply("sum", "total", {more}, {{"axis", "1"}, {"keepdims", "True"}});
  const NodeEntry ratio = Apply("broadcast_div", "ratio", {more, sum});
  Program program = Build({Scaled("out", ratio)}, {{"x", {2, 50}}});
  FuseAndCheck(&program);
  EXPECT_THAT(Names(program), ElementsAre("e+more", "total", "ratio+out"));
}

TEST(FuseMapsTest, AGroupReachesOverSmallStepsAlone) {
  const NodeEntry x = MakeVariable("x"), row = MakeVariable("row"), wide = MakeVariable("wide");
  const NodeEntry a = Scaled("a", x);
  const NodeEntry scale = Scaled("scale", Apply("exp", "root", {row}));
  const NodeEntry b = Apply("broadcast_mul", "b", {a, scale});
  // The sum of this step's rows is as large as x.
  const NodeEntry large = Apply("sum", "large", {wide}, {{"axis", "0"}});
  const NodeEntry out = Apply("elemwise_add", "out", {b, large});
  Program program =
      Build({Scaled("last", out)}, {{"x", {20, 3}}, {"row", {3}}, {"wide", {2, 20, 3}}});
  FuseAndCheck(&program);
  EXPECT_THAT(Names(program), ElementsAre("root+scale", "a+b", "large", "out+last"));
}

TEST(FuseMapsTest, OtherImplementationsAndWrongTypesStayByThemselves) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry a = Apply("abs", "a", {x});
  const NodeEntry b = Apply("Activation", "b", {a}, {{"act_type", "relu"}});
  const NodeEntry out = Apply("negative", "out", {b});
  Program program = Build({out}, {{"x", {4}}}, kNullOp, DType::kInt32);
  EXPECT_THAT(FuseMaps(&program), SizeIs(0));  // Activation takes no integers
  a.node->attributes.Set("implementation", "native");
  program = Build({out}, {{"x", {4}}});
  EXPECT_THAT(FuseMaps(&program), SizeIs(1));
  EXPECT_THAT(Names(program), ElementsAre("a", "b+out"));
}

TEST(FuseMapsTest, GroupsKeepTheLimits) {
  NodeEntry chain = MakeVariable("x");
  for (int i = 0; i < 100; ++i) chain = Scaled("n" + std::to_string(i), chain);
  Program program = Build({chain}, {{"x", {4}}});
  EXPECT_THAT(FuseAndCheck(&program), SizeIs(4));  // 32, 32, 32 and 4 stages
  EXPECT_EQ(program.num_steps(), 4);

  NodeEntry sum = MakeVariable("v0");
  std::map<std::string, TShape> shapes = {{"v0", {4}}};
  for (int i = 1; i < 40; ++i) {
    const std::string name = "v" + std::to_string(i);
    shapes[name] = {4};
    sum = Apply("elemwise_add", "s" + std::to_string(i), {sum, MakeVariable(name)});
  }
  program = Build({sum}, shapes);
  // A group adds 15 variables to the first one, and later ones to a result.
  EXPECT_THAT(FuseAndCheck(&program), SizeIs(3));

  // 12 results that are all read at the end.
  std::vector<NodeEntry> results;
  for (int i = 0; i < 12; ++i) results.push_back(Scaled("r" + std::to_string(i), chain));
  NodeEntry total = results[0];
  for (int i = 1; i < 12; ++i) {
    total = Apply("elemwise_mul", "t" + std::to_string(i), {results[At(12 - i)], total});
  }
  program = Build({total}, {{"x", {4}}});
  FuseAndCheck(&program);
}

/// A layer of 4 outputs for 4 inputs.
NodeEntry Layer(const std::string& name, const NodeEntry& x, const NodeEntry& weight) {
  return Apply("FullyConnected", name, {x, weight}, {{"num_hidden", "4"}, {"no_bias", "True"}});
}

NodeEntry Relu(const std::string& name, const NodeEntry& x) {
  return Apply("Activation", name, {x}, {{"act_type", "relu"}});
}

TEST(FuseMapsTest, MapsFollowAProducer) {
  const NodeEntry x = MakeVariable("x"), w = MakeVariable("w");
  const NodeEntry conv = Apply("Convolution", "conv", {x, w, MakeVariable("b")},
                               {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", "2"}});
  const NodeEntry sum = Apply("elemwise_add", "sum", {conv, x});
  const NodeEntry out = Relu("out", sum);
  const NodeEntry last = Apply("Flatten", "last", {out});
  const std::map<std::string, TShape> shapes = {
      {"x", {2, 2, 9, 5}}, {"w", {2, 2, 3, 3}}, {"b", {2}}};
  for (const OpReqType request : {kNullOp, kWriteTo}) {
    Program program = Build({last}, shapes, request);
    const std::vector<FusedSteps> groups = FuseAndCheck(&program);
    ASSERT_FALSE(groups.empty());
    EXPECT_THAT(groups[0].members, SizeIs(3));
    EXPECT_EQ(groups[0].members[0].get(), conv.node.get());
    const Step& step = program.steps[0];
    EXPECT_EQ(step.node->name, "conv+sum+out");
    EXPECT_EQ(step.node->property->TypeString(), "Convolution+FusedMap");
    EXPECT_EQ(program.num_forward_steps, 2);
    // x is an operand of the convolution and of the sum. relu's gradient reads its output, and
    // nobody the convolution's own.
    EXPECT_THAT(step.inputs, SizeIs(4));
    EXPECT_THAT(step.req, ElementsAre(kNullOp, kWriteTo));
    EXPECT_EQ(step.outputs[0], kNoValue);
  }
}

TEST(FuseMapsTest, AProducerKeepsTheResultThatOthersRead) {
  const NodeEntry x = MakeVariable("x"), w = MakeVariable("w");
  const NodeEntry layer = Layer("layer", x, w);
  const NodeEntry square = Apply("square", "square", {layer});  // whose gradient reads its input
  const NodeEntry other = Apply("reverse", "other", {layer}, {{"axis", "0"}});
  const std::map<std::string, TShape> shapes = {{"x", {9, 4}}, {"w", {4, 4}}};
  for (const bool trains : {false, true}) {
    Program program = Build({Apply("reverse", "out", {square}, {{"axis", "0"}})}, shapes,
                            trains ? kWriteTo : kNullOp);
    FuseAndCheck(&program);
    EXPECT_EQ(program.steps[0].node->name, "layer+square");
    EXPECT_EQ(program.steps[0].req[0], trains ? kWriteTo : kNullOp);
  }
  Program program = Build({square, other}, shapes);
  FuseAndCheck(&program);
  EXPECT_THAT(Names(program), ElementsAre("layer+square", "other"));
  EXPECT_THAT(program.steps[0].req, ElementsAre(kWriteTo, kWriteTo));
}

TEST(FuseMapsTest, AProducersFurtherResultsAndStatesStay) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry norm = Apply(
      "BatchNorm", "norm",
      {x, MakeVariable("gamma"), MakeVariable("beta"), MakeVariable("mean"), MakeVariable("var")},
      {{"fix_gamma", "False"}});
  const NodeEntry sum = Apply("elemwise_add", "sum", {norm, x});
  Program program = Build({Relu("out", sum)}, {{"x", {2, 3, 200}}}, kWriteTo);
  FuseAndCheck(&program);
  const Step& step = program.steps[0];
  EXPECT_EQ(step.node->name, "norm+sum+out");
  EXPECT_THAT(step.mutated, ElementsAre(3, 4));
  EXPECT_THAT(step.inputs, SizeIs(6));
  EXPECT_THAT(step.req,
              ElementsAre(kNullOp, kWriteTo, kWriteTo, kWriteTo, kWriteInplace, kWriteInplace));
  EXPECT_EQ(step.held_output, 3);
}

TEST(FuseMapsTest, AProducerTakesTheImplementationThatItsNodeNames) {
  const NodeEntry x = MakeVariable("x"), w = MakeVariable("w");
  const NodeEntry conv = Apply("Convolution", "conv", {x, w},
                               {{"kernel", "(3, 3)"}, {"num_filter", "32"}, {"no_bias", "True"}});
  conv.node->attributes.Set("implementation", "native");
  const NodeEntry out = Relu("out", conv);
  Program program = Build({out}, {{"x", {1, 32, 20, 20}}, {"w", {32, 32, 3, 3}}});
  FuseMaps(&program);
  ASSERT_THAT(Names(program), ElementsAre("conv+out"));
  const Step& step = program.steps[0];
  const auto op = step.node->property->CreateOperator(Device::Cpu(), step.in_shapes, step.in_types);
  EXPECT_EQ(op->implementation(), "native");
}

TEST(FuseMapsTest, MapsThatDoNotReadAProducerDoNotFollowIt) {
  const NodeEntry x = MakeVariable("x"), y = MakeVariable("y");
  const NodeEntry layer = Layer("layer", x, MakeVariable("w"));
  const NodeEntry a = Scaled("a", y), b = Apply("tanh", "b", {a});
  const NodeEntry product =
      Apply("FullyConnected", "product", {layer, b}, {{"num_hidden", "9"}, {"no_bias", "True"}});
  Program program = Build({product}, {{"x", {9, 4}}, {"y", {9, 4}}, {"w", {4, 4}}});
  FuseAndCheck(&program);
  EXPECT_THAT(Names(program), ElementsAre("layer", "a+b", "product"));
  // A result that the caller gets is none of the group's own.
  program = Build({layer, Scaled("c", layer)}, {{"x", {9, 4}}, {"w", {4, 4}}});
  FuseAndCheck(&program);
  EXPECT_THAT(Names(program), ElementsAre("layer", "c"));
}

/// Attention's scores of 3 heads, 20 queries and 65 keys, scaled and masked.
NodeEntry Scores(const NodeEntry& mask) {
  const NodeEntry product = Apply("batch_dot", "product", {MakeVariable("q"), MakeVariable("k")},
                                  {{"transpose_b", "True"}});
  return Apply("broadcast_add", "masked", {Scaled("scaled", product, "0.25"), mask});
}

std::map<std::string, TShape> ShapesOfScores(index_t keys = 65) {
  return {{"q", {3, 20, 8}}, {"k", {3, keys, 8}}, {"mask", {1, 20, keys}}};
}

TEST(FuseMapsTest, SoftmaxFollowsScaledAndMaskedScores) {
  const NodeEntry masked = Scores(MakeVariable("mask"));
  const NodeEntry weights = Apply("softmax", "weights", {masked}, {{"axis", "-1"}});
  const NodeEntry out = Apply("reverse", "out", {weights}, {{"axis", "0"}});
  for (const OpReqType request : {kNullOp, kWriteTo, kAddTo}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      Program program = Build({out}, ShapesOfScores(), request, dtype);
      FuseAndCheck(&program);
      const Step& step = program.steps[0];
      EXPECT_EQ(step.node->name, "product+scaled+masked+weights");
      EXPECT_EQ(step.node->property->TypeString(), "batch_dot+FusedMap");
      EXPECT_EQ(program.num_forward_steps, 2);
      // The weights' memory takes the product and what is made of it, which no gradient reads.
      EXPECT_THAT(step.req, ElementsAre(kNullOp, kWriteTo));
      EXPECT_EQ(step.held_output, 1);
    }
  }
}

TEST(FuseMapsTest, SoftmaxFollowsAProductOrAMapAlone) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry product = Apply("batch_dot", "product", {x, MakeVariable("y")});
  Program program =
      Build({Apply("softmax", "weights", {product})}, {{"x", {2, 9, 8}}, {"y", {2, 8, 70}}});
  FuseAndCheck(&program);
  EXPECT_THAT(Names(program), ElementsAre("product+weights"));
  EXPECT_THAT(program.steps[0].req, ElementsAre(kNullOp, kWriteTo));
  program = Build({Apply("log_softmax", "out", {Scaled("a", x)})}, {{"x", {9, 200}}});
  FuseAndCheck(&program);
  EXPECT_THAT(Names(program), ElementsAre("a+out"));
  EXPECT_THAT(program.steps[0].outputs, SizeIs(1));
}

TEST(FuseMapsTest, ScoresThatOthersReadAreKept) {
  const NodeEntry masked = Scores(MakeVariable("mask"));
  const NodeEntry weights = Apply("softmax", "weights", {masked});
  Program program = Build({weights, masked}, ShapesOfScores());
  FuseAndCheck(&program);
  EXPECT_THAT(Names(program), ElementsAre("product+scaled+masked+weights"));
  EXPECT_THAT(program.steps[0].req, ElementsAre(kNullOp, kWriteTo, kWriteTo));
}

TEST(FuseMapsTest, OtherSoftmaxStaysByItself) {
  const NodeEntry masked = Scores(MakeVariable("mask"));
  const auto names = [&masked](const ParameterMap& parameters, index_t keys = 65) {
    Program program =
        Build({Apply("softmax", "weights", {masked}, parameters)}, ShapesOfScores(keys));
    FuseAndCheck(&program);
    return Names(program);
  };
  const auto apart = ElementsAre("product+scaled+masked", "weights");
  EXPECT_THAT(names({}, /*keys=*/64), apart);  // short rows are computed side by side
  EXPECT_THAT(names({{"axis", "1"}}), apart);
  EXPECT_THAT(names({{"dtype", "float64"}}), apart);
}

/// A random graph of maps over two shapes, one of which is a row of the other, of steps that are
/// none, and of values that are read several times; with producers if it has layers.
std::vector<NodeEntry> RandomHeads(std::mt19937* random, bool has_layers = false) {
  const auto below = [&](size_t n) { return (*random)() % n; };
  std::vector<NodeEntry> large = {MakeVariable("x"), MakeVariable("y")},
                         rows = {MakeVariable("row")};
  const NodeEntry weight = MakeVariable("w");
  const size_t size = 5 + below(30);
  for (size_t i = 0; i < size; ++i) {
    const std::string name = "n" + std::to_string(i);
    const auto pick = [&](const std::vector<NodeEntry>& from) {
      const size_t back =
          below(3) == 0 ? below(from.size()) : below(std::min<size_t>(2, from.size()));
      return from[from.size() - 1 - back];
    };
    std::vector<NodeEntry>& same = below(3) == 0 ? rows : large;
    const char* const kTwo[] = {"elemwise_add", "elemwise_mul", "elemwise_sub", "_maximum"};
    switch (below(has_layers ? 11 : 9)) {
      case 0:
      case 1:
      case 2:
        same.push_back(Apply(kTwo[below(4)], name, {pick(same), pick(same)}));
        break;
      case 3:
        same.push_back(Apply("tanh", name, {pick(same)}));
        break;
      case 4:
        same.push_back(Scaled(name, pick(same), below(2) == 0 ? "0.5" : "-1"));
        break;
      case 5:
        large.push_back(Apply("broadcast_add", name, {pick(large), pick(rows)}));
        break;
      case 6:
        large.push_back(Apply("elemwise_mul", name, {pick(large), large.back()}));
        break;
      case 7:
        rows.push_back(Apply("mean", name, {pick(large)}, {{"axis", "0"}}));
        break;
      case 8:
        large.push_back(Apply("reverse", name, {pick(large)}, {{"axis", "0"}}));
        break;
      default:
        large.push_back(Layer(name, pick(large), weight));
        break;
    }
  }
  return {large.back(), Apply("broadcast_mul", "last", {large[large.size() / 2], rows.back()})};
}

/// Joins the steps of 300 random graphs and returns the groups.
std::vector<FusedSteps> FuseRandomGraphs(bool has_layers) {
  std::mt19937 random(20261129);
  std::vector<FusedSteps> groups;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    const std::vector<NodeEntry> heads = RandomHeads(&random, has_layers);
    const std::map<std::string, TShape> all = {
        {"x", {9, 4}}, {"y", {9, 4}}, {"row", {4}}, {"w", {4, 4}}};
    std::map<std::string, TShape> shapes;
    const IndexedGraph graph(heads);
    for (const int id : graph.arguments())
      shapes[graph.node(id).name] = all.at(graph.node(id).name);
    const OpReqType requests[] = {kNullOp, kWriteTo, kAddTo};
    const DType dtype = random() % 2 == 0 ? DType::kFloat32 : DType::kFloat64;
    Program program;
    try {
      program = Build(heads, shapes, requests[random() % 3], dtype);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      return groups;
    }
    const std::vector<FusedSteps> more = FuseAndCheck(&program);
    groups.insert(groups.end(), more.begin(), more.end());
    if (testing::Test::HasFailure()) return groups;
  }
  return groups;
}

TEST(FuseMapsTest, RandomGraphsGiveTheSameBits) {
  EXPECT_GE(FuseRandomGraphs(/*has_layers=*/false).size(), 600u);
}

TEST(FuseMapsTest, RandomGraphsWithProducersGiveTheSameBits) {
  const std::vector<FusedSteps> groups = FuseRandomGraphs(/*has_layers=*/true);
  const auto behind_layers =
      std::count_if(groups.begin(), groups.end(), [](const FusedSteps& group) {
        return group.members[0]->property->TypeString() == "FullyConnected";
      });
  EXPECT_GE(behind_layers, 50);
}

TEST(FuseMapsTest, ASettingTurnsItOff) {
  EXPECT_TRUE(FusionIsOn());
  setenv("TESSERA_FUSE", "0", /*overwrite=*/1);
  EXPECT_FALSE(FusionIsOn());
  setenv("TESSERA_FUSE", "sometimes", /*overwrite=*/1);
  EXPECT_THROW(FusionIsOn(), Error);
  unsetenv("TESSERA_FUSE");
}

}  // namespace
}  // namespace tessera::graph
