// The flag of a CachedOp up to which number of operators a tape records them in place of a call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/symbols.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/testing/array_values.h"

extern "C" {
const char* MXGetLastError();
int MXNDArrayFree(NDArrayHandle handle);
int NNSymbolFree(SymbolHandle symbol);
int MXCreateCachedOpEx(SymbolHandle handle, int num_flags, const char** keys, const char** vals,
                       CachedOpHandle* out);
int MXFreeCachedOp(CachedOpHandle handle);
int MXInvokeCachedOp(CachedOpHandle handle, int num_inputs, NDArrayHandle* inputs, int* num_outputs,
                     NDArrayHandle** outputs);
int MXAutogradGetSymbol(NDArrayHandle handle, SymbolHandle* out);
}

namespace tessera::mxnet {
namespace {

using ndarray_testing::Vector;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

using Flags = std::vector<std::pair<const char*, const char*>>;

/// Creates a function of the graph; returns MXNet's status.
int Create(const Symbol& graph, const Flags& flags, CachedOpHandle* out) {
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : flags) {
    keys.push_back(key);
    values.push_back(value);
  }
  const SymbolHandle symbol = AddSymbol(graph);
  const int status =
      MXCreateCachedOpEx(symbol, static_cast<int>(flags.size()), keys.data(), values.data(), out);
  NNSymbolFree(symbol);
  return status;
}

/// Returns the number of operators that the tape has for a call of the graph, the square of x + x.
int NumRecorded(const Symbol& graph, const Flags& flags) {
  CachedOpHandle op = nullptr;
  EXPECT_EQ(Create(graph, flags, &op), 0) << MXGetLastError();
  NDArray x = Vector({1, 2});
  x.AttachGrad();
  NDArrayHandle input = Arrays().Add(x), output = nullptr;
  {
    const autograd::Record record;
    int num_outputs = 0;
    NDArrayHandle* outputs = nullptr;
    EXPECT_EQ(MXInvokeCachedOp(op, 1, &input, &num_outputs, &outputs), 0) << MXGetLastError();
    output = outputs[0];
  }
  SymbolHandle recorded = nullptr;
  EXPECT_EQ(MXAutogradGetSymbol(output, &recorded), 0) << MXGetLastError();
  const int num_operators = SymbolOf(recorded)->GetInternals().num_outputs() - 1;
  const NDArray y = ArrayOf(output);
  EXPECT_THAT(y.ToVector(), ElementsAre(4, 16));
  y.Backward();
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(8, 16));
  NNSymbolFree(recorded);
  MXNDArrayFree(input);
  MXNDArrayFree(output);
  MXFreeCachedOp(op);
  return num_operators;
}

TEST(CachedOpTest, ATapeRecordsTheOperatorsOfASmallGraph) {
  const Symbol x = Symbol::Variable("x");
  const Symbol two = Symbol::Apply("square", {x + x});
  EXPECT_EQ(NumRecorded(two, {}), 2);
  EXPECT_EQ(NumRecorded(two, {{"inline_limit", "2"}}), 2);
  EXPECT_EQ(NumRecorded(two, {{"inline_limit", "1"}}), 1);
  EXPECT_EQ(NumRecorded(two, {{"static_alloc", "True"}}), 1);
  const Symbol three = two * 1.0f;
  EXPECT_EQ(NumRecorded(three, {}), 1);
  EXPECT_EQ(NumRecorded(three, {{"inline_limit", "3"}, {"static_shape", "False"}}), 3);
}

TEST(CachedOpTest, AGradientIsCalledAsAWhole) {
  const Symbol gradient = Symbol::Apply("square", {Symbol::Variable("x")}, {}, "y").Grad({"x"});
  EXPECT_THAT(gradient.ListInputs(), UnorderedElementsAre("x", "y_output_head_grad"));
  CachedOpHandle op = nullptr;
  ASSERT_EQ(Create(gradient, {}, &op), 0) << MXGetLastError();
  std::vector<NDArrayHandle> inputs;
  for (const std::string& name : gradient.ListInputs()) {
    inputs.push_back(Arrays().Add(name == "x" ? Vector({3, 4}) : Vector({1, 10})));
  }
  int num_outputs = 0;
  NDArrayHandle* outputs = nullptr;
  ASSERT_EQ(MXInvokeCachedOp(op, 2, inputs.data(), &num_outputs, &outputs), 0) << MXGetLastError();
  ASSERT_EQ(num_outputs, 1);
  EXPECT_THAT(ArrayOf(outputs[0]).ToVector(), ElementsAre(6, 80));
  MXNDArrayFree(outputs[0]);
  for (const NDArrayHandle input : inputs) MXNDArrayFree(input);
  MXFreeCachedOp(op);
}

TEST(CachedOpTest, ALimitIsANumber) {
  CachedOpHandle op = nullptr;
  for (const char* const limit : {"-1", "many"}) {
    EXPECT_EQ(Create(Symbol::Variable("x"), {{"inline_limit", limit}}, &op), -1);
    EXPECT_THAT(std::string(MXGetLastError()), HasSubstr("inline_limit"));
  }
}

}  // namespace
}  // namespace tessera::mxnet
