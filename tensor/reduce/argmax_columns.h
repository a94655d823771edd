#ifndef TESSERA_TENSOR_REDUCE_ARGMAX_COLUMNS_H_
#define TESSERA_TENSOR_REDUCE_ARGMAX_COLUMNS_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "tessera/tensor/reduce/reduce_columns.h"
#include "tessera/tensor/reduce/reduce_row.h"

/// The index of each column's maximum or minimum.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Columns whose extremes and indices IndexColumns keeps in the first cache, and the rows up to
/// which the numbers in which it keeps indices are exact.
inline constexpr index_t kIndexedColumns = 256;
inline constexpr index_t kMaxIndexedRows = index_t{1} << 24;

/// The type of the indices in IndexColumns. It is as wide as the elements, so that indices fill the
/// same packets.
template <typename Red, typename E,
          typename Accumulator = AccumulatorOf<Red, typename E::value_type>>
using IndexIn = std::conditional_t<ReducesPackets<Red, E>, Accumulator,
                                   std::conditional_t<sizeof(Accumulator) == 8, int64_t, int32_t>>;

/// `index` where `best` changes to `combined` becomes k. A NaN, once it has won, differs from
/// itself and must not move on.
template <typename P>
TESSERA_HD P MovedIndex(const P& best, const P& combined, const P& k, const P& index) {
  return pk::pselect(pk::pandnot(pk::pcmp_eq(best, best), pk::pcmp_eq(combined, best)), k, index);
}

/// Columns that IndexColumnsIn takes at a time: a packet, or a block as in TakeUpRows.
template <typename Red, typename P, typename E>
constexpr index_t IndexStep() {
  if constexpr (ReducesPackets<Red, E>) {
    return pk::unpacket_traits<P>::size;
  } else {
    return 32;
  }
}

/// index[i], of a whole number of steps up to kIndexedColumns: which of `rows` rows from first_row
/// on, row_step apart, holds Red of column `column` + i; in packets P, if Red takes any.
template <typename Red, typename P, typename Index, typename E>
[[gnu::always_inline]] inline void IndexColumnsIn(Index* index, const E& e, index_t first_row,
                                                  index_t row_step, index_t rows, index_t column,
                                                  index_t count) {
  using Accumulator = AccumulatorOf<Red, typename E::value_type>;
  using Op = typename Red::OPType;
  constexpr index_t kStep = IndexStep<Red, P, E>();
  alignas(64) Accumulator best[kIndexedColumns];
  std::fill_n(best, count, Red::template InitialValue<Accumulator>());
  std::fill_n(index, count, Index(0));
  for (index_t r = 0; r < rows; ++r) {
    const index_t row = first_row + r * row_step;
    const Index k = static_cast<Index>(r);
    for (index_t x = 0; x < count; x += kStep) {
      if constexpr (ReducesPackets<Red, E>) {
        const P result = pk::ploadu<P>(best + x);
        const P combined = MapPackets<Op>(result, e.template EvalPacket<P>(row, column + x));
        pk::pstoreu(index + x,
                    MovedIndex(result, combined, pk::pset1<P>(k), pk::ploadu<P>(index + x)));
        pk::pstoreu(best + x, combined);
      } else {
        Accumulator combined[kStep];
        Index moved[kStep];
        for (index_t i = 0; i < kStep; ++i) {
          const Accumulator result = best[x + i];
          const Index at = index[x + i];
          combined[i] = Op::Map(result, static_cast<Accumulator>(e.Eval(row, column + x + i)));
          moved[i] = ((combined[i] != result) & (result == result)) ? k : at;
        }
        std::copy_n(combined, kStep, best + x);
        std::copy_n(moved, kStep, index + x);
      }
    }
  }
}

/// IndexColumnsIn for AVX2 packets. Requires: RunsAvx2().
template <typename Red, typename Index, typename E>
TESSERA_AVX2_LOOP void IndexColumnsAvx2(Index* index, const E e, index_t first_row,
                                        index_t row_step, index_t rows, index_t column,
                                        index_t count) {
  IndexColumnsIn<Red, Avx2Packet<Index>>(index, e, first_row, row_step, rows, column, count);
}

/// out[i] = which of the rows holds Red of column begin + i, for as many columns up to `end` as are
/// whole packets or blocks; returns the first that is left.
template <typename Red, typename E>
index_t IndexColumns(const E e, index_t first_row, index_t row_step, index_t rows, index_t begin,
                     index_t end, typename E::value_type* out) {
  using T = typename E::value_type;
  using Index = IndexIn<Red, E>;
  using P = typename PacketTraits<T>::type;
  constexpr bool kWide =
      ReducesAvx2Packets<Red, E> || (!ReducesPackets<Red, E> && TESSERA_HAS_AVX2_PACKETS);
  alignas(64) Index index[kIndexedColumns];
  index_t x = begin;
  for (index_t count; (count = std::min(kIndexedColumns, end - x)) > 0; x += count) {
    bool done = false;
    if constexpr (kWide) {
      if (count >= kMinAvx2Row && RunsAvx2()) {
        count -= count % IndexStep<Red, Avx2Packet<Index>, E>();
        IndexColumnsAvx2<Red>(index, e, first_row, row_step, rows, x, count);
        done = true;
      }
    }
    if (!done) {
      count -= count % IndexStep<Red, P, E>();
      if (count == 0) break;
      IndexColumnsIn<Red, P>(index, e, first_row, row_step, rows, x, count);
    }
    for (index_t i = 0; i < count; ++i) *out++ = static_cast<T>(index[i]);
  }
  return x;
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_REDUCE_ARGMAX_COLUMNS_H_
