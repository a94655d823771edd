#ifndef TESSERA_TENSOR_EVAL_TILE_H_
#define TESSERA_TENSOR_EVAL_TILE_H_

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "tessera/tensor/eval/span.h"
#include "tessera/tensor/expr/expression.h"
#include "tessera/tensor/functors/reducers.h"

/// Evaluates transposed operands in tiles. A row of a transposed matrix is a column of the matrix,
/// and takes one element of each cache line. The lines of a large matrix are fetched again for
/// every row. So are those of a small matrix if rows lie a multiple of 4 KiB apart. The lines of a
/// tile stay in the first-level cache. Tiles are transposed in registers into buffers, which the
/// rest of the expression reads like rows.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Extents of a tile. Its columns are several whole cache lines of the result. Its rows are one
/// cache line of floats of the transposed operand. A narrow result takes more rows, as many as make
/// up for the columns.
inline constexpr index_t kTileColumns = 64;
inline constexpr index_t kTileRows = 16;
inline constexpr index_t kTileElements = kTileRows * kTileColumns;

/// True if E reads columns of its operand and can write a tile at once; see EvalTile in operand.h.
template <typename E, typename T>
concept HasEvalTile = requires(const E& e, index_t i, T* out) {
  e.EvalTile(i, i, i, i, out, i);
};

template <typename E>
constexpr bool HoldsTiles();
/// True if HoldsTiles is true for any of a tuple of expressions.
template <typename Tuple>
struct AnyHoldsTiles;
template <typename... E>
struct AnyHoldsTiles<std::tuple<E...>> {
  static constexpr bool value = (HoldsTiles<E>() || ...);
};
/// Returns true if E contains a node for which HasEvalTile is true, and uses its elements at their
/// own index.
template <typename E>
constexpr bool HoldsTiles() {
  if constexpr (HasEvalTile<E, typename E::value_type>) {
    return true;
  } else if constexpr (MovesElements<E>()) {
    return false;
  } else {
    return AnyHoldsTiles<OperandTupleOf<E>>::value;
  }
}

/// Writes the transpose of a square block of e that begins with element (row, column). The block
/// has as many rows as a packet has lanes, `step` rows apart, and as many columns. kLane counts the
/// lanes.
template <typename P, typename E, size_t... kLane>
void TransposePackets(const E& e, index_t row, index_t step, index_t column,
                      typename E::value_type* out, index_t stride, std::index_sequence<kLane...>) {
  pk::PacketBlock<P, int{sizeof...(kLane)}> block{
      {e.template EvalPacket<P>(row + index_t{kLane} * step, column)...}};
  pk::ptranspose(block);
  (pk::pstoreu(out + index_t{kLane} * stride, block.packet[kLane]), ...);
}

/// Implements EvalTransposed for few elements, one by one. The expression is passed by value: no
/// other code has the copy's address. Its fields therefore stay in registers although `out` may
/// alias anything.
template <typename E, typename T>
void TransposeElements(const E e, index_t row, index_t step, index_t column, index_t rows,
                       index_t columns, T* out, index_t stride) {
  // The inner loop runs along the longer side: the loop's own instructions are most of the time of
  // a short one.
  if (rows < columns) {
    for (index_t y = 0; y < rows; ++y) {
      for (index_t x = 0; x < columns; ++x) {
        out[y * stride + x] = e.Eval(row + x * step, column + y);
      }
    }
  } else {
    for (index_t x = 0; x < columns; ++x) {
      for (index_t y = 0; y < rows; ++y) {
        out[y * stride + x] = e.Eval(row + x * step, column + y);
      }
    }
  }
}

/// Implements EvalTransposed for elements that fit the first-level cache: at most a cache line of
/// columns of e.
template <typename E, typename T>
void TransposeTile(const E e, index_t row, index_t step, index_t column, index_t rows,
                   index_t columns, T* out, index_t stride) {
  if constexpr (HoldsSpans<E>()) {
    T block[64 / sizeof(T)];
    for (index_t x = 0; x < columns; ++x) {
      EvaluateSpans(e, row + x * step, column, rows, block);
      for (index_t y = 0; y < rows; ++y) out[y * stride + x] = block[y];
    }
    return;
  }
  using P = typename PacketTraits<T>::type;
  constexpr index_t kSize = PacketTraits<T>::kSize;
  index_t packed_rows = 0, packed_columns = columns;
  if constexpr (E::kHasPacket && kSize > 1) {
    if constexpr (requires(pk::PacketBlock<P, int{kSize}> & block) { pk::ptranspose(block); }) {
      packed_rows = rows - rows % kSize;
      packed_columns = columns - columns % kSize;
      for (index_t x = 0; x < packed_columns; x += kSize) {
        for (index_t y = 0; y < packed_rows; y += kSize) {
          TransposePackets<P>(e, row + x * step, step, column + y, out + y * stride + x, stride,
                              std::make_index_sequence<size_t{kSize}>());
        }
      }
    }
  }
  if (packed_columns < columns) {
    TransposeElements(e, row + packed_columns * step, step, column, packed_rows,
                      columns - packed_columns, out + packed_columns, stride);
  }
  if (packed_rows < rows) {
    TransposeElements(e, row, step, column + packed_rows, rows - packed_rows, columns,
                      out + packed_rows * stride, stride);
  }
}

/// Writes out[y * stride + x] = element (row + x * step, column + y) of a CPU expression, for y in
/// [0, rows) and x in [0, columns).
template <typename E>
void EvalTransposed(const E& e, index_t row, index_t step, index_t column, index_t rows,
                    index_t columns, typename E::value_type* out, index_t stride) {
  using T = typename E::value_type;
  constexpr index_t kRows = 64 / index_t{sizeof(T)};  // a cache line of the operand
  if (rows <= kRows && columns <= kTileColumns) {
    TransposeTile(e, row, step, column, rows, columns, out, stride);
    return;
  }
  // Rows that lie a multiple of 1 KiB apart would evict each other from the first-level cache,
  // which maps addresses 4 KiB apart to the same few lines. The tile is therefore collected in a
  // buffer first.
  const bool buffered = stride * index_t{sizeof(T)} % 1024 == 0;
  T buffer[kRows * kTileColumns];
  for (index_t y = 0; y < rows; y += kRows) {
    const index_t height = std::min(kRows, rows - y);
    for (index_t x = 0; x < columns; x += kTileColumns) {
      const index_t width = std::min(kTileColumns, columns - x);
      T* const first = out + y * stride + x;
      TransposeTile(e, row + x * step, step, column + y, height, width, buffered ? buffer : first,
                    buffered ? kTileColumns : stride);
      if (!buffered) continue;
      for (index_t k = 0; k < height; ++k) {
        std::copy_n(buffer + k * kTileColumns, width, first + k * stride);
      }
    }
  }
}

/// A tile: rows [begin_y, end_y) of columns [begin_x, end_x), at most kTileElements elements.
struct Tile {
  index_t begin_y, end_y, begin_x, end_x;

  index_t columns() const { return end_x - begin_x; }
};

/// A node over a tile in a buffer. Element x of row y is data[y * stride + x].
template <typename T>
struct TileExp : Exp<TileExp<T>, T> {
  using value_type = T;
  static constexpr int kRank = 0;  // rank 0 fits every shape
  static constexpr bool kHasPacket = PacketTraits<T>::kVectorizable;
  static constexpr bool kHasAvx2Packet = true;
  static constexpr bool kMovesElements = false;

  const T* data;
  index_t stride;

  TileExp(const T* first, index_t distance) : data(first), stride(distance) {}
  TESSERA_HD T Eval(index_t y, index_t x) const { return data[y * stride + x]; }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    return pk::ploadu<P>(data + y * stride + x);
  }
  bool IsFlat() const { return false; }
};

/// Combines a tile of an expression for which HoldsTiles is true with the elements at data[y *
/// stride + x]; defined in evaluator_cpu.h.
template <typename Saver, typename T, typename E>
void EvaluateTile(T* data, index_t stride, const E& e, const Tile& tile);

/// An operand as the loop over a tile reads it. The constructor evaluates the tile into a buffer if
/// HoldsTiles is true for the operand.
template <typename E, bool kHoldsTiles = HoldsTiles<E>()>
class TileOperand {
 public:
  TileOperand(const E& e, const Tile& /*tile*/) : e_(e) {}
  const E& node() const { return e_; }

 private:
  const E& e_;
};
template <typename E>
class TileOperand<E, true> {
 public:
  using T = typename E::value_type;

  TileOperand(const E& e, const Tile& tile)
      : node_(buffer_ - (tile.begin_y * tile.columns() + tile.begin_x), tile.columns()) {
    if constexpr (HasEvalTile<E, T>) {
      e.EvalTile(tile.begin_y, tile.end_y, tile.begin_x, tile.end_x, buffer_, tile.columns());
    } else {
      T* const data = buffer_ - (tile.begin_y * tile.columns() + tile.begin_x);
      EvaluateTile<sv::saveto>(data, tile.columns(), e, tile);
    }
  }
  const TileExp<T>& node() const { return node_; }

 private:
  TileExp<T> node_;
  T buffer_[kTileElements];
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_EVAL_TILE_H_
