#ifndef TESSERA_TENSOR_REDUCE_H_
#define TESSERA_TENSOR_REDUCE_H_

#include <algorithm>
#include <array>
#include <concepts>
#include <tuple>
#include <type_traits>

#include "tessera/tensor/accumulate.h"
#include "tessera/tensor/dense.h"
#include "tessera/tensor/internal/adapted_reducer.h"
#include "tessera/tensor/reduce_cuda.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Packets that one partial result takes up before it is put aside; where there are no packets, a
/// row's elements are put aside as often as four such chains would be. The error of a sum grows
/// with the additions one after another, here at most this many of elements, or four times as many,
/// and the number of such blocks in a chunk of partial results, instead of all (blocked summation;
/// N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 4.2).
inline constexpr index_t kReduceBlock = 128;

/// Packets that ReduceRow takes up at a time, each into a partial result of its own: four
/// independent chains hide the latency of the addition. A row with fewer goes one by one.
inline constexpr index_t kReduceChains = 4;

/// What Red takes in packets: both it and E have them, and its partial results are of E's type.
template <typename Red, typename E>
concept ReducesPackets = E::kHasPacket && PacketTraits<typename E::value_type>::kVectorizable &&
    HasBinaryPacket<typename Red::OPType, typename E::value_type> &&
    std::same_as<typename E::value_type, AccumulatorOf<Red, typename E::value_type>>;

/// Whether a reduction also goes in wide packets.
template <typename Red, typename E>
concept ReducesWidePackets =
    ReducesPackets<Red, E> && !HoldsSpans<E>() && kHasWidePacketsOf<typename E::value_type> &&
    HasWidePacket<E>() && HasWidePacket<typename Red::OPType>();

/// The chains of a row, in packets P: packets of the build's own.
template <typename Op, typename P>
struct RowChains {
  using T = typename pk::unpacket_traits<P>::type;
  static constexpr index_t kSize = pk::unpacket_traits<P>::size;

  P p0, p1, p2, p3;

  TESSERA_HD explicit RowChains(const T& initial)
      : p0(pk::pset1<P>(initial)), p1(p0), p2(p0), p3(p0) {}
  /// Takes up a turn of kReduceChains packets, from element x of row y on.
  template <typename E>
  TESSERA_HD void Take(const E& e, index_t y, index_t x) {
    p0 = MapPackets<Op>(p0, e.template EvalPacket<P>(y, x));
    p1 = MapPackets<Op>(p1, e.template EvalPacket<P>(y, x + kSize));
    p2 = MapPackets<Op>(p2, e.template EvalPacket<P>(y, x + 2 * kSize));
    p3 = MapPackets<Op>(p3, e.template EvalPacket<P>(y, x + 3 * kSize));
  }
  TESSERA_HD P Combined() const {
    return MapPackets<Op>(MapPackets<Op>(p0, p1), MapPackets<Op>(p2, p3));
  }
};

#if TESSERA_HAS_WIDE_PACKETS
/// The same in wide packets, of which each is two chains: the bits are the same.
template <typename Op, typename T>
struct RowChains<Op, WidePacket<T>> {
  using P = WidePacket<T>;

  P p01, p23;

  TESSERA_HD explicit RowChains(const T& initial) : p01(pk::pset1<P>(initial)), p23(p01) {}
  template <typename E>
  TESSERA_HD void Take(const E& e, index_t y, index_t x) {
    p01 = MapPackets<Op>(p01, e.template EvalPacket<P>(y, x));
    p23 = MapPackets<Op>(p23, e.template EvalPacket<P>(y, x + P::kSize));
  }
  TESSERA_HD typename PacketTraits<T>::type Combined() const {
    return MapPackets<Op>(MapPackets<Op>(LowHalf(p01), HighHalf(p01)),
                          MapPackets<Op>(LowHalf(p23), HighHalf(p23)));
  }
};
#endif  // TESSERA_HAS_WIDE_PACKETS

/// Elements of a turn of kReduceChains packets, and of as many turns as are put aside together.
template <typename T>
inline constexpr index_t kReduceTurn = kReduceChains* PacketTraits<T>::kSize;
template <typename T>
inline constexpr index_t kReduceBlockOf = kReduceBlock* kReduceTurn<T>;

/// Op over elements [begin, end) of row y, a whole number of turns.
template <typename Op, typename P, typename T, typename E>
[[gnu::always_inline]] inline typename PacketTraits<T>::type ReduceTurns(const T& initial,
                                                                         const E& e, index_t y,
                                                                         index_t begin,
                                                                         index_t end) {
  RowChains<Op, P> chains(initial);
  for (index_t x = begin; x < end; x += kReduceTurn<T>) chains.Take(e, y, x);
  return chains.Combined();
}

/// What to read elements [x, x + count) of row y from: the expression, or a block of them in
/// `buffer` where it holds costly functions.
template <typename E>
TESSERA_HD decltype(auto) RowElements(const E& e, [[maybe_unused]] index_t y,
                                      [[maybe_unused]] index_t x, [[maybe_unused]] index_t count,
                                      [[maybe_unused]] typename E::value_type* buffer) {
  if constexpr (HoldsSpans<E>()) {
    EvaluateSpans(e, y, x, count, buffer);
    return BlockExp<typename E::value_type>(buffer - x);
  } else {
    return (e);
  }
}

/// ReduceRow in packets P. Inlined always, so that it is compiled for its caller's instructions.
template <typename Red, typename P, typename E>
[[gnu::always_inline]] inline AccumulatorOf<Red, typename E::value_type> ReduceRowIn(const E& e,
                                                                                     index_t y,
                                                                                     index_t begin,
                                                                                     index_t end) {
  using T = typename E::value_type;
  using Accumulator = AccumulatorOf<Red, T>;
  using Op = typename Red::OPType;
  constexpr index_t kTurn = kReduceTurn<T>;
  constexpr index_t kBlock = kReduceBlockOf<T>;
  T buffer[HoldsSpans<E>() ? kBlock : 1];
  Accumulator result = Red::template InitialValue<Accumulator>();
  index_t x = begin;
  if constexpr (ReducesPackets<Red, E>) {
    if (end - x >= kTurn) {
      using Narrow = typename PacketTraits<T>::type;
      const T initial = Red::template InitialValue<T>();
      Narrow all = pk::pset1<Narrow>(initial);
      while (x + kTurn <= end) {
        const index_t count = std::min(kBlock, (end - x) / kTurn * kTurn);
        const auto& elements = RowElements(e, y, x, count, buffer);
        all = MapPackets<Op>(all, ReduceTurns<Op, P>(initial, elements, y, x, x + count));
        x += count;
      }
      alignas(64) std::array<T, static_cast<size_t>(PacketTraits<T>::kSize)> lanes;
      pk::pstoreu(lanes.data(), all);
      for (const T lane : lanes) result = Op::Map(result, lane);
    }
  }
  // One by one: what packets leave over, or all of a row that has none, its parts put aside too.
  constexpr index_t kPart = kReduceBlock * kReduceChains;
  while (x < end) {
    const index_t count = std::min(kPart, end - x);
    const auto& elements = RowElements(e, y, x, count, buffer);
    Accumulator part = x == begin ? result : Red::template InitialValue<Accumulator>();
    for (index_t i = x; i < x + count; ++i) {
      part = Op::Map(part, static_cast<Accumulator>(elements.Eval(y, i)));
    }
    result = x == begin ? part : Op::Map(result, part);
    x += count;
  }
  return result;
}

/// ReduceRow in wide packets. RunsWide() must be true.
template <typename Red, typename E>
TESSERA_WIDE_LOOP AccumulatorOf<Red, typename E::value_type> ReduceRowWide(const E e, index_t y,
                                                                           index_t begin,
                                                                           index_t end) {
  return ReduceRowIn<Red, WidePacket<typename E::value_type>>(e, y, begin, end);
}

/// Reduces elements [begin, end) of row y of an expression, in an order that depends on nothing but
/// the extent: four packets of partial results, then their lanes, then the rest. Costly functions
/// are computed over spans, a block of what is reduced at a time.
template <typename Red, typename E>
AccumulatorOf<Red, typename E::value_type> ReduceRow(const E& e, index_t y, index_t begin,
                                                     index_t end) {
  if constexpr (ReducesWidePackets<Red, E>) {
    if (end - begin >= kMinWideRow && RunsWide()) return ReduceRowWide<Red>(e, y, begin, end);
  }
  return ReduceRowIn<Red, typename PacketTraits<typename E::value_type>::type>(e, y, begin, end);
}

/// results[i] = Op over packet i's lanes one after another, from `initial` on, for as many packets
/// as each has lanes.
template <typename Op, typename T, typename P, typename... MoreP>
TESSERA_HD void ReduceLanes(const T& initial, T* results, const P& packet,
                            const MoreP&... packets) {
  pk::PacketBlock<P, 1 + sizeof...(MoreP)> lanes{{packet, packets...}};
  pk::ptranspose(lanes);
  P result = pk::pset1<P>(initial);
  for (const P& lane : lanes.packet) result = MapPackets<Op>(result, lane);
  pk::pstoreu(results, result);
}

/// Rows that ReduceRowsWide reduces side by side. A row has but two chains of wide packets, for
/// its order of additions shall be that of four narrow ones: alone it would wait for each addition.
inline constexpr index_t kRowsSideBySide = 4;

/// Bytes of a row below which rows go side by side. Those of one page, if they are packed, all lie
/// in the same sets of the first cache: of two operands they drive each other out.
inline constexpr index_t kSideBySideBytes = 4096;

/// results[i] = ReduceRow<Red>(e, first + i, 0, columns) for kRowsSideBySide rows at a time from
/// `first` on, as long as so many are left before `last`; returns the first row that is left.
/// `columns` must hold a turn and no second block. RunsWide() must be true.
template <typename Red, typename E>
TESSERA_WIDE_LOOP index_t ReduceRowsWide(const E e, index_t first, index_t last, index_t columns,
                                         typename E::value_type* results) {
  using T = typename E::value_type;
  using Op = typename Red::OPType;
  using Narrow = typename PacketTraits<T>::type;
  const index_t in_turns = columns / kReduceTurn<T> * kReduceTurn<T>;
  const T initial = Red::template InitialValue<T>();
  const Narrow none = pk::pset1<Narrow>(initial);
  index_t y = first;
  for (; y + kRowsSideBySide <= last; y += kRowsSideBySide, results += kRowsSideBySide) {
    RowChains<Op, WidePacket<T>> row0(initial), row1(initial), row2(initial), row3(initial);
    for (index_t x = 0; x < in_turns; x += kReduceTurn<T>) {
      row0.Take(e, y, x);
      row1.Take(e, y + 1, x);
      row2.Take(e, y + 2, x);
      row3.Take(e, y + 3, x);
    }
    const Narrow all0 = MapPackets<Op>(none, row0.Combined());
    const Narrow all1 = MapPackets<Op>(none, row1.Combined());
    const Narrow all2 = MapPackets<Op>(none, row2.Combined());
    const Narrow all3 = MapPackets<Op>(none, row3.Combined());
    if constexpr (PacketTraits<T>::kSize == 2) {
      ReduceLanes<Op>(initial, results, all0, all1);
      ReduceLanes<Op>(initial, results + 2, all2, all3);
    } else {
      ReduceLanes<Op>(initial, results, all0, all1, all2, all3);
    }
    for (index_t r = 0; r < kRowsSideBySide && in_turns < columns; ++r) {
      T rest = initial;
      for (index_t x = in_turns; x < columns; ++x) rest = Op::Map(rest, e.Eval(y + r, x));
      results[r] = Op::Map(results[r], rest);
    }
  }
  return y;
}

/// Calls save(y, ReduceRow<Red>(e, y, 0, columns)) for each row y in [first, last).
template <typename Red, typename E, typename Save>
void ReduceEachRow(const E& e, index_t first, index_t last, index_t columns, const Save& save) {
  index_t y = first;
  if constexpr (ReducesWidePackets<Red, E>) {
    using T = typename E::value_type;
    constexpr index_t kLimit = kSideBySideBytes / index_t{sizeof(T)};
    static_assert(kReduceTurn<T> <= kMinWideRow && kLimit <= kReduceBlockOf<T>);
    if (columns >= kMinWideRow && columns < kLimit && RunsWide()) {
      constexpr index_t kRows = 16 * kRowsSideBySide;
      alignas(64) T results[kRows];
      while (y + kRowsSideBySide <= last) {
        const index_t begin = y;
        y = ReduceRowsWide<Red>(e, begin, std::min(last, begin + kRows), columns, results);
        for (index_t i = begin; i < y; ++i) save(i, results[i - begin]);
      }
    }
  }
  for (; y < last; ++y) save(y, ReduceRow<Red>(e, y, 0, columns));
}

/// What ParallelFor is given: steps, and how many of them a task takes.
struct TaskPlan {
  index_t count;
  index_t grain;

  /// For steps that each take `work` elements of a cost.
  static TaskPlan Of(index_t count, index_t work, index_t cost) {
    return {count, StepsPerTask(work, cost)};
  }
};

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
  index_t FirstRow(index_t line) const { return line / inner * extent * inner + line % inner; }
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
  for (; x < count; ++x) {
    Accumulator result = results[x];
    for (index_t r = 0; r < kRows; ++r) {
      result =
          Op::Map(result, static_cast<Accumulator>(e.Eval(first_row + r * row_step, column + x)));
    }
    results[x] = result;
  }
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
/// the same blocks, and so has ReduceAcrossRowsKernel, which cuts no pieces.
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
  for (index_t i = begin; i < end;) {
    const index_t block_end = in_blocks ? std::min(end, i + kRowsPerBlock) : end;
    if (in_blocks) std::fill_n(block, count, initial);
    if constexpr (HoldsSpans<E>()) {
      T row[kColumnBlock];
      for (; i < block_end; ++i) {
        EvaluateSpans(e, first_row + i * row_step, column, count, row);
        TakeUpRows<Red, P, 1>(taken_up, BlockExp<T>(row - column), 0, 0, column, count);
      }
    }
    for (; i + kRowsAtATime <= block_end; i += kRowsAtATime) {
      TakeUpRows<Red, P, kRowsAtATime>(taken_up, e, first_row + i * row_step, row_step, column,
                                       count);
    }
    for (; i < block_end; ++i) {
      TakeUpRows<Red, P, 1>(taken_up, e, first_row + i * row_step, row_step, column, count);
    }
    if (in_blocks) {
      for (index_t x = 0; x < count; ++x) results[x] = Red::OPType::Map(results[x], block[x]);
    }
  }
}

/// ReduceColumns in wide packets. RunsWide() must be true.
template <typename Red, typename Accumulator, typename E>
TESSERA_WIDE_LOOP void ReduceColumnsWide(Accumulator* results, const E e, index_t first_row,
                                         index_t row_step, index_t begin, index_t end,
                                         index_t column, index_t count) {
  ReduceColumnsIn<Red, WidePacket<Accumulator>>(results, e, first_row, row_step, begin, end, column,
                                                count);
}

/// Reduces rows first_row + i * row_step, i in [begin, end), over `count` columns from `column` on,
/// at most kColumnBlock. The expression comes by value, as EvaluateRow's does.
template <typename Red, typename Accumulator, typename E>
void ReduceColumns(Accumulator* results, const E e, index_t first_row, index_t row_step,
                   index_t begin, index_t end, index_t column, index_t count) {
  if constexpr (ReducesWidePackets<Red, E>) {
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

/// The extent of a piece, where the work falls into `tiles` that are `width` elements wide.
inline index_t PieceOfAxis(index_t extent, index_t tiles, index_t width) {
  if (tiles >= kMaxPieces) return extent;
  return std::max((extent + kMaxPieces - 1) / kMaxPieces,
                  kElementsPerPiece / std::max<index_t>(1, width));
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
    pieces = std::max<index_t>(1, (walk.extent + piece - 1) / std::max<index_t>(1, piece));
    tasks = pieces == 1 ? TaskPlan::Of(lines * blocks, walk.extent * width, cost)
                        : TaskPlan{pieces * lines * blocks, 1};
  }
};

/// Calls save(line, x, the reduction of line's column x along an axis that is not the last) once
/// for each, which may be from several threads.
template <typename Red, typename E, typename Walk, typename Save>
void ReduceAcrossRows(const E& e, const Walk& walk, Scratch<cpu>* scratch, const Save& save) {
  using Accumulator = AccumulatorOf<Red, typename E::value_type>;
  using Op = typename Red::OPType;
  const AcrossRowsPlan plan(walk, CostOf(e));
  const index_t lines = plan.lines, blocks = plan.blocks, piece = plan.piece, pieces = plan.pieces;
  if (pieces == 1) {
    ParallelFor(plan.tasks.count, plan.tasks.grain, [&](index_t first, index_t last) {
      alignas(64) Accumulator results[kColumnBlock];
      for (index_t i = first; i < last; ++i) {
        const index_t line = i / blocks;
        const index_t column = i % blocks * kColumnBlock;
        const index_t count = std::min(kColumnBlock, walk.columns - column);
        ReduceColumns<Red>(results, e, walk.FirstRow(line), walk.inner, 0, walk.extent, column,
                           count);
        for (index_t x = 0; x < count; ++x) save(line, column + x, results[x]);
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
  for (index_t line = 0; line < lines; ++line) {
    for (index_t x = 0; x < walk.columns; ++x) {
      const Accumulator* const first = partial + line * walk.columns + x;
      Accumulator value = *first;
      for (index_t p = 1; p < pieces; ++p) value = Op::Map(value, first[p * size]);
      save(line, x, value);
    }
  }
}

/// dst[x] = Red over all rows y of e(y, x).
template <typename Red, typename Saver, typename T, typename E>
void ReduceOverRows(const Tensor<cpu, 1, T>& dst, const E& e, index_t rows, T scale) {
  using Accumulator = AccumulatorOf<Red, T>;
  Scratch<cpu> scratch;
  T* const out = dst.dptr_;
  ReduceAcrossRows<Red>(e, AxisWalk<0, 2>(Shape2(rows, dst.shape_[0])), &scratch,
                        [=](index_t /*line*/, index_t x, Accumulator value) {
                          SaveElement<Saver>(out + x, static_cast<T>(op::mul::Map(
                                                          value, static_cast<Accumulator>(scale))));
                        });
}

/// Elements that a full reduction handles as one partial result; fixed, so that the order of
/// additions does not depend on the number of threads.
inline constexpr index_t kReduceChunk = index_t{1} << 14;
/// Partial results that are kept at a time, a bounded number, before they are combined in order.
inline constexpr index_t kReducePartials = 64;
/// Chunks that a task takes, of elements of a cost.
inline index_t ReduceGrain(index_t cost) { return StepsPerTask(kReduceChunk, cost); }

/// How (rows, columns) of elements are cut into chunks of about kReduceChunk: the one row, if there
/// is but one, or the rows. The shape alone decides.
struct ChunkPlan {
  Shape<2> shape;
  bool cuts_row;
  index_t extent;  // columns of the row, or rows
  index_t chunk;   // of the extent
  index_t count;

  explicit ChunkPlan(const Shape<2>& all)
      : shape(all),
        cuts_row(all[0] == 1),
        extent(all[cuts_row ? 1 : 0]),
        chunk(cuts_row ? kReduceChunk
                       : std::max<index_t>(1, kReduceChunk / std::max<index_t>(1, all[1]))),
        count(all.Size() == 0 ? 0 : (extent + chunk - 1) / chunk) {}
};

/// How a reduction that keeps a dimension other than the last divides its work: by results, or
/// where these are few, by chunks of what each is reduced from. The shape alone decides; an
/// element's cost only how many a task takes.
struct ExceptPlan {
  ChunkPlan of_each;
  bool in_chunks;
  TaskPlan tasks;

  /// `kept` results, each of `rows` rows of `columns`.
  ExceptPlan(index_t kept, index_t rows, index_t columns, index_t cost)
      : of_each(Shape2(rows, columns)),
        in_chunks(kept < kMaxPieces && of_each.count > 1),
        tasks(in_chunks ? TaskPlan{kept * of_each.count, ReduceGrain(cost)}
                        : TaskPlan::Of(kept, rows * columns, cost)) {}
};

/// sumall_except_dim<kAxis>(e), reduce_except_dim<kAxis, Red>(e): a reduction to a vector.
template <typename Red, int kAxis, typename E>
struct ReduceExceptExp : ComplexExp<ReduceExceptExp<Red, kAxis, E>, typename E::value_type> {
  using T = typename E::value_type;
  using value_type = T;
  using device_type = DeviceOf<E>;
  static constexpr int kRank = 1;
  static_assert(0 <= kAxis && kAxis < E::kRank, "the axis to keep must lie in the expression");

  E e;
  T scale = T(1);

  explicit ReduceExceptExp(const E& operand) : e(operand) {}
  Shape<1> shape() const { return Shape1(e.shape()[kAxis]); }
  std::tuple<E> operands() const { return {e}; }

  template <typename Saver, typename Device>
  requires SameDevice<E, Tensor<Device, 1, T>>
  void AssignTo(const Tensor<Device, 1, T>& dst) const {
    if (dst.shape_ != shape()) {
      throw InvalidArgument("reduction: dimension ", kAxis, " of shape ", e.shape(),
                            " does not fit a destination of shape ", dst.shape_);
    }
    if constexpr (IsComputedFirst<E>()) {
      Scratch<Device> scratch(dst.stream_);
      ReduceSafely<Saver>(dst, Prepare<false>(e, &scratch));
    } else {
      ReduceSafely<Saver>(dst, e);
    }
  }

 private:
  /// Results are written while later ones are still to be read for.
  template <typename Saver, typename Device, typename Ready>
  void ReduceSafely(const Tensor<Device, 1, T>& dst, const Ready& ready) const {
    if (ReadsElsewhere<true>(ready, PlaceOf(dst))) {
      Scratch<Device> scratch(dst.stream_);
      const auto temporary = TemporaryTensor<Device, 1, T>(dst.shape_, dst.stream_, &scratch);
      ReduceTo<sv::saveto>(temporary, ready);
      Evaluate<Saver>(dst, temporary);
    } else {
      ReduceTo<Saver>(dst, ready);
    }
  }

  template <typename Saver, typename Device, typename Ready>
  void ReduceTo(const Tensor<Device, 1, T>& dst, const Ready& ready) const {
    const auto shape = ready.shape();
    const index_t outer = shape.ProdShape(0, kAxis);
    const index_t kept = shape[kAxis];
    if constexpr (!Device::kDevCPU) {
      ReduceExceptCuda<Red, Saver>(dst, ready, outer, kept, shape.ProdShape(kAxis + 1, E::kRank),
                                   shape[E::kRank - 1], scale);
    } else if constexpr (kAxis == E::kRank - 1) {
      ReduceOverRows<Red, Saver>(dst, ready, outer, scale);
    } else {
      // The rows that lie one after another in each of `outer` places count as one where they do.
      using Op = typename Red::OPType;
      using Accumulator = AccumulatorOf<Red, T>;
      using Total = TotalOf<Red, Accumulator>;
      const bool flat = ready.IsFlat();
      const index_t inner_rows = flat ? 1 : shape.ProdShape(kAxis + 1, E::kRank - 1);
      const index_t columns = shape.ProdShape(flat ? kAxis + 1 : E::kRank - 1, E::kRank);
      const index_t rows = outer * inner_rows;
      // Op over rows [first_row, end_row) of result i, elements [begin, end) of each; as in
      // ReduceToNumber, there may be any number of parts.
      const auto reduce = [=](const Ready& e, index_t i, index_t first_row, index_t end_row,
                              index_t begin, index_t end) {
        Total total = Red::template InitialValue<Total>();
        for (index_t row = first_row; row < end_row; ++row) {
          const index_t y = (row / inner_rows * kept + i) * inner_rows + row % inner_rows;
          const index_t first = flat ? y * columns : 0;
          for (index_t x = begin; x < end; x += kReduceChunk) {
            const index_t chunk_end = std::min(end, x + kReduceChunk);
            total = Op::Map(total,
                            Total(ReduceRow<Red>(e, flat ? 0 : y, first + x, first + chunk_end)));
          }
        }
        return total;
      };
      const auto save = [&dst, factor = static_cast<Accumulator>(scale)](index_t i, Total total) {
        SaveElement<Saver>(dst.dptr_ + i,
                           static_cast<T>(op::mul::Map(static_cast<Accumulator>(total), factor)));
      };
      const ExceptPlan plan(kept, rows, columns, CostOf(ready));
      if (!plan.in_chunks) {
        ParallelFor(plan.tasks.count, plan.tasks.grain, [&](index_t first, index_t last) {
          const Ready local = ready;
          for (index_t i = first; i < last; ++i) save(i, reduce(local, i, 0, rows, 0, columns));
        });
        return;
      }
      const ChunkPlan& chunks = plan.of_each;
      Scratch<cpu> scratch;
      auto* const partial = static_cast<Total*>(
          scratch.Allocate(plan.tasks.count * static_cast<index_t>(sizeof(Total))));
      ParallelFor(plan.tasks.count, plan.tasks.grain, [&](index_t first, index_t last) {
        const Ready local = ready;
        for (index_t c = first; c < last; ++c) {
          const index_t begin = c % chunks.count * chunks.chunk;
          const index_t end = std::min(chunks.extent, begin + chunks.chunk);
          partial[c] = chunks.cuts_row ? reduce(local, c / chunks.count, 0, 1, begin, end)
                                       : reduce(local, c / chunks.count, begin, end, 0, columns);
        }
      });
      for (index_t i = 0; i < kept; ++i) {
        Total total = Red::template InitialValue<Total>();
        for (index_t c = i * chunks.count; c < (i + 1) * chunks.count; ++c) {
          total = Op::Map(total, partial[c]);
        }
        save(i, total);
      }
    }
  }
};

/// The sum over every dimension but kAxis, for `dst = scale * sumall_except_dim<1>(a * b)` with a
/// vector dst of shape()[kAxis] elements: 0 keeps a matrix's rows, 1 its columns.
///
/// No temporary of the operand's size. half and bfloat16 add up in float, integers in 64 bits. The
/// order of additions depends on the shape and on whether rows are padded, not on the number of
/// threads. An empty sum is 0.
template <int kAxis, Operand E>
ReduceExceptExp<red::sum, kAxis, OperandNode<E>> sumall_except_dim(const E& e) {
  return ReduceExceptExp<red::sum, kAxis, OperandNode<E>>(AsNode(e));
}

/// The same for any reducer: red::sum, red::maximum, red::minimum, or a struct with Reduce and
/// SetInitValue as in mshadow, which must be associative and begin with a value that changes
/// nothing: it combines the results of parts too. NaN wins every comparison.
template <int kAxis, typename Red, Operand E>
ReduceExceptExp<ReducerOf<Red>, kAxis, OperandNode<E>> reduce_except_dim(const E& e) {
  return ReduceExceptExp<ReducerOf<Red>, kAxis, OperandNode<E>>(AsNode(e));
}

/// The sum of a matrix's rows: one value a column.
template <Operand E>
ReduceExceptExp<red::sum, 1, OperandNode<E>> sum_rows(const E& e) {
  static_assert(E::kRank == 2, "sum_rows is defined for matrices");
  return ReduceExceptExp<red::sum, 1, OperandNode<E>>(AsNode(e));
}

/// How ReduceToNumber goes over an expression: as one row where that gives the same elements.
template <typename E>
ChunkPlan PlanChunks(const E& e) {
  const auto shape = e.shape();
  return ChunkPlan(e.IsFlat() ? Shape2(1, shape.Size()) : shape.FlatTo2D());
}

/// Reduces `count` chunks of a CPU expression, which may be any number, in their order.
/// reduce(local, c) is what chunk c of `local`, a task's own copy of e, comes to.
template <typename Red, typename E, typename ReduceChunk>
AccumulatorOf<Red, typename E::value_type> ReduceChunks(const E& e, index_t count,
                                                        const ReduceChunk& reduce) {
  using Accumulator = AccumulatorOf<Red, typename E::value_type>;
  using Total = TotalOf<Red, Accumulator>;
  Total total = Red::template InitialValue<Total>();
  for (index_t base = 0; base < count; base += kReducePartials) {
    std::array<Accumulator, static_cast<size_t>(kReducePartials)> partial;
    const index_t partials = std::min(kReducePartials, count - base);
    ParallelFor(partials, ReduceGrain(CostOf(e)), [&](index_t first, index_t last) {
      const E local = e;
      for (index_t c = first; c < last; ++c) {
        partial[static_cast<size_t>(c)] = reduce(local, base + c);
      }
    });
    for (index_t c = 0; c < partials; ++c) {
      total = Red::OPType::Map(total, Total(partial[static_cast<size_t>(c)]));
    }
  }
  return static_cast<Accumulator>(total);
}

/// Reduces a CPU expression that is ready for a loop to one number.
template <typename Red, typename E>
AccumulatorOf<Red, typename E::value_type> ReduceToNumber(const E& e) {
  static_assert(!std::is_same_v<DeviceOf<E>, gpu>, "the host cannot read a GPU's memory");
  const ChunkPlan plan = PlanChunks(e);
  return ReduceChunks<Red>(e, plan.count, [&plan](const E& local, index_t c) {
    using Accumulator = AccumulatorOf<Red, typename E::value_type>;
    const index_t begin = c * plan.chunk;
    const index_t end = std::min(plan.extent, begin + plan.chunk);
    if (plan.cuts_row) return ReduceRow<Red>(local, 0, begin, end);
    Accumulator sum = Red::template InitialValue<Accumulator>();
    for (index_t y = begin; y < end; ++y) {
      sum = Red::OPType::Map(sum, ReduceRow<Red>(local, y, 0, plan.shape[1]));
    }
    return sum;
  });
}

/// What lies in a GPU's memory, and what the host can read.
template <typename E>
concept GpuOperand = Operand<E> && std::same_as<DeviceOf<E>, gpu>;
template <typename E>
concept HostOperand = Operand<E> && !GpuOperand<E>;

/// Reduces a whole CPU expression to one number and returns it. An empty sum is 0, an empty maximum
/// the type's lowest value, an empty minimum its highest.
template <typename Red, HostOperand E>
typename E::value_type ReduceAll(const E& expression) {
  Scratch<cpu> scratch;
  return static_cast<typename E::value_type>(
      ReduceToNumber<Red>(Prepare<false>(AsNode(expression), &scratch)));
}

/// Of a GPU's memory, which the host cannot read, it is a deleted function whose result names what
/// to use; see reductions.h.
struct ReduceAllReadsHostMemory_OnAGpuUseSumMaximumOrMinimum;
template <typename Red, GpuOperand E>
ReduceAllReadsHostMemory_OnAGpuUseSumMaximumOrMinimum ReduceAll(const E& expression) = delete;

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::reduce_except_dim;
using expr::ReduceAll;
using expr::sum_rows;
using expr::sumall_except_dim;

}  // namespace tessera

#endif  // TESSERA_TENSOR_REDUCE_H_
