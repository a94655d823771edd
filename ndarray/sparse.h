#ifndef TESSERA_NDARRAY_SPARSE_H_
#define TESSERA_NDARRAY_SPARSE_H_

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/sparse.h"

namespace tessera {

/// Returns how the array stores its elements; kUndefined if it is_none().
StorageType StorageTypeOf(const NDArray& array);

/// Arrays that store some rows (row_sparse) or some elements (csr); docs/sparse.md explains them.
///
/// A sparse array is an NDArray: handles, the engine's order, autograd and files treat it as any
/// other. Operators with a sparse form compute on what is stored; the others convert sparse inputs
/// to dense ones. NDArray::data throws Error(kInvalidArgument) for a sparse array.
///
/// Threads: all functions may be called from any thread.
namespace sparse {

/// Returns an array of zeros, which stores nothing if it is sparse. Throws Error(kUnimplemented)
/// for a sparse array on another device than the CPU, and Error(kInvalidArgument) for a csr array
/// without two axes or a row_sparse one without any, and for a shape that NDArray refuses.
NDArray Zeros(StorageType type, const TShape& shape, Device device = Device::Cpu(),
              DType dtype = DType::kFloat32);

/// Returns a row_sparse array with a copy of `values` as the rows that `rows` lists. Shapes: values
/// (k, …) like the array's rows; rows (k), of any type. Throws Error(kInvalidArgument) for shapes
/// that do not fit, and at the first wait for rows that do not rise or lie outside of the array.
NDArray FromRows(const NDArray& values, const NDArray& rows, const TShape& shape);

/// Returns a csr array with a copy of `values` as its elements: those of row i are [indptr[i],
/// indptr[i + 1]), in the columns that `columns` lists. Shapes: values (k), indptr (m + 1), columns
/// (k), the array (m, n). Throws Error(kInvalidArgument) for shapes that do not fit, and at the
/// first wait for numbers that are not as SparseBlob states.
NDArray FromCsr(const NDArray& values, const NDArray& indptr, const NDArray& columns,
                const TShape& shape);

/// Returns the array in a storage type: a dense array's elements other than 0, or its rows that
/// have one, or all elements of a sparse array. The operator cast_storage, which autograd records.
NDArray Cast(const NDArray& array, StorageType type);

/// Returns the rows of a row_sparse array whose numbers `rows` lists, in rising order: the operator
/// _sparse_retain. Throws Error(kInvalidArgument) for an array that is not row_sparse.
NDArray Retain(const NDArray& array, const NDArray& rows);

/// Return the number of stored rows (row_sparse) or elements (csr), and copies of what is stored:
/// values, the rows' or columns' numbers (int64), and where each row of a csr array ends (int64).
/// Block until pending writes are done, and throw their Error. Throw Error(kInvalidArgument) for a
/// dense array, and IndPtr for a row_sparse one.
index_t Count(const NDArray& array);
NDArray Values(const NDArray& array);
NDArray Indices(const NDArray& array);
NDArray IndPtr(const NDArray& array);

/// Throws Error(kInvalidArgument) that names the first number that is not as SparseBlob states.
/// Without `full`, looks only at sizes and at the ends of indptr. Blocks until pending writes are
/// done. Dense arrays have no format that could be wrong.
void CheckFormat(const NDArray& array, bool full = true);

}  // namespace sparse
}  // namespace tessera

#endif  // TESSERA_NDARRAY_SPARSE_H_
