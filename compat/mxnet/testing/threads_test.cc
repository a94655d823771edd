// A client with several threads, each of which makes arrays, calls operators, records and goes
// backward. ThreadSanitizer watches it in continuous integration.
#include <atomic>
#include <barrier>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mxnet/c_api.h"
#include "tessera/compat/mxnet/testing/client.h"

namespace tessera::mxnet {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kThreads = 4;
constexpr int kRounds = 30;

/// Runs work(thread) in several threads that begin together. What one throws is a failure.
void InThreads(const std::function<void(int)>& work) {
  std::barrier begin(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      begin.arrive_and_wait();
      try {
        work(t);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "thread " << t << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<float> Filled(size_t size, float value) { return std::vector<float>(size, value); }

TEST(ThreadsTest, ArraysAndOperators) {
  const Owned shared = MakeArray(Filled(16, 3), {16});
  InThreads([&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      const Owned own = MakeArray(Filled(16, static_cast<float>(t)), {16});
      const std::vector<Owned> sum = Call("elemwise_add", {own.get(), shared.get()});
      NDArrayHandle slice = nullptr;
      Check(MXNDArraySlice(sum[0].get(), 0, 8, &slice));
      const Owned part(slice, MXNDArrayFree);
      EXPECT_EQ(ValuesOf(slice), Filled(8, static_cast<float>(t + 3)));
    }
  });
}

TEST(ThreadsTest, ErrorsAreThoseOfTheThread) {
  const Owned shared = MakeArray(Filled(4, 1), {4});
  InThreads([&](int t) {
    const std::string name = "nosuch_" + std::to_string(t);
    for (int i = 0; i < kRounds; ++i) {
      void* op = nullptr;
      EXPECT_THAT(ErrorOf(NNGetOpHandle(name.c_str(), &op)), HasSubstr(name));
      const uint32_t rows = static_cast<uint32_t>(t + 5);
      const Owned other = MakeArray(Filled(rows, 1), {rows});
      try {
        Call("elemwise_add", {shared.get(), other.get()});
        ADD_FAILURE() << "shapes that differ were added";
      } catch (const std::runtime_error& error) {
        EXPECT_THAT(error.what(), HasSubstr("(" + std::to_string(rows) + ",)"));
      }
    }
  });
}

TEST(ThreadsTest, TheTape) {
  const Owned factor = MakeArray(Filled(8, 3), {8});
  InThreads([&](int t) {
    const Owned x = MakeArray(Filled(8, static_cast<float>(t)), {8});
    const Owned gradient = MakeArray(Filled(8, 0), {8});
    NDArrayHandle variables[] = {x.get()}, gradients[] = {gradient.get()};
    uint32_t request = 1;
    Check(MXAutogradMarkVariables(1, variables, &request, gradients));
    for (int i = 0; i < kRounds; ++i) {
      int before = 0;
      Check(MXAutogradSetIsRecording(1, &before));
      std::vector<Owned> product = Call("elemwise_mul", {x.get(), factor.get()});
      product = Call("elemwise_mul", {product[0].get(), x.get()});
      Check(MXAutogradSetIsRecording(before, nullptr));
      NDArrayHandle heads[] = {product[0].get()};
      Check(MXAutogradBackward(1, heads, nullptr, 0));
      EXPECT_EQ(ValuesOf(gradient.get()), Filled(8, static_cast<float>(6 * t)));
    }
  });
}

TEST(ThreadsTest, OneCompiledFunctionInAllThreads) {
  const Owned x = MakeVariable("x");
  const Owned doubled = Apply("_mul_scalar", "doubled", {x.get()}, {{"scalar", "2"}});
  const Owned sum = Apply("elemwise_add", "sum", {doubled.get(), x.get()});
  CachedOpHandle handle = nullptr;
  Check(MXCreateCachedOp(sum.get(), &handle));
  const Owned function(handle, MXFreeCachedOp);
  InThreads([&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      const auto rows = static_cast<uint32_t>(1 + (t + i) % 3);
      const Owned input = MakeArray(Filled(rows, static_cast<float>(t)), {rows});
      NDArrayHandle inputs[] = {input.get()};
      int num_outputs = 0;
      NDArrayHandle* outputs = nullptr;
      Check(MXInvokeCachedOp(handle, 1, inputs, &num_outputs, &outputs));
      ASSERT_EQ(num_outputs, 1);
      const Owned output(outputs[0], MXNDArrayFree);
      EXPECT_EQ(ValuesOf(output.get()), Filled(rows, static_cast<float>(3 * t)));
    }
  });
}

TEST(ThreadsTest, OneSymbolInAllThreads) {
  const Owned x = MakeVariable("x");
  const Owned relu = Apply("relu", "relu", {x.get()});
  InThreads([&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      const std::string name = "fc_" + std::to_string(t);
      const Owned symbol = Apply("FullyConnected", name, {relu.get()}, {{"num_hidden", "2"}});
      uint32_t count = 0;
      const char** names = nullptr;
      Check(MXSymbolListArguments(symbol.get(), &count, &names));
      ASSERT_EQ(count, 3u);
      EXPECT_EQ(names[1], name + "_weight");
    }
  });
}

TEST(ThreadsTest, OneHandleIsComposedInAllThreads) {
  void* relu = nullptr;
  Check(NNGetOpHandle("relu", &relu));
  std::atomic<int> composed{0};
  for (int round = 0; round < kRounds; ++round) {
    SymbolHandle handle = nullptr;
    Check(MXSymbolCreateAtomicSymbol(relu, 0, nullptr, nullptr, &handle));
    const Owned symbol(handle, MXSymbolFree);
    InThreads([&](int t) {
      const Owned x = MakeVariable("x_" + std::to_string(t));
      SymbolHandle inputs[] = {x.get()};
      if (MXSymbolCompose(handle, "relu", 1, nullptr, inputs) == 0) {
        ++composed;
      } else {
        EXPECT_THAT(MXGetLastError(), HasSubstr("changed by another call"));
      }
      // Other calls see one of the symbols.
      uint32_t count = 0;
      const char** names = nullptr;
      Check(MXSymbolListArguments(handle, &count, &names));
      ASSERT_EQ(count, 1u);
      EXPECT_THAT(names[0], StartsWith("x_"));
    });
  }
  EXPECT_GE(composed.load(), kRounds);
}

TEST(ThreadsTest, AttributesAreSetWhileOthersReadThem) {
  const Owned x = MakeVariable("x");
  const Owned net = Apply("relu", "relu", {x.get()});
  InThreads([&](int t) {
    const std::string key = "key_" + std::to_string(t);
    for (int i = 0; i < kRounds; ++i) {
      const std::string value = std::to_string(i);
      Check(MXSymbolSetAttr(x.get(), key.c_str(), value.c_str()));
      Check(MXSymbolSetAttr(net.get(), key.c_str(), value.c_str()));
      uint32_t size = 0;
      const char** texts = nullptr;
      Check(MXSymbolListAttr(net.get(), &size, &texts));
      std::map<std::string, std::string> listed;
      for (uint32_t k = 0; k < size; ++k) listed[texts[2 * k]] = texts[2 * k + 1];
      EXPECT_EQ(listed.at("x$" + key), value);
      // A composition gives its variables attributes, and a file has all of them.
      const Owned norm =
          Apply("BatchNorm", "norm", {net.get()}, {{"__lr_mult__", "2"}, {"gamma_wd_mult", "3"}});
      const char* json = nullptr;
      Check(MXSymbolSaveToJSON(norm.get(), &json));
      EXPECT_THAT(json, HasSubstr("\"" + key + "\": \"" + value + "\""));
    }
  });
}

/// Returns an executor of relu(x) on an array, which shares the memory of another one unless that
/// is null.
Owned BindRelu(NDArrayHandle x, NDArrayHandle gradient, ExecutorHandle shared) {
  const Owned variable = MakeVariable("x");
  const Owned relu = Apply("relu", "relu", {variable.get()});
  const Owned net = Apply("relu", "net", {relu.get()});
  NDArrayHandle arguments[] = {x}, gradients[] = {gradient};
  uint32_t requests[] = {1};
  ExecutorHandle handle = nullptr;
  Check(MXExecutorBindEX(net.get(), 1, 0, 0, nullptr, nullptr, nullptr, 1, arguments, gradients,
                         requests, 0, nullptr, shared, &handle));
  return {handle, MXExecutorFree};
}

Owned OutputOf(ExecutorHandle executor) {
  uint32_t count = 0;
  NDArrayHandle* outputs = nullptr;
  Check(MXExecutorOutputs(executor, &count, &outputs));
  return {outputs[0], MXNDArrayFree};
}

TEST(ThreadsTest, AnExecutorRunsInOneThreadAtATime) {
  const Owned x = MakeArray(Filled(8, 3), {8}), gradient = MakeArray(Filled(8, 0), {8});
  const Owned head = MakeArray(Filled(8, 2), {8});
  const Owned executor = BindRelu(x.get(), gradient.get(), nullptr);
  const Owned other = BindRelu(x.get(), gradient.get(), executor.get());
  std::atomic<int> run{0};
  InThreads([&](int t) {
    // Executors that share memory count as one.
    ExecutorHandle const used = t % 2 == 0 ? executor.get() : other.get();
    for (int i = 0; i < kRounds; ++i) {
      NDArrayHandle heads[] = {head.get()};
      const int status =
          i % 2 == 0 ? MXExecutorForward(used, 1) : MXExecutorBackward(used, 1, heads);
      if (status == 0) {
        ++run;
      } else {
        EXPECT_THAT(MXGetLastError(), AnyOf(HasSubstr("runs in another call"),
                                            HasSubstr("shares the memory has run since")));
      }
      EXPECT_NE(OutputOf(used).get(), nullptr);
      const char* text = nullptr;
      Check(MXExecutorPrint(used, &text));
    }
  });
  EXPECT_GT(run.load(), 0);
  Check(MXExecutorForward(executor.get(), 1));
  EXPECT_EQ(ValuesOf(OutputOf(executor.get()).get()), Filled(8, 3));
}

TEST(ThreadsTest, AnExecutorMayBeFreedWhileItRuns) {
  for (int round = 0; round < kRounds; ++round) {
    const Owned x = MakeArray(Filled(8, 3), {8}), gradient = MakeArray(Filled(8, 0), {8});
    const Owned executor = BindRelu(x.get(), gradient.get(), nullptr);
    InThreads([&](int t) {
      if (t == 0) {
        Check(MXExecutorFree(executor.get()));
      } else if (MXExecutorForward(executor.get(), 1) != 0) {
        EXPECT_THAT(MXGetLastError(), AnyOf(HasSubstr("no handle of an Executor"),
                                            HasSubstr("runs in another call")));
      }
    });
  }
}

/// A monitor's call of its own executor, and its results.
struct OwnCall {
  ExecutorHandle executor;
  int status = 0;
  std::string error;
};

TEST(ThreadsTest, AMonitorDoesNotRunItsExecutor) {
  const Owned x = MakeArray(Filled(8, 3), {8}), gradient = MakeArray(Filled(8, 0), {8});
  const Owned executor = BindRelu(x.get(), gradient.get(), nullptr);
  OwnCall call{executor.get()};
  const auto monitor = [](const char*, NDArrayHandle array, void* data) {
    const Owned owned(array, MXNDArrayFree);
    OwnCall& result = *static_cast<OwnCall*>(data);
    EXPECT_NE(OutputOf(result.executor).get(), nullptr);
    result.status = MXExecutorForward(result.executor, 1);
    result.error = MXGetLastError();
  };
  Check(MXExecutorSetMonitorCallback(executor.get(), monitor, &call));
  Check(MXExecutorForward(executor.get(), 1));
  EXPECT_EQ(call.status, -1);
  EXPECT_THAT(call.error, HasSubstr("runs in another call"));
  Check(MXExecutorSetMonitorCallback(executor.get(), nullptr, nullptr));
  Check(MXExecutorForward(executor.get(), 1));
  EXPECT_EQ(ValuesOf(OutputOf(executor.get()).get()), Filled(8, 3));
}

TEST(ThreadsTest, AStoreSumsWhatThreadsPush) {
  KVStoreHandle store = nullptr;
  Check(MXKVStoreCreate("local", &store));
  const Owned owned(store, MXKVStoreFree);
  InThreads([&](int t) {
    const std::string key = "key_" + std::to_string(t);
    const char* keys[] = {key.c_str()};
    const Owned value = MakeArray(Filled(4, 0), {4}), result = MakeArray(Filled(4, 0), {4});
    NDArrayHandle values[] = {value.get()}, results[] = {result.get()};
    Check(MXKVStoreInitEx(store, 1, keys, values));
    for (int i = 0; i < kRounds; ++i) {
      const Owned pushed = MakeArray(Filled(4, static_cast<float>(t + i)), {4});
      NDArrayHandle pushes[] = {pushed.get()};
      Check(MXKVStorePushEx(store, 1, keys, pushes, 0));
      Check(MXKVStorePullEx(store, 1, keys, results, 0));
      EXPECT_EQ(ValuesOf(result.get()), Filled(4, static_cast<float>(t + i)));
    }
  });
}

TEST(ThreadsTest, NumpyShapesAreForOneThreadOrForAll) {
  const auto mode = [] {
    int number = -1;
    Check(MXIsNumpyShape(&number));
    return number;
  };
  const auto mode_of_another = [&] {
    int number = -1;
    std::thread([&] { number = mode(); }).join();
    return number;
  };
  int before = -1;
  Check(MXSetIsNumpyShape(1, &before));
  EXPECT_EQ(before, 0);
  EXPECT_EQ(mode(), 1);
  EXPECT_EQ(mode_of_another(), 0);
  Check(MXSetIsNumpyShape(2, &before));
  EXPECT_EQ(before, 1);
  EXPECT_EQ(mode(), 2);
  EXPECT_EQ(mode_of_another(), 2);
  Check(MXSetIsNumpyShape(0, &before));
  EXPECT_EQ(mode(), 0);
  EXPECT_EQ(mode_of_another(), 0);
  EXPECT_EQ(MXSetIsNumpyShape(3, &before), -1);
}

TEST(ThreadsTest, AHandleMayBeFreedWhileOthersUseIt) {
  for (int round = 0; round < kRounds; ++round) {
    const Owned array = MakeArray(Filled(8, 1), {8});
    std::atomic<int> freed{0};
    InThreads([&](int t) {
      if (t == 0) {
        freed += MXNDArrayFree(array.get()) == 0 ? 1 : 0;
        return;
      }
      for (int i = 0; i < 3; ++i) {
        float values[8] = {};
        if (MXNDArraySyncCopyToCPU(array.get(), values, 8) == 0) {
          EXPECT_EQ(values[7], 1);
        } else {
          EXPECT_THAT(MXGetLastError(), HasSubstr("no handle of an NDArray"));
        }
      }
    });
    EXPECT_EQ(freed.load(), 1);
  }
}

}  // namespace
}  // namespace tessera::mxnet
