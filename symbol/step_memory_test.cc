// What Storage reports at the peak of a step is what the plan tells, in an executor and in a
// CachedOp.
#include "tessera/symbol/testing/step_memory.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/operator.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using symbol_testing::BytesHeldAtPeak;

/// A network of two convolutions for pictures of 32 x 32.
Symbol Network() {
  Symbol net = Symbol::Variable("data");
  for (const char* name : {"1", "2"}) {
    net = Symbol::Apply("Convolution", {net},
                        {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", "24"}},
                        std::string("conv") + name);
    net = Symbol::Apply("Activation", {net}, {{"act_type", "relu"}}, std::string("relu") + name);
    net = Symbol::Apply("Pooling", {net},
                        {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}, {"pool_type", "max"}},
                        std::string("pool") + name);
  }
  net = Symbol::Apply("FullyConnected", {net}, {{"num_hidden", "10"}}, "dense");
  return Symbol::Apply("SoftmaxOutput", {net}, {}, "softmax");
}

const std::map<std::string, TShape>& InputShapes() {
  static const std::map<std::string, TShape> shapes = {{"data", {16, 3, 32, 32}}};
  return shapes;
}

/// Fails unless a peak exceeds the plan by at most 2 %, and is not below it.
void ExpectThePlan(int64_t at_peak, int64_t planned_bytes) {
  EXPECT_GT(planned_bytes, int64_t{1} << 20);  // a further array would be noticed
  EXPECT_GE(at_peak, planned_bytes);
  EXPECT_LE(static_cast<double>(at_peak), 1.02 * static_cast<double>(planned_bytes));
}

TEST(StepMemoryTest, AnExecutorHoldsWhatItsPlanTells) {
  for (const bool trains : {false, true}) {
    SCOPED_TRACE(trains ? "training" : "inference");
    const auto executor =
        SimpleBind(Network(), Device::Cpu(),
                   {.shapes = InputShapes(), .grad_req = trains ? kWriteTo : kNullOp});
    for (NDArray array : executor->arg_arrays()) array = 0.1f;
    // Inference packs weights before the second step with them.
    for (int i = 0; i < 2 && !trains; ++i) executor->Forward(false);
    const int64_t at_peak = BytesHeldAtPeak([&] {
      executor->Forward(trains);
      if (trains) executor->Backward();
    });
    ExpectThePlan(at_peak, executor->memory_plan().planned_bytes);
  }
}

TEST(StepMemoryTest, ACachedOpHoldsWhatItsPlanTells) {
  const std::vector<TShape> shapes = Network().InferShape(InputShapes()).arguments;
  for (const bool trains : {false, true}) {
    SCOPED_TRACE(trains ? "training" : "inference");
    const CachedOp op(Network(), {.static_alloc = true});
    std::vector<NDArray> inputs;  // a network without auxiliary states takes its arguments in order
    std::vector<NDArray> weights, gradients;
    for (size_t i = 0; i < shapes.size(); ++i) {
      inputs.emplace_back(shapes[i]);
      inputs.back() = 0.1f;
      const std::string& name = op.input_names()[i];
      if (!trains || name == "data" || name == "softmax_label") continue;
      weights.push_back(inputs.back());
      gradients.emplace_back(shapes[i]);
    }
    autograd::MarkVariables(weights, gradients, std::vector<OpReqType>(weights.size(), kWriteTo));
    const NDArray head = NDArray::FromVector(std::vector<float>(160, 1.0f), {16, 10});
    std::vector<std::vector<NDArray>> kept;
    for (int i = 0; i < 2 && !trains; ++i) kept.push_back(op(inputs));
    const int64_t at_peak = BytesHeldAtPeak([&] {
      std::optional<autograd::Record> record;
      if (trains) record.emplace();
      kept.push_back(op(inputs));
      record.reset();
      if (trains) autograd::Backward(kept.back(), {&head, 1});
    });
    std::optional<autograd::Record> record;
    if (trains) record.emplace();
    const int64_t output_bytes = 160 * sizeof(float);
    ExpectThePlan(at_peak - output_bytes, op.memory_plan(inputs).planned_bytes);
  }
}

}  // namespace
}  // namespace tessera
