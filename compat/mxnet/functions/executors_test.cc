#include "tessera/compat/mxnet/functions/executors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/symbols.h"
#include "tessera/compat/mxnet/core/types.h"
#include "tessera/ndarray/testing/array_values.h"

extern "C" {
const char* MXGetLastError();
int MXExecutorBind(SymbolHandle symbol_handle, int dev_type, int dev_id, uint32_t len,
                   NDArrayHandle* in_args, NDArrayHandle* arg_grad_store, uint32_t* grad_req_type,
                   uint32_t aux_states_len, NDArrayHandle* aux_states, ExecutorHandle* out);
int MXExecutorFree(ExecutorHandle handle);
int MXNDArrayFree(NDArrayHandle handle);
int NNSymbolFree(SymbolHandle symbol);
}

namespace tessera::mxnet {
namespace {

using ndarray_testing::Read;
using ndarray_testing::Vector;
using testing::ElementsAre;

ApiExecutor Bound(const Symbol& symbol, const std::map<std::string, TShape>& shapes) {
  return ApiExecutor(symbol, SimpleBind(symbol, Device::Cpu(), {.shapes = shapes}));
}

TEST(ExecutorsTest, BackwardMayComeFirstAndTwice) {
  const Symbol x = Symbol::Variable("x");
  ApiExecutor executor = Bound(x * x * x, {{"x", {2}}});
  CopyFromTo(Vector({1, 2}), executor.executor()->arg_arrays()[0]);
  const NDArray gradient = executor.executor()->grad_arrays()[0];
  executor.Backward({Vector({1, 1})});
  EXPECT_THAT(gradient.ToVector(), ElementsAre(3, 12));
  EXPECT_THAT(executor.executor()->outputs()[0].ToVector(), ElementsAre(1, 8));
  // Head gradients beyond the outputs are ignored.
  executor.Backward({Vector({2, 10}), Vector({7})});
  EXPECT_THAT(gradient.ToVector(), ElementsAre(6, 120));
  executor.Forward(false);
  executor.Backward({Vector({1, 0})});
  EXPECT_THAT(gradient.ToVector(), ElementsAre(3, 0));
}

TEST(ExecutorsTest, ARandomGraphOrOneWithStatesRunsBackwardOnce) {
  for (const char* const op : {"Dropout", "BatchNorm"}) {
    ApiExecutor executor = Bound(Symbol::Apply(op, {Symbol::Variable("x")})[0], {{"x", {2, 1}}});
    const NDArray head = Vector({1, 2}).Reshape({2, 1});
    executor.Backward({head});
    EXPECT_THROW(executor.Backward({head}), Error) << op;
    executor.Forward(true);
    executor.Backward({head});
  }
}

TEST(ExecutorsTest, TheOptimizedSymbolHasCommonSubexpressionsOnce) {
  const Symbol a = Symbol::Variable("a"), b = Symbol::Variable("b");
  const Symbol sum = (a + b) + (a + b);
  const std::map<std::string, TShape> shapes = {{"a", {2}}};
  ASSERT_EQ(setenv("MXNET_ELIMINATE_COMMON_EXPR", "0", 1), 0);
  const ApiExecutor plain = Bound(sum, shapes);
  ASSERT_EQ(unsetenv("MXNET_ELIMINATE_COMMON_EXPR"), 0);
  const ApiExecutor merged = Bound(sum, shapes);
  EXPECT_EQ(plain.OptimizedSymbol().GetInternals().num_outputs(), 5);
  EXPECT_EQ(merged.OptimizedSymbol().GetInternals().num_outputs(), 4);
}

/// Binds the graph in MXNet's way, trains one step, and returns the number of steps and the
/// gradients.
std::pair<int64_t, std::vector<std::vector<double>>> TrainBound(const Symbol& graph) {
  const SymbolHandle symbol = AddSymbol(graph);
  const std::vector<NDArray> arguments = {Vector({0.5f, -1, 2}), Vector({1, 2, 3})};
  const std::vector<NDArray> gradients = {Vector({0, 0, 0}), Vector({0, 0, 0})};
  std::vector<NDArrayHandle> in_args, grad_store;
  for (const NDArray& array : arguments) in_args.push_back(Arrays().Add(array));
  for (const NDArray& array : gradients) grad_store.push_back(Arrays().Add(array));
  std::vector<uint32_t> requests(2, static_cast<uint32_t>(kWriteTo));
  ExecutorHandle handle = nullptr;
  EXPECT_EQ(MXExecutorBind(symbol, /*dev_type=*/1, /*dev_id=*/0, 2, in_args.data(),
                           grad_store.data(), requests.data(), 0, nullptr, &handle),
            0)
      << MXGetLastError();
  const std::shared_ptr<ApiExecutor> bound = Executors().Get(handle);
  bound->Forward(true);
  bound->Backward({Vector({1, -2, 3})});
  const std::string steps = bound->executor()->DebugString();
  MXExecutorFree(handle);
  NNSymbolFree(symbol);
  for (const auto* list : {&in_args, &grad_store}) {
    for (const NDArrayHandle array : *list) MXNDArrayFree(array);
  }
  return {std::count(steps.begin(), steps.end(), '\n') - 1,
          {Read(gradients[0]), Read(gradients[1])}};
}

TEST(ExecutorsTest, TheEnvironmentLetsGradientsRecomputeCheapResults) {
  // Fused steps would hide which results are computed twice.
  ASSERT_EQ(setenv("TESSERA_FUSE", "0", 1), 0);
  const Symbol a = Symbol::Variable("a"), b = Symbol::Variable("b");
  const Symbol graph = Symbol::Apply("tanh", {a}, {}, "act") * b;
  const auto stored = TrainBound(graph);
  for (const char* const off : {"0", ""}) {
    ASSERT_EQ(setenv("MXNET_BACKWARD_DO_MIRROR", off, 1), 0);
    EXPECT_EQ(TrainBound(graph), stored);
  }
  ASSERT_EQ(setenv("MXNET_BACKWARD_DO_MIRROR", "1", 1), 0);
  const auto mirrored = TrainBound(graph);
  ASSERT_EQ(unsetenv("MXNET_BACKWARD_DO_MIRROR"), 0);
  ASSERT_EQ(unsetenv("TESSERA_FUSE"), 0);
  EXPECT_EQ(mirrored.first, stored.first + 1);
  EXPECT_EQ(mirrored.second, stored.second);
}

TEST(ExecutorsTest, AMonitorHearsTheNamesOfMxnet) {
  Symbol net = Symbol::Apply("Activation", {Symbol::Variable("x")}, {{"act_type", "tanh"}}, "act");
  net = Symbol::Apply("softmax", {net}, {}, "soft");
  // A variable has its name, also where it is made for an input without one.
  net = net + Symbol::Apply("relu", std::vector<Symbol>(), {}, "other");
  ApiExecutor executor = Bound(net, {{"x", {2, 3}}});
  std::vector<std::string> names;
  const auto note = [&](const std::string& name, const NDArray&) { names.push_back(name); };
  executor.SetMonitor(note, /*monitor_all=*/true);
  executor.Forward(false);
  ASSERT_GT(names.size(), 8u);
  EXPECT_THAT(std::vector<std::string>(names.begin(), names.begin() + 8),
              ElementsAre("x", "act_input0", "act_output", "soft_data", "soft_output", "other_data",
                          "other_input0", "other_output"));
  names.clear();
  executor.SetMonitor(note, /*monitor_all=*/false);
  executor.Forward(false);
  EXPECT_THAT(names,
              ElementsAre("act_output", "soft_output", "other_output", net.name() + "_output"));
  executor.SetMonitor(nullptr, false);
}

}  // namespace
}  // namespace tessera::mxnet
