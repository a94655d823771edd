// Arrays, the tape and compiled functions in several threads at once.
#include <barrier>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using ::testing::Each;

constexpr int kThreads = 4;
constexpr int kRounds = 50;

/// Runs work(thread) in several threads that begin together.
void InThreads(const std::function<void(int)>& work) {
  std::barrier begin(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      begin.arrive_and_wait();
      work(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

NDArray Filled(const TShape& shape, float value) {
  NDArray array(shape);
  array = value;
  return array;
}

TEST(ThreadsTest, WritesToOneArrayAllCount) {
  NDArray sum = Filled({16}, 0);
  const NDArray one = Filled({16}, 1);
  InThreads([&](int) {
    NDArray handle = sum;
    for (int i = 0; i < kRounds; ++i) {
      handle += one;
      const NDArray copy = handle.Slice(0, 8).Copy(Device::Cpu());
    }
  });
  EXPECT_EQ(sum.ToVector(), std::vector<float>(16, kThreads * kRounds));
}

// Under ThreadSanitizer OperatorCall says what each call reads and writes, so this test fails if a
// pushed call leaves a variable out.
TEST(ThreadsTest, ReadersAndWritersOfOneArrayTakeTurns) {
  constexpr int64_t kSize = 4096;
  const NDArray shared = Filled({kSize}, 0), one = Filled({kSize}, 1);
  InThreads([&](int) {
    NDArray handle = shared;
    const NDArray copy = Filled({kSize}, 0);
    for (int i = 0; i < kRounds; ++i) {
      Invoke("_copy", {handle}, {copy}, {});
      handle += one;
    }
    const std::vector<float> values = copy.ToVector();
    EXPECT_THAT(values, Each(values[0])) << "a copy is of one moment";
  });
  EXPECT_EQ(shared.ToVector(), std::vector<float>(kSize, kThreads * kRounds));
}

// Each run of the executor reads what an imperative call has written and the next one overwrites.
TEST(ThreadsTest, AnExecutorReadsBetweenTheWritesToItsArguments) {
  constexpr int64_t kSize = 4096;
  const Symbol x = Symbol::Variable("x");
  const NDArray one = Filled({kSize}, 1);
  InThreads([&](int) {
    const auto executor = SimpleBind(x * 2.0, Device::Cpu(), {.shapes = {{"x", {kSize}}}});
    NDArray argument = executor->arg_dict().at("x");
    argument = 0.0f;
    for (int i = 0; i < kRounds; ++i) {
      argument += one;
      executor->Forward(/*is_train=*/false);
    }
    EXPECT_THAT(executor->outputs()[0].ToVector(), Each(2.0f * kRounds));
  });
}

TEST(ThreadsTest, EachThreadRecordsItsOwnTape) {
  const NDArray shared = Filled({8}, 3);
  InThreads([&](int t) {
    NDArray x = Filled({8}, static_cast<float>(t + 1));
    x.AttachGrad();
    for (int i = 0; i < kRounds; ++i) {
      NDArray y;
      {
        const autograd::Record record;
        EXPECT_TRUE(autograd::IsRecording());
        y = x * x * shared;
      }
      EXPECT_FALSE(autograd::IsRecording());
      y.Backward();
      EXPECT_EQ(x.grad().ToVector(), std::vector<float>(8, 6.0f * static_cast<float>(t + 1)));
    }
  });
}

TEST(ThreadsTest, OneThreadRecordsAndAnotherOnePlaysBack) {
  NDArray x = Filled({4}, 2);
  x.AttachGrad();
  std::vector<NDArray> recorded(kThreads);
  InThreads([&](int t) {
    const autograd::Record record;
    recorded[static_cast<size_t>(t)] = x * x * static_cast<float>(t);
  });
  for (int t = 0; t < kThreads; ++t) {
    std::thread([&] { recorded[static_cast<size_t>(t)].Backward(); }).join();
    EXPECT_EQ(x.grad().ToVector(), std::vector<float>(4, 4.0f * static_cast<float>(t)));
  }
}

TEST(ThreadsTest, OneVariableHasGradientsOfSeveralThreads) {
  NDArray x = Filled({4}, 2);
  x.AttachGrad(kAddTo);
  InThreads([&](int) {
    for (int i = 0; i < kRounds; ++i) {
      NDArray y;
      {
        const autograd::Record record;
        y = x * 3.0f;
      }
      y.Backward();
    }
  });
  EXPECT_EQ(x.grad().ToVector(), std::vector<float>(4, 3.0f * kThreads * kRounds));
}

TEST(ThreadsTest, OneCompiledFunctionIsCalledByAll) {
  const Symbol x = Symbol::Variable("x"), w = Symbol::Variable("w");
  const CachedOp function(Symbol::Apply("square", {x * w}) + x);
  InThreads([&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      // Several signatures, compiled while others run: two shapes, with and without a gradient.
      const TShape shape = {1 + i % 2, 4};
      NDArray data = Filled(shape, static_cast<float>(t)), factor = Filled(shape, 2);
      const auto size = static_cast<size_t>(shape.Size());
      const float value = static_cast<float>(t);
      if (i % 3 == 0) {
        const std::vector<NDArray> out = function({data, factor});
        EXPECT_EQ(out[0].ToVector(), std::vector<float>(size, 4 * value * value + value));
        continue;
      }
      data.AttachGrad();
      std::vector<NDArray> out;
      {
        const autograd::Record record;
        out = function({data, factor});
      }
      out[0].Backward();
      EXPECT_EQ(data.grad().ToVector(), std::vector<float>(size, 8 * value + 1));
    }
  });
}

TEST(ThreadsTest, ExecutorsOfOneSymbolRunBesideEachOther) {
  const Symbol x = Symbol::Variable("x");
  const Symbol y = Symbol::Apply("tanh", {x * x}) * 0.0 + x * 2.0;
  InThreads([&](int t) {
    const auto executor = SimpleBind(y, Device::Cpu(), {.shapes = {{"x", {4}}}});
    NDArray(executor->arg_dict().at("x")) = static_cast<float>(t);
    for (int i = 0; i < kRounds; ++i) {
      executor->Forward(/*is_train=*/true);
      executor->Backward({Filled({4}, 1)});
      EXPECT_EQ(executor->grad_dict().at("x").ToVector(), std::vector<float>(4, 2));
    }
  });
}

TEST(ThreadsTest, AttributesChangeWhileOthersUseTheSymbol) {
  const Symbol x = Symbol::Variable("x");
  const Symbol net = Symbol::Apply("BatchNorm", {x}, {}, "norm")[0];
  InThreads([&](int t) {
    Symbol variable = x, node = net;
    for (int i = 0; i < kRounds; ++i) {
      // What an operator is composed of gets attributes too.
      const Symbol other = Symbol::Apply("BatchNorm", {net, x}, {{"gamma_lr_mult", "2"}});
      if (t % 2 == 0) {
        variable.SetAttribute("__shape__", i % 2 == 0 ? "(2, 3)" : "(0, 3)");
        node.SetAttribute("key", std::to_string(i));
      } else {
        EXPECT_EQ(net.InferShape({{"x", {2, 3}}}).outputs[0], (TShape{2, 3}));
        EXPECT_EQ(Symbol::FromJson(net.ToJson()).ListInputs(), net.ListInputs());
        EXPECT_GE(net.ListAttributesRecursive().size(), 1u);
        EXPECT_EQ(SimpleBind(net, Device::Cpu(), {.shapes = {{"x", {2, 3}}}})->outputs().size(),
                  1u);
      }
    }
  });
  EXPECT_EQ(net.GetAttribute("key"), std::to_string(kRounds - 1));
}

}  // namespace
}  // namespace tessera
