// A client whose functions the library calls: the updater of a store, hooks, operations of the
// engine, and the end of the client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/callbacks.h"
#include "tessera/compat/mxnet/custom/client_functions.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"

extern "C" {
const char* MXGetLastError();
int MXNotifyShutdown();
int MXNDArrayFree(NDArrayHandle handle);
int MXNDArrayWaitAll();
int NNGetOpHandle(const char* op_name, void** op_out);
int MXImperativeInvokeEx(AtomicSymbolCreator creator, int num_inputs, NDArrayHandle* inputs,
                         int* num_outputs, NDArrayHandle** outputs, int num_params,
                         const char** param_keys, const char** param_vals, const int** out_stypes);
int MXCustomFunctionRecord(int num_inputs, NDArrayHandle* inputs, int num_outputs,
                           NDArrayHandle* outputs, tessera::mxnet::MXCallbackList* callbacks);
int MXKVStoreCreate(const char* type, KVStoreHandle* out);
int MXKVStoreFree(KVStoreHandle handle);
int MXKVStoreInitEx(KVStoreHandle handle, uint32_t num, const char** keys, NDArrayHandle* vals);
int MXKVStorePushEx(KVStoreHandle handle, uint32_t num, const char** keys, NDArrayHandle* vals,
                    int priority);
int MXKVStorePullEx(KVStoreHandle handle, uint32_t num, const char** keys, NDArrayHandle* vals,
                    int priority);
int MXKVStoreSetUpdaterEx(KVStoreHandle handle,
                          void (*updater)(int, NDArrayHandle, NDArrayHandle, void*),
                          void (*str_updater)(const char*, NDArrayHandle, NDArrayHandle, void*),
                          void* updater_handle);
int MXKVStoreSetGradientCompression(KVStoreHandle handle, uint32_t num_params, const char** keys,
                                    const char** vals);
int MXSymbolCreateVariable(const char* name, SymbolHandle* out);
int MXSymbolCreateAtomicSymbol(AtomicSymbolCreator creator, uint32_t num_param, const char** keys,
                               const char** vals, SymbolHandle* out);
int MXSymbolCompose(SymbolHandle sym, const char* name, uint32_t num_args, const char** keys,
                    SymbolHandle* args);
int MXCreateCachedOp(SymbolHandle handle, CachedOpHandle* out);
int MXInvokeCachedOp(CachedOpHandle handle, int num_inputs, NDArrayHandle* inputs, int* num_outputs,
                     NDArrayHandle** outputs);
int MXCachedOpRegisterOpHook(CachedOpHandle handle,
                             void (*callback)(const char*, const char*, NDArrayHandle, void*),
                             bool monitor_all);
int MXEnginePushAsyncND(void (*async_func)(void*, void*, void*), void* func_param,
                        void (*deleter)(void*), const void* ctx_handle, NDArrayHandle* const_nds,
                        int num_const_nds, NDArrayHandle* mutable_nds, int num_mutable_nds,
                        const void* prop_handle, int priority, const char* opr_name, bool wait);
int MXEnginePushSyncND(void (*sync_func)(void*, void*), void* func_param, void (*deleter)(void*),
                       const void* ctx_handle, NDArrayHandle* const_nds, int num_const_nds,
                       NDArrayHandle* mutable_nds, int num_mutable_nds, const void* prop_handle,
                       int priority, const char* opr_name);
int MXEnginePushSync(void (*sync_func)(void*, void*), void* func_param, void (*deleter)(void*),
                     const void* ctx_handle, void* const_vars, int num_const_vars,
                     void* mutable_vars, int num_mutable_vars, const void* prop_handle,
                     int priority, const char* opr_name);
}

namespace tessera::mxnet {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

NDArray Vector(const std::vector<float>& values) {
  return NDArray::FromVector(values, {static_cast<index_t>(values.size())});
}

int Invoke(const char* op, NDArrayHandle input, std::pair<const char*, const char*> parameter,
           NDArray* result) {
  void* creator = nullptr;
  EXPECT_EQ(NNGetOpHandle(op, &creator), 0);
  int num_outputs = 0;
  NDArrayHandle* outputs = nullptr;
  const int code = MXImperativeInvokeEx(creator, 1, &input, &num_outputs, &outputs, 1,
                                        &parameter.first, &parameter.second, nullptr);
  if (code != 0) return code;
  *result = ArrayOf(outputs[0]);
  return MXNDArrayFree(outputs[0]);
}

/// Adds what it receives to the stored value, and once pushes to another key and to its own.
struct Updater {
  static void Update(const char* key, NDArrayHandle received, NDArrayHandle stored, void* data) {
    auto* const updater = static_cast<Updater*>(data);
    NDArray target = ArrayOf(stored);
    target += ArrayOf(received);
    if (++updater->calls == 1) {
      const char* other = "other";
      EXPECT_EQ(MXKVStorePushEx(updater->store, 1, &other, &received, 0), 0) << MXGetLastError();
      EXPECT_EQ(MXKVStorePushEx(updater->store, 1, &key, &received, 0), 0) << MXGetLastError();
    }
    MXNDArrayFree(received);
    MXNDArrayFree(stored);
  }
  static void UpdateNumbered(int, NDArrayHandle, NDArrayHandle, void*) {}

  KVStoreHandle store = nullptr;
  int calls = 0;
};

TEST(CallbackTest, AnUpdaterMayCallTheStore) {
  Updater updater;
  ASSERT_EQ(MXKVStoreCreate("local", &updater.store), 0);
  const char* keys[] = {"own", "other"};
  NDArrayHandle values[] = {Arrays().Add(Vector({1, 2})), Arrays().Add(Vector({10, 20}))};
  ASSERT_EQ(MXKVStoreInitEx(updater.store, 2, keys, values), 0);
  ASSERT_EQ(
      MXKVStoreSetUpdaterEx(updater.store, Updater::UpdateNumbered, Updater::Update, &updater), 0);
  ASSERT_EQ(MXKVStorePushEx(updater.store, 1, keys, values, 0), 0) << MXGetLastError();
  EXPECT_EQ(updater.calls, 3);
  ASSERT_EQ(MXKVStorePullEx(updater.store, 2, keys, values, 0), 0);
  EXPECT_THAT(ArrayOf(values[0]).ToVector(), ElementsAre(3, 6));
  EXPECT_THAT(ArrayOf(values[1]).ToVector(), ElementsAre(11, 22));
  const char *type = "type", *bits = "2bit", *other = "1bit";
  EXPECT_EQ(MXKVStoreSetGradientCompression(updater.store, 1, &type, &bits), 0);
  EXPECT_EQ(MXKVStoreSetGradientCompression(updater.store, 1, &type, &other), -1);
  for (const NDArrayHandle value : values) MXNDArrayFree(value);
  MXKVStoreFree(updater.store);
}

std::vector<std::string> reported;

TEST(CallbackTest, AHookSeesTheValuesOfACachedOp) {
  SymbolHandle x = nullptr, square = nullptr;
  void* creator = nullptr;
  ASSERT_EQ(NNGetOpHandle("square", &creator), 0);
  ASSERT_EQ(MXSymbolCreateVariable("x", &x), 0);
  ASSERT_EQ(MXSymbolCreateAtomicSymbol(creator, 0, nullptr, nullptr, &square), 0);
  ASSERT_EQ(MXSymbolCompose(square, "layer", 1, nullptr, &x), 0);
  CachedOpHandle op = nullptr;
  ASSERT_EQ(MXCreateCachedOp(square, &op), 0);
  const auto hook = [](const char* name, const char* op_name, NDArrayHandle array, void* null) {
    EXPECT_EQ(null, nullptr);
    reported.push_back(std::string(name) + " of " + op_name + ": " +
                       std::to_string(static_cast<int>(ArrayOf(array).ToVector()[0])));
    MXNDArrayFree(array);
  };
  NDArrayHandle input = Arrays().Add(Vector({3}));
  const auto call = [&] {
    int num_outputs = 0;
    NDArrayHandle* outputs = nullptr;
    EXPECT_EQ(MXInvokeCachedOp(op, 1, &input, &num_outputs, &outputs), 0) << MXGetLastError();
    EXPECT_THAT(ArrayOf(outputs[0]).ToVector(), ElementsAre(9));
    MXNDArrayFree(outputs[0]);
    return std::exchange(reported, {});
  };
  ASSERT_EQ(MXCachedOpRegisterOpHook(op, hook, true), 0);
  EXPECT_THAT(call(), ElementsAre("layer_input0 of square: 3", "layer_0 of square: 9"));
  ASSERT_EQ(MXCachedOpRegisterOpHook(op, hook, false), 0);
  EXPECT_THAT(call(), ElementsAre("layer_0 of square: 9"));
  ASSERT_EQ(MXCachedOpRegisterOpHook(op, nullptr, false), 0);
  EXPECT_THAT(call(), testing::IsEmpty());
  MXNDArrayFree(input);
}

/// The members that a client copies from MXNet's completion.
struct OnComplete {
  void (*callback)(void* engine, void* data, const void* error);
  void* engine;
  void* data;
};

TEST(CallbackTest, FunctionsOfTheClientAreOperationsOfTheEngine) {
  static std::thread completer;
  static std::atomic<int> deleted = 0;
  NDArray array({2});
  NDArrayHandle handle = Arrays().Add(array);
  const int32_t cpu0[] = {1, 0};
  float* const memory = static_cast<float*>(array.data().dptr_);
  const auto remove = [](void*) { ++deleted; };
  const auto write_later = [](void*, void* on_complete, void* data) {
    const OnComplete done = *static_cast<OnComplete*>(on_complete);
    completer = std::thread([done, data] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      static_cast<float*>(data)[0] = 1;
      static_cast<float*>(data)[1] = 2;
      done.callback(done.engine, done.data, nullptr);
      done.callback(done.engine, done.data, nullptr);  // no harm
    });
  };
  const auto twice = [](void*, void* data) {
    static_cast<float*>(data)[0] *= 2;
    static_cast<float*>(data)[1] *= 2;
  };
  ASSERT_EQ(MXEnginePushAsyncND(write_later, memory, remove, cpu0, nullptr, 0, &handle, 1, nullptr,
                                0, "write", false),
            0)
      << MXGetLastError();
  ASSERT_EQ(
      MXEnginePushSyncND(twice, memory, remove, cpu0, nullptr, 0, &handle, 1, nullptr, 0, nullptr),
      0);
  EXPECT_THAT(array.ToVector(), ElementsAre(2, 4));
  completer.join();
  NDArray::WaitAll();
  int variable = 0;
  EXPECT_EQ(
      MXEnginePushSync(twice, memory, remove, cpu0, &variable, 1, nullptr, 0, nullptr, 0, nullptr),
      -1);
  EXPECT_THAT(MXGetLastError(), HasSubstr("MXEnginePushAsyncND"));
  MXNDArrayFree(handle);
}

/// The functions of an autograd.Function whose gradient is 5 times that of its output.
struct Function {
  static int Backward(int num_out_grads, int num_in_grads, void** handles, const int* requests, int,
                      void* data) {
    EXPECT_EQ(num_out_grads + num_in_grads, 2);
    EXPECT_EQ(requests[0], 1);
    ++static_cast<Function*>(data)->calls;
    CopyFromTo(ArrayOf(handles[0]) * 5.0f, ArrayOf(handles[1]));
    for (int i = 0; i < 2; ++i) MXNDArrayFree(handles[i]);
    return static_cast<Function*>(data)->result;
  }
  static int Delete(void* data) { return ++static_cast<Function*>(data)->deleted; }

  /// Records a call for which the function has computed y of x.
  void Record(NDArrayHandle x, NDArrayHandle y) {
    int (*functions[])() = {reinterpret_cast<int (*)()>(reinterpret_cast<void (*)()>(Backward)),
                            reinterpret_cast<int (*)()>(reinterpret_cast<void (*)()>(Delete))};
    void* contexts[] = {this, this};
    MXCallbackList list{2, functions, contexts};
    EXPECT_EQ(MXCustomFunctionRecord(1, &x, 1, &y, &list), 0) << MXGetLastError();
  }

  int calls = 0, deleted = 0, result = 1;
};

TEST(CallbackTest, AFunctionHasAGradientOfTheClient) {
  NDArray x = Vector({1, 2});
  x.AttachGrad();
  for (const int result : {1, 0}) {
    Function function{.result = result};
    NDArray y = x.Copy(Device::Cpu());
    const NDArrayHandle handles[] = {Arrays().Add(x), Arrays().Add(y)};
    {
      const autograd::Record record;
      function.Record(handles[0], handles[1]);
    }
    if (result == 1) {
      y.Backward();
      EXPECT_THAT(x.grad().ToVector(), ElementsAre(5, 5));
    } else {
      EXPECT_THROW(y.Backward(), Error);
    }
    EXPECT_EQ(function.calls, 1);
    for (const NDArrayHandle handle : handles) MXNDArrayFree(handle);
    y.WaitToRead();  // no operation holds it
    y = NDArray();
    EXPECT_EQ(function.deleted, 1);
  }
}

// The end is for good, so this test is the file's last.
TEST(CallbackTest, NothingCallsTheClientAfterItsEnd) {
  static std::atomic<int> calls = 0;
  ClientOp op;
  op.forward = [](const ClientCall& call) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CopyFromTo(call.in_data()[0] + 1.0f, call.out_data()[0]);
    ++calls;
    return true;
  };
  op.backward = [](const ClientCall&) {
    ++calls;
    return true;
  };
  op.Register("slow");
  NDArray x = Vector({0}), y = x, recorded;
  x.AttachGrad();
  {
    const autograd::Record record;
    const NDArrayHandle handle = Arrays().Add(x);
    ASSERT_EQ(Invoke("Custom", handle, {"op_type", "slow"}, &recorded), 0) << MXGetLastError();
    MXNDArrayFree(handle);
  }
  for (int i = 0; i < 50; ++i) {
    const NDArrayHandle handle = Arrays().Add(y);
    ASSERT_EQ(Invoke("Custom", handle, {"op_type", "slow"}, &y), 0) << MXGetLastError();
    MXNDArrayFree(handle);
  }
  Updater updater;
  const char* key = "own";
  NDArrayHandle value = Arrays().Add(Vector({1, 2}));
  ASSERT_EQ(MXKVStoreCreate("local", &updater.store), 0);
  ASSERT_EQ(MXKVStoreInitEx(updater.store, 1, &key, &value), 0);
  ASSERT_EQ(
      MXKVStoreSetUpdaterEx(updater.store, Updater::UpdateNumbered, Updater::Update, &updater), 0);

  ASSERT_EQ(MXNotifyShutdown(), 0);
  EXPECT_EQ(calls, 51);

  const int objects = op.objects;
  recorded.Backward();
  EXPECT_THROW(x.grad().WaitToRead(), Error);
  EXPECT_EQ(Invoke("Custom", value, {"op_type", "slow"}, &y), -1);
  EXPECT_THAT(MXGetLastError(), HasSubstr("the client has ended"));
  EXPECT_EQ(MXKVStorePushEx(updater.store, 1, &key, &value, 0), -1);
  EXPECT_EQ(calls, 51);
  EXPECT_EQ(updater.calls, 0);
  EXPECT_EQ(op.objects, objects);
  // Every other function still answers.
  EXPECT_EQ(MXKVStorePullEx(updater.store, 1, &key, &value, 0), 0);
  EXPECT_EQ(MXNDArrayWaitAll(), 0);
  EXPECT_EQ(MXNDArrayFree(value), 0);
  EXPECT_EQ(MXNotifyShutdown(), 0);
}

}  // namespace
}  // namespace tessera::mxnet
