// Softmax runs with the product and the element-wise nodes before it as one step, as in attention:
// the results of an Executor and of a CachedOp stay the same bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/ops/operator.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using ndarray_testing::Read;
using Results = std::vector<std::vector<double>>;
using ::testing::HasSubstr;
using ::testing::Not;

/// Turns fusion off for a scope.
class SingleSteps {
 public:
  SingleSteps() { setenv("TESSERA_FUSE", "0", /*overwrite=*/1); }
  ~SingleSteps() { unsetenv("TESSERA_FUSE"); }
};

/// The shapes of attention: batch * heads matrices of queries and keys with their width.
struct Extents {
  index_t heads, queries, keys, width;
};

/// The way in which scores are masked before softmax.
enum class Mask { kNone, kAdded, kAddedPerHead, kScalars };

/// Weights of attention, times the values "v".
Symbol Attention(Mask mask) {
  const auto variable = [](const char* name) { return Symbol::Variable(name); };
  Symbol scores = Symbol::Apply("batch_dot", {variable("q"), variable("k")},
                                {{"transpose_b", "True"}}, "product");
  if (mask != Mask::kNone) {
    scores = Symbol::Apply("_div_scalar", {scores}, {{"scalar", "3"}}, "scaled");
  }
  if (mask == Mask::kAdded || mask == Mask::kAddedPerHead) {
    scores = Symbol::Apply("broadcast_add", {scores, variable("mask")}, {}, "masked");
  }
  const Symbol weights = Symbol::Apply("softmax", {scores}, {{"axis", "-1"}}, "weights");
  return Symbol::Apply("batch_dot", {weights, variable("v")}, {}, "out");
}

std::map<std::string, TShape> ShapesOf(Mask mask, const Extents& e) {
  std::map<std::string, TShape> shapes = {{"q", {e.heads, e.queries, e.width}},
                                          {"k", {e.heads, e.keys, e.width}},
                                          {"v", {e.heads, e.keys, e.width}}};
  if (mask == Mask::kAdded) shapes["mask"] = {1, e.queries, e.keys};
  if (mask == Mask::kAddedPerHead) shapes["mask"] = {e.heads, 1, e.keys};
  return shapes;
}

/// Writes elements between -2 and 2, and to a mask 0 or a large negative number.
void Fill(const std::string& name, NDArray array) {
  std::vector<float> values(static_cast<size_t>(array.shape().Size()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.04f * static_cast<float>((i * 37 + name.size() * 11) % 101) - 2;
    if (name == "mask") values[i] = i % 5 == 2 ? -3e4f : 0;
  }
  CopyFromTo(NDArray::FromVector(values, array.shape()).AsType(array.dtype()), array);
}

/// Returns the outputs and the gradients of an executor.
Results ResultsOf(Executor* executor, OpReqType request) {
  for (const auto& [name, array] : executor->arg_dict()) Fill(name, array);
  for (const auto& [name, array] : executor->grad_dict()) {
    if (!array.is_none()) Fill(name, array);
  }
  const bool trains = request != kNullOp;
  executor->Forward(trains);
  const NDArray& output = executor->outputs()[0];
  Results results = {Read(output)};
  if (!trains) return results;
  NDArray head(output.shape(), Device::Cpu(), output.dtype());
  Fill("head", head);
  executor->Backward({head});
  for (const auto& [name, array] : executor->grad_dict()) results.push_back(Read(array));
  return results;
}

TEST(FusedRowsTest, AnExecutorGivesTheBitsOfSingleSteps) {
  const std::vector<Extents> all_extents = {{6, 70, 65, 16}, {1, 3, 200, 5}, {3, 130, 700, 24}};
  for (const Mask mask : {Mask::kNone, Mask::kAdded, Mask::kAddedPerHead, Mask::kScalars}) {
    for (const Extents& extents : all_extents) {
      for (const DType dtype :
           {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
        for (const OpReqType request : {kNullOp, kWriteTo, kAddTo}) {
          SCOPED_TRACE(testing::Message()
                       << "mask " << static_cast<int>(mask) << ", keys " << extents.keys << ", "
                       << dtype << ", request " << static_cast<int>(request));
          const auto bind = [&] {
            return SimpleBind(
                Attention(mask), Device::Cpu(),
                {.shapes = ShapesOf(mask, extents), .types = {{"q", dtype}}, .grad_req = request});
          };
          const auto fused = bind();
          EXPECT_THAT(fused->DebugString(), HasSubstr("product+"));
          EXPECT_THAT(fused->DebugString(), HasSubstr("+weights"));
          const Results results = ResultsOf(fused.get(), request);
          const SingleSteps single_steps;
          const auto single = bind();
          EXPECT_THAT(single->DebugString(), Not(HasSubstr("+")));
          EXPECT_EQ(results, ResultsOf(single.get(), request));
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(FusedRowsTest, ScoresThatAreAnOutputToo) {
  const Symbol x = Symbol::Variable("x");
  const Symbol scaled = Symbol::Apply("_mul_scalar", {x}, {{"scalar", "0.5"}}, "scaled");
  const Symbol both =
      Symbol::CreateGroup({Symbol::Apply("log_softmax", {scaled}, {}, "logs"), scaled});
  const auto run = [&both](const char* step) {
    const auto executor =
        SimpleBind(both, Device::Cpu(), {.shapes = {{"x", {40, 300}}}, .grad_req = kNullOp});
    EXPECT_THAT(executor->DebugString(), HasSubstr(step));
    Fill("x", executor->arg_arrays()[0]);
    executor->Forward(false);
    return Results{Read(executor->outputs()[0]), Read(executor->outputs()[1])};
  };
  const Results fused = run("scaled+logs");
  const SingleSteps single_steps;
  EXPECT_EQ(fused, run("logs"));
}

TEST(FusedRowsTest, InterleavedProjectionsOfSelfAttention) {
  const Symbol projections = Symbol::Variable("projections");
  const Symbol scores = Symbol::Apply("_contrib_interleaved_matmul_selfatt_qk", {projections},
                                      {{"heads", "2"}}, "product");
  const Symbol masked =
      Symbol::Apply("broadcast_add", {scores, Symbol::Variable("mask")}, {}, "masked");
  const Symbol weights = Symbol::Apply("softmax", {masked}, {}, "weights");
  const Symbol out = Symbol::Apply("_contrib_interleaved_matmul_selfatt_valatt",
                                   {projections, weights}, {{"heads", "2"}}, "out");
  const auto run = [&out](const char* step) {
    const auto executor = SimpleBind(
        out, Device::Cpu(), {.shapes = {{"projections", {90, 3, 48}}, {"mask", {1, 90, 90}}}});
    EXPECT_THAT(executor->DebugString(), HasSubstr(step));
    return ResultsOf(executor.get(), kWriteTo);
  };
  const Results fused = run("product+masked+weights");
  const SingleSteps single_steps;
  EXPECT_EQ(fused, run("weights"));
}

/// Returns the output of a recorded call, and its gradients.
Results CallAttention() {
  const CachedOp op(Attention(Mask::kAdded));
  const std::map<std::string, TShape> shapes = ShapesOf(Mask::kAdded, {4, 50, 90, 8});
  std::vector<NDArray> inputs, gradients;
  for (const std::string& name : op.input_names()) {
    inputs.emplace_back(shapes.at(name));
    Fill(name, inputs.back());
    gradients.emplace_back(shapes.at(name));
  }
  autograd::MarkVariables(inputs, gradients, std::vector<OpReqType>(inputs.size(), kWriteTo));
  std::vector<NDArray> outputs;
  {
    const autograd::Record record;
    outputs = op(inputs);
  }
  autograd::Backward(outputs);
  Results results = {Read(outputs[0]), Read(op(inputs)[0])};
  for (const NDArray& gradient : gradients) results.push_back(Read(gradient));
  return results;
}

TEST(FusedRowsTest, ACachedOpGivesTheBitsOfSingleSteps) {
  const Results fused = CallAttention();
  const SingleSteps single_steps;
  EXPECT_EQ(fused, CallAttention());
}

TEST(FusedRowsTest, RecomputedStepsGiveTheSameBits) {
  const Symbol attention = Attention(Mask::kAdded);
  const std::map<std::string, TShape> shapes = ShapesOf(Mask::kAdded, {4, 50, 90, 8});
  const auto stored = SimpleBind(attention, Device::Cpu(), {.shapes = shapes});
  for (const auto& [name, array] : stored->arg_dict()) Fill(name, array);
  BindArguments arrays{.arguments = stored->arg_arrays(), .recomputes = true};
  for (const NDArray& array : arrays.arguments) arrays.gradients.emplace_back(array.shape());
  const auto recomputed = Bind(attention, Device::Cpu(), arrays);
  EXPECT_EQ(ResultsOf(stored.get(), kWriteTo), ResultsOf(recomputed.get(), kWriteTo));
}

}  // namespace
}  // namespace tessera
