#ifndef TESSERA_TENSOR_REDUCE_REDUCE_ROW_H_
#define TESSERA_TENSOR_REDUCE_REDUCE_ROW_H_

#include <algorithm>
#include <array>
#include <concepts>
#include <type_traits>
#include <utility>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/expr/at_row.h"
#include "tessera/tensor/functors/accumulate.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The number of packets that one chain accumulates before its partial result joins the total. A
/// row without packets is cut into parts that are as long as four such chains. The error of a sum
/// grows with the number of consecutive additions. This is at most kReduceBlock for packets, or
/// four times as many for elements, plus the number of such blocks in a chunk, instead of the
/// number of all elements (blocked summation; N. J. Higham, Accuracy and Stability of Numerical
/// Algorithms, 2002, section 4.2).
inline constexpr index_t kReduceBlock = 128;

/// The number of packets that ReduceRow accumulates in one step, each into its own partial result.
/// Four independent chains hide the latency of the addition. A row with fewer packets is reduced
/// element by element.
inline constexpr index_t kReduceChains = 4;

/// True if Red reduces E in packets: both support them, and the partial results have E's type.
template <typename Red, typename E>
concept ReducesPackets = E::kHasPacket && PacketTraits<typename E::value_type>::kVectorizable &&
    HasBinaryPacket<typename Red::OPType, typename E::value_type> &&
    std::same_as<typename E::value_type, AccumulatorOf<Red, typename E::value_type>>;

/// True if Red also reduces E in AVX2 packets.
template <typename Red, typename E>
concept ReducesAvx2Packets =
    ReducesPackets<Red, E> && !HoldsSpans<E>() && kHasAvx2PacketsOf<typename E::value_type> &&
    HasAvx2Packet<E>() && HasAvx2Packet<typename Red::OPType>();

/// True if Red gives the same bits in any order, so that the compiler may choose the order. This is
/// so for integers, whose sums wrap, unless they are reduced in packets.
template <typename Red, typename E>
concept ReducesInAnyOrder = std::integral<typename E::value_type> && !ReducesPackets<Red, E> &&
                            (std::same_as<Red, red::sum> || std::same_as<Red, red::maximum> ||
                             std::same_as<Red, red::minimum>);

/// The partial results of a row in packets P, which the build's own instruction set has.
template <typename Op, typename P>
struct RowChains {
  using T = typename pk::unpacket_traits<P>::type;
  static constexpr index_t kSize = pk::unpacket_traits<P>::size;

  P p0, p1, p2, p3;

  TESSERA_HD explicit RowChains(const T& initial)
      : p0(pk::pset1<P>(initial)), p1(p0), p2(p0), p3(p0) {}
  /// Accumulates one step of kReduceChains packets, from element x of row y on.
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

#if TESSERA_HAS_AVX2_PACKETS
/// The partial results of a row in AVX2 packets. Each AVX2 packet is two chains, so that the bits
/// are those of the build's own packets.
template <typename Op, typename T>
struct RowChains<Op, Avx2Packet<T>> {
  using P = Avx2Packet<T>;

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
  /// Returns the combined chains of two rows, the second in the higher half. It takes half as many
  /// operations as two calls of Combined.
  TESSERA_HD static P CombinedOf(const RowChains& a, const RowChains& b) {
    return MapPackets<Op>(MapPackets<Op>(LowHalves(a.p01, b.p01), HighHalves(a.p01, b.p01)),
                          MapPackets<Op>(LowHalves(a.p23, b.p23), HighHalves(a.p23, b.p23)));
  }
};
#endif  // TESSERA_HAS_AVX2_PACKETS

/// kReduceTurn is the number of elements in one step of kReduceChains packets. kReduceBlockOf is
/// the number of elements in the steps whose partial results are combined together.
template <typename T>
inline constexpr index_t kReduceTurn = kReduceChains* PacketTraits<T>::kSize;
template <typename T>
inline constexpr index_t kReduceBlockOf = kReduceBlock* kReduceTurn<T>;

/// Returns Op over elements [begin, end) of row y. Requires: whole steps of kReduceTurn elements.
template <typename Op, typename P, typename T, typename E>
[[gnu::always_inline]] inline typename PacketTraits<T>::type ReduceTurns(const T& initial,
                                                                         const E& e, index_t y,
                                                                         index_t begin,
                                                                         index_t end) {
  RowChains<Op, P> chains(initial);
  for (index_t x = begin; x < end; x += kReduceTurn<T>) chains.Take(e, y, x);
  return chains.Combined();
}

/// Returns an expression for elements [x, x + count) of row y: `e` itself, or if it has expensive
/// functions, a block of their values in `buffer`.
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

/// The numbers of elements that are reduced together in any order: kAnyOrderBlock for most of a
/// row, and kShortAnyOrderBlock for the rest. They are constants because GCC at -O2 vectorizes only
/// loops of constant extent.
inline constexpr index_t kAnyOrderBlock = kReduceBlock * kReduceChains;
inline constexpr index_t kShortAnyOrderBlock = 32;

/// Reduces kCount elements of row y from x on, in any order, in kChains chains. Sums of elements of
/// up to 16 bits accumulate in 32 bits, which is enough for a block and doubles the elements in a
/// packet.
template <typename Red, index_t kCount, index_t kChains, typename E>
[[gnu::always_inline]] inline AccumulatorOf<Red, typename E::value_type> ReduceInAnyOrder(
    const E& e, index_t y, index_t x) {
  using T = typename E::value_type;
  using Accumulator = AccumulatorOf<Red, T>;
  using Part =
      std::conditional_t<std::is_same_v<Red, red::sum> && sizeof(T) <= 2, int32_t, Accumulator>;
  static_assert(kCount <= 1 << 15, "so many 16-bit numbers add up to 32 bits");
  using Op = typename Red::OPType;
  constexpr index_t kChain = kCount / kChains;
  Part p0 = Red::template InitialValue<Part>();
  if constexpr (kChains == 1) {
    for (index_t i = 0; i < kChain; ++i) p0 = Op::Map(p0, static_cast<Part>(e.Eval(y, x + i)));
    return p0;
  } else {
    static_assert(kChains == 4);
    Part p1 = p0, p2 = p0, p3 = p0;
    for (index_t i = x; i < x + kChain; ++i) {
      p0 = Op::Map(p0, static_cast<Part>(e.Eval(y, i)));
      p1 = Op::Map(p1, static_cast<Part>(e.Eval(y, i + kChain)));
      p2 = Op::Map(p2, static_cast<Part>(e.Eval(y, i + 2 * kChain)));
      p3 = Op::Map(p3, static_cast<Part>(e.Eval(y, i + 3 * kChain)));
    }
    return Op::Map(Op::Map(p0, p1), Op::Map(p2, p3));
  }
}

/// Returns the expression to read row y from. It is bound to the row if finding the row takes
/// divisions.
template <typename E>
decltype(auto) RowOf(const E& e, [[maybe_unused]] index_t y) {
  if constexpr (HasAtRow<E>) {
    return AtRow(e, y);
  } else {
    return (e);
  }
}

/// Runs ReduceRow in packets P. Inlining is forced, so that the loops are compiled for the caller's
/// instruction set.
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
      const auto take_turns = [&]() __attribute__((always_inline)) {
        const index_t count = std::min(kBlock, (end - x) / kTurn * kTurn);
        const auto& elements = RowElements(e, y, x, count, buffer);
        x += count;
        return ReduceTurns<Op, P>(initial, elements, y, x - count, x);
      };
      Narrow all = take_turns();
      while (x + kTurn <= end) all = MapPackets<Op>(all, take_turns());
      alignas(64) std::array<T, static_cast<size_t>(PacketTraits<T>::kSize)> lanes;
      pk::pstoreu(lanes.data(), all);
      result = lanes[0];
      for (size_t i = 1; i < lanes.size(); ++i) result = Op::Map(result, lanes[i]);
    }
  }
  if constexpr (ReducesInAnyOrder<Red, E> && !HoldsSpans<E>()) {
    for (; x + kAnyOrderBlock <= end; x += kAnyOrderBlock) {
      result = Op::Map(result, ReduceInAnyOrder<Red, kAnyOrderBlock, kReduceChains>(e, y, x));
    }
    for (; x + kShortAnyOrderBlock <= end; x += kShortAnyOrderBlock) {
      result = Op::Map(result, ReduceInAnyOrder<Red, kShortAnyOrderBlock, 1>(e, y, x));
    }
  }
  // The rest after the packets, or a row without packets, is reduced element by element, in parts.
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

/// Runs ReduceRow in AVX2 packets, or in loops that the compiler vectorizes for AVX2. Requires:
/// RunsAvx2().
template <typename Red, typename E>
TESSERA_AVX2_LOOP AccumulatorOf<Red, typename E::value_type> ReduceRowAvx2(const E e, index_t y,
                                                                           index_t begin,
                                                                           index_t end) {
  return ReduceRowIn<Red, Avx2Packet<typename E::value_type>>(e, y, begin, end);
}

/// Reduces elements [begin, end) of row y of an expression. The order depends only on the extent:
/// four packets of partial results, then their lanes, then the rest. Expensive functions are
/// computed by array kernels, one block at a time.
template <typename Red, typename E>
AccumulatorOf<Red, typename E::value_type> ReduceRow(const E& e, index_t y, index_t begin,
                                                     index_t end) {
  if constexpr (HasAtRow<E> && !HoldsSpans<E>()) return ReduceRow<Red>(AtRow(e, y), y, begin, end);
  if constexpr (ReducesAvx2Packets<Red, E> ||
                (ReducesInAnyOrder<Red, E> && TESSERA_HAS_AVX2_PACKETS && !HoldsSpans<E>())) {
    if (end - begin >= kMinAvx2Row && RunsAvx2()) return ReduceRowAvx2<Red>(e, y, begin, end);
  }
  return ReduceRowIn<Red, typename PacketTraits<typename E::value_type>::type>(e, y, begin, end);
}

/// Sets results[i] = Op over the lanes of packet i, in order. The number of packets is the number
/// of lanes.
template <typename Op, typename T, typename P, typename... MoreP>
TESSERA_HD void ReduceLanes(T* results, const P& packet, const MoreP&... packets) {
  pk::PacketBlock<P, 1 + sizeof...(MoreP)> lanes{{packet, packets...}};
  pk::ptranspose(lanes);
  P result = lanes.packet[0];
  for (size_t i = 1; i < 1 + sizeof...(MoreP); ++i) {
    result = MapPackets<Op>(result, lanes.packet[i]);
  }
  pk::pstoreu(results, result);
}

/// The number of rows that ReduceRowsAvx2 reduces side by side. A row has only two chains of AVX2
/// packets, because its order of additions must be that of four narrower ones. One row alone would
/// wait for the latency of each addition.
inline constexpr index_t kRowsSideBySide = 4;

/// The size in bytes below which rows are reduced side by side. Packed rows of one page map to the
/// same sets of the L1 cache, so that rows of two operands would evict each other.
inline constexpr index_t kSideBySideBytes = 4096;

/// Sets results[i] = ReduceRow<Red>(e, first + i, 0, columns), kRowsSideBySide rows at a time from
/// `first` on, and stops when fewer are left before `last`. Returns the number of rows reduced.
/// Requires: `columns` holds one step and at most one block, and RunsAvx2().
template <typename Red, typename E>
TESSERA_AVX2_LOOP index_t ReduceRowsAvx2(const E e, index_t first, index_t last, index_t columns,
                                         typename E::value_type* results) {
  using T = typename E::value_type;
  using Op = typename Red::OPType;
  const index_t in_turns = columns / kReduceTurn<T> * kReduceTurn<T>;
  const T initial = Red::template InitialValue<T>();
  index_t y = first;
  for (; y + kRowsSideBySide <= last; y += kRowsSideBySide, results += kRowsSideBySide) {
    RowChains<Op, Avx2Packet<T>> row0(initial), row1(initial), row2(initial), row3(initial);
    const auto &e0 = RowOf(e, y), &e1 = RowOf(e, y + 1), &e2 = RowOf(e, y + 2),
               &e3 = RowOf(e, y + 3);
    for (index_t x = 0; x < in_turns; x += kReduceTurn<T>) {
      row0.Take(e0, y, x);
      row1.Take(e1, y + 1, x);
      row2.Take(e2, y + 2, x);
      row3.Take(e3, y + 3, x);
    }
    const Avx2Packet<T> all01 = RowChains<Op, Avx2Packet<T>>::CombinedOf(row0, row1);
    const Avx2Packet<T> all23 = RowChains<Op, Avx2Packet<T>>::CombinedOf(row2, row3);
    if constexpr (PacketTraits<T>::kSize == 2) {
      ReduceLanes<Op>(results, LowHalf(all01), HighHalf(all01));
      ReduceLanes<Op>(results + 2, LowHalf(all23), HighHalf(all23));
    } else {
      ReduceLanes<Op>(results, LowHalf(all01), HighHalf(all01), LowHalf(all23), HighHalf(all23));
    }
    for (index_t r = 0; r < kRowsSideBySide && in_turns < columns; ++r) {
      T rest = initial;
      for (index_t x = in_turns; x < columns; ++x) rest = Op::Map(rest, e.Eval(y + r, x));
      results[r] = Op::Map(results[r], rest);
    }
  }
  return y - first;
}

/// Returns `result` combined with the packets at x of rows y, y + 1, and so on; lane i belongs to
/// row y + i. The first `skipped` elements of each packet are left out. Each row's elements are
/// combined in order.
template <typename Op, typename P, typename E, size_t... i>
TESSERA_HD P TakeUpTransposed(P result, const E& e, index_t y, index_t x, size_t skipped,
                              std::index_sequence<i...> /*rows*/) {
  pk::PacketBlock<P, sizeof...(i)> block{
      {e.template EvalPacket<P>(y + static_cast<index_t>(i), x)...}};
  pk::ptranspose(block);
  ((result = i < skipped ? result : MapPackets<Op>(result, block.packet[i])), ...);
  return result;
}

/// Sets results[i] = ReduceRow<Red>(e, first + i, 0, columns) for short rows, which ReduceRow
/// reduces element by element. It reduces four rows at a time, or one for each lane of a packet,
/// from `first` on, and stops when fewer are left before `last`. Returns the number of rows
/// reduced. A short row alone would wait for each addition, and costs hardly more than the call.
template <typename Red, typename E>
index_t ReduceShortRows(const E e, index_t first, index_t last, index_t columns,
                        AccumulatorOf<Red, typename E::value_type>* results) {
  using T = typename E::value_type;
  using Accumulator = AccumulatorOf<Red, T>;
  using Op = typename Red::OPType;
  const Accumulator initial = Red::template InitialValue<Accumulator>();
  index_t y = first;
  if constexpr (ReducesPackets<Red, E> && std::is_floating_point_v<T>) {
    using P = typename PacketTraits<T>::type;
    constexpr index_t kSize = PacketTraits<T>::kSize;
    constexpr auto kRows = std::make_index_sequence<static_cast<size_t>(kSize)>();
    // The elements after the last whole packet are in a packet that ends with the row.
    const index_t rest = columns % kSize;
    if (columns >= kSize) {
      for (; y + kSize <= last; y += kSize, results += kSize) {
        P result = pk::pset1<P>(initial);
        for (index_t x = 0; x + kSize <= columns; x += kSize) {
          result = TakeUpTransposed<Op>(result, e, y, x, 0, kRows);
        }
        if (rest > 0) {
          result = TakeUpTransposed<Op>(result, e, y, columns - kSize,
                                        static_cast<size_t>(kSize - rest), kRows);
        }
        pk::pstoreu(results, result);
      }
    }
  }
  for (; y + 4 <= last; y += 4) {
    Accumulator p0 = initial, p1 = initial, p2 = initial, p3 = initial;
    for (index_t x = 0; x < columns; ++x) {
      p0 = Op::Map(p0, static_cast<Accumulator>(e.Eval(y, x)));
      p1 = Op::Map(p1, static_cast<Accumulator>(e.Eval(y + 1, x)));
      p2 = Op::Map(p2, static_cast<Accumulator>(e.Eval(y + 2, x)));
      p3 = Op::Map(p3, static_cast<Accumulator>(e.Eval(y + 3, x)));
    }
    *results++ = p0;
    *results++ = p1;
    *results++ = p2;
    *results++ = p3;
  }
  return y - first;
}

/// Sets results[i] = Finish of values[i], each reduced from `extent` elements, in whole packets P.
/// Returns the number of elements in these packets.
template <typename Finish, typename P, typename T>
[[gnu::always_inline]] inline index_t FinishPackets(const T* values, index_t count, index_t extent,
                                                    T* results) {
  constexpr index_t kSize = pk::unpacket_traits<P>::size;
  index_t i = 0;
  for (; i + kSize <= count; i += kSize) {
    pk::pstoreu(results + i, Finish::PacketMap(pk::ploadu<P>(values + i), extent));
  }
  return i;
}

/// Runs FinishPackets in AVX2 packets. Requires: RunsAvx2().
template <typename Finish, typename T>
TESSERA_AVX2_LOOP index_t FinishAvx2(const T* values, index_t count, index_t extent, T* results) {
  return FinishPackets<Finish, Avx2Packet<T>>(values, count, extent, results);
}

/// Sets results[i] = Finish of values[i], each reduced from `extent` elements. `results` may be
/// `values`.
template <typename Finish, typename Value, typename T>
void FinishResults(const Value* values, index_t count, index_t extent, T* results) {
  index_t i = 0;
  if constexpr (std::is_same_v<T, Value>) {
    if (std::is_same_v<Finish, finish::None> && values == results) return;
    if constexpr (PacketTraits<T>::kVectorizable) {
      using P = typename PacketTraits<T>::type;
      if constexpr (requires(const P& packet) { Finish::PacketMap(packet, extent); }) {
        if constexpr (kHasAvx2PacketsOf<T> && HasAvx2Packet<Finish>()) {
          if (count >= kMinAvx2Row && RunsAvx2()) {
            i = FinishAvx2<Finish>(values, count, extent, results);
          }
        }
        i += FinishPackets<Finish, P>(values + i, count - i, extent, results + i);
      }
    }
  }
  for (; i < count; ++i) results[i] = Finish::template Map<T>(values[i], extent);
}

/// Sets results[i] = Finish of ReduceRow<Red>(e, first + i, 0, columns), for `count` rows.
/// Requires: e reads nothing in `results`.
template <typename Red, typename Finish, typename E, typename T>
void ReduceEachRow(const E& e, index_t first, index_t count, index_t columns, T* results) {
  using Value = AccumulatorOf<Red, typename E::value_type>;
  constexpr bool kInPlace = std::is_same_v<T, Value>;
  constexpr index_t kBuffered = 16 * kRowsSideBySide;
  alignas(64) Value buffer[kInPlace ? 1 : kBuffered];
  while (count > 0) {
    const index_t rows = kInPlace ? count : std::min(count, kBuffered);
    Value* values = buffer;
    if constexpr (kInPlace) values = results;
    index_t i = 0;
    if constexpr (ReducesAvx2Packets<Red, E>) {
      constexpr index_t kLimit = kSideBySideBytes / index_t{sizeof(Value)};
      static_assert(kReduceTurn<Value> <= kMinAvx2Row && kLimit <= kReduceBlockOf<Value>);
      if (columns >= kMinAvx2Row && columns < kLimit && RunsAvx2()) {
        i = ReduceRowsAvx2<Red>(e, first, first + rows, columns, values);
      }
    }
    if constexpr (!HoldsSpans<E>()) {
      // Rows shorter than kLimit are reduced element by element.
      constexpr index_t kLimit = ReducesPackets<Red, E>      ? kReduceTurn<Value>
                                 : ReducesInAnyOrder<Red, E> ? kShortAnyOrderBlock
                                                             : kAnyOrderBlock + 1;
      if (columns < kLimit) {
        i += ReduceShortRows<Red>(e, first + i, first + rows, columns, values + i);
      }
    }
    for (; i < rows; ++i) values[i] = ReduceRow<Red>(e, first + i, 0, columns);
    FinishResults<Finish>(values, rows, columns, results);
    first += rows;
    results += rows;
    count -= rows;
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_REDUCE_REDUCE_ROW_H_
