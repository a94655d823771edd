#ifndef TESSERA_TENSOR_REDUCE_REDUCE_COLUMNS_H_
#define TESSERA_TENSOR_REDUCE_REDUCE_COLUMNS_H_

#include <algorithm>
#include <type_traits>
#include <utility>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/functors/accumulate.h"
#include "tessera/tensor/reduce/reduce_row.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The row structure of an expression that is reduced along one axis: `outer` times `extent` times
/// `inner` rows of `columns` elements. Along the last axis, inner and columns are 1 and each row is
/// reduced.
template <int kAxis, int N>
struct AxisWalk {
  static constexpr bool kAlongRow = kAxis == N - 1;
  index_t outer, extent, inner, columns;

  explicit AxisWalk(const Shape<N>& shape)
      : outer(shape.ProdShape(0, kAxis)),
        extent(shape[kAxis]),
        inner(kAlongRow ? 1 : shape.ProdShape(kAxis + 1, N - 1)),
        columns(kAlongRow ? 1 : shape[N - 1]) {}

  /// Returns the first operand row of a line, if the axis is not the last. A line is a row of the
  /// result; the rows that it is reduced from are `inner` apart.
  index_t FirstRow(index_t line) const {
    if constexpr (kAxis == 0) return line;
    return line / inner * extent * inner + line % inner;
  }
};

/// The number of columns in a block whose results stay in the L1 cache. The block is as long as the
/// cache allows, because beyond the caches long parts of rows are read faster than short ones.
inline constexpr index_t kColumnBlock = 1024;

/// The number of rows that ReduceColumns accumulates at a time, reading and writing the results
/// once for all of them.
inline constexpr index_t kRowsAtATime = 4;

/// Returns `result` combined with packet x of kRows rows, row_step apart, in this order. The
/// recursion replaces a loop, which GCC would not unroll at -O2, and which would take as long as
/// the additions.
template <typename Op, index_t kRows, typename P, typename E>
TESSERA_HD P TakeUpPackets(const P& result, const E& e, index_t row, index_t row_step, index_t x) {
  if constexpr (kRows == 0) {
    return result;
  } else {
    return TakeUpPackets<Op, kRows - 1>(MapPackets<Op>(result, e.template EvalPacket<P>(row, x)), e,
                                        row + row_step, row_step, x);
  }
}

/// Returns `result` combined with element x of kRows rows, row_step apart, in this order.
template <typename Op, index_t kRows, typename Accumulator, typename E>
TESSERA_HD Accumulator TakeUpElements(Accumulator result, const E& e, index_t row, index_t row_step,
                                      index_t x) {
  if constexpr (kRows == 0) {
    return result;
  } else {
    return TakeUpElements<Op, kRows - 1>(Op::Map(result, static_cast<Accumulator>(e.Eval(row, x))),
                                         e, row + row_step, row_step, x);
  }
}

/// Sets results[x] = Op(results[x], e(y, column + x)) for x in [0, count) and kRows rows y from
/// first_row on, row_step apart, in this order. Packets P are used if Red supports them. Inlining
/// is forced, so that `e` remains the caller's private copy. Copying it for every few rows would
/// cost more than the additions of narrow rows.
template <typename Red, typename P, index_t kRows, typename Accumulator, typename E>
[[gnu::always_inline]] inline void TakeUpRows(Accumulator* results, const E& e, index_t first_row,
                                              index_t row_step, index_t column, index_t count) {
  using Op = typename Red::OPType;
  index_t x = 0;
  if constexpr (ReducesPackets<Red, E>) {
    constexpr index_t kSize = pk::unpacket_traits<P>::size;
    for (; x + kSize <= count; x += kSize) {
      pk::pstoreu(results + x, TakeUpPackets<Op, kRows>(pk::ploadu<P>(results + x), e, first_row,
                                                        row_step, column + x));
    }
  }
  if constexpr (!ReducesPackets<Red, E>) {
    // At -O2 GCC vectorizes only loops of constant extent whose stores cannot alias anything.
    constexpr index_t kBlock = 32;
    for (; x + kBlock <= count; x += kBlock) {
      Accumulator block[kBlock];
      for (index_t i = 0; i < kBlock; ++i) {
        block[i] =
            TakeUpElements<Op, kRows>(results[x + i], e, first_row, row_step, column + x + i);
      }
      std::copy_n(block, kBlock, results + x);
    }
  }
  for (; x < count; ++x) {
    results[x] = TakeUpElements<Op, kRows>(results[x], e, first_row, row_step, column + x);
  }
}

/// kPanelPackets is the number of packets whose results ReduceColumns keeps in registers down all
/// rows: half of the registers. Rows of up to kMaxPackets packets are processed so, in panels of
/// that many packets. Longer rows are read along the row, a few rows at a time.
inline constexpr index_t kPanelPackets = 8;
inline constexpr index_t kMaxPackets = 2 * kPanelPackets;

/// Accumulates `rows` rows of a panel of packets into `results`.
template <typename Op, typename P, typename Accumulator, typename E, size_t... i>
[[gnu::always_inline]] inline void TakeUpPanel(Accumulator* results, const E& e, index_t row,
                                               index_t row_step, index_t rows, index_t column,
                                               std::index_sequence<i...> /*packets*/) {
  constexpr size_t kSize = pk::unpacket_traits<P>::size;
  P panel[] = {pk::ploadu<P>(results + i * kSize)...};
  for (; rows > 0; --rows, row += row_step) {
    ((panel[i] = MapPackets<Op>(
          panel[i], e.template EvalPacket<P>(row, column + static_cast<index_t>(i * kSize)))),
     ...);
  }
  (pk::pstoreu(results + i * kSize, panel[i]), ...);
}

/// Tells whether combining by Red rounds, so that the order matters. Only floating-point reductions
/// other than maximum and minimum round.
template <typename Red, typename Accumulator>
inline constexpr bool kRounds =
    std::is_floating_point_v<Accumulator> && !std::is_same_v<Red, red::maximum> &&
    !std::is_same_v<Red, red::minimum>;

/// The number of rows whose sums are accumulated before they are added to the sums of the rows
/// above; a multiple of kRowsAtATime. Each element then passes through at most this many additions
/// and one for each block of rows; kReduceBlock does the same for rows. The error of a sum of n
/// rows is at most (256 + n / 256) u times the sum of the magnitudes, instead of n u for one row
/// after the other (u is the unit roundoff). If the axis is cut into pieces, n is a piece's extent,
/// and the pieces add at most 16 u. Fuse uses the same blocks, and so does ReduceAcrossRowsKernel,
/// whose pieces are ReductionPieces'.
inline constexpr index_t kRowsPerBlock = 256;

/// Runs ReduceColumns in packets P. Inlining is forced, so that the loops are compiled for the
/// caller's instruction set.
template <typename Red, typename P, typename Accumulator, typename E>
[[gnu::always_inline]] inline void ReduceColumnsIn(Accumulator* results, const E& e,
                                                   index_t first_row, index_t row_step,
                                                   index_t begin, index_t end, index_t column,
                                                   index_t count) {
  using T = typename E::value_type;
  const Accumulator initial = Red::template InitialValue<Accumulator>();
  const bool in_blocks = kRounds<Red, Accumulator> && end - begin > kRowsPerBlock;
  alignas(64) Accumulator block[kColumnBlock];
  Accumulator* const taken_up = in_blocks ? block : results;
  std::fill_n(results, count, initial);
  // The number of a short row's columns that are reduced in panels.
  index_t in_panels = 0;
  if constexpr (ReducesPackets<Red, E> && !HoldsSpans<E>()) {
    constexpr index_t kSize = pk::unpacket_traits<P>::size;
    constexpr index_t kPanel = kPanelPackets * kSize;
    if (count <= kMaxPackets * kSize) in_panels = count / kPanel * kPanel;
  }
  for (index_t i = begin; i < end;) {
    const index_t block_end = in_blocks ? std::min(end, i + kRowsPerBlock) : end;
    if (in_blocks) std::fill_n(block, count, initial);
    if constexpr (ReducesPackets<Red, E> && !HoldsSpans<E>()) {
      constexpr index_t kPanel = kPanelPackets * index_t{pk::unpacket_traits<P>::size};
      for (index_t x = 0; x < in_panels; x += kPanel) {
        TakeUpPanel<typename Red::OPType, P>(taken_up + x, e, first_row + i * row_step, row_step,
                                             block_end - i, column + x,
                                             std::make_index_sequence<kPanelPackets>());
      }
      if (in_panels == count) i = block_end;
    }
    if constexpr (HoldsSpans<E>()) {
      T row[kColumnBlock];
      for (; i < block_end; ++i) {
        EvaluateSpans(e, first_row + i * row_step, column, count, row);
        TakeUpRows<Red, P, 1>(taken_up, BlockExp<T>(row - column), 0, 0, column, count);
      }
    }
    for (; i + kRowsAtATime <= block_end; i += kRowsAtATime) {
      TakeUpRows<Red, P, kRowsAtATime>(taken_up + in_panels, e, first_row + i * row_step, row_step,
                                       column + in_panels, count - in_panels);
    }
    for (; i < block_end; ++i) {
      TakeUpRows<Red, P, 1>(taken_up + in_panels, e, first_row + i * row_step, row_step,
                            column + in_panels, count - in_panels);
    }
    if (in_blocks) {
      for (index_t x = 0; x < count; ++x) results[x] = Red::OPType::Map(results[x], block[x]);
    }
  }
}

/// Runs ReduceColumns in AVX2 packets, or in loops that the compiler vectorizes for AVX2. Requires:
/// RunsAvx2().
template <typename Red, typename Accumulator, typename E>
TESSERA_AVX2_LOOP void ReduceColumnsAvx2(Accumulator* results, const E e, index_t first_row,
                                         index_t row_step, index_t begin, index_t end,
                                         index_t column, index_t count) {
  ReduceColumnsIn<Red, Avx2Packet<Accumulator>>(results, e, first_row, row_step, begin, end, column,
                                                count);
}

/// Reduces rows first_row + i * row_step, i in [begin, end), over `count` columns from `column` on.
/// Requires: count <= kColumnBlock. The expression is passed by value: no other code has the copy's
/// address, so its fields stay in registers although stores of results may alias other memory.
template <typename Red, typename Accumulator, typename E>
void ReduceColumns(Accumulator* results, const E e, index_t first_row, index_t row_step,
                   index_t begin, index_t end, index_t column, index_t count) {
  if constexpr (ReducesAvx2Packets<Red, E> ||
                (!ReducesPackets<Red, E> && std::is_arithmetic_v<Accumulator> &&
                 TESSERA_HAS_AVX2_PACKETS && !HoldsSpans<E>())) {
    if (count >= kMinAvx2Row && RunsAvx2()) {
      ReduceColumnsAvx2<Red>(results, e, first_row, row_step, begin, end, column, count);
      return;
    }
  }
  using P = typename PacketTraits<typename E::value_type>::type;
  ReduceColumnsIn<Red, P>(results, e, first_row, row_step, begin, end, column, count);
}

/// kMaxPieces bounds the pieces into which an axis other than the last is cut, if its lines are too
/// few to keep every thread busy. A piece has at least kElementsPerPiece elements.
inline constexpr index_t kMaxPieces = 16;
inline constexpr index_t kElementsPerPiece = index_t{1} << 15;

/// Returns the extent of a piece, if the work has `tiles` tiles that are `width` elements wide.
/// Small work is recognized by its number of elements, because a division would be expensive for
/// it.
inline index_t PieceOfAxis(index_t extent, index_t tiles, index_t width) {
  index_t elements;
  const bool is_small =
      !__builtin_mul_overflow(extent, width, &elements) && elements <= kElementsPerPiece;
  if (tiles >= kMaxPieces || is_small) return extent;
  return std::max((extent + kMaxPieces - 1) / kMaxPieces, kElementsPerPiece / width);
}

/// Divides the work of ReduceAcrossRows: into blocks of each line's columns, and the axis into
/// pieces. The blocks and pieces depend only on the shape; an element's cost affects only how many
/// a task has.
struct AcrossRowsPlan {
  index_t lines, blocks, piece, pieces;
  TaskPlan tasks;

  template <typename Walk>
  AcrossRowsPlan(const Walk& walk, index_t cost) {
    const index_t width = std::min(walk.columns, kColumnBlock);
    lines = walk.outer * walk.inner;
    blocks = (walk.columns + kColumnBlock - 1) / kColumnBlock;
    piece = PieceOfAxis(walk.extent, lines * blocks, width);
    pieces = piece < walk.extent ? (walk.extent + piece - 1) / piece : 1;
    tasks = pieces == 1 ? TaskPlan::Of(lines * blocks, walk.extent * width, cost)
                        : TaskPlan{pieces * lines * blocks, 1};
  }
};

/// Reduces every column of every line along an axis other than the last. Calls save(line, column,
/// results, count) once for each group of columns, from any thread. The results are in the memory
/// that place(line, column) returns. They are elsewhere if it returns null or if the axis is cut
/// into pieces.
template <typename Red, typename E, typename Walk, typename Place, typename Save>
void ReduceAcrossRows(const E& e, const Walk& walk, Scratch<cpu>* scratch, const Place& place,
                      const Save& save) {
  using Accumulator = AccumulatorOf<Red, typename E::value_type>;
  using Op = typename Red::OPType;
  const AcrossRowsPlan plan(walk, CostOf(e));
  const index_t lines = plan.lines, blocks = plan.blocks, piece = plan.piece, pieces = plan.pieces;
  if (pieces == 1) {
    ParallelFor(plan.tasks.count, plan.tasks.grain, [&](index_t first, index_t last) {
      alignas(64) Accumulator buffer[kColumnBlock];
      index_t line = 0, block = first;
      if (block >= blocks) {  // a small loop avoids the division
        line = first / blocks;
        block = first % blocks;
      }
      for (index_t i = first; i < last; ++i) {
        const index_t column = block * kColumnBlock;
        const index_t count = std::min(kColumnBlock, walk.columns - column);
        Accumulator* const there = place(line, column);
        Accumulator* const results = there != nullptr ? there : buffer;
        ReduceColumns<Red>(results, e, walk.FirstRow(line), walk.inner, 0, walk.extent, column,
                           count);
        save(line, column, results, count);
        if (++block == blocks) {
          block = 0;
          ++line;
        }
      }
    });
    return;
  }
  const index_t size = lines * walk.columns;
  auto* const partial = static_cast<Accumulator*>(
      scratch->Allocate(pieces * size * static_cast<index_t>(sizeof(Accumulator))));
  ParallelFor(plan.tasks.count, plan.tasks.grain, [&](index_t first, index_t last) {
    for (index_t i = first; i < last; ++i) {
      const index_t begin = i / (lines * blocks) * piece;
      const index_t line = i / blocks % lines;
      const index_t column = i % blocks * kColumnBlock;
      ReduceColumns<Red>(partial + i / (lines * blocks) * size + line * walk.columns + column, e,
                         walk.FirstRow(line), walk.inner, begin,
                         std::min(walk.extent, begin + piece), column,
                         std::min(kColumnBlock, walk.columns - column));
    }
  });
  for (index_t i = 0; i < size; ++i) {
    for (index_t p = 1; p < pieces; ++p) partial[i] = Op::Map(partial[i], partial[i + p * size]);
  }
  for (index_t line = 0; line < lines; ++line) {
    save(line, index_t{0}, partial + line * walk.columns, walk.columns);
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_REDUCE_REDUCE_COLUMNS_H_
