// Layers run with the element-wise nodes behind them as one step: the results of an Executor and of
// a CachedOp stay the same bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"
#include "tessera/symbol/testing/loops.h"

namespace tessera {
namespace {

using ndarray_testing::Read;
using Parameters = std::map<std::string, std::string>;
using ::testing::HasSubstr;
using ::testing::Not;

/// Turns fusion off for a scope.
class SingleSteps {
 public:
  SingleSteps() { setenv("TESSERA_FUSE", "0", /*overwrite=*/1); }
  ~SingleSteps() { unsetenv("TESSERA_FUSE"); }
};

Symbol Convolution(const Symbol& data, int kernel, const std::string& name,
                   Parameters parameters = {}) {
  const auto pair = [](int n) { return "(" + std::to_string(n) + ", " + std::to_string(n) + ")"; };
  parameters.insert({{"kernel", pair(kernel)}, {"pad", pair(kernel / 2)}, {"num_filter", "32"}});
  return Symbol::Apply("Convolution", {data}, parameters, name);
}

Symbol Activation(const Symbol& data, const std::string& type, const std::string& name) {
  return Symbol::Apply("Activation", {data}, {{"act_type", type}}, name);
}

/// A block with two residual sums, one behind a convolution and one behind a normalization, and a
/// dense layer. `parameters` are those of the convolutions of 3 x 3.
Symbol Layers(const Parameters& parameters = {}) {
  const Symbol data = Symbol::Variable("data");
  const Symbol one = Activation(Convolution(data, 3, "c1", parameters), "relu", "r1");
  const Symbol two = Convolution(one, 3, "c2", parameters);
  const Symbol three =
      Activation(Symbol::Apply("elemwise_add", {two, one}, {}, "sum1"), "relu", "r2");
  const Symbol shortcut = Convolution(three, 1, "c3", {{"no_bias", "True"}});
  const Symbol norm = Symbol::Apply("BatchNorm", {Convolution(three, 3, "c4", parameters)},
                                    {{"fix_gamma", "False"}}, "norm");
  const Symbol four =
      Activation(Symbol::Apply("elemwise_add", {shortcut, norm}, {}, "sum2"), "relu", "r3");
  const Symbol dense = Symbol::Apply("FullyConnected", {four}, {{"num_hidden", "6"}}, "dense");
  return Activation(dense, "softrelu", "out");
}

void Fill(NDArray array, float first) {
  std::vector<float> values(static_cast<size_t>(array.shape().Size()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = first + 0.01f * static_cast<float>((i * 37) % 101) - 0.5f;
  }
  NDArray floats(array.shape());
  floats.SyncCopyFromCPU(values.data(), array.shape().Size());
  CopyFromTo(floats.AsType(array.dtype()), array);
}

/// Binds the layers to arrays of always the same elements.
std::unique_ptr<Executor> BindLayers(const Symbol& layers, DType dtype, OpReqType request) {
  auto executor = SimpleBind(
      layers, Device::Cpu(),
      {.shapes = {{"data", {2, 4, 13, 12}}}, .types = {{"data", dtype}}, .grad_req = request});
  for (const auto& [name, array] : executor->arg_dict()) Fill(array, 0);
  for (const auto& [name, array] : executor->aux_dict()) Fill(array, 1);
  return executor;
}

using Results = std::vector<std::vector<double>>;

Results ResultsOf(Executor* executor, bool trains) {
  executor->Forward(trains);
  Results results = {Read(executor->outputs()[0])};
  if (!trains) return results;
  NDArray head(executor->outputs()[0].shape(), Device::Cpu(), executor->outputs()[0].dtype());
  Fill(head, 0.3f);
  executor->Backward({head});
  for (const auto& [name, array] : executor->grad_dict()) results.push_back(Read(array));
  for (const auto& [name, array] : executor->aux_dict()) results.push_back(Read(array));
  return results;
}

TEST(FusedLayersTest, AnExecutorGivesTheBitsOfSingleSteps) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    for (const bool trains : {false, true}) {
      SCOPED_TRACE(testing::Message() << dtype << (trains ? ", training" : ", inference"));
      const OpReqType request = trains ? kWriteTo : kNullOp;
      const auto fused = BindLayers(Layers(), dtype, request);
      const std::string steps = fused->DebugString();
      for (const char* step : {"c1+r1", "c2+sum1+r2", "+sum2+r3", "dense+out"}) {
        EXPECT_THAT(steps, HasSubstr(step));
      }
      const SingleSteps single_steps;
      const auto single = BindLayers(Layers(), dtype, request);
      EXPECT_THAT(single->DebugString(), Not(HasSubstr("+")));
      for (int round = 0; round < 2; ++round) {
        EXPECT_EQ(ResultsOf(fused.get(), trains), ResultsOf(single.get(), trains));
      }
    }
  }
}

TEST(FusedLayersTest, ALayerRunsByTheImplementationThatItNames) {
  for (const char* implementation : {"native", "winograd"}) {
    const Symbol layers = Layers({{"__implementation__", implementation}, {"no_bias", "True"}});
    const auto executor = SimpleBind(layers, Device::Cpu(),
                                     {.shapes = {{"data", {2, 32, 13, 12}}}, .grad_req = kNullOp});
    EXPECT_THAT(executor->DebugString(), HasSubstr(std::string("c1+r1 by ") + implementation));
  }
}

TEST(FusedLayersTest, PartialRunsAndMonitorsCallOneOperatorAtATime) {
  const auto executor = BindLayers(Layers(), DType::kFloat32, kWriteTo);
  executor->Forward(true);
  const std::vector<double> expected = Read(executor->outputs()[0]);
  int step = 0;
  while (executor->PartialForward(true, step) > 0) ++step;
  EXPECT_EQ(step, 11);
  EXPECT_EQ(Read(executor->outputs()[0]), expected);
  std::vector<std::string> names;
  executor->SetMonitorCallback(
      [&names](const std::string& name, const NDArray&) { names.push_back(name); });
  executor->Forward(true);
  EXPECT_THAT(names, testing::IsSupersetOf({"c1_output", "r1_output", "sum2_output"}));
  EXPECT_EQ(Read(executor->outputs()[0]), expected);
}

/// A loop whose steps have layers with element-wise nodes behind them.
Symbol LoopOfLayers() {
  const Symbol x = Symbol::Variable("x"), h = Symbol::Variable("h");
  const auto dense = [](const Symbol& in, const std::string& name) {
    return Symbol::Apply("FullyConnected", {in}, {{"num_hidden", "24"}}, name);
  };
  const Symbol sum = Activation(dense(x, "in"), "relu", "r1") + h;
  const Symbol out = Activation(dense(sum, "out"), "softrelu", "r2");
  const Symbol step = Symbol::CreateGroup({out, out * 0.5f + h});
  return symbol_testing::Foreach(step, {{"x", Symbol::Variable("data")}},
                                 {{"h", Symbol::Variable("h0")}})[0];
}

TEST(FusedLayersTest, ALoopGivesTheBitsOfSingleSteps) {
  const auto bind = [](OpReqType request) {
    auto executor = SimpleBind(LoopOfLayers(), Device::Cpu(),
                               {.shapes = {{"data", {5, 17, 8}},
                                           {"h0", {17, 24}},
                                           {"in_weight", {24, 8}},
                                           {"in_bias", {24}},
                                           {"out_weight", {24, 24}},
                                           {"out_bias", {24}}},
                                .grad_req = request});
    for (const auto& [name, array] : executor->arg_dict()) Fill(array, 0);
    return executor;
  };
  for (const bool trains : {false, true}) {
    SCOPED_TRACE(trains ? "training" : "inference");
    const OpReqType request = trains ? kWriteTo : kNullOp;
    const auto fused = bind(request);
    const Results results = ResultsOf(fused.get(), trains);
    const SingleSteps single_steps;
    EXPECT_EQ(results, ResultsOf(bind(request).get(), trains));
  }
}

/// Returns the output of a call, and the gradients of a recorded one that runs backwards twice.
Results CallLayers() {
  const CachedOp op(Layers());
  const auto shapes = Layers().InferShape({{"data", {2, 4, 13, 12}}});
  std::vector<NDArray> inputs, variables, gradients;
  size_t next_argument = 0, next_aux = 0;
  const std::vector<std::string> arguments = Layers().ListArguments();
  for (const std::string& name : op.input_names()) {
    const bool is_argument = std::find(arguments.begin(), arguments.end(), name) != arguments.end();
    const TShape& shape =
        is_argument ? shapes.arguments[next_argument++] : shapes.aux_states[next_aux++];
    inputs.emplace_back(shape, Device::Cpu());
    Fill(inputs.back(), is_argument ? 0.0f : 1.0f);
    if (!is_argument) continue;
    variables.push_back(inputs.back());
    gradients.emplace_back(shape, Device::Cpu());
  }
  autograd::MarkVariables(variables, gradients, std::vector<OpReqType>(variables.size(), kWriteTo));
  Results results = {Read(op(inputs)[0])};
  std::vector<NDArray> outputs;
  {
    const autograd::Record record;
    outputs = op(inputs);
  }
  results.push_back(Read(outputs[0]));
  for (const bool retain_graph : {true, false}) {
    autograd::Backward(outputs, {}, {.retain_graph = retain_graph});
    for (const NDArray& gradient : gradients) results.push_back(Read(gradient));
  }
  return results;
}

TEST(FusedLayersTest, ACachedOpGivesTheBitsOfSingleSteps) {
  const Results fused = CallLayers();
  const SingleSteps single_steps;
  EXPECT_EQ(fused, CallLayers());
}

}  // namespace
}  // namespace tessera
