// Arrays: creation, copies, views, files. Functions of MXNet's C API; see types.h.
#include <algorithm>
#include <cstring>
#include <source_location>
#include <span>
#include <string>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/extents.h"
#include "tessera/compat/mxnet/core/failed_draws.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ndarray/sparse/sparse_parts.h"

namespace tessera::mxnet {
namespace {

template <typename Extent>
void CreateArray(const Extent* shape, size_t rank, int device_type, int device_id, int delay_alloc,
                 int type, NDArrayHandle* out) {
  NotNull(out, "out");
  if (rank > TShape::kMaxRank) {
    throw InvalidArgument("the rank of the array is ", rank, ", expected at most ",
                          int64_t{TShape::kMaxRank});
  }
  const std::span<const Extent> extents = ListOf(shape, rank, "shape");
  const TShape dimensions(std::vector<index_t>(extents.begin(), extents.end()));
  *out = Arrays().Add(
      NDArray(dimensions, DeviceOf(device_type, device_id), TypeOf(type), delay_alloc != 0));
}

/// Returns the shape. A handle without an array has an unknown rank, which is 0 without NumPy's
/// shapes.
template <typename Extent>
void GetShape(const char* function, NDArrayHandle handle, int* rank, const Extent** extents) {
  NotNull(rank, "out_dim");
  NotNull(extents, "out_pdata");
  const NDArray array = ArrayOf(handle);
  if (array.is_none()) {
    *rank = NumpyShape() ? -1 : 0;
    *extents = nullptr;
    return;
  }
  const TShape& shape = array.shape();
  *rank = shape.ndim();
  *extents = Results::OfThread().Keep(ExtentsForClient<Extent>(function, shape));
}

void Slice(NDArrayHandle handle, index_t begin, index_t end, NDArrayHandle* out) {
  NotNull(out, "out");
  *out = Arrays().Add(ArrayOf(handle).Slice(begin, end));
}

void At(NDArrayHandle handle, index_t index, NDArrayHandle* out) {
  NotNull(out, "out");
  const NDArray array = ArrayOf(handle);
  // A single element keeps an axis where shapes have no rank 0.
  if (array.shape().ndim() == 1 && !NumpyShape()) {
    *out = Arrays().Add(array.Slice(index, index + 1));
  } else {
    *out = Arrays().Add(array.At(index));
  }
}

/// Returns whether a shape, in which 0 stands for the array's extent and one -1 for any extent,
/// leaves out some of the array's elements.
bool LeavesOutElements(const TShape& shape, std::span<const index_t> codes) {
  index_t size = 1, num_free = 0;
  for (size_t i = 0; i < codes.size(); ++i) {
    const index_t code = codes[i];
    if (code < TShape::kUnknown) return false;
    if (code == 0 && i >= static_cast<size_t>(shape.ndim())) return false;
    num_free += code == TShape::kUnknown ? 1 : 0;
    if (code != TShape::kUnknown) size *= code == 0 ? shape[static_cast<int>(i)] : code;
    if (size <= 0 || size > shape.Size()) return false;
  }
  return num_free <= 1;
}

template <typename Extent>
void Reshape(NDArrayHandle handle, int rank, const Extent* extents, bool reverse,
             NDArrayHandle* out) {
  NotNull(out, "out");
  if (rank < 0) throw InvalidArgument("MXNDArrayReshape: the rank is ", rank);
  const std::span<const Extent> given = ListOf(extents, static_cast<size_t>(rank), "dims");
  const std::vector<index_t> codes(given.begin(), given.end());
  const NDArray array = ArrayOf(handle);
  try {
    *out = Arrays().Add(codes.empty() ? array.Reshape(TShape(codes))
                                      : array.Reshape(std::span<const index_t>(codes), reverse));
  } catch (const Error& error) {
    // MXNet returns such arrays, and its Python raises a ValueError.
    if (array.is_none() || reverse || !LeavesOutElements(array.shape(), codes)) throw;
    throw Error(error.code(), std::string("ValueError: ") + error.what());
  }
}

/// Returns the part that MXNet calls by a number: -1 is the values, and the indices of a csr array
/// are its second auxiliary array.
ndarray_internal::SparsePart PartOf(const NDArray& array, int i) {
  const bool is_csr = StorageTypeOf(array) == StorageType::kCsr;
  if (i == -1) return ndarray_internal::SparsePart::kValues;
  if (i == (is_csr ? 1 : 0)) return ndarray_internal::SparsePart::kIndices;
  if (i == 0) return ndarray_internal::SparsePart::kIndPtr;
  throw InvalidArgument("MXNDArraySyncCopyFromNDArray: part ", i, " of a ", StorageTypeOf(array),
                        " array, expected -1 to ", is_csr ? 1 : 0);
}

/// Copies an array's elements after a wait for its writes. As in MXNet, the copy is no operation:
/// once a wait has reported an error, the array may be read, and its elements are undefined.
void CopyToClient(const NDArray& array, void* data, index_t size) {
  if (StorageTypeOf(array) != StorageType::kDefault || array.device().dev_mask() != cpu::kDevMask ||
      array.shape().Size() != size) {
    array.SyncCopyToCPU(data, size);
    return;
  }
  array.WaitToRead();
  if (size == 0) return;
  std::memcpy(data, array.data().dptr_, static_cast<size_t>(size * DTypeSizeBytes(array.dtype())));
}

/// Runs the body of a function that waits, which may report the error of a draw. `site` is the
/// function's, which profiles show.
template <typename Body>
int WaitingCall(const Body& body,
                const std::source_location site = std::source_location::current()) noexcept {
  return ApiCall(
      [&] {
        try {
          body();
        } catch (...) {
          EndFailedDraws();
          throw;
        }
      },
      site);
}

}  // namespace
}  // namespace tessera::mxnet

using tessera::InvalidArgument;
using tessera::NDArray;
using tessera::StorageType;
using tessera::StorageTypeOf;
using tessera::ndarray_internal::WritePart;
using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXNDArrayCreateNone(NDArrayHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = Arrays().Add(NDArray());
  });
}

TESSERA_MXNET_API int MXNDArrayCreate(const uint32_t* shape, uint32_t ndim, int dev_type,
                                      int dev_id, int delay_alloc, NDArrayHandle* out) {
  return ApiCall([&] { CreateArray(shape, ndim, dev_type, dev_id, delay_alloc, 0, out); });
}

TESSERA_MXNET_API int MXNDArrayCreateEx(const uint32_t* shape, uint32_t ndim, int dev_type,
                                        int dev_id, int delay_alloc, int dtype,
                                        NDArrayHandle* out) {
  return ApiCall([&] { CreateArray(shape, ndim, dev_type, dev_id, delay_alloc, dtype, out); });
}

TESSERA_MXNET_API int MXNDArrayCreateEx64(const int64_t* shape, int ndim, int dev_type, int dev_id,
                                          int delay_alloc, int dtype, NDArrayHandle* out) {
  return ApiCall([&] {
    if (ndim < 0) throw InvalidArgument("MXNDArrayCreateEx64: the rank is ", ndim);
    CreateArray(shape, static_cast<size_t>(ndim), dev_type, dev_id, delay_alloc, dtype, out);
  });
}

TESSERA_MXNET_API int MXNDArrayFree(NDArrayHandle handle) {
  return ApiCall([&] { Arrays().Remove(handle); });
}

TESSERA_MXNET_API int MXShallowCopyNDArray(NDArrayHandle src, NDArrayHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = Arrays().Add(ArrayOf(src));
  });
}

TESSERA_MXNET_API int MXNDArraySyncCopyFromCPU(NDArrayHandle handle, const void* data,
                                               size_t size) {
  return WaitingCall([&] {
    ArrayOf(handle).SyncCopyFromCPU(size == 0 ? data : NotNull(data, "data"),
                                    static_cast<tessera::index_t>(size));
  });
}

TESSERA_MXNET_API int MXNDArraySyncCopyToCPU(NDArrayHandle handle, void* data, size_t size) {
  return WaitingCall([&] {
    CopyToClient(ArrayOf(handle), size == 0 ? data : NotNull(data, "data"),
                 static_cast<tessera::index_t>(size));
  });
}

TESSERA_MXNET_API int MXNDArraySyncCopyFromNDArray(NDArrayHandle dst, NDArrayHandle src, int i) {
  return WaitingCall([&] {
    const NDArray target = ArrayOf(dst);
    if (StorageTypeOf(target) == StorageType::kRowSparse ||
        StorageTypeOf(target) == StorageType::kCsr) {
      WritePart(target, PartOf(target, i), ArrayOf(src));
      return;
    }
    if (i != -1) {
      throw InvalidArgument("MXNDArraySyncCopyFromNDArray: part ", i, " of the array of shape ",
                            target.shape(), ", which is dense and has no parts");
    }
    CopyFromTo(ArrayOf(src), target);
    target.WaitToRead();
  });
}

TESSERA_MXNET_API int MXNDArrayWaitToRead(NDArrayHandle handle) {
  return WaitingCall([&] { ArrayOf(handle).WaitToRead(); });
}

TESSERA_MXNET_API int MXNDArrayWaitToWrite(NDArrayHandle handle) {
  return WaitingCall([&] { ArrayOf(handle).WaitToWrite(); });
}

TESSERA_MXNET_API int MXNDArrayWaitAll() {
  return WaitingCall([&] { NDArray::WaitAll(); });
}

TESSERA_MXNET_API int MXNDArraySlice(NDArrayHandle handle, uint32_t slice_begin, uint32_t slice_end,
                                     NDArrayHandle* out) {
  return ApiCall([&] { Slice(handle, slice_begin, slice_end, out); });
}

TESSERA_MXNET_API int MXNDArraySlice64(NDArrayHandle handle, int64_t slice_begin, int64_t slice_end,
                                       NDArrayHandle* out) {
  return ApiCall([&] { Slice(handle, slice_begin, slice_end, out); });
}

TESSERA_MXNET_API int MXNDArrayAt(NDArrayHandle handle, uint32_t idx, NDArrayHandle* out) {
  return ApiCall([&] { At(handle, idx, out); });
}

TESSERA_MXNET_API int MXNDArrayAt64(NDArrayHandle handle, int64_t idx, NDArrayHandle* out) {
  return ApiCall([&] { At(handle, idx, out); });
}

TESSERA_MXNET_API int MXNDArrayReshape(NDArrayHandle handle, int ndim, int* dims,
                                       NDArrayHandle* out) {
  return ApiCall([&] { Reshape(handle, ndim, dims, false, out); });
}

TESSERA_MXNET_API int MXNDArrayReshape64(NDArrayHandle handle, int ndim, int64_t* dims,
                                         bool reverse, NDArrayHandle* out) {
  return ApiCall([&] { Reshape(handle, ndim, dims, reverse, out); });
}

TESSERA_MXNET_API int MXNDArrayGetStorageType(NDArrayHandle handle, int* out_storage_type) {
  return ApiCall([&] {
    NotNull(out_storage_type, "out_storage_type");
    *out_storage_type = static_cast<int>(StorageTypeOf(ArrayOf(handle)));
  });
}

TESSERA_MXNET_API int MXNDArrayGetShape(NDArrayHandle handle, uint32_t* out_dim,
                                        const uint32_t** out_pdata) {
  return ApiCall([&] {
    int rank = 0;
    GetShape("MXNDArrayGetShape", handle, &rank, out_pdata);
    *NotNull(out_dim, "out_dim") = static_cast<uint32_t>(std::max(rank, 0));
  });
}

TESSERA_MXNET_API int MXNDArrayGetShapeEx(NDArrayHandle handle, int* out_dim,
                                          const int** out_pdata) {
  return ApiCall([&] { GetShape("MXNDArrayGetShapeEx", handle, out_dim, out_pdata); });
}

TESSERA_MXNET_API int MXNDArrayGetShapeEx64(NDArrayHandle handle, int* out_dim,
                                            const int64_t** out_pdata) {
  return ApiCall([&] { GetShape("MXNDArrayGetShapeEx64", handle, out_dim, out_pdata); });
}

TESSERA_MXNET_API int MXNDArrayGetData(NDArrayHandle handle, void** out_pdata) {
  return ApiCall([&] {
    const NDArray array = ArrayOf(handle);
    // The caller may write there.
    if (!array.is_none()) tessera::ndarray_internal::ArrayAccess::NoteOtherWriters(array);
    *NotNull(out_pdata, "out_pdata") = array.is_none() ? nullptr : array.data().dptr_;
  });
}

TESSERA_MXNET_API int MXNDArrayGetDType(NDArrayHandle handle, int* out_dtype) {
  return ApiCall([&] {
    const NDArray array = ArrayOf(handle);
    *NotNull(out_dtype, "out_dtype") = array.is_none() ? -1 : static_cast<int>(array.dtype());
  });
}

TESSERA_MXNET_API int MXNDArrayGetContext(NDArrayHandle handle, int* out_dev_type,
                                          int* out_dev_id) {
  return ApiCall([&] {
    NotNull(out_dev_type, "out_dev_type");
    NotNull(out_dev_id, "out_dev_id");
    const NDArray array = ArrayOf(handle);
    *out_dev_type = array.is_none() ? 0 : static_cast<int>(array.device().type);
    *out_dev_id = array.is_none() ? 0 : array.device().id;
  });
}

TESSERA_MXNET_API int MXNDArrayGetGrad(NDArrayHandle handle, NDArrayHandle* out) {
  return ApiCall([&] {
    const NDArray gradient = ArrayOf(handle).grad();
    *NotNull(out, "out") = gradient.is_none() ? nullptr : Arrays().Add(gradient);
  });
}

TESSERA_MXNET_API int MXNDArrayDetach(NDArrayHandle handle, NDArrayHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = Arrays().Add(ArrayOf(handle).Detach());
  });
}
