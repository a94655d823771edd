// Null pointers and wrong handles are errors in every function, never a crash.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mxnet/c_api.h"
#include "mxnet/c_predict_api.h"
#include "tessera/compat/mxnet/testing/client.h"

namespace tessera::mxnet {
namespace {

using ::testing::HasSubstr;

/// The kind of object that a function's first argument is a handle of.
enum class Kind {
  kNone,
  kArray,
  kOperator,
  kSymbol,
  kExecutor,
  kCachedOp,
  kStore,
  kIteratorKind,
  kIterator,
  kPredictor,
  kList,
};

template <typename... Arguments>
int CallWithNulls(int (*function)(Arguments...)) {
  return function(Arguments()...);
}

/// Calls a function with a handle, and nulls and zeros for everything else.
template <typename First, typename... Arguments>
int CallWithHandle(int (*function)(First, Arguments...), void* handle) {
  if constexpr (std::is_convertible_v<void*, First>) {
    return function(handle, Arguments()...);
  } else {
    return CallWithNulls(function);
  }
}

/// Zeros that an argument points to: an empty text, a null handle, a tensor of rank 0.
struct Zeros {
  alignas(std::max_align_t) char bytes[256] = {};
};

/// Returns an argument: 1, the handle, or the address of zeros. Functions of a client are null.
template <typename T>
T MakeArgument(void* handle, Zeros* zeros) {
  if constexpr (!std::is_pointer_v<T>) {
    return T(1);
  } else if constexpr (std::is_function_v<std::remove_pointer_t<T>>) {
    return nullptr;
  } else if constexpr (std::is_same_v<T, void*>) {
    return handle == nullptr ? zeros->bytes : handle;
  } else {
    return reinterpret_cast<T>(zeros->bytes);
  }
}

/// Calls a function with the handle as its first argument, if that is one, a null or zero as
/// argument `null`, and values for everything else.
template <typename... Arguments>
int CallWithOneNull(int (*function)(Arguments...), void* handle, size_t null) {
  return [&]<size_t... kIndices>(std::index_sequence<kIndices...>) {
    std::array<Zeros, sizeof...(Arguments)> zeros = {};
    return function((kIndices == null ? Arguments()
                                      : MakeArgument<Arguments>(kIndices == 0 ? handle : nullptr,
                                                                &zeros[kIndices]))...);
  }
  (std::index_sequence_for<Arguments...>());
}

template <typename... Arguments>
constexpr size_t NumArguments(int (*)(Arguments...)) {
  return sizeof...(Arguments);
}

struct Function {
  Kind kind;
  const char* name;
  size_t num_arguments;
  int (*call_with_nulls)();
  int (*call_with_handle)(void* handle);
  int (*call_with_one_null)(void* handle, size_t null);
};

#define FUNCTION(kind, function)                                                           \
  {                                                                                        \
    Kind::kind, #function, NumArguments(function), [] { return CallWithNulls(function); }, \
        [](void* handle) { return CallWithHandle(function, handle); },                     \
        [](void* handle, size_t null) { return CallWithOneNull(function, handle, null); }  \
  }

// Functions for which nulls and zeros are an empty list are not here.
const Function kFunctions[] = {
    FUNCTION(kNone, MXGetVersion),
    FUNCTION(kNone, MXLibInfoFeatures),
    FUNCTION(kNone, MXIsNumpyShape),
    FUNCTION(kNone, MXGetGPUCount),
    FUNCTION(kNone, MXGetEnv),
    FUNCTION(kNone, MXSetEnv),
    FUNCTION(kNone, MXListFunctions),
    FUNCTION(kNone, MXGetFunction),
    FUNCTION(kNone, MXNetFuncListGlobalNames),
    FUNCTION(kNone, MXNetFuncGetGlobal),
    FUNCTION(kNone, MXCustomOpRegister),
    FUNCTION(kNone, MXNDArrayCreateNone),
    FUNCTION(kNone, MXNDArrayCreate),
    FUNCTION(kNone, MXNDArrayCreateEx),
    FUNCTION(kNone, MXNDArrayCreateEx64),
    FUNCTION(kNone, MXNDArraySave),
    FUNCTION(kNone, MXNDArrayLoad),
    FUNCTION(kNone, MXNDArrayLoadFromBuffer),
    FUNCTION(kNone, MXNDArrayLoadFromRawBytes),
    FUNCTION(kNone, MXNDArrayFromDLPackEx),
    FUNCTION(kNone, MXNDArrayFromDLPack),
    FUNCTION(kNone, MXListAllOpNames),
    FUNCTION(kNone, NNListAllOpNames),
    FUNCTION(kNone, NNGetOpHandle),
    FUNCTION(kNone, MXSymbolListAtomicSymbolCreators),
    FUNCTION(kNone, MXAutogradIsRecording),
    FUNCTION(kNone, MXAutogradIsTraining),
    FUNCTION(kNone, MXCustomFunctionRecord),
    FUNCTION(kNone, MXKVStoreCreate),
    FUNCTION(kNone, MXKVStoreIsWorkerNode),
    FUNCTION(kNone, MXKVStoreIsServerNode),
    FUNCTION(kNone, MXKVStoreIsSchedulerNode),
    FUNCTION(kNone, MXListDataIters),
    FUNCTION(kNone, MXSymbolCreateVariable),
    FUNCTION(kNone, MXSymbolCreateGroup),
    FUNCTION(kNone, MXSymbolCreateFromFile),
    FUNCTION(kNone, MXSymbolCreateFromJSON),
    FUNCTION(kNone, MXExecutorReshape),
    FUNCTION(kNone, MXExecutorReshapeEx),
    FUNCTION(kNone, NNListUniqueOps),
    FUNCTION(kNone, NNSymbolCreateVariable),
    FUNCTION(kNone, NNSymbolCreateGroup),
    FUNCTION(kNone, NNSymbolCreateAtomicSymbol),
    FUNCTION(kNone, MXPredCreateEx),
    FUNCTION(kNone, MXPredCreate),
    FUNCTION(kNone, MXPredCreatePartialOut),
    FUNCTION(kNone, MXPredCreateMultiThread),
    FUNCTION(kNone, MXNDListCreate),
    FUNCTION(kArray, MXNDArrayFree),
    FUNCTION(kArray, MXShallowCopyNDArray),
    FUNCTION(kArray, MXNDArraySyncCopyFromCPU),
    FUNCTION(kArray, MXNDArraySyncCopyToCPU),
    FUNCTION(kArray, MXNDArraySyncCopyFromNDArray),
    FUNCTION(kArray, MXNDArrayWaitToRead),
    FUNCTION(kArray, MXNDArrayWaitToWrite),
    FUNCTION(kArray, MXNDArraySlice),
    FUNCTION(kArray, MXNDArraySlice64),
    FUNCTION(kArray, MXNDArrayAt),
    FUNCTION(kArray, MXNDArrayAt64),
    FUNCTION(kArray, MXNDArrayReshape),
    FUNCTION(kArray, MXNDArrayReshape64),
    FUNCTION(kArray, MXNDArrayGetStorageType),
    FUNCTION(kArray, MXNDArrayGetShape),
    FUNCTION(kArray, MXNDArrayGetShapeEx),
    FUNCTION(kArray, MXNDArrayGetShapeEx64),
    FUNCTION(kArray, MXNDArrayGetData),
    FUNCTION(kArray, MXNDArrayGetDType),
    FUNCTION(kArray, MXNDArrayGetContext),
    FUNCTION(kArray, MXNDArrayGetGrad),
    FUNCTION(kArray, MXNDArrayDetach),
    FUNCTION(kArray, MXNDArraySaveRawBytes),
    FUNCTION(kArray, MXNDArrayToDLPack),
    FUNCTION(kArray, MXNDArraySetGradState),
    FUNCTION(kArray, MXNDArrayGetGradState),
    FUNCTION(kArray, MXAutogradGetSymbol),
    FUNCTION(kOperator, MXSymbolGetAtomicSymbolName),
    FUNCTION(kOperator, MXSymbolGetAtomicSymbolInfo),
    FUNCTION(kOperator, NNGetOpInfo),
    FUNCTION(kOperator, MXImperativeInvoke),
    FUNCTION(kOperator, MXImperativeInvokeEx),
    FUNCTION(kOperator, MXSymbolCreateAtomicSymbol),
    FUNCTION(kSymbol, MXSymbolSaveToFile),
    FUNCTION(kSymbol, MXSymbolSaveToJSON),
    FUNCTION(kSymbol, MXSymbolFree),
    FUNCTION(kSymbol, NNSymbolFree),
    FUNCTION(kSymbol, MXSymbolCopy),
    FUNCTION(kSymbol, MXShallowCopySymbol),
    FUNCTION(kSymbol, MXSymbolPrint),
    FUNCTION(kSymbol, MXSymbolGetName),
    FUNCTION(kSymbol, MXSymbolGetAttr),
    FUNCTION(kSymbol, MXSymbolSetAttr),
    FUNCTION(kSymbol, MXSymbolListAttr),
    FUNCTION(kSymbol, MXSymbolListAttrShallow),
    FUNCTION(kSymbol, MXSymbolListArguments),
    FUNCTION(kSymbol, MXSymbolListOutputs),
    FUNCTION(kSymbol, MXSymbolListAuxiliaryStates),
    FUNCTION(kSymbol, NNSymbolListInputNames),
    FUNCTION(kSymbol, MXSymbolGetNumOutputs),
    FUNCTION(kSymbol, MXSymbolGetInternals),
    FUNCTION(kSymbol, MXSymbolGetChildren),
    FUNCTION(kSymbol, MXSymbolGetInputSymbols),
    FUNCTION(kSymbol, MXSymbolCutSubgraph),
    FUNCTION(kSymbol, MXSymbolGetOutput),
    FUNCTION(kSymbol, MXSymbolCompose),
    FUNCTION(kSymbol, MXSymbolGrad),
    FUNCTION(kSymbol, MXSymbolRemoveAmpCast),
    FUNCTION(kSymbol, MXGenAtomicSymbolFromSymbol),
    FUNCTION(kSymbol, MXSymbolInferShape),
    FUNCTION(kSymbol, MXSymbolInferShapePartial),
    FUNCTION(kSymbol, MXSymbolInferShapeEx),
    FUNCTION(kSymbol, MXSymbolInferShapePartialEx),
    FUNCTION(kSymbol, MXSymbolInferShapeEx64),
    FUNCTION(kSymbol, MXSymbolInferShapePartialEx64),
    FUNCTION(kSymbol, MXSymbolInferType),
    FUNCTION(kSymbol, MXSymbolInferTypePartial),
    FUNCTION(kSymbol, MXExecutorBind),
    FUNCTION(kSymbol, MXExecutorBindX),
    FUNCTION(kSymbol, MXExecutorBindEX),
    FUNCTION(kSymbol, MXExecutorSimpleBindEx),
    FUNCTION(kSymbol, MXCreateCachedOp),
    FUNCTION(kSymbol, MXCreateCachedOpEx),
    FUNCTION(kSymbol, MXCreateCachedOpEX),
    FUNCTION(kSymbol, NNSymbolCompose),
    FUNCTION(kSymbol, NNSymbolCopy),
    FUNCTION(kSymbol, NNSymbolPrint),
    FUNCTION(kSymbol, NNSymbolGetAttr),
    FUNCTION(kSymbol, NNSymbolListAttrs),
    FUNCTION(kSymbol, NNSymbolListOutputNames),
    FUNCTION(kSymbol, NNSymbolGetNumOutputs),
    FUNCTION(kSymbol, NNSymbolGetInternals),
    FUNCTION(kSymbol, NNSymbolGetChildren),
    FUNCTION(kSymbol, NNSymbolGetOutput),
    FUNCTION(kExecutor, MXExecutorFree),
    FUNCTION(kExecutor, MXExecutorPrint),
    FUNCTION(kExecutor, MXExecutorForward),
    FUNCTION(kExecutor, MXExecutorBackward),
    FUNCTION(kExecutor, MXExecutorBackwardEx),
    FUNCTION(kExecutor, MXExecutorOutputs),
    FUNCTION(kExecutor, MXExecutorSetMonitorCallback),
    FUNCTION(kExecutor, MXExecutorSetMonitorCallbackEX),
    FUNCTION(kExecutor, MXExecutorGetOptimizedSymbol),
    FUNCTION(kCachedOp, MXFreeCachedOp),
    FUNCTION(kCachedOp, MXInvokeCachedOp),
    FUNCTION(kCachedOp, MXInvokeCachedOpEx),
    FUNCTION(kStore, MXKVStoreFree),
    FUNCTION(kStore, MXKVStoreGetType),
    FUNCTION(kStore, MXKVStoreInit),
    FUNCTION(kStore, MXKVStoreInitEx),
    FUNCTION(kStore, MXKVStorePush),
    FUNCTION(kStore, MXKVStorePushEx),
    FUNCTION(kStore, MXKVStorePull),
    FUNCTION(kStore, MXKVStorePullEx),
    FUNCTION(kStore, MXKVStorePullWithSparse),
    FUNCTION(kStore, MXKVStorePullWithSparseEx),
    FUNCTION(kStore, MXKVStoreBroadcast),
    FUNCTION(kStore, MXKVStoreBroadcastEx),
    FUNCTION(kStore, MXKVStorePushPull),
    FUNCTION(kStore, MXKVStorePushPullEx),
    FUNCTION(kStore, MXKVStoreSetUpdater),
    FUNCTION(kStore, MXKVStoreSetUpdaterEx),
    FUNCTION(kStore, MXKVStoreGetRank),
    FUNCTION(kStore, MXKVStoreGetGroupSize),
    FUNCTION(kStore, MXKVStoreBarrier),
    FUNCTION(kStore, MXKVStoreSetBarrierBeforeExit),
    FUNCTION(kStore, MXTesseraKVStoreFail),
    FUNCTION(kIteratorKind, MXDataIterGetIterInfo),
    FUNCTION(kIteratorKind, MXDataIterCreateIter),
    FUNCTION(kIterator, MXDataIterFree),
    FUNCTION(kIterator, MXDataIterNext),
    FUNCTION(kIterator, MXDataIterBeforeFirst),
    FUNCTION(kIterator, MXDataIterGetData),
    FUNCTION(kIterator, MXDataIterGetLabel),
    FUNCTION(kIterator, MXDataIterGetPadNum),
    FUNCTION(kIterator, MXDataIterGetIndex),
    FUNCTION(kPredictor, MXPredGetOutputShape),
    FUNCTION(kPredictor, MXPredGetOutputType),
    FUNCTION(kPredictor, MXPredSetInput),
    FUNCTION(kPredictor, MXPredForward),
    FUNCTION(kPredictor, MXPredPartialForward),
    FUNCTION(kPredictor, MXPredGetOutput),
    FUNCTION(kPredictor, MXPredSetMonitorCallback),
    FUNCTION(kPredictor, MXPredFree),
    FUNCTION(kList, MXNDListGet),
    FUNCTION(kList, MXNDListFree),
};

// Functions for which nulls and zeros are an empty list.
const Function kListFunctions[] = {
    FUNCTION(kNone, MXAutogradMarkVariables), FUNCTION(kNone, MXAutogradComputeGradient),
    FUNCTION(kNone, MXAutogradBackward),      FUNCTION(kNone, MXAutogradBackwardEx),
    FUNCTION(kNone, MXPredReshape),           FUNCTION(kSymbol, NNSymbolSetAttrs),
};
#undef FUNCTION

/// Returns a new handle, which stays; null for a kind that needs files.
void* Make(Kind kind) {
  static const Owned x = MakeVariable("x");
  static const Owned relu = Apply("relu", "relu", {x.get()});
  static const Owned array = MakeArray({1, 2}, {2});
  void* handle = nullptr;
  switch (kind) {
    case Kind::kArray:
      Check(MXShallowCopyNDArray(array.get(), &handle));
      break;
    case Kind::kOperator:
      Check(NNGetOpHandle("relu", &handle));
      break;
    case Kind::kSymbol:
      Check(MXSymbolCopy(relu.get(), &handle));
      break;
    case Kind::kExecutor: {
      NDArrayHandle arguments[] = {array.get()};
      Check(MXExecutorBind(relu.get(), 1, 0, 1, arguments, nullptr, nullptr, 0, nullptr, &handle));
      break;
    }
    case Kind::kCachedOp:
      Check(MXCreateCachedOp(relu.get(), &handle));
      break;
    case Kind::kStore:
      Check(MXKVStoreCreate("local", &handle));
      break;
    case Kind::kIteratorKind: {
      uint32_t count = 0;
      DataIterCreator* kinds = nullptr;
      Check(MXListDataIters(&count, &kinds));
      handle = kinds[0];
      break;
    }
    case Kind::kPredictor: {
      const char* json = nullptr;
      Check(MXSymbolSaveToJSON(relu.get(), &json));
      const char* names[] = {"x"};
      const uint32_t offsets[] = {0, 1}, extents[] = {2};
      Check(MXPredCreate(json, nullptr, 0, 1, 0, 1, names, offsets, extents, &handle));
      break;
    }
    case Kind::kList: {
      const std::string file = ParamsFile({{"a", array.get()}});
      uint32_t length = 0;
      Check(MXNDListCreate(file.data(), static_cast<int>(file.size()), &handle, &length));
      break;
    }
    case Kind::kIterator:
    case Kind::kNone:
      break;
  }
  return handle;
}

TEST(WrongPointersTest, NullsAreErrors) {
  for (const Function& function : kFunctions) {
    SCOPED_TRACE(function.name);
    NNAPISetLastError("");
    EXPECT_EQ(function.call_with_nulls(), -1);
    EXPECT_STRNE(MXGetLastError(), "");
  }
}

TEST(WrongPointersTest, HandlesOfOtherKindsAreErrors) {
  std::vector<std::pair<Kind, void*>> handles;
  for (int kind = 1; kind <= static_cast<int>(Kind::kList); ++kind) {
    handles.emplace_back(static_cast<Kind>(kind), Make(static_cast<Kind>(kind)));
  }
  const Owned freed = MakeArray({1}, {1});
  void* const old = freed.get();
  Check(MXNDArrayFree(old));
  for (const Function& function : kFunctions) {
    if (function.kind == Kind::kNone) continue;
    SCOPED_TRACE(function.name);
    for (const auto& [kind, handle] : handles) {
      if (kind == function.kind) continue;
      EXPECT_EQ(function.call_with_handle(handle), -1);
    }
    EXPECT_EQ(function.call_with_handle(old), -1);
    EXPECT_EQ(function.call_with_handle(&handles), -1);
  }
  for (const auto& [kind, handle] : handles) {
    if (kind == Kind::kArray) {
      EXPECT_EQ(ShapeOf(handle), std::vector<int>{2});
    }
  }
}

TEST(WrongPointersTest, ALiveHandleWithNullsNeverCrashes) {
  for (const Function& function : kFunctions) {
    if (function.kind == Kind::kNone || function.kind == Kind::kIterator) continue;
    SCOPED_TRACE(function.name);
    NNAPISetLastError("");
    const int status = function.call_with_handle(Make(function.kind));
    EXPECT_TRUE(status == 0 || status == -1) << status;
    if (status == -1) {
      EXPECT_STRNE(MXGetLastError(), "");
    }
  }
  Check(MXNDArrayWaitAll());
}

/// Calls a function with a null in place of each of its arguments in turn.
void CallWithEachNull(const Function& function) {
  SCOPED_TRACE(function.name);
  for (size_t null = 0; null < function.num_arguments; ++null) {
    NNAPISetLastError("");
    const int status = function.call_with_one_null(Make(function.kind), null);
    EXPECT_TRUE(status == 0 || status == -1) << status;
    if (status == -1) {
      EXPECT_STRNE(MXGetLastError(), "") << "argument " << null;
    }
  }
}

TEST(WrongPointersTest, OneNullAmongGoodPointersNeverCrashes) {
  for (const Function& function : kFunctions) {
    if (function.kind != Kind::kIterator) CallWithEachNull(function);
  }
  for (const Function& function : kListFunctions) CallWithEachNull(function);
  Check(MXNDArrayWaitAll());
}

TEST(WrongPointersTest, ANullTensorOfDlpackIsAnErrorThatNamesIt) {
  NDArrayHandle out = nullptr;
  for (const bool is_transient : {false, true}) {
    EXPECT_THAT(ErrorOf(MXNDArrayFromDLPackEx(nullptr, is_transient, &out)), HasSubstr("dlpack"));
  }
  EXPECT_THAT(ErrorOf(MXNDArrayFromDLPack(nullptr, &out)), HasSubstr("dlpack"));
  EXPECT_EQ(out, nullptr);
}

TEST(WrongPointersTest, EmptyListsAreTaken) {
  EXPECT_EQ(MXAutogradMarkVariables(0, nullptr, nullptr, nullptr), 0);
  EXPECT_EQ(MXNDArrayCallDLPackDeleter(nullptr), 0);
  EXPECT_EQ(MXSetIsNumpyShape(0, nullptr), 0);
  EXPECT_EQ(MXAutogradSetIsRecording(0, nullptr), 0);
  EXPECT_EQ(MXAutogradSetIsTraining(0, nullptr), 0);
  EXPECT_EQ(MXEngineSetBulkSize(4, nullptr), 0);
}

TEST(WrongPointersTest, NegativeCountsAreErrors) {
  const Owned x = MakeVariable("x"), array = MakeArray({1, 2}, {2});
  void* const op = Make(Kind::kOperator);
  void* const cached_op = Make(Kind::kCachedOp);
  NDArrayHandle inputs[] = {array.get()};
  NDArrayHandle* outputs = nullptr;
  NDArrayHandle out = nullptr;
  int num_outputs = 0, negative = -1;
  const int64_t extents[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  int64_t codes[] = {-1};
  const auto expect_error = [](int status) { EXPECT_EQ(status, -1); };
  expect_error(MXImperativeInvoke(op, -1, inputs, &num_outputs, &outputs, 0, nullptr, nullptr));
  expect_error(MXImperativeInvoke(op, 1, inputs, &negative, &outputs, 0, nullptr, nullptr));
  expect_error(MXImperativeInvoke(op, 1, inputs, &num_outputs, &outputs, -1, nullptr, nullptr));
  expect_error(MXInvokeCachedOp(cached_op, -1, inputs, &num_outputs, &outputs));
  expect_error(MXCreateCachedOpEx(x.get(), -1, nullptr, nullptr, &out));
  expect_error(MXNDArrayCreateEx64(extents, -1, 1, 0, 0, 0, &out));
  expect_error(MXNDArrayCreateEx64(extents, 9, 1, 0, 0, 0, &out));
  expect_error(MXNDArrayReshape64(array.get(), -1, codes, false, &out));
  expect_error(MXNDArraySlice64(array.get(), -1, 1, &out));
  expect_error(MXNDArrayAt64(array.get(), -3, &out));
  expect_error(MXNDArrayAt64(array.get(), 2, &out));
  expect_error(MXNDArrayCreateEx(nullptr, 0, 1, -1, 0, 0, &out));
  expect_error(MXNDArrayCreateEx(nullptr, 0, 9, 0, 0, 0, &out));
  expect_error(MXNDArrayCreateEx(nullptr, 0, 1, 0, 0, -1, &out));
  EXPECT_EQ(out, nullptr);
}

// Functions that the library does not have take any arguments.
extern "C" {
int MXFuncInvoke(...);
int MXLoadLib(...);
int MXLoadTVMOp(...);
int MXQuantizeSymbol(...);
int MXRtcCreate(...);
int MXRtcCudaKernelFree(void* handle);
int MXRtcCudaModuleCreate(...);
int MXRtcCudaModuleFree(void* handle);
int MXRtcFree(void* handle);
int NNGraphCreate(...);
}

TEST(WrongPointersTest, FunctionsThatAreNotImplementedNameThemselves) {
  EXPECT_EQ(ErrorOf(MXFuncInvoke(nullptr, nullptr, nullptr, nullptr)),
            "MXFuncInvoke is not implemented");
  EXPECT_EQ(ErrorOf(MXLoadLib("lib.so", 0)), "MXLoadLib is not implemented");
  EXPECT_EQ(ErrorOf(MXLoadTVMOp("lib.so")), "MXLoadTVMOp is not implemented");
  EXPECT_EQ(ErrorOf(MXQuantizeSymbol(nullptr)), "MXQuantizeSymbol is not implemented");
  EXPECT_EQ(ErrorOf(MXRtcCreate(nullptr)), "MXRtcCreate is not implemented");
  EXPECT_EQ(ErrorOf(MXRtcCudaModuleCreate("")), "MXRtcCudaModuleCreate is not implemented");
  EXPECT_EQ(ErrorOf(NNGraphCreate(nullptr, nullptr)), "NNGraphCreate is not implemented");
}

// Python frees the object that it could not create, and would print an error.
TEST(WrongPointersTest, AKernelThatWasNotCreatedMayBeFreed) {
  for (int (*const free)(void*) : {MXRtcFree, MXRtcCudaKernelFree, MXRtcCudaModuleFree}) {
    EXPECT_EQ(free(nullptr), 0);
  }
  int other = 0;
  EXPECT_EQ(ErrorOf(MXRtcFree(&other)), "MXRtcFree is not implemented");
}

TEST(WrongPointersTest, OperatorsThatAreNotImplementedNameThemselves) {
  const Owned array = MakeArray({1, 2}, {2});
  try {
    Call("_sg_mkldnn_selfatt_qk", {array.get()});
    ADD_FAILURE() << "the operator was called";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("_sg_mkldnn_selfatt_qk"));
  }
}

}  // namespace
}  // namespace tessera::mxnet
