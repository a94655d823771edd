#include "tessera/ndarray/sparse.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/call/sparse_call.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/memory/sparse_store.h"
#include "tessera/ops/loops/sparse/sparse_parts.h"

namespace tessera {

using ndarray_internal::ArrayAccess;
using ndarray_internal::AsDense;
using ndarray_internal::PushBlobCall;
using ndarray_internal::SparseStore;
using ops_internal::ReadIndices;

StorageType StorageTypeOf(const NDArray& array) {
  if (array.is_none()) return StorageType::kUndefined;
  const SparseStore* const store = ArrayAccess::Sparse(array);
  return store == nullptr ? StorageType::kDefault : store->type();
}

namespace sparse {
namespace {

/// Returns the parts of a sparse array. Throws Error(kInvalidArgument) for a dense one.
SparseStore& RequireSparse(std::string_view operation, const NDArray& array) {
  SparseStore* const store = ArrayAccess::Sparse(array);
  if (store == nullptr) {
    throw InvalidArgument("sparse::", operation, ": the array of shape ", array.shape(),
                          " is dense, expected row_sparse or csr");
  }
  return *store;
}

/// Throws unless the array has one axis of `extent` numbers.
void RequireList(std::string_view operation, std::string_view what, const NDArray& array,
                 index_t extent) {
  if (array.is_none() || array.shape() != TShape{extent}) {
    throw InvalidArgument("sparse::", operation, ": ", what, " has shape ", array.shape(),
                          ", expected (", extent, ",)");
  }
}

void CopyValues(const SparseBlob& from, const SparseBlob& to) {
  const auto* const begin = static_cast<const char*>(from.values.dptr_);
  std::copy_n(begin, to.values.Size() * DTypeSizeBytes(to.values.type_flag_),
              static_cast<char*>(to.values.dptr_));
}

/// Returns a dense copy of one part on the array's device, after a wait.
NDArray CopyOf(const NDArray& array, const TBlob& part) {
  NDArray copy(part.shape_, array.device(), part.type_flag_);
  copy.SyncCopyFromCPU(part.dptr_, part.Size());
  return copy;
}

NDArray CopyOf(const NDArray& array, std::span<int64_t> numbers) {
  return CopyOf(array, TBlob(numbers.data(), TShape{static_cast<index_t>(numbers.size())},
                             DType::kInt64, Device::Cpu()));
}

}  // namespace

NDArray Zeros(StorageType type, const TShape& shape, Device device, DType dtype) {
  if (type == StorageType::kRowSparse || type == StorageType::kCsr) {
    return ArrayAccess::NewSparse(type, shape, device, dtype, "NDArray");
  }
  NDArray zeros(shape, device, dtype, /*delay_alloc=*/true);
  zeros = 0;
  return zeros;
}

NDArray FromRows(const NDArray& values, const NDArray& rows, const TShape& shape) {
  TShape expected = shape;
  if (values.is_none() || values.shape().ndim() != shape.ndim() || shape.ndim() == 0) {
    throw InvalidArgument("sparse::FromRows: values has shape ", values.shape(),
                          ", which are no rows of an array of shape ", shape);
  }
  expected[0] = values.shape()[0];
  if (values.shape() != expected) {
    throw InvalidArgument("sparse::FromRows: values has shape ", values.shape(), ", expected ",
                          expected, " for an array of shape ", shape);
  }
  RequireList("FromRows", "rows", rows, expected[0]);
  const NDArray array = Zeros(StorageType::kRowSparse, shape, values.device(), values.dtype());
  PushBlobCall({.name = "sparse::FromRows",
                .inputs = {AsDense(values), AsDense(rows)},
                .outputs = {array},
                .req = {kWriteTo},
                .run = [](std::span<SparseBlob> in, std::span<SparseBlob> out) {
                  out[0].Allocate(in[0].values.size(0));
                  CopyValues(in[0], out[0]);
                  ReadIndices(in[1].values, out[0].indices);
                  CheckParts(out[0], /*full=*/true);
                }});
  return array;
}

NDArray FromCsr(const NDArray& values, const NDArray& indptr, const NDArray& columns,
                const TShape& shape) {
  if (values.is_none() || values.shape().ndim() != 1) {
    throw InvalidArgument("sparse::FromCsr: values has shape ", values.shape(),
                          ", expected one axis");
  }
  const NDArray array = Zeros(StorageType::kCsr, shape, values.device(), values.dtype());
  RequireList("FromCsr", "indptr", indptr, shape[0] + 1);
  RequireList("FromCsr", "columns", columns, values.shape()[0]);
  PushBlobCall({.name = "sparse::FromCsr",
                .inputs = {AsDense(values), AsDense(indptr), AsDense(columns)},
                .outputs = {array},
                .req = {kWriteTo},
                .run = [](std::span<SparseBlob> in, std::span<SparseBlob> out) {
                  out[0].Allocate(in[0].values.size(0));
                  CopyValues(in[0], out[0]);
                  ReadIndices(in[1].values, out[0].indptr);
                  ReadIndices(in[2].values, out[0].indices);
                  CheckParts(out[0], /*full=*/true);
                }});
  return array;
}

NDArray Cast(const NDArray& array, StorageType type) {
  return Invoke("cast_storage", {&array, 1}, {{"stype", std::string(StorageTypeName(type))}})[0];
}

NDArray Retain(const NDArray& array, const NDArray& rows) {
  const NDArray inputs[] = {array, rows};
  return Invoke("_sparse_retain", inputs)[0];
}

index_t Count(const NDArray& array) {
  SparseStore& store = RequireSparse("Count", array);
  array.WaitToRead();
  return store.UncheckedBlob().count();
}

NDArray Values(const NDArray& array) {
  SparseStore& store = RequireSparse("Values", array);
  array.WaitToRead();
  return CopyOf(array, store.UncheckedBlob().values);
}

NDArray Indices(const NDArray& array) {
  SparseStore& store = RequireSparse("Indices", array);
  array.WaitToRead();
  return CopyOf(array, store.UncheckedBlob().indices);
}

NDArray IndPtr(const NDArray& array) {
  SparseStore& store = RequireSparse("IndPtr", array);
  if (store.type() != StorageType::kCsr) {
    throw InvalidArgument("sparse::IndPtr: the array of shape ", array.shape(), " is ",
                          store.type(), ", expected csr");
  }
  array.WaitToRead();
  return CopyOf(array, store.UncheckedBlob().indptr);
}

void CheckFormat(const NDArray& array, bool full) {
  array.WaitToRead();
  SparseStore* const store = ArrayAccess::Sparse(array);
  if (store != nullptr) CheckParts(store->UncheckedBlob(), full);
}

}  // namespace sparse
}  // namespace tessera
