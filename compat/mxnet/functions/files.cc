// Arrays in files, in bytes and in other libraries. Functions of MXNet's C API; see types.h.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/callbacks.h"
#include "tessera/ndarray/dlpack.h"
#include "tessera/ndarray/dlpack_abi.h"
#include "tessera/ndarray/serialization.h"

namespace tessera::mxnet {
namespace {

/// Returns the meaning that the thread gives to shapes.
ShapeMeaning ThreadsMeaning() {
  return NumpyShape() ? ShapeMeaning::kNumpy : ShapeMeaning::kLegacy;
}

/// Throws unless the thread gives shapes the meaning that a file does.
void RequireMeaning(ShapeMeaning found) {
  if (found == ShapeMeaning::kMixed || found == ThreadsMeaning()) return;
  throw FailedPrecondition(
      found == ShapeMeaning::kNumpy
          ? "the arrays were saved with NumPy's shapes on; expected them on, "
            "as by mxnet.util.set_np_shape(True), for loading"
          : "the arrays were saved with NumPy's shapes off; expected them off, "
            "as by mxnet.util.set_np_shape(False), for loading");
}

void Save(const char* path, uint32_t count, NDArrayHandle* handles, const char** keys) {
  NDArrayList list;
  list.has_names = keys != nullptr;
  list.shapes = ThreadsMeaning();
  const std::vector<NDArray> arrays = ArraysOf(handles, count, "args");
  std::vector<std::string> names(arrays.size());
  if (keys != nullptr) names = TextsOf(keys, count, "keys");
  for (size_t i = 0; i < arrays.size(); ++i) list.arrays.push_back({names[i], arrays[i]});
  SaveNDArrayList(NotNull(path, "fname"), list);
}

void PutList(const NDArrayList& list, uint32_t* size, NDArrayHandle** arrays, uint32_t* num_names,
             const char*** names) {
  RequireMeaning(list.shapes);
  std::vector<NDArray> loaded;
  std::vector<std::string> texts;
  for (const NamedArray& array : list.arrays) {
    loaded.push_back(array.array);
    if (list.has_names) texts.push_back(array.name);
  }
  *NotNull(size, "out_size") = static_cast<uint32_t>(loaded.size());
  NotNull(arrays, "out_arr");
  *arrays = KeepHandles(loaded);
  *NotNull(num_names, "out_name_size") = static_cast<uint32_t>(texts.size());
  *NotNull(names, "out_names") = Results::OfThread().Keep(std::move(texts));
}

/// A client's tensor until no operation uses it.
struct ClientTensor {
  DLManagedTensor managed;    ///< for the array that holds the tensor; its context is this object
  DLManagedTensor copy;       ///< the client's structure, if that does not last
  DLManagedTensor* original;  ///< the client's structure, or `copy`

  static void Delete(DLManagedTensor* self) {
    const std::unique_ptr<ClientTensor> tensor(static_cast<ClientTensor*>(self->manager_ctx));
    DLManagedTensor* const original = tensor->original;
    // The deleter may be a function of Python's.
    if (original->deleter == nullptr) return;
    const CallbackScope scope;
    if (scope.allowed()) original->deleter(original);
  }
};

/// Returns an array over a client's tensor. A transient structure may be gone after the call.
NDArray TakeTensor(DLManagedTensor* tensor, bool is_transient) {
  NotNull(tensor, "dlpack");
  auto taken = std::make_unique<ClientTensor>(ClientTensor{*tensor, *tensor, tensor});
  if (is_transient) taken->original = &taken->copy;
  taken->managed.manager_ctx = taken.get();
  taken->managed.deleter = &ClientTensor::Delete;
  // MXNet writes booleans as unsigned integers of one bit.
  DLDataType& type = taken->managed.dl_tensor.dtype;
  if (type.code == kDLUInt && type.bits == 1) type = {kDLBool, 8, type.lanes};
  NDArray array = FromDLPack(&taken->managed);
  taken.release();
  return array;
}

std::string_view BytesOf(const void* data, size_t size, const char* argument) {
  if (size != 0) NotNull(data, argument);
  return {static_cast<const char*>(data), size};
}

}  // namespace
}  // namespace tessera::mxnet

using tessera::NDArray;
using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXNDArraySave(const char* fname, uint32_t num_args, NDArrayHandle* args,
                                    const char** keys) {
  return ApiCall([&] { Save(fname, num_args, args, keys); });
}

TESSERA_MXNET_API int MXNDArrayLoad(const char* fname, uint32_t* out_size, NDArrayHandle** out_arr,
                                    uint32_t* out_name_size, const char*** out_names) {
  return ApiCall([&] {
    PutList(tessera::LoadNDArrayList(NotNull(fname, "fname")), out_size, out_arr, out_name_size,
            out_names);
  });
}

TESSERA_MXNET_API int MXNDArrayLoadFromBuffer(const void* ndarray_buffer, size_t size,
                                              uint32_t* out_size, NDArrayHandle** out_arr,
                                              uint32_t* out_name_size, const char*** out_names) {
  return ApiCall([&] {
    PutList(tessera::DeserializeNDArrayList(BytesOf(ndarray_buffer, size, "ndarray_buffer")),
            out_size, out_arr, out_name_size, out_names);
  });
}

TESSERA_MXNET_API int MXNDArraySaveRawBytes(NDArrayHandle handle, size_t* out_size,
                                            const char** out_buf) {
  return ApiCall([&] {
    const std::string bytes = tessera::SerializeArray(ArrayOf(handle), ThreadsMeaning());
    *NotNull(out_size, "out_size") = bytes.size();
    *NotNull(out_buf, "out_buf") =
        Results::OfThread().Keep(std::vector<char>(bytes.begin(), bytes.end()));
  });
}

TESSERA_MXNET_API int MXNDArrayLoadFromRawBytes(const void* buf, size_t size, NDArrayHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    tessera::ShapeMeaning shapes = tessera::ShapeMeaning::kMixed;
    const NDArray array = tessera::DeserializeArray(BytesOf(buf, size, "buf"), &shapes);
    RequireMeaning(shapes);
    *out = Arrays().Add(array);
  });
}

TESSERA_MXNET_API int MXNDArrayToDLPack(NDArrayHandle handle, DLManagedTensorHandle* out_dlpack) {
  return ApiCall([&] {
    NotNull(out_dlpack, "out_dlpack");
    *out_dlpack = tessera::ToLegacyDLPack(ArrayOf(handle));
  });
}

TESSERA_MXNET_API int MXNDArrayFromDLPackEx(DLManagedTensorHandle dlpack, bool transient_handle,
                                            NDArrayHandle* out_handle) {
  return ApiCall([&] {
    NotNull(out_handle, "out_handle");
    *out_handle = Arrays().Add(TakeTensor(static_cast<DLManagedTensor*>(dlpack), transient_handle));
  });
}

TESSERA_MXNET_API int MXNDArrayFromDLPack(DLManagedTensorHandle dlpack, NDArrayHandle* out_handle) {
  return MXNDArrayFromDLPackEx(dlpack, false, out_handle);
}

TESSERA_MXNET_API int MXNDArrayCallDLPackDeleter(DLManagedTensorHandle dlpack) {
  return ApiCall([&] {
    auto* const tensor = static_cast<DLManagedTensor*>(dlpack);
    if (tensor != nullptr && tensor->deleter != nullptr) tensor->deleter(tensor);
  });
}
