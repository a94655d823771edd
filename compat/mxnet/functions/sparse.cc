// Sparse arrays and their parts. Functions of MXNet's C API; see types.h.
#include "tessera/ndarray/sparse.h"

#include <span>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/ndarray/sparse/sparse_parts.h"

namespace tessera::mxnet {
namespace {

constexpr int kIndexType = static_cast<int>(DType::kInt64);

/// Returns the number of auxiliary arrays of a storage type: 0 of a dense array.
uint32_t NumAux(StorageType type) {
  return type == StorageType::kRowSparse ? 1 : type == StorageType::kCsr ? 2 : 0;
}

/// Creates an array whose auxiliary arrays have the given shapes, one after another in `aux_shape`.
/// Without any, or with extents of 0, nothing is stored.
template <typename Extent, typename Rank>
void CreateSparse(const char* function, int storage_type, const Extent* shape, size_t rank,
                  int device_type, int device_id, int type, uint32_t num_aux, const int* aux_type,
                  const Rank* aux_ndims, const Extent* aux_shape, NDArrayHandle* out) {
  NotNull(out, "out");
  const auto storage = static_cast<StorageType>(storage_type);
  const uint32_t expected = NumAux(storage);
  if (expected == 0 || num_aux != expected) {
    throw InvalidArgument(function, ": storage type ", storage_type, " with ", num_aux,
                          " auxiliary arrays, expected 1 (row_sparse) with 1 or 2 (csr) with 2");
  }
  if (rank > TShape::kMaxRank) {
    throw InvalidArgument(function, ": the rank of the array is ", rank, ", expected at most ",
                          int64_t{TShape::kMaxRank});
  }
  for (const int each : ListOf(aux_type, num_aux, "aux_type")) {
    if (each != kIndexType) {
      throw Unimplemented(function, ": auxiliary arrays of element type ", each, ", expected ",
                          kIndexType, " (int64)");
    }
  }
  for (const Rank each : ListOf(aux_ndims, num_aux, "aux_ndims")) {
    if (each != 1) {
      throw InvalidArgument(function, ": an auxiliary array of rank ", each, ", expected 1");
    }
  }
  const std::span<const Extent> extents = ListOf(shape, rank, "shape");
  const TShape dimensions(std::vector<index_t>(extents.begin(), extents.end()));
  const std::span<const Extent> aux = ListOf(aux_shape, num_aux, "aux_shape");
  const auto count = static_cast<index_t>(aux[num_aux - 1]);
  if (storage == StorageType::kCsr && dimensions.ndim() == 2 && count > 0 &&
      static_cast<index_t>(aux[0]) - 1 != dimensions[0]) {
    throw InvalidArgument(function, ": indptr of ", aux[0], " numbers for an array of shape ",
                          dimensions, ", expected ", dimensions[0], " + 1");
  }
  *out = Arrays().Add(ndarray_internal::SparseWithRoom(
      storage, dimensions, DeviceOf(device_type, device_id), TypeOf(type), count));
}

/// Returns the array. Throws Error(kInvalidArgument) unless it has an auxiliary array i.
NDArray RequireAux(const char* function, NDArrayHandle handle, int64_t i) {
  const NDArray array = ArrayOf(handle);
  const StorageType type = StorageTypeOf(array);
  if (i < 0 || i >= static_cast<int64_t>(NumAux(type))) {
    throw InvalidArgument(function, ": the array of shape ", array.shape(), " is ", type,
                          " and has ", NumAux(type), " auxiliary arrays; number ", i,
                          " was asked for");
  }
  return array;
}

void GetAuxType(const char* function, NDArrayHandle handle, int64_t i, int* out_type) {
  NotNull(out_type, "out_type");
  RequireAux(function, handle, i);
  *out_type = kIndexType;
}

void GetAux(const char* function, NDArrayHandle handle, int64_t i, NDArrayHandle* out) {
  NotNull(out, "out");
  const NDArray array = RequireAux(function, handle, i);
  const bool is_indptr = i == 0 && StorageTypeOf(array) == StorageType::kCsr;
  *out = Arrays().Add(is_indptr ? sparse::IndPtr(array) : sparse::Indices(array));
}

}  // namespace
}  // namespace tessera::mxnet

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXNDArrayCreateSparseEx(int storage_type, const uint32_t* shape,
                                              uint32_t ndim, int dev_type, int dev_id,
                                              int /*delay_alloc*/, int dtype, uint32_t num_aux,
                                              int* aux_type, uint32_t* aux_ndims,
                                              const uint32_t* aux_shape, NDArrayHandle* out) {
  return ApiCall([&] {
    CreateSparse("MXNDArrayCreateSparseEx", storage_type, shape, ndim, dev_type, dev_id, dtype,
                 num_aux, aux_type, aux_ndims, aux_shape, out);
  });
}

TESSERA_MXNET_API int MXNDArrayCreateSparseEx64(int storage_type, const int64_t* shape, int ndim,
                                                int dev_type, int dev_id, int /*delay_alloc*/,
                                                int dtype, uint32_t num_aux, int* aux_type,
                                                int* aux_ndims, const int64_t* aux_shape,
                                                NDArrayHandle* out) {
  return ApiCall([&] {
    if (ndim < 0) {
      throw tessera::InvalidArgument("MXNDArrayCreateSparseEx64: the rank is ", ndim);
    }
    CreateSparse("MXNDArrayCreateSparseEx64", storage_type, shape, static_cast<size_t>(ndim),
                 dev_type, dev_id, dtype, num_aux, aux_type, aux_ndims, aux_shape, out);
  });
}

TESSERA_MXNET_API int MXNDArrayGetAuxType(NDArrayHandle handle, uint32_t i, int* out_type) {
  return ApiCall([&] { GetAuxType("MXNDArrayGetAuxType", handle, i, out_type); });
}

TESSERA_MXNET_API int MXNDArrayGetAuxType64(NDArrayHandle handle, int64_t i, int* out_type) {
  return ApiCall([&] { GetAuxType("MXNDArrayGetAuxType64", handle, i, out_type); });
}

TESSERA_MXNET_API int MXNDArrayGetAuxNDArray(NDArrayHandle handle, uint32_t i, NDArrayHandle* out) {
  return ApiCall([&] { GetAux("MXNDArrayGetAuxNDArray", handle, i, out); });
}

TESSERA_MXNET_API int MXNDArrayGetAuxNDArray64(NDArrayHandle handle, int64_t i,
                                               NDArrayHandle* out) {
  return ApiCall([&] { GetAux("MXNDArrayGetAuxNDArray64", handle, i, out); });
}

TESSERA_MXNET_API int MXNDArrayGetDataNDArray(NDArrayHandle handle, NDArrayHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = Arrays().Add(tessera::sparse::Values(ArrayOf(handle)));
  });
}

TESSERA_MXNET_API int MXNDArraySyncCheckFormat(NDArrayHandle handle, bool full_check) {
  return ApiCall([&] { tessera::sparse::CheckFormat(ArrayOf(handle), full_check); });
}
