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

/// How a reduction along one axis walks over an expression: `outer` times `extent` times `inner`
/// rows of `columns`; along the last axis inner and columns are 1 and the extent is a row.
template <int kAxis, int N>
struct AxisWalk {
  static constexpr bool kAlongRow = kAxis == N - 1;
  index_t outer, extent, inner, columns;

  explicit AxisWalk(const Shape<N>& shape)
      : outer(shape.ProdShape(0, kAxis)),
        extent(shape[kAxis]),
        inner(kAlongRow ? 1 : shape.ProdShape(kAxis + 1, N - 1)),
        columns(kAlongRow ? 1 : shape[N - 1]) {}

  /// Where the axis is not the last, a line is a row of the result: the first of the operand's rows
  /// that it is reduced from. They lie `inner` apart.
  index_t FirstRow(index_t line) const {
    if constexpr (kAxis == 0) return line;
    return line / inner * extent * inner + line % inner;
  }
};

/// Columns whose results a reduction over rows keeps in the first cache: as many as it can, for
/// past the caches long pieces of rows are read faster than short ones.
inline constexpr index_t kColumnBlock = 1024;

/// Rows that ReduceColumns takes up at a time, so that it reads and writes the results once for all
/// of them.
inline constexpr index_t kRowsAtATime = 4;

/// `result` with packet x of kRows rows, row_step apart, taken up in this order. No loop, which GCC
/// would leave one at -O2, for as much again as the additions take.
template <typename Op, index_t kRows, typename P, typename E>
TESSERA_HD P TakeUpPackets(const P& result, const E& e, index_t row, index_t row_step, index_t x) {
  if constexpr (kRows == 0) {
    return result;
  } else {
    return TakeUpPackets<Op, kRows - 1>(MapPackets<Op>(result, e.template EvalPacket<P>(row, x)), e,
                                        row + row_step, row_step, x);
  }
}

/// The same for element x.
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

/// results[x] = Op(results[x], e(y, column + x)) for kRows rows y from first_row on, row_step
/// apart, in this order, and x in [0, count), in packets P if Red takes any. Inlined always, so
/// that e stays its caller's copy that nobody else knows, and is not copied anew for every few
/// rows, which would cost more than adding up narrow ones.
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
    // At -O2 GCC makes packets only of loops whose extent it knows, and of stores to where nothing
    // else may lie.
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

/// Packets whose results ReduceColumns keeps in registers down all rows, half of the registers that
/// there are; and packets of a row up to which it goes so, in panels of that many. Longer rows are
/// read along, a few at a time.
inline constexpr index_t kPanelPackets = 8;
inline constexpr index_t kMaxPackets = 2 * kPanelPackets;

/// TakeUpRows for `rows` rows and the panel's packets, i of them each.
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

/// Whether combining by Red rounds, so that its order matters: that of real numbers, but for the
/// choice of one of them.
template <typename Red, typename Accumulator>
inline constexpr bool kRounds =
    std::is_floating_point_v<Accumulator> && !std::is_same_v<Red, red::maximum> &&
    !std::is_same_v<Red, red::minimum>;

/// Rows whose sums are put aside before they are added to those of the rows above, a multiple of
/// kRowsAtATime. As with kReduceBlock, each element then passes through at most this many additions
/// and one for each such block: the sum of n rows is off by at most (256 + n / 256) u times the sum
/// of the magnitudes, where one row after the other would have it n u (u the unit roundoff). Where
/// the axis is cut into pieces n is a piece's extent, and the pieces add at most 16 u. Fuse has
/// the same blocks, and so has ReduceAcrossRowsKernel, whose pieces ReductionPieces cuts.
inline constexpr index_t kRowsPerBlock = 256;

/// ReduceColumns in packets P. Inlined always, so that it is compiled for its caller's
/// instructions.
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
  // What of a short row goes in panels.
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

/// ReduceColumns in wide packets, or whatever the compiler makes of its blocks for AVX2. RunsWide()
/// must be true.
template <typename Red, typename Accumulator, typename E>
TESSERA_WIDE_LOOP void ReduceColumnsWide(Accumulator* results, const E e, index_t first_row,
                                         index_t row_step, index_t begin, index_t end,
                                         index_t column, index_t count) {
  ReduceColumnsIn<Red, WidePacket<Accumulator>>(results, e, first_row, row_step, begin, end, column,
                                                count);
}

/// Reduces rows first_row + i * row_step, i in [begin, end), over `count` columns from `column` on,
/// at most kColumnBlock. The expression comes by value: nobody else has the copy's address, so that
/// its fields stay in registers although the stores of results may alias anything.
template <typename Red, typename Accumulator, typename E>
void ReduceColumns(Accumulator* results, const E e, index_t first_row, index_t row_step,
                   index_t begin, index_t end, index_t column, index_t count) {
  if constexpr (ReducesWidePackets<Red, E> ||
                (!ReducesPackets<Red, E> && std::is_arithmetic_v<Accumulator> &&
                 TESSERA_HAS_WIDE_PACKETS && !HoldsSpans<E>())) {
    if (count >= kMinWideRow && RunsWide()) {
      ReduceColumnsWide<Red>(results, e, first_row, row_step, begin, end, column, count);
      return;
    }
  }
  using P = typename PacketTraits<typename E::value_type>::type;
  ReduceColumnsIn<Red, P>(results, e, first_row, row_step, begin, end, column, count);
}

/// Pieces that an axis which is not the last is cut into, where its lines alone are too few to keep
/// every thread busy: at most 16, and not for less work than this in each.
inline constexpr index_t kMaxPieces = 16;
inline constexpr index_t kElementsPerPiece = index_t{1} << 15;

/// The extent of a piece, where the work falls into `tiles` that are `width` elements wide. Small
/// work, which a division would make dearer, is told from its number of elements.
inline index_t PieceOfAxis(index_t extent, index_t tiles, index_t width) {
  index_t elements;
  const bool is_small =
      !__builtin_mul_overflow(extent, width, &elements) && elements <= kElementsPerPiece;
  if (tiles >= kMaxPieces || is_small) return extent;
  return std::max((extent + kMaxPieces - 1) / kMaxPieces, kElementsPerPiece / width);
}

/// How ReduceAcrossRows divides its work: into blocks of each line's columns, and the axis into
/// pieces. The shape alone decides; an element's cost only how many a task takes.
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

/// Reduces every column of every line along an axis that is not the last, and calls save(line,
/// column, results, count) once for each, some columns at a time, which may be from several
/// threads. The results lie where place(line, column) points to, or elsewhere where that is null or
/// the axis is cut into pieces.
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
      if (block >= blocks) {  // else no division: a small loop would pay for it
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
