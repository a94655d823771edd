// Sparse arrays, which do not exist: every array is dense. Functions of MXNet's C API; see types.h.
#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"

namespace tessera::mxnet {
namespace {

[[noreturn]] void ThrowNoSparse(const char* function, int storage_type) {
  const char* const name = storage_type == 1 ? "row_sparse" : storage_type == 2 ? "csr" : "unknown";
  throw Unimplemented(
      function, ": storage type ", storage_type, " (", name,
      "): sparse arrays do not exist; expected dense arrays, of storage type default");
}

/// Throws the error of asking an array for a part that sparse arrays have.
[[noreturn]] void ThrowDense(const char* function, NDArrayHandle handle) {
  const NDArray array = ArrayOf(handle);
  throw InvalidArgument(function, ": the array of shape ", array.shape(),
                        " is dense and has no such part; sparse arrays do not exist");
}

}  // namespace
}  // namespace tessera::mxnet

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXNDArrayCreateSparseEx(
    int storage_type, const uint32_t* /*shape*/, uint32_t /*ndim*/, int /*dev_type*/,
    int /*dev_id*/, int /*delay_alloc*/, int /*dtype*/, uint32_t /*num_aux*/, int* /*aux_type*/,
    uint32_t* /*aux_ndims*/, const uint32_t* /*aux_shape*/, NDArrayHandle* /*out*/) {
  return ApiCall([&] { ThrowNoSparse("MXNDArrayCreateSparseEx", storage_type); });
}

TESSERA_MXNET_API int MXNDArrayCreateSparseEx64(int storage_type, const int64_t* /*shape*/,
                                                int /*ndim*/, int /*dev_type*/, int /*dev_id*/,
                                                int /*delay_alloc*/, int /*dtype*/,
                                                uint32_t /*num_aux*/, int* /*aux_type*/,
                                                int* /*aux_ndims*/, const int64_t* /*aux_shape*/,
                                                NDArrayHandle* /*out*/) {
  return ApiCall([&] { ThrowNoSparse("MXNDArrayCreateSparseEx64", storage_type); });
}

TESSERA_MXNET_API int MXNDArrayGetAuxType(NDArrayHandle handle, uint32_t /*i*/, int* /*out_type*/) {
  return ApiCall([&] { ThrowDense("MXNDArrayGetAuxType", handle); });
}

TESSERA_MXNET_API int MXNDArrayGetAuxType64(NDArrayHandle handle, int64_t /*i*/,
                                            int* /*out_type*/) {
  return ApiCall([&] { ThrowDense("MXNDArrayGetAuxType64", handle); });
}

TESSERA_MXNET_API int MXNDArrayGetAuxNDArray(NDArrayHandle handle, uint32_t /*i*/,
                                             NDArrayHandle* /*out*/) {
  return ApiCall([&] { ThrowDense("MXNDArrayGetAuxNDArray", handle); });
}

TESSERA_MXNET_API int MXNDArrayGetAuxNDArray64(NDArrayHandle handle, int64_t /*i*/,
                                               NDArrayHandle* /*out*/) {
  return ApiCall([&] { ThrowDense("MXNDArrayGetAuxNDArray64", handle); });
}

TESSERA_MXNET_API int MXNDArrayGetDataNDArray(NDArrayHandle handle, NDArrayHandle* /*out*/) {
  return ApiCall([&] { ThrowDense("MXNDArrayGetDataNDArray", handle); });
}

TESSERA_MXNET_API int MXNDArraySyncCheckFormat(NDArrayHandle handle, bool /*full_check*/) {
  // Dense arrays have no format that could be wrong.
  return ApiCall([&] { ArrayOf(handle); });
}
