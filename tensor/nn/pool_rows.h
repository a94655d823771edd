#ifndef TESSERA_TENSOR_NN_POOL_ROWS_H_
#define TESSERA_TENSOR_NN_POOL_ROWS_H_

#include <algorithm>

#include "tessera/tensor/dense/dense.h"

/// The loop of pooling over windows that are side by side.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// kPooledAtOnce is the number of windows reduced at a time. kPooledTogether is the multiple to
/// which their number is rounded up: two packets of the widest kind, so that one packet's latency
/// hides the other's.
inline constexpr index_t kPooledAtOnce = 64;
template <typename T>
inline constexpr index_t kPooledTogether = 2 * std::max(PacketTraits<T>::kSize,
                                                        index_t{32} / index_t{sizeof(T)});

/// The maximum number of elements in windows that are reduced at a time.
inline constexpr index_t kMaxPooledElements = 2048;

/// Rows of elements and the windows over them. The k-th element of window i in row r is from[r *
/// row_step + i * stride + k].
struct PooledRows {
  index_t rows;
  index_t row_step;
  index_t kernel;   ///< elements of a window in a row
  index_t stride;   ///< from one window to the next
  index_t windows;  ///< a multiple of kPooledTogether
  index_t steps;    ///< strides in a row, so that the last window is complete

  /// Returns the number of elements that are read of a row.
  index_t columns() const { return steps * stride; }
};

/// Sets to[k * steps + i] = from[i * stride + k] for k below `phases`. Elements with the same
/// position in their windows then become adjacent.
template <typename T>
[[gnu::always_inline]] inline void SplitPooledRow(const T* from, index_t steps, index_t stride,
                                                  index_t phases, T* to) {
  index_t i = 0;
  if (stride == 2 && phases == 2) {
    // GCC vectorizes this because the block has a constant extent and memory of its own.
    constexpr index_t kBlock = 8;
    for (; i + kBlock <= steps; i += kBlock) {
      T even[kBlock], odd[kBlock];
      for (index_t j = 0; j < kBlock; ++j) {
        even[j] = from[2 * (i + j)];
        odd[j] = from[2 * (i + j) + 1];
      }
      std::copy_n(even, kBlock, to + i);
      std::copy_n(odd, kBlock, to + steps + i);
    }
  }
  for (; i < steps; ++i) {
    for (index_t k = 0; k < phases; ++k) to[k * steps + i] = from[i * stride + k];
  }
}

/// Runs ReducePooledRows in packets P.
template <typename Op, typename P, typename T>
[[gnu::always_inline]] inline void ReducePooledRowsIn(const T* from, const PooledRows pooled,
                                                      T initial, T* results) {
  constexpr index_t kSize = pk::unpacket_traits<P>::size;
  index_t row_step = pooled.row_step;
  T split[kMaxPooledElements];
  if (pooled.stride != 1) {
    const index_t phases = std::min(pooled.kernel, pooled.stride);
    for (index_t r = 0; r < pooled.rows; ++r) {
      SplitPooledRow(from + r * row_step, pooled.steps, pooled.stride, phases,
                     split + r * phases * pooled.steps);
    }
    from = split;
    row_step = phases * pooled.steps;
  }
  const index_t columns = pooled.columns();
  for (index_t i = 0; i < pooled.windows; i += 2 * kSize) {
    P first = pk::pset1<P>(initial);
    P second = first;
    for (index_t r = 0; r < pooled.rows; ++r) {
      const T* elements = from + r * row_step + i;
      index_t phase = 0;  // multiplied by steps
      for (index_t k = 0; k < pooled.kernel; ++k) {
        first = MapPackets<Op>(first, pk::ploadu<P>(elements + phase));
        second = MapPackets<Op>(second, pk::ploadu<P>(elements + phase + kSize));
        phase += pooled.steps;
        if (phase == columns) {
          phase = 0;
          ++elements;
        }
      }
    }
    pk::pstoreu(results + i, first);
    pk::pstoreu(results + i + kSize, second);
  }
}

/// Runs ReducePooledRows in AVX2 packets. Requires: RunsAvx2().
template <typename Op, typename T>
TESSERA_AVX2_LOOP void ReducePooledRowsAvx2(const T* from, const PooledRows& pooled, T initial,
                                            T* results) {
  ReducePooledRowsIn<Op, Avx2Packet<T>>(from, pooled, initial, results);
}

/// Reduces windows: results[i] = Op(… Op(Op(initial, e0), e1) …) over window i's elements row by
/// row. Requires: at most kMaxPooledElements of columns() in all rows.
template <typename Op, typename T>
void ReducePooledRows(const T* from, const PooledRows& pooled, T initial, T* results) {
  if constexpr (kHasAvx2PacketsOf<T>) {
    if (RunsAvx2()) return ReducePooledRowsAvx2<Op>(from, pooled, initial, results);
  }
  ReducePooledRowsIn<Op, typename PacketTraits<T>::type>(from, pooled, initial, results);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_NN_POOL_ROWS_H_
