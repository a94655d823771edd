#include "tessera/ndarray/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/graph/graph.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using base_testing::ExpectError;
using ndarray_testing::Vector;
using testing::ElementsAre;
using testing::IsEmpty;

/// Returns the variables' names and the operators of a graph, inputs first.
std::vector<std::string> NodesOf(const TracedGraph& traced) {
  std::vector<std::string> nodes;
  const graph::IndexedGraph graph(traced.outputs);
  for (const graph::Node* const node : graph.nodes()) {
    nodes.push_back(node->is_variable() ? node->name : node->property->TypeString());
  }
  return nodes;
}

TEST(TraceTest, TheGraphHasTheCallsWithInputsAndConstants) {
  const NDArray x = Vector({1, 2}), scale = Vector({3, 5});
  Trace trace;
  const NDArray a = trace.Input(x, "x");
  const NDArray y = (a * scale + 1.0f) * a;
  const TracedGraph traced = trace.Finish({&y, 1});
  EXPECT_THAT(NodesOf(traced),
              ElementsAre("x", "constant0", "elemwise_mul", "_plus_scalar", "elemwise_mul"));
  ASSERT_EQ(traced.constants.size(), 1u);
  EXPECT_EQ(traced.constants[0].name, "constant0");
  EXPECT_THAT(traced.constants[0].array.ToVector(), ElementsAre(3, 5));
  EXPECT_THAT(y.ToVector(), ElementsAre(4, 22));
  EXPECT_FALSE(autograd::IsRecording());
}

TEST(TraceTest, CallsWithoutAnInputAreRecordedToo) {
  Trace trace;
  const NDArray x = trace.Input(Vector({1, 2}), "x");
  const NDArray y = x + Invoke("_ones", {}, {{"shape", "(2,)"}})[0];
  const TracedGraph traced = trace.Finish({&y, 1});
  EXPECT_THAT(NodesOf(traced), ElementsAre("x", "_ones", "elemwise_add"));
  EXPECT_THAT(traced.constants, IsEmpty());
  EXPECT_THAT(y.ToVector(), ElementsAre(2, 3));
}

TEST(TraceTest, ViewsAndDetachedArraysAreOperators) {
  Trace trace;
  const NDArray x = trace.Input(Vector({1, 2, 3, 4}), "x");
  const NDArray y = x.Detach().Reshape({2, 2}).Slice(1, 2);
  const TracedGraph traced = trace.Finish({&y, 1});
  EXPECT_THAT(NodesOf(traced), ElementsAre("x", "BlockGrad", "Reshape", "slice_axis"));
  EXPECT_THAT(y.ToVector(), ElementsAre(3, 4));
}

TEST(TraceTest, CallsUnderPauseAreConstants) {
  Trace trace;
  const NDArray x = trace.Input(Vector({1, 2}), "x");
  NDArray factor;
  {
    const autograd::Pause pause;
    factor = x * 2.0f;
  }
  const NDArray y = x * factor;
  const TracedGraph traced = trace.Finish({&y, 1});
  EXPECT_THAT(NodesOf(traced), ElementsAre("x", "constant0", "elemwise_mul"));
  EXPECT_THAT(traced.constants[0].array.ToVector(), ElementsAre(2, 4));
}

TEST(TraceTest, OutputsMayBeInputsAndConstants) {
  const NDArray x = Vector({1}), c = Vector({2});
  Trace trace;
  const NDArray outputs[] = {c, trace.Input(x, "constant0")};
  const TracedGraph traced = trace.Finish(outputs);
  EXPECT_THAT(NodesOf(traced), ElementsAre("constant1", "constant0"));
  EXPECT_EQ(traced.constants[0].name, "constant1");
}

TEST(TraceTest, OneArrayMayBeTwoInputs) {
  NDArray x = Vector({3});
  x.AttachGrad();
  for (const bool recording : {false, true}) {
    const autograd::Scope scope(recording, std::nullopt);
    Trace trace;
    const NDArray a = trace.Input(x, "a"), b = trace.Input(x, "b");
    const NDArray y = a * b;
    EXPECT_THAT(NodesOf(trace.Finish({&y, 1})), ElementsAre("a", "b", "elemwise_mul"));
    EXPECT_EQ(autograd::IsRecording(), recording);
    if (!recording) continue;
    y.Backward();
    EXPECT_THAT(x.grad().ToVector(), ElementsAre(6));
  }
}

TEST(TraceTest, GradientsFlowThroughATracedCall) {
  NDArray x = Vector({1, 2});
  x.AttachGrad();
  NDArray y;
  {
    const autograd::Record record;
    const NDArray square = x * x;
    Trace trace;
    y = trace.Input(square, "square") * 3.0f;
    EXPECT_THAT(NodesOf(trace.Finish({&y, 1})), ElementsAre("square", "_mul_scalar"));
    y = y * y;
  }
  y.Backward();  // of 9 x^4
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(36, 288));
}

TEST(TraceTest, AuxStatesAreInputsThatTheCallChanges) {
  const NDArray mean = Vector({0}), variance = Vector({1});
  {
    const autograd::TrainMode train;
    Trace trace;
    const NDArray y =
        Invoke("BatchNorm",
               {trace.Input(NDArray::FromVector(std::vector<float>{1, 3}, {2, 1}), "data"),
                trace.Input(Vector({1}), "gamma"), trace.Input(Vector({0}), "beta"),
                trace.Input(mean, "mean"), trace.Input(variance, "variance")},
               {{"momentum", "0.5"}})[0];
    const TracedGraph traced = trace.Finish({&y, 1});
    EXPECT_THAT(NodesOf(traced),
                ElementsAre("data", "gamma", "beta", "mean", "variance", "BatchNorm"));
    EXPECT_EQ(graph::IndexedGraph(traced.outputs).aux_states().size(), 2u);
  }
  EXPECT_THAT(mean.ToVector(), ElementsAre(1));  // 0.5 * 0 + 0.5 * 2, changed once
}

TEST(TraceTest, WhatIsNoInputAndNoConstantIsRefused) {
  NDArray x = Vector({1});
  x.AttachGrad();
  {
    Trace trace;
    const NDArray y = trace.Input(Vector({2}), "a") * x;
    ExpectError(Error::kFailedPrecondition, "variable of autograd that is no input", [&] {
      trace.Finish({&y, 1});
    });
  }
  const autograd::Record record;
  const NDArray square = Invoke("square", {x})[0];
  {
    Trace trace;
    const NDArray y = trace.Input(Vector({2}), "a") * square;
    ExpectError(Error::kFailedPrecondition, "a result of square from before the trace", [&] {
      trace.Finish({&y, 1});
    });
  }
  class Identity final : public autograd::Function {
    std::vector<NDArray> Forward(const std::vector<NDArray>& inputs) override { return inputs; }
    std::vector<NDArray> Backward(const std::vector<NDArray>& out_grads) override {
      return out_grads;
    }
    std::string name() const override { return "Identity"; }
  };
  Trace trace;
  const NDArray input = trace.Input(Vector({2}), "a");
  ExpectError(Error::kUnimplemented, "Identity",
              [&] { autograd::Call(std::make_shared<Identity>(), {input}); });
  ExpectError(Error::kUnimplemented, "_CrossDeviceCopy", [&] { input.Copy(Device::Cpu(1)); });
  // A constant may be copied.
  EXPECT_THAT(Vector({7}).Copy(Device::Cpu(1)).ToVector(), ElementsAre(7));
}

TEST(TraceTest, WrongCallsAreErrors) {
  {
    Trace trace;
    ExpectError(Error::kFailedPrecondition, "one at a time", [] { Trace second; });
    EXPECT_TRUE(autograd::IsRecording());
    trace.Input(Vector({1}), "a");
    ExpectError(Error::kInvalidArgument, "two inputs a", [&] { trace.Input(Vector({1}), "a"); });
    ExpectError(Error::kInvalidArgument, "b is no array", [&] { trace.Input(NDArray(), "b"); });
    const NDArray none;
    ExpectError(Error::kInvalidArgument, "output 0 is no array", [&] { trace.Finish({&none, 1}); });
    ExpectError(Error::kFailedPrecondition, "has ended", [&] { trace.Input(Vector({1}), "c"); });
    ExpectError(Error::kFailedPrecondition, "has ended", [&] { trace.Finish({}); });
  }
  EXPECT_FALSE(autograd::IsRecording());
}

}  // namespace
}  // namespace tessera
