#ifndef TESSERA_NDARRAY_SPARSE_SPARSE_PARTS_H_
#define TESSERA_NDARRAY_SPARSE_SPARSE_PARTS_H_

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/sparse.h"

// Sparse arrays that are written part by part, for interfaces that do so.
namespace tessera::ndarray_internal {

/// A part of a sparse array.
enum class SparsePart { kValues, kIndices, kIndPtr };

/// Returns a sparse array with room for `count` rows (row_sparse) or elements (csr), whose numbers
/// are 0 until WritePart has written each part. An operator that uses the array checks the parts
/// first, and throws what CheckParts throws. Throws what sparse::Zeros throws, and
/// Error(kInvalidArgument) for a negative count.
NDArray SparseWithRoom(StorageType type, const TShape& shape, Device device, DType dtype,
                       index_t count);

/// Copies a dense array into a part of a sparse one, converted to the part's type, and blocks until
/// that is done. Throws Error(kInvalidArgument) if the part has another number of elements, or if
/// the array has no such part.
void WritePart(const NDArray& array, SparsePart part, const NDArray& from);

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_SPARSE_SPARSE_PARTS_H_
