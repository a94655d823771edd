#ifndef TESSERA_OPS_LOOPS_INDEXED_ROWS_H_
#define TESSERA_OPS_LOOPS_INDEXED_ROWS_H_

#include <array>
#include <cstdint>
#include <span>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/tensor/tblob.h"

/// Movement of rows and elements to and from positions that an array of indices names, on the CPU.
/// Elements move by their size; indices of any type are read in blocks of int64.
namespace tessera::ops_internal {

/// The meaning of an index outside of [0, extent).
enum class IndexMode {
  kClip,     ///< the nearest position
  kWrap,     ///< the remainder of a division by the extent; an error for NaN, which has none
  kRaise,    ///< an error
  kFromEnd,  ///< negative ones count from the end; an error beyond that
  kSkip,     ///< none: the position is -1; for indices of one dimension
};

/// The positions that an array of indices names. It may hold several arrays of one size, one for
/// each dimension of the array that is indexed; a position is then the number of the row in the
/// order of these dimensions. Numbers are truncated. NaN is below all of them (LoadIndices).
class Positions {
 public:
  /// `extents` are those of the indexed dimensions, at most TShape::kMaxRank.
  Positions(const TBlob& indices, std::span<const index_t> extents, IndexMode mode);
  Positions(const TBlob& indices, index_t extent, IndexMode mode)
      : Positions(indices, std::span<const index_t>(&extent, 1), mode) {}

  /// Returns the number of positions.
  index_t count() const { return count_; }

  /// Reads positions [first, first + n). Throws Error(kOutOfRange) that names the index, its
  /// place, the dimension and its extent if an index has no position.
  void Read(index_t first, index_t n, int64_t* positions) const;

 private:
  const TBlob indices_;
  int num_dims_;
  std::array<index_t, TShape::kMaxRank> extents_{};
  IndexMode mode_;
  index_t count_;
};

/// An array as `outer` tables of `rows` rows of `width` elements each.
struct RowTables {
  index_t outer = 1;
  index_t rows = 1;
  index_t width = 1;

  /// Returns the tables of an array that is indexed along one axis.
  static RowTables Along(const TShape& shape, int axis);
  /// Returns the table of an array that is indexed along its first `num_axes` axes.
  static RowTables Of(const TShape& shape, int num_axes);
};

/// Computes out[o][i] = in[o][position i], or adds it, for each row i of each table o. Does nothing
/// for kNullOp. Throws what Positions::Read throws; out is then undefined.
void GatherRows(const Positions& positions, const RowTables& tables, const TBlob& in,
                const TBlob& out, OpReqType req);

/// Computes to[o][r] = the sum of from[o][i] over the i whose position is r, or adds it to what is
/// there. Sums are added up in the order of i, whatever the number of threads: of 16-bit types in
/// float32, of integers modulo their range. Does nothing for kNullOp.
void SumRows(const Positions& positions, const RowTables& tables, const TBlob& from,
             const TBlob& to, OpReqType req, const OpContext& context);

/// Writes from[o][i] to to[o][position i], in the order of i, and leaves other rows unchanged.
void ScatterRows(const Positions& positions, const RowTables& tables, const TBlob& from,
                 const TBlob& to);

/// Computes out[o][j] = in[o][position (o, j)][j], or adds it: positions, in the order of o and j,
/// pick one element of each column of each table.
void PickElements(const Positions& positions, const RowTables& tables, const TBlob& in,
                  const TBlob& out, OpReqType req);

/// Writes from[o][j] to to[o][position (o, j)][j], or adds it there, and leaves other elements and
/// those of position -1 unchanged.
void PutElements(const Positions& positions, const RowTables& tables, const TBlob& from,
                 const TBlob& to, bool add);

/// Adds n elements of one type to those at `to`; integers wrap around, and a sum of bool is or.
void AddElements(const void* from, DType dtype, index_t n, void* to);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_INDEXED_ROWS_H_
