#ifndef TESSERA_OPS_LOOPS_SPARSE_SPARSE_PARTS_H_
#define TESSERA_OPS_LOOPS_SPARSE_SPARSE_PARTS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/loops/indexed_rows.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/sparse.h"
#include "tessera/tensor/tblob.h"

/// Movement of elements between dense and sparse arrays, on the CPU. Threads share rows. No
/// function allocates anything of the whole shape.
namespace tessera::ops_internal {

/// Returns whether CopyParts can copy between arrays of these storage types. All pairs but
/// row_sparse and csr can.
bool CanCopyParts(StorageType from, StorageType to);

/// Copies an array to one of the same shape, in the type and storage type of `to`, or adds it to
/// that (kAddTo). One of them is sparse. A dense array's 0, or row of 0, is not stored. Sums keep
/// the rows or elements of both arrays. Adding a number of another type converts it first. Does
/// nothing for kNullOp.
void CopyParts(const SparseBlob& from, OpReqType req, SparseBlob* to);

/// A dense array in memory of its own, for a part of a call.
class DenseCopy {
 public:
  /// Constructs an array whose elements are undefined.
  DenseCopy(const TShape& shape, DType dtype);
  /// Constructs the dense array that a sparse one stands for.
  explicit DenseCopy(const SparseBlob& array);

  const SparseBlob& blob() const { return blob_; }

 private:
  std::unique_ptr<char[]> memory_;
  SparseBlob blob_;
};

/// Copies a dense array of the same size, converted to the type of `to`.
void CopyConverted(const TBlob& from, const TBlob& to);

/// Makes a sparse array all 0: nothing is stored.
void ClearParts(SparseBlob* to);

/// Stores every row of a row_sparse array; new rows are 0.
void StoreAllRows(SparseBlob* array);

/// Converts the elements of a dense array to indices: cut off towards 0, NaN below 0.
void ReadIndices(const TBlob& from, std::span<int64_t> to);

/// Returns the positions in rising order, each once.
std::vector<int64_t> SortedRows(const Positions& positions);

/// Writes the rows of a row_sparse array whose numbers `rows` lists, which rise. A row that `from`
/// does not store is 0.
void RetainRows(const SparseBlob& from, std::span<const int64_t> rows, SparseBlob* to);

/// Computes row i of the dense array `to` as the row of `from` at position i, or adds it. A row
/// that `from` does not store is 0.
void GatherStoredRows(const Positions& positions, const SparseBlob& from, const TBlob& to,
                      OpReqType req);

/// Writes the listed rows of a dense array, which rise, to a row_sparse array.
void GatherRowSparse(const TBlob& from, std::span<const int64_t> rows, SparseBlob* to);

/// Computes the row_sparse array whose row r is the sum of the rows i of `from` whose position is
/// r, in the order of i: of 16-bit types in float32, of integers modulo their range. `from` has
/// positions.count() rows of to->width() elements, in the type of `to`. Rows at no position are not
/// stored.
void SumRowSparse(const Positions& positions, const TBlob& from, SparseBlob* to);

/// Writes the rows of a csr array at the positions, in their order, to another one.
void TakeCsrRows(const Positions& positions, const SparseBlob& from, SparseBlob* to);

/// Writes rows [row_begin, row_end) and columns [column_begin, column_end) of a csr array.
void SliceCsr(const SparseBlob& from, index_t row_begin, index_t row_end, index_t column_begin,
              index_t column_end, SparseBlob* to);

/// Returns whether the columns of each row of a csr array are in order. They may be in any order;
/// the array's indptr is to be as SparseBlob states.
bool HasSortedColumns(const SparseBlob& csr);

/// Copies such a csr array to parts of as many elements, with the elements of each row in the order
/// of their columns.
void SortColumns(const SparseBlob& from, SparseBlob* to);

/// Writes the rows of csr arrays with the same number of columns one array after another.
void ConcatCsr(std::span<const SparseBlob> parts, SparseBlob* to);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_SPARSE_SPARSE_PARTS_H_
