#include "tessera/symbol/cached_op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/ops/sparse.h"
#include "tessera/symbol/executor.h"

namespace tessera {
namespace {

using base_testing::ExpectError;
using ndarray_testing::Vector;
using ::testing::Each;
using ::testing::ElementsAre;

/// exp(w x) w + b in elements, with more steps than one engine operation has.
Symbol Network(int layers = 20) {
  const Symbol w = Symbol::Variable("w");
  Symbol y = Symbol::Variable("x");
  for (int i = 0; i < layers; ++i) {
    y = Symbol::Apply("Activation", {y * w}, {{"act_type", "tanh"}});
  }
  return y + Symbol::Variable("b");
}

/// Parameterized by static_alloc and node_by_node.
class CachedOpTest : public testing::TestWithParam<std::pair<bool, bool>> {
 protected:
  CachedOpOptions Options() const {
    return {.static_alloc = GetParam().first, .node_by_node = GetParam().second};
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, CachedOpTest,
                         testing::Values(std::pair(false, false), std::pair(true, false),
                                         std::pair(false, true)),
                         [](const auto& info) {
                           return std::string(info.param.first    ? "Static"
                                              : info.param.second ? "NodeByNode"
                                                                  : "Dynamic");
                         });

TEST_P(CachedOpTest, CallsAreFunctionsOfTheirInputs) {
  const Symbol x = Symbol::Variable("x"), y = Symbol::Variable("y");
  const CachedOp op(Symbol::CreateGroup({x * y + x, y - x}), Options());
  EXPECT_THAT(op.input_names(), ElementsAre("x", "y"));
  const std::vector<NDArray> first = op({Vector({1, 2}), Vector({3, 4})});
  const std::vector<NDArray> second = op({Vector({5, 6}), Vector({7, 8})});
  EXPECT_THAT(first[0].ToVector(), ElementsAre(4, 10));
  EXPECT_THAT(first[1].ToVector(), ElementsAre(2, 2));
  EXPECT_THAT(second[0].ToVector(), ElementsAre(40, 54));
  // Other shapes and types are other signatures.
  EXPECT_THAT(op({Vector({1}), Vector({3})})[0].ToVector(), ElementsAre(4));
  const NDArray one = Vector({1}).AsType(DType::kFloat64),
                three = Vector({3}).AsType(DType::kFloat64);
  EXPECT_EQ(op({one, three})[0].dtype(), DType::kFloat64);
  EXPECT_EQ(op.num_signatures(), Options().node_by_node ? 0 : 3);
}

TEST_P(CachedOpTest, GradientsAreThoseOfTheTape) {
  const CachedOp op(Network(), Options());
  NDArray x = Vector({0.3f, -0.2f, 0.9f}), w = Vector({1, 1.5f, 0.7f}), b = Vector({1, 2, 3});
  std::vector<std::vector<float>> expected;
  for (const bool compiled : {false, true}) {
    x.AttachGrad();
    w.AttachGrad(kAddTo);
    for (int round = 0; round < 2; ++round) {
      NDArray y;
      {
        const autograd::Record record;
        if (compiled) {
          y = op({x * 2.0f, w, b})[0];
        } else {
          y = x * 2.0f;
          for (int i = 0; i < 20; ++i) y = Invoke("Activation", {y * w}, {{"act_type", "tanh"}})[0];
          y = y + b;
        }
        y = y * y;
      }
      y.Backward();
      const std::vector<std::vector<float>> results = {y.ToVector(), x.grad().ToVector(),
                                                       w.grad().ToVector()};
      if (!compiled) expected.insert(expected.end(), results.begin(), results.end());
      for (size_t i = 0; i < results.size(); ++i) {
        const auto& wanted = expected[static_cast<size_t>(round) * 3 + i];
        EXPECT_THAT(results[i], testing::Pointwise(testing::FloatNear(1e-6f), wanted));
      }
    }
  }
}

TEST_P(CachedOpTest, ARetainedGraphRunsBackwardAgain) {
  const CachedOp op(Network(), Options());
  NDArray x = Vector({0.3f, -0.2f, 0.9f});
  x.AttachGrad();
  NDArray first, second;
  {
    const autograd::Record record;
    const NDArray y = op({x, Vector({1, 1, 1}), Vector({0, 0, 0})})[0];
    first = y * 1.0f;
    second = y * 3.0f;
  }
  first.Backward({}, {.retain_graph = true});
  const std::vector<float> one = x.grad().ToVector();
  second.Backward({}, {.retain_graph = true});
  const std::vector<float> three = x.grad().ToVector();
  first.Backward();
  EXPECT_EQ(x.grad().ToVector(), one);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(three[i], 3 * one[i], 1e-6);
}

TEST_P(CachedOpTest, TheLastGradientIsThatOfARetainedGraph) {
  // The last gradient of a graph overwrites what a retained one reads. The next call uses the same
  // memory again.
  const CachedOp op(Network(40), Options());
  for (int round = 0; round < 6; ++round) {
    NDArray x = Vector({0.3f, -0.2f, 0.9f}), w = Vector({1, 1.5f, 0.5f});
    x = x * (1 + 0.1f * static_cast<float>(round));
    x.AttachGrad();
    w.AttachGrad();
    NDArray y;
    {
      const autograd::Record record;
      y = op({x, w, Vector({0, 0, 0})})[0];
    }
    std::vector<std::vector<float>> retained;
    for (int i = 0; i < round % 3; ++i) {
      y.Backward({}, {.retain_graph = true});
      retained.insert(retained.end(), {x.grad().ToVector(), w.grad().ToVector()});
    }
    y.Backward();
    for (size_t i = 0; i < retained.size(); i += 2) {
      EXPECT_EQ(x.grad().ToVector(), retained[i]) << "round " << round;
      EXPECT_EQ(w.grad().ToVector(), retained[i + 1]) << "round " << round;
    }
    EXPECT_THAT(w.grad().ToVector(), Each(testing::Ne(0)));
  }
}

TEST_P(CachedOpTest, CallsOnTheTapeKeepTheirResults) {
  // The state of the first call is not reused by the others, which happen before its Backward.
  const CachedOp op(Network(), Options());
  const NDArray w = Vector({1, 1, 1}), b = Vector({0, 0, 0});
  std::vector<NDArray> xs, ys;
  for (int i = 0; i < 5; ++i) {
    xs.push_back(Vector({0.1f * static_cast<float>(i), 0.5f, -0.3f}));
    xs.back().AttachGrad();
    const autograd::Record record;
    ys.push_back(op({xs.back(), w, b})[0]);
    if (i % 2 == 1) {
      const autograd::Pause pause;
      op({xs.back(), w, b});
    }
  }
  std::vector<std::vector<float>> gradients;
  for (int i = 4; i >= 0; --i) ys[static_cast<size_t>(i)].Backward();
  for (const NDArray& x : xs) {
    NDArray alone = Vector(x.ToVector());
    alone.AttachGrad();
    NDArray y;
    {
      const autograd::Record record;
      y = op({alone, w, b})[0];
    }
    y.Backward();
    EXPECT_EQ(alone.grad().ToVector(), x.grad().ToVector());
  }
}

TEST_P(CachedOpTest, OneArrayMayBeSeveralInputs) {
  const CachedOp op(Symbol::Variable("x") * Symbol::Variable("y"), Options());
  NDArray x = Vector({2, 3});
  x.AttachGrad();
  NDArray z;
  {
    const autograd::Record record;
    z = op({x, x})[0];
  }
  z.Backward();
  EXPECT_THAT(z.ToVector(), ElementsAre(4, 9));
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(4, 6));
}

TEST_P(CachedOpTest, TrainingChangesAuxStates) {
  const Symbol norm = Symbol::Apply("BatchNorm", {Symbol::Variable("x")},
                                    {{"fix_gamma", "0"}, {"momentum", "0.5"}}, "bn");
  const CachedOp op(norm[0], Options());
  EXPECT_THAT(op.input_names(),
              ElementsAre("x", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"));
  const NDArray x = NDArray::FromVector(std::vector<float>{1, 3, 5, 7}, {4, 1});
  NDArray gamma = Vector({2});
  const NDArray beta = Vector({1}), mean = Vector({0}), variance = Vector({1});
  gamma.AttachGrad();
  // Outside of training the moving statistics count.
  EXPECT_NEAR(op({x, gamma, beta, mean, variance})[0].ToVector()[1], 7, 1e-2);
  EXPECT_THAT(mean.ToVector(), ElementsAre(0));
  NDArray y, again;
  {
    const autograd::Record record;
    y = op({x, gamma, beta, mean, variance})[0];
    again = op({x, gamma, beta, mean, variance})[0];
  }
  EXPECT_THAT(mean.ToVector(), ElementsAre(3));
  y.Backward();
  EXPECT_NEAR(gamma.grad().ToVector()[0], 0, 1e-5);
  again.Backward();
  EXPECT_EQ(y.ToVector(), again.ToVector());
}

TEST_P(CachedOpTest, VariablesAndRepeatedResultsCanBeOutputs) {
  const Symbol x = Symbol::Variable("x");
  const Symbol y = x * 2.0;
  const CachedOp op(Symbol::CreateGroup({y, x, y}), Options());
  NDArray array = Vector({1, 2});
  array.AttachGrad();
  NDArray sum;
  {
    const autograd::Record record;
    const std::vector<NDArray> outputs = op({array});
    sum = outputs[0] + outputs[1] * 10.0f + outputs[2] * 100.0f;
  }
  sum.Backward();
  EXPECT_THAT(sum.ToVector(), ElementsAre(212, 424));
  EXPECT_THAT(array.grad().ToVector(), Each(2 + 10 + 200));
}

TEST_P(CachedOpTest, WrongInputsAreNamed) {
  const CachedOp op(Symbol::Variable("x") + Symbol::Variable("y"), Options());
  ExpectError(Error::kInvalidArgument, "1 inputs were given, expected 2 (x, y)",
              [&] { op({Vector({1})}); });
  ExpectError(Error::kInvalidArgument, "(3,)", [&] { op({Vector({1, 2}), Vector({1, 2, 3})}); });
  ExpectError(Error::kInvalidArgument, "is_none()", [&] { op({Vector({1}), NDArray()}); });
  EXPECT_THAT(op({Vector({1}), Vector({2})})[0].ToVector(), ElementsAre(3));
}

TEST(CachedOpSignatureTest, ModesAndGradientsAreSignatures) {
  const CachedOp op(
      Symbol::Apply("Dropout", {Symbol::Variable("x") * Symbol::Variable("y")}, {{"p", "0.5"}}));
  NDArray x(TShape{1000}), y(TShape{1000});
  x = 1.0f;
  y = 1.0f;
  op({x, y});
  op({y, x});
  EXPECT_EQ(op.num_signatures(), 1);
  EXPECT_THAT(op({x, y})[0].ToVector(), Each(1));
  {
    const autograd::TrainMode train;
    EXPECT_THAT(op({x, y})[0].ToVector(), testing::Contains(0));
    EXPECT_EQ(op.num_signatures(), 2);
  }
  x.AttachGrad();
  op({x, y});  // not recorded
  EXPECT_EQ(op.num_signatures(), 2);
  const autograd::Record record;
  const NDArray first = op({x, y})[0];
  EXPECT_EQ(op.num_signatures(), 3);
  op({y, x});
  EXPECT_EQ(op.num_signatures(), 4);
  const std::vector<float> output = first.ToVector();
  first.Backward();
  EXPECT_EQ(x.grad().ToVector(), output);  // the mask of this call
}

TEST(CachedOpSignatureTest, AShapeMayBeToldByTheReader) {
  // A recurrent network's first state is written before the batch is known.
  const Symbol zeros = Symbol::Apply("_zeros", {}, {{"shape", "(2, 0)"}});
  const Symbol x =
      Symbol::Apply("SwapAxis", {Symbol::Variable("x")}, {{"dim1", "0"}, {"dim2", "1"}});
  const CachedOp op(Symbol::Apply("elemwise_add", {x, zeros}));
  for (index_t batch : {3, 5}) {
    NDArray input(TShape{batch, 2});
    input = 4.0f;
    const NDArray output = op({input})[0];
    EXPECT_EQ(output.shape(), TShape({2, batch}));
    EXPECT_THAT(output.ToVector(), Each(4));
  }
  EXPECT_EQ(op.num_signatures(), 2);
}

TEST(CachedOpSignatureTest, TheLeastRecentlyUsedSignatureGoes) {
  const CachedOp op(Symbol::Variable("x") * 2.0, {.max_signatures = 3});
  for (int round = 0; round < 2; ++round) {
    for (index_t size = 1; size <= 5; ++size) {
      NDArray x(TShape{size});
      x = 1.0f;
      const NDArray y = op({x})[0];
      EXPECT_LE(op.num_signatures(), 3);
      EXPECT_THAT(y.ToVector(), Each(2));
    }
  }
  ExpectError(Error::kInvalidArgument, "max_signatures is 0",
              [] { CachedOp(Symbol::Variable("x"), {.max_signatures = 0}); });
}

TEST(CachedOpErrorTest, AnArrayThatTheGradientNeedsMustNotBeWritten) {
  const CachedOp op(Symbol::Variable("x") * Symbol::Variable("y"));
  NDArray x = Vector({1, 2}), y = Vector({3, 4});
  x.AttachGrad();
  const auto call = [&] {
    const autograd::Record record;
    return op({x, y})[0];
  };
  const NDArray first = call();
  y = 5.0f;
  ExpectError(Error::kFailedPrecondition, "written", [&] { first.Backward(); });
  // This gradient reads no array.
  const CachedOp linear(Symbol::Variable("x") * 2.0 + Symbol::Variable("y"));
  NDArray second;
  {
    const autograd::Record record;
    second = linear({x, y})[0];
  }
  x = 7.0f;
  y = 7.0f;
  second.Backward();
  EXPECT_THAT(x.grad().ToVector(), Each(2));
}

TEST(CachedOpErrorTest, AMissingGradientIsAnErrorOfBackward) {
  const CachedOp op(Symbol::Apply("sgd_update", {Symbol::Variable("w"), Symbol::Variable("g")},
                                  {{"lr", "1"}}, "step"));
  NDArray w = Vector({1, 2});
  w.AttachGrad();
  NDArray y;
  {
    const autograd::Record record;
    y = op({w, Vector({1, 1})})[0];
  }
  EXPECT_THAT(y.ToVector(), ElementsAre(0, 1));
  ExpectError(Error::kInvalidArgument, "\"step\"", [&] { y.Backward(); });
}

TEST(CachedOpErrorTest, AFailedCallDoesNotSpoilTheNext) {
  for (const bool static_alloc : {false, true}) {
    Symbol net = Symbol::Apply("take", {Symbol::Variable("x"), Symbol::Variable("index")},
                               {{"mode", "raise"}});
    for (int i = 0; i < 40; ++i) net = net + 1.0;
    const CachedOp op(net, {.static_alloc = static_alloc});
    const NDArray x = Vector({1, 2, 3});
    const NDArray bad = op({x, Vector({0, 3})})[0];
    const NDArray good = op({x, Vector({0, 2})})[0];
    EXPECT_THAT(good.ToVector(), ElementsAre(41, 43));
    EXPECT_THROW(bad.WaitToRead(), Error);
  }
}

TEST(CachedOpMemoryTest, PendingCallsOutliveTheFunction) {
  NDArray output;
  for (const bool static_alloc : {false, true}) {
    {
      const CachedOp op(Network(), {.static_alloc = static_alloc});
      NDArray x(TShape{5000}), one(TShape{5000}), zero(TShape{5000});
      x = 0.0f;
      one = 1.0f;
      zero = 0.0f;
      for (int i = 0; i < 50; ++i) output = op({x, one, zero})[0];
    }
    EXPECT_THAT(output.ToVector(), Each(0));
  }
}

TEST(CachedOpMemoryTest, TheTapeOutlivesTheFunction) {
  NDArray x = Vector({1, 2}), y;
  x.AttachGrad();
  {
    const CachedOp op(Symbol::Variable("x") * 3.0);
    const autograd::Record record;
    y = op({x})[0];
  }
  y.Backward();
  EXPECT_THAT(x.grad().ToVector(), Each(3));
}

TEST(CachedOpMemoryTest, ThePlanTellsTheMemoryOfACallAndItsGradient) {
  Symbol y = Symbol::Variable("x");
  for (int i = 0; i < 10; ++i) y = Symbol::Apply("Activation", {y}, {{"act_type", "tanh"}});
  const CachedOp op(y);
  NDArray x(TShape{1024});
  x.AttachGrad();
  // One step computes all results, and only the tenth, the output, is in memory.
  EXPECT_EQ(op.memory_plan({&x, 1}).values, 0);
  // With a name that repeats, nine results are written over each other.
  const CachedOp single_steps(Symbol::CreateGroup({y, Symbol::Variable("x")}));
  const MemoryPlanSummary call = single_steps.memory_plan(std::vector<NDArray>{x, x});
  EXPECT_EQ(call.values, 9);
  EXPECT_EQ(call.inplace, 8);
  EXPECT_EQ(call.planned_bytes, 4096);
  EXPECT_EQ(call.unplanned_bytes, 9 * 4096);
  EXPECT_EQ(op.num_signatures(), 1);
  // The gradient needs all results; its own are in no memory.
  const autograd::Record record;
  const MemoryPlanSummary recorded = op.memory_plan({&x, 1});
  EXPECT_EQ(recorded.planned_bytes, 9 * 4096);
  EXPECT_EQ(recorded.liveness_bytes, 9 * 4096);
  EXPECT_EQ(op.num_signatures(), 2);
  ExpectError(Error::kInvalidArgument, "2 inputs were given", [&] {
    op.memory_plan(std::vector<NDArray>{x, x});
  });
  EXPECT_EQ(CachedOp(y, {.node_by_node = true}).memory_plan({&x, 1}).values, 0);
}

TEST(CachedOpMaskTest, AGraphWithAMaskRunsNodeByNode) {
  const Symbol rows = Symbol::Apply(
      "_contrib_boolean_mask", {Symbol::Variable("x") * 2, Symbol::Variable("mask")}, {}, "rows");
  const Symbol sums = Symbol::Apply("sum", {rows * rows}, {{"axis", "1"}});
  EXPECT_EQ(sums.InferShapePartial({{"x", {3, 2}}}).outputs[0], TShape::Parse("(None,)"));
  EXPECT_EQ(rows.InferShapePartial({{"mask", {3}}, {"x", TShape::OfRank(2)}}).arguments[0],
            TShape::Parse("(3,None)"));
  for (const Symbol& symbol : {sums, Symbol::FromJson(sums.ToJson())}) {
    const CachedOp op(symbol);
    NDArray x = NDArray::FromVector(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
    x.AttachGrad();
    NDArray y;
    {
      const autograd::Record record;
      y = op({x, Vector({0, 1, 1})})[0];
    }
    EXPECT_THAT(y.ToVector(), ElementsAre(100, 244));
    y.Backward();
    EXPECT_THAT(x.grad().ToVector(), ElementsAre(0, 0, 24, 32, 40, 48));
    EXPECT_THAT(op({x, Vector({1, 0, 0})})[0].ToVector(), ElementsAre(20));
    EXPECT_EQ(op.memory_plan(std::vector<NDArray>{x, Vector({1, 0, 0})}).values, 0);
  }
  ExpectError(Error::kInvalidArgument, "axis is 2, but data has shape (3,2)", [] {
    Symbol::Apply("_contrib_boolean_mask", {Symbol::Variable("x"), Symbol::Variable("mask")},
                  {{"axis", "2"}})
        .InferShape({{"x", {3, 2}}});
  });
}

TEST(CachedOpThreadTest, ThreadsCallOneFunction) {
  for (const bool static_alloc : {false, true}) {
    const CachedOp op(Network(), {.static_alloc = static_alloc, .max_signatures = 3});
    NDArray w(TShape{50}), b(TShape{50});
    w = 1.0f;
    b = 0.0f;
    const auto run = [&](int seed) {
      std::mt19937 random(static_cast<unsigned>(seed));
      for (int i = 0; i < 30; ++i) {
        const index_t size = 1 + static_cast<index_t>(random() % 4);
        NDArray x(TShape{size});
        x = 0.125f * static_cast<float>(random() % 8);
        const NDArray inputs[] = {x, w.Slice(0, size), b.Slice(0, size)};
        const std::vector<float> expected = op(inputs)[0].ToVector();
        if (random() % 2 == 0) continue;
        x.AttachGrad();
        NDArray y;
        {
          const autograd::Record record(/*train_mode=*/false);
          y = op(inputs)[0];
        }
        y.Backward();
        EXPECT_EQ(y.ToVector(), expected);
        // The derivative of tanh's iterate is at most 1, and 1 at 0.
        for (const float g : x.grad().ToVector()) {
          EXPECT_LE(g, 1);
          EXPECT_GT(g, 0);
        }
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(run, i);
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_P(CachedOpTest, SparseInputsAndGradientsStaySparse) {
  const Symbol data = Symbol::Variable("data"), weight = Symbol::Variable("weight");
  const CachedOp embed(
      Symbol::Apply("Embedding", {data, weight},
                    {{"input_dim", "4"}, {"output_dim", "2"}, {"sparse_grad", "True"}}),
      Options());
  NDArray matrix({4, 2});
  matrix = 1;
  const NDArray gradient = sparse::Zeros(StorageType::kRowSparse, {4, 2});
  const OpReqType req = kWriteTo;
  autograd::MarkVariables({&matrix, 1}, {&gradient, 1}, {&req, 1});
  NDArray out;
  {
    const autograd::Record record;
    out = embed({Vector({2, 0, 2}), matrix})[0];
  }
  out.Backward();
  EXPECT_EQ(sparse::Count(gradient), 2);
  EXPECT_THAT(gradient.ToVector(), ElementsAre(1, 1, 0, 0, 2, 2, 0, 0));

  const CachedOp square(Symbol::Apply("square", {data}), Options());
  const NDArray result = square({gradient})[0];
  EXPECT_EQ(StorageTypeOf(result), StorageType::kRowSparse);
  EXPECT_THAT(result.ToVector(), ElementsAre(1, 1, 0, 0, 4, 4, 0, 0));

  const CachedOp cast(Symbol::Apply("cast_storage", {data}, {{"stype", "csr"}}), Options());
  const NDArray csr = cast({matrix})[0];
  EXPECT_EQ(StorageTypeOf(csr), StorageType::kCsr);
  EXPECT_EQ(sparse::Count(csr), 8);
}

}  // namespace
}  // namespace tessera
