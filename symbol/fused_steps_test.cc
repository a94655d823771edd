// Element-wise nodes run as one step: the results of an Executor and of a CachedOp stay the same
// bit for bit, and those who look at single nodes find them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using ndarray_testing::Read;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Turns fusion off for a scope.
class SingleSteps {
 public:
  SingleSteps() { setenv("TESSERA_FUSE", "0", /*overwrite=*/1); }
  ~SingleSteps() { unsetenv("TESSERA_FUSE"); }
};

/// sigmoid(a) * b + tanh(c) with a row c, and the gate's own value.
Symbol Gate() {
  const Symbol a = Symbol::Variable("a"), b = Symbol::Variable("b"), c = Symbol::Variable("c");
  const Symbol gate = Symbol::Apply("sigmoid", {a}, {}, "gate");
  const Symbol product = Symbol::Apply("elemwise_mul", {gate, b}, {}, "product");
  const Symbol row = Symbol::Apply("tanh", {c}, {}, "row");
  return Symbol::CreateGroup({Symbol::Apply("broadcast_add", {product, row}, {}, "out"), gate});
}

NDArray Ramp(const TShape& shape, DType dtype, float first, float step = 0.01f) {
  std::vector<float> values(static_cast<size_t>(shape.Size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + step * static_cast<float>(i);
  NDArray array(shape, Device::Cpu());
  array.SyncCopyFromCPU(values.data(), shape.Size());
  return array.AsType(dtype);
}

/// The arrays of the gate.
struct Arrays {
  explicit Arrays(DType dtype, index_t rows = 20)
      : in{Ramp({rows, 7}, dtype, -1), Ramp({rows, 7}, dtype, 2, -0.02f),
           Ramp({1, 7}, dtype, 0.3f)},
        gradients{Ramp({rows, 7}, dtype, 5), Ramp({rows, 7}, dtype, 6), Ramp({1, 7}, dtype, 7)},
        heads{Ramp({rows, 7}, dtype, 1), Ramp({rows, 7}, dtype, -0.5f)} {}

  std::vector<NDArray> in, gradients, heads;
};

std::unique_ptr<Executor> BindGate(const Arrays& arrays, OpReqType request = kWriteTo) {
  return Bind(Gate(), Device::Cpu(),
              {.arguments = arrays.in,
               .gradients = arrays.gradients,
               .grad_requests = std::vector<OpReqType>(3, request)});
}

using Results = std::vector<std::vector<double>>;

/// Returns the outputs and gradients of a training step.
Results Train(Executor* executor, const Arrays& arrays) {
  executor->Forward(true);
  executor->Backward(arrays.heads);
  Results results;
  for (const NDArray& output : executor->outputs()) results.push_back(Read(output));
  for (const NDArray& gradient : arrays.gradients) results.push_back(Read(gradient));
  return results;
}

TEST(FusedStepsTest, AnExecutorGivesTheBitsOfSingleSteps) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (const OpReqType request : {kWriteTo, kAddTo}) {
      SCOPED_TRACE(testing::Message() << dtype << (request == kAddTo ? ", added" : ""));
      const Arrays own(dtype), others(dtype);
      const auto fused = BindGate(own, request);
      EXPECT_THAT(fused->DebugString(), HasSubstr("gate+product"));
      const SingleSteps single_steps;
      const auto single = BindGate(others, request);
      EXPECT_THAT(single->DebugString(), Not(HasSubstr("+")));
      EXPECT_EQ(Train(fused.get(), own), Train(single.get(), others));
    }
  }
}

TEST(FusedStepsTest, PartialRunsCallOneOperatorAtATime) {
  const Arrays arrays(DType::kFloat32);
  const auto executor = BindGate(arrays);
  const Results expected = Train(executor.get(), arrays);
  NDArray output = executor->outputs()[0];
  for (int round = 0; round < 2; ++round) {
    output = 0.0f;
    for (int step = 0; step < 4; ++step) EXPECT_EQ(executor->PartialForward(true, step), 3 - step);
    executor->Backward(arrays.heads);
    EXPECT_EQ(Read(output), expected[0]);
    EXPECT_EQ(Read(arrays.gradients[2]), expected[4]);
    EXPECT_EQ(Train(executor.get(), arrays), expected);  // the whole run again
  }
}

TEST(FusedStepsTest, AMonitorSeesEachNode) {
  const Arrays arrays(DType::kFloat32);
  const auto executor = BindGate(arrays);
  const Results expected = Train(executor.get(), arrays);
  std::vector<std::string> names;
  executor->SetMonitorCallback(
      [&names](const std::string& name, const NDArray&) { names.push_back(name); });
  executor->Forward(true);
  EXPECT_THAT(names, ElementsAre("gate_output", "product_output", "row_output", "out_output"));
  executor->SetMonitorCallback(nullptr);
  EXPECT_EQ(Train(executor.get(), arrays), expected);
}

/// Returns the outputs and the gradients of two backward runs of a recorded call.
Results TrainTwice(const CachedOp& op, const Arrays& arrays) {
  autograd::MarkVariables(arrays.in, arrays.gradients,
                          std::vector<OpReqType>{kWriteTo, kAddTo, kWriteTo});
  std::vector<NDArray> outputs;
  {
    const autograd::Record record;
    outputs = op(arrays.in);
  }
  Results results;
  for (const NDArray& output : outputs) results.push_back(Read(output));
  for (const bool retain_graph : {true, false}) {
    autograd::Backward(outputs, arrays.heads, {.retain_graph = retain_graph});
    for (const NDArray& gradient : arrays.gradients) results.push_back(Read(gradient));
  }
  return results;
}

TEST(FusedStepsTest, ACachedOpRunsItsGradientTwice) {
  const Arrays own(DType::kFloat32), others(DType::kFloat32);
  const Results fused = TrainTwice(CachedOp(Gate()), own);
  const SingleSteps single_steps;
  EXPECT_EQ(fused, TrainTwice(CachedOp(Gate()), others));
}

TEST(FusedStepsTest, AGradientThatIsNotWantedCostsNoStage) {
  const Arrays arrays(DType::kFloat32);
  const CachedOp op(Gate());
  const Results expected = TrainTwice(op, arrays);
  // Only b has a gradient now.
  const Arrays others(DType::kFloat32);
  autograd::MarkVariables(std::vector<NDArray>{others.in[1]},
                          std::vector<NDArray>{others.gradients[1]},
                          std::vector<OpReqType>{kWriteTo});
  std::vector<NDArray> outputs;
  {
    const autograd::Record record;
    outputs = op(others.in);
  }
  autograd::Backward({outputs[0]}, {others.heads[0]});
  const std::vector<double> gate = Read(outputs[1]), head = Read(others.heads[0]);
  const std::vector<double> gradient = Read(others.gradients[1]);
  for (size_t i = 0; i < gate.size(); ++i) {
    EXPECT_EQ(gradient[i], static_cast<float>(gate[i]) * static_cast<float>(head[i]));
  }
  EXPECT_EQ(Read(others.gradients[0]), Read(Arrays(DType::kFloat32).gradients[0]));
}

TEST(FusedStepsTest, RepeatedNamesKeepSingleSteps) {
  const auto chain = [](const char* other) {
    const Symbol sum = Symbol::Variable("x") + Symbol::Variable(other);
    return Symbol::Apply("tanh", {sum});
  };
  const std::vector<NDArray> inputs = {Ramp({3}, DType::kFloat32, 1),
                                       Ramp({3}, DType::kFloat32, 2)};
  EXPECT_EQ(CachedOp(chain("y")).memory_plan(inputs).values, 0);  // the sum is in no memory
  EXPECT_EQ(CachedOp(chain("x")).memory_plan(inputs).values, 1);
  EXPECT_EQ(Read(CachedOp(chain("y"))(inputs)[0]), Read(CachedOp(chain("x"))(inputs)[0]));
}

TEST(FusedStepsTest, ExecutorsInTwoThreadsDoNotDisturbEachOther) {
  constexpr index_t kRows = 3000;
  const Arrays first(DType::kFloat32, kRows), second(DType::kFloat64, kRows);
  const auto one = BindGate(first), two = BindGate(second);
  const Results of_one = Train(one.get(), first), of_two = Train(two.get(), second);
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(Train(two.get(), second), of_two);
  });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Train(one.get(), first), of_one);
  other.join();
}

}  // namespace
}  // namespace tessera
