// Arrays and calls of operators, as MXNet's clients use them.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/compat/mxnet/core/callbacks.h"
#include "tessera/compat/mxnet/functions/testing/array_client.h"
#include "tessera/ndarray/dlpack_abi.h"

namespace tessera::mxnet::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// Gives the thread NumPy's shapes for a scope.
class NumpyShapes {
 public:
  NumpyShapes() { MXSetIsNumpyShape(1, nullptr); }
  ~NumpyShapes() { MXSetIsNumpyShape(0, nullptr); }
};

TEST(InvokeTest, ADrawOfAWrongDistributionFailsAtTheWait) {
  NDArrayHandle array = nullptr;
  for (const char* const name : {"_random_normal", "normal"}) {
    ASSERT_EQ(Invoke(name, {}, {{"scale", "-1"}, {"shape", "(2, 3)"}}, &array), "");
    EXPECT_THAT(ShapeOf(array), ElementsAre(2, 3));
    EXPECT_THAT(ErrorOf(MXNDArrayWaitToRead(array)), HasSubstr("scale = -1"));
    EXPECT_EQ(ErrorOf(MXNDArrayWaitToRead(array)), "");
    // Its elements are undefined, and may be read.
    EXPECT_THAT(ValuesOf(array), SizeIs(6));
  }
  ASSERT_EQ(Invoke("_random_randint", {}, {{"low", "2"}, {"high", "1"}, {"shape", "2"}}, &array),
            "");
  EXPECT_THAT(ErrorOf(MXNDArrayWaitToRead(array)), HasSubstr("low < high"));
  const NDArrayHandle given = ArrayOfValues({2}, {1, 2});
  ASSERT_EQ(Invoke("_random_uniform", {}, {{"low", "2"}}, &array, given), "");
  EXPECT_THAT(ErrorOf(MXNDArrayWaitAll()), HasSubstr("low = 2"));
}

TEST(InvokeTest, WrongDrawsAreOneChainUntilOneIsReported) {
  const auto draw = [](const std::string& scale) {
    return Invoked("_random_normal", {}, {{"scale", scale}, {"shape", "(2,)"}});
  };
  // Nobody waits for the first draw, whose array is gone.
  EXPECT_EQ(MXNDArrayFree(draw("-1")), 0);
  EXPECT_THAT(ErrorOf(MXNDArrayWaitToRead(draw("-2"))), HasSubstr("scale = -1"));
  EXPECT_EQ(ErrorOf(MXNDArrayWaitAll()), "");
  EXPECT_THAT(ErrorOf(MXNDArrayWaitToRead(draw("-3"))), HasSubstr("scale = -3"));
  // Other draws go on.
  EXPECT_EQ(MXNDArrayFree(draw("-4")), 0);
  EXPECT_EQ(ErrorOf(MXNDArrayWaitToRead(draw("1"))), "");
  EXPECT_THAT(ErrorOf(MXNDArrayWaitAll()), HasSubstr("scale = -4"));
}

TEST(InvokeTest, OtherErrorsAreThoseOfTheCall) {
  NDArrayHandle array = nullptr;
  EXPECT_THAT(Invoke("_random_normal", {}, {{"shape", "(2, -3)"}, {"scale", "-1"}}, &array),
              HasSubstr("-3"));
  EXPECT_THAT(Invoke("_random_normal", {}, {{"scale", "-1"}}, &array), HasSubstr("scale = -1"));
  EXPECT_THAT(Invoke("Activation", {ArrayOfValues({1}, {1})}, {{"act_type", "none"}}, &array),
              HasSubstr("act_type"));
}

TEST(InvokeTest, AWrongIndexOfGatherNdIsAnIndexError) {
  const NDArrayHandle data = ArrayOfValues({2}, {1, 2});
  NDArrayHandle result = nullptr;
  for (const char* const name : {"gather_nd", "_npx_gather_nd"}) {
    ASSERT_EQ(Invoke(name, {data, ArrayOfValues({1, 1}, {7})}, {}, &result), "");
    EXPECT_THAT(ErrorOf(MXNDArrayWaitToRead(result)), StartsWith("IndexError: gather_nd of "));
  }
  ASSERT_EQ(Invoke("take", {data, ArrayOfValues({1}, {7})}, {{"mode", "raise"}}, &result), "");
  EXPECT_THAT(ErrorOf(MXNDArrayWaitToRead(result)), StartsWith("take of "));
}

TEST(InvokeTest, NumpyShapesHaveScalarsAndEmptyArrays) {
  NDArrayHandle array = nullptr;
  for (const char* const name : {"_zeros", "_npi_ones", "_random_uniform"}) {
    for (const char* const shape : {"()", "(0, 3)"}) {
      EXPECT_THAT(Invoke(name, {}, {{"shape", shape}}, &array), Not(IsEmpty())) << shape;
    }
    const NumpyShapes numpy;
    ASSERT_EQ(Invoke(name, {}, {{"shape", "()"}, {"dtype", "float64"}}, &array), "");
    EXPECT_THAT(ShapeOf(array), IsEmpty());
    int type = 0;
    EXPECT_EQ(MXNDArrayGetDType(array, &type), 0);
    EXPECT_EQ(type, 1);
    ASSERT_EQ(Invoke(name, {}, {{"shape", "(0, 3)"}, {"ctx", "cpu_shared(0)"}}, &array), "");
    EXPECT_THAT(ShapeOf(array), ElementsAre(0, 3));
    EXPECT_EQ(ErrorOf(MXNDArrayWaitToRead(array)), "");
    EXPECT_THAT(Invoke("max", {array}, {}, &array), HasSubstr("no elements"));
  }
}

TEST(InvokeTest, TheContextIsTheResultsDevice) {
  const NDArrayHandle array = Invoked("_zeros", {}, {{"shape", "(2,)"}, {"ctx", "cpu_shared(0)"}});
  int type = 0, id = 7;
  ASSERT_EQ(MXNDArrayGetContext(array, &type, &id), 0);
  EXPECT_EQ(type, kCpuShared);
  EXPECT_EQ(id, 0);
  EXPECT_THAT(ValuesOf(array), ElementsAre(0, 0));
}

TEST(InvokeTest, AResultMayOverwriteWhatTheOperatorReads) {
  const NDArrayHandle array = ArrayOfValues({2, 2}, {1, 2, 3, 4});
  NDArrayHandle element = nullptr, row = nullptr, result = nullptr;
  int64_t shape[] = {1, 2};
  ASSERT_EQ(MXNDArrayAt(array, 1, &element), 0);
  ASSERT_EQ(MXNDArrayReshape64(element, 2, shape, false, &row), 0);
  ASSERT_EQ(
      Invoke("_slice_assign", {array, row}, {{"begin", "(0,)"}, {"end", "(1,)"}}, &result, array),
      "");
  EXPECT_THAT(ValuesOf(array), ElementsAre(3, 4, 3, 4));
  ASSERT_EQ(Invoke("dot", {array, array}, {}, &result, array), "");
  EXPECT_THAT(ValuesOf(array), ElementsAre(21, 28, 21, 28));
  ASSERT_EQ(Invoke("elemwise_add", {array, array}, {}, &result, array), "");
  EXPECT_THAT(ValuesOf(array), ElementsAre(42, 56, 42, 56));
}

TEST(InvokeTest, WorkInPlaceIsRefusedWhileRecording) {
  NDArrayHandle x = ArrayOfValues({2}, {1, 2}), gradient = ArrayOfValues({2}, {0, 0});
  uint32_t request = 1;
  ASSERT_EQ(MXAutogradMarkVariables(1, &x, &request, &gradient), 0);
  const NDArrayHandle y = ArrayOfValues({2}, {3, 4});
  NDArrayHandle result = nullptr;
  MXAutogradSetIsRecording(1, nullptr);
  EXPECT_THAT(Invoke("elemwise_add", {y, x}, {}, &result, y),
              HasSubstr("Inplace operations (+=, -=, x[:]=, etc) are not supported"));
  EXPECT_EQ(Invoke("elemwise_add", {y, y}, {}, &result, y), "");
  EXPECT_EQ(Invoke("_copyto", {x}, {}, &result, ArrayOfValues({2}, {0, 0})), "");
  MXAutogradSetIsRecording(0, nullptr);
  EXPECT_EQ(Invoke("elemwise_add", {y, x}, {}, &result, y), "");
  EXPECT_THAT(ValuesOf(y), ElementsAre(7, 10));
}

TEST(ReshapeTest, AShapeOfFewerElementsIsAValueError) {
  const NDArrayHandle array = ArrayOfValues({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto error = [&](std::vector<int64_t> shape) {
    NDArrayHandle result = nullptr;
    return ErrorOf(
        MXNDArrayReshape64(array, static_cast<int>(shape.size()), shape.data(), false, &result));
  };
  EXPECT_EQ(error({3, -1}), "");
  EXPECT_EQ(error({0, -1}), "");
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{2, 2}, {4, -1}, {0, 2}}) {
    EXPECT_THAT(error(shape), StartsWith("ValueError: Reshape"));
  }
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{2, 4}, {-1, -1}, {2, 3, 0}, {-5}, {2, -4, 1}}) {
    EXPECT_THAT(error(shape), StartsWith("Reshape"));
  }
}

TEST(FilesTest, ShapesMeanWhatTheyMeantWhenTheArrayWasSaved) {
  const NDArrayHandle array = ArrayOfValues({2, 1}, {1, 2});
  const auto raw = [&] {
    size_t size = 0;
    const char* bytes = nullptr;
    EXPECT_EQ(MXNDArraySaveRawBytes(array, &size, &bytes), 0);
    return std::string(bytes, size);
  };
  const auto error = [](const std::string& bytes) {
    NDArrayHandle result = nullptr;
    return ErrorOf(MXNDArrayLoadFromRawBytes(bytes.data(), bytes.size(), &result));
  };
  const std::string legacy = raw();
  EXPECT_EQ(error(legacy), "");
  const NumpyShapes numpy;
  EXPECT_THAT(error(legacy), HasSubstr("shapes off"));
  const std::string with_numpy = raw();
  EXPECT_EQ(error(with_numpy), "");
  MXSetIsNumpyShape(0, nullptr);
  EXPECT_THAT(error(with_numpy), HasSubstr("shapes on"));
}

/// Returns a new sparse array of float32 with room for `count` rows or elements.
NDArrayHandle NewSparse(int storage_type, std::vector<uint32_t> shape, uint32_t count) {
  std::vector<int> types(static_cast<size_t>(storage_type), 6);
  std::vector<uint32_t> ranks(types.size(), 1), extents = {shape[0] + 1, count};
  if (storage_type == 1) extents = {count};
  NDArrayHandle array = nullptr;
  EXPECT_EQ(
      ErrorOf(MXNDArrayCreateSparseEx(
          storage_type, shape.data(), static_cast<uint32_t>(shape.size()), kCpu, 0, 0, 0,
          static_cast<uint32_t>(types.size()), types.data(), ranks.data(), extents.data(), &array)),
      "");
  return array;
}

int StorageTypeOf(NDArrayHandle handle) {
  int type = -2;
  EXPECT_EQ(MXNDArrayGetStorageType(handle, &type), 0);
  return type;
}

/// Returns the elements of any array.
std::vector<float> AllValuesOf(NDArrayHandle handle) {
  return ValuesOf(Invoked("cast_storage", {handle}, {{"stype", "default"}}));
}

TEST(SparseTest, ArraysAreMadeOfTheirParts) {
  const NDArrayHandle rows = NewSparse(1, {3, 2}, 2);
  EXPECT_EQ(StorageTypeOf(rows), 1);
  EXPECT_THAT(ShapeOf(rows), ElementsAre(3, 2));
  EXPECT_EQ(MXNDArraySyncCopyFromNDArray(rows, ArrayOfValues({2, 2}, {1, 2, 3, 4}), -1), 0);
  EXPECT_EQ(MXNDArraySyncCopyFromNDArray(rows, ArrayOfValues({2}, {0, 2}), 0), 0);
  EXPECT_EQ(ErrorOf(MXNDArraySyncCheckFormat(rows, true)), "");
  EXPECT_THAT(AllValuesOf(rows), ElementsAre(1, 2, 0, 0, 3, 4));
  NDArrayHandle part = nullptr;
  ASSERT_EQ(MXNDArrayGetDataNDArray(rows, &part), 0);
  EXPECT_THAT(ValuesOf(part), ElementsAre(1, 2, 3, 4));
  int type = -1;
  EXPECT_EQ(MXNDArrayGetAuxType(rows, 0, &type), 0);
  EXPECT_EQ(type, 6);

  const NDArrayHandle csr = NewSparse(2, {2, 3}, 2);
  EXPECT_EQ(MXNDArraySyncCopyFromNDArray(csr, ArrayOfValues({2}, {5, 6}), -1), 0);
  EXPECT_EQ(MXNDArraySyncCopyFromNDArray(csr, ArrayOfValues({3}, {0, 1, 2}), 0), 0);
  EXPECT_EQ(MXNDArraySyncCopyFromNDArray(csr, ArrayOfValues({2}, {2, 0}), 1), 0);
  EXPECT_THAT(AllValuesOf(csr), ElementsAre(0, 0, 5, 6, 0, 0));
  ASSERT_EQ(MXNDArrayGetAuxNDArray(csr, 0, &part), 0);
  EXPECT_THAT(ValuesOf(Invoked("Cast", {part}, {{"dtype", "float32"}})), ElementsAre(0, 1, 2));
  ASSERT_EQ(MXNDArrayGetAuxNDArray(csr, 1, &part), 0);
  EXPECT_THAT(ValuesOf(Invoked("Cast", {part}, {{"dtype", "float32"}})), ElementsAre(2, 0));
}

TEST(SparseTest, PartsAreCheckedBeforeTheyAreUsed) {
  const NDArrayHandle rows = NewSparse(1, {3, 1}, 2);
  MXNDArraySyncCopyFromNDArray(rows, ArrayOfValues({2}, {0, 9}), 0);
  EXPECT_THAT(ErrorOf(MXNDArraySyncCheckFormat(rows, true)), HasSubstr("indices[1] is 9"));
  EXPECT_EQ(ErrorOf(MXNDArraySyncCheckFormat(rows, false)), "");
  const NDArrayHandle dense = Invoked("cast_storage", {rows}, {{"stype", "default"}});
  EXPECT_THAT(ErrorOf(MXNDArrayWaitToRead(dense)), HasSubstr("indices[1] is 9"));
  EXPECT_THAT(ErrorOf(MXNDArraySyncCopyFromNDArray(rows, ArrayOfValues({3}, {0, 1, 2}), 0)),
              HasSubstr("3 numbers are given for a part of 2"));
  MXNDArraySyncCopyFromNDArray(rows, ArrayOfValues({2}, {0, 2}), 0);
  EXPECT_EQ(ErrorOf(MXNDArraySyncCheckFormat(rows, true)), "");
}

TEST(SparseTest, WrongCallsSaySo) {
  const NDArrayHandle dense = ArrayOfValues({2}, {1, 2}), rows = NewSparse(1, {3, 1}, 0);
  NDArrayHandle result = nullptr;
  EXPECT_THAT(ErrorOf(MXNDArrayCreateSparseEx(2, nullptr, 0, kCpu, 0, 0, 0, 0, nullptr, nullptr,
                                              nullptr, &result)),
              HasSubstr("2 (csr) with 2"));
  int type = 4;
  uint32_t shape[] = {3, 1}, one = 1;
  EXPECT_THAT(
      ErrorOf(MXNDArrayCreateSparseEx(1, shape, 2, kCpu, 0, 0, 0, 1, &type, &one, &one, &result)),
      HasSubstr("element type 4, expected 6"));
  EXPECT_THAT(ErrorOf(MXNDArrayGetDataNDArray(dense, &result)), HasSubstr("dense"));
  EXPECT_THAT(ErrorOf(MXNDArrayGetAuxNDArray(dense, 0, &result)), HasSubstr("default"));
  EXPECT_THAT(ErrorOf(MXNDArrayGetAuxType(rows, 1, &type)), HasSubstr("number 1"));
  EXPECT_THAT(ErrorOf(MXNDArraySyncCopyFromNDArray(rows, dense, 1)), HasSubstr("part 1"));
  EXPECT_THAT(ErrorOf(MXNDArraySyncCopyFromNDArray(dense, dense, 0)), HasSubstr("no parts"));
  EXPECT_EQ(ErrorOf(MXNDArraySyncCheckFormat(dense, true)), "");
}

TEST(SparseTest, OutputsHaveTheirStorageTypes) {
  const NDArrayHandle dense = ArrayOfValues({2, 2}, {0, 0, 3, 0});
  const NDArrayHandle rows = Invoked("cast_storage", {dense}, {{"stype", "row_sparse"}});
  EXPECT_EQ(StorageTypeOf(rows), 1);
  EXPECT_EQ(StorageTypeOf(Invoked("cast_storage", {dense}, {{"stype", "csr"}})), 2);
  void* op = nullptr;
  ASSERT_EQ(NNGetOpHandle("square", &op), 0);
  NDArrayHandle inputs[] = {rows}, *outputs = nullptr;
  int num_outputs = 0;
  const int* types = nullptr;
  ASSERT_EQ(
      MXImperativeInvokeEx(op, 1, inputs, &num_outputs, &outputs, 0, nullptr, nullptr, &types), 0);
  EXPECT_EQ(types[0], 1);
  // The list holds until the next call.
  NDArrayHandle squares = outputs[0];
  EXPECT_THAT(AllValuesOf(squares), ElementsAre(0, 0, 9, 0));
  outputs = &squares;
  ASSERT_EQ(
      MXImperativeInvokeEx(op, 1, inputs, &num_outputs, &outputs, 0, nullptr, nullptr, &types), 0);
  EXPECT_EQ(types[0], 1);
  // Raw bytes keep the storage type.
  size_t size = 0;
  const char* bytes = nullptr;
  ASSERT_EQ(MXNDArraySaveRawBytes(rows, &size, &bytes), 0);
  const std::string raw(bytes, size);
  NDArrayHandle read = nullptr;
  ASSERT_EQ(MXNDArrayLoadFromRawBytes(raw.data(), raw.size(), &read), 0);
  EXPECT_EQ(StorageTypeOf(read), 1);
  EXPECT_THAT(AllValuesOf(read), ElementsAre(0, 0, 3, 0));
}

/// Counts the calls of a deleter, which a client's structure refers to.
std::atomic<int> deleted = 0;

struct ClientsTensor {
  std::vector<float> values = {1, 2, 3};
  std::vector<int64_t> shape = {3};

  DLManagedTensor Tensor() {
    DLManagedTensor tensor = {};
    tensor.dl_tensor.data = values.data();
    tensor.dl_tensor.device = {kDLCPU, 0};
    tensor.dl_tensor.ndim = 1;
    tensor.dl_tensor.dtype = {kDLFloat, 32, 1};
    tensor.dl_tensor.shape = shape.data();
    tensor.manager_ctx = this;
    tensor.deleter = [](DLManagedTensor* self) {
      if (self->manager_ctx != nullptr) ++deleted;
    };
    return tensor;
  }
};

TEST(DLPackTest, ATransientStructureIsCopied) {
  deleted = 0;
  ClientsTensor client;
  NDArrayHandle array = nullptr;
  {
    DLManagedTensor tensor = client.Tensor();
    ASSERT_EQ(ErrorOf(MXNDArrayFromDLPackEx(&tensor, true, &array)), "");
    tensor = {};  // the client's structure is gone
  }
  EXPECT_THAT(ValuesOf(array), ElementsAre(1, 2, 3));
  NDArrayHandle result = nullptr;
  ASSERT_EQ(Invoke("_plus_scalar", {array}, {{"scalar", "1"}}, &result, array), "");
  EXPECT_THAT(ValuesOf(array), ElementsAre(2, 3, 4));
  EXPECT_EQ(client.values[0], 2);
  EXPECT_EQ(deleted, 0);
  EXPECT_EQ(MXNDArrayFree(array), 0);
  EXPECT_EQ(MXNDArrayWaitAll(), 0);
  EXPECT_EQ(deleted, 1);
}

TEST(DLPackTest, AnErrorLeavesTheTensorToItsClient) {
  deleted = 0;
  ClientsTensor client;
  DLManagedTensor tensor = client.Tensor();
  tensor.dl_tensor.dtype = {kDLFloat, 128, 1};
  NDArrayHandle array = nullptr;
  EXPECT_THAT(ErrorOf(MXNDArrayFromDLPackEx(&tensor, true, &array)), HasSubstr("128 bits"));
  EXPECT_THAT(ErrorOf(MXNDArrayFromDLPackEx(nullptr, true, &array)), HasSubstr("dlpack"));
  EXPECT_EQ(deleted, 0);
}

TEST(DLPackTest, BooleansOfOneBitAreBooleans) {
  ClientsTensor client;
  DLManagedTensor tensor = client.Tensor();
  tensor.dl_tensor.dtype = {kDLUInt, 1, 1};
  NDArrayHandle array = nullptr;
  ASSERT_EQ(ErrorOf(MXNDArrayFromDLPackEx(&tensor, false, &array)), "");
  int type = 0;
  EXPECT_EQ(MXNDArrayGetDType(array, &type), 0);
  EXPECT_EQ(type, 7);
  EXPECT_EQ(MXNDArrayFree(array), 0);
}

TEST(DLPackTest, NoDeleterIsCalledAfterTheClientsEnd) {
  const pid_t child = fork();
  if (child == 0) {
    deleted = 0;
    ClientsTensor client;
    DLManagedTensor tensor = client.Tensor();
    NDArrayHandle array = nullptr;
    if (MXNDArrayFromDLPackEx(&tensor, true, &array) != 0) _exit(2);
    EndCallbacks();
    if (MXNDArrayFree(array) != 0 || MXNDArrayWaitAll() != 0) _exit(3);
    _exit(deleted == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tessera::mxnet::testing
