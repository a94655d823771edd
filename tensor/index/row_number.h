#ifndef TESSERA_TENSOR_INDEX_ROW_NUMBER_H_
#define TESSERA_TENSOR_INDEX_ROW_NUMBER_H_

#include <type_traits>

#include "tessera/base/dtype.h"
#include "tessera/base/host_device.h"
#include "tessera/base/shape.h"

namespace tessera::tensor_internal {

/// Returns an index of any numeric type as an integer, truncated. An index below -1, or NaN,
/// becomes -1. An index above 2^62 becomes 2^62.
template <typename T>
TESSERA_HD index_t RowNumber(T index) {
  constexpr index_t kLargest = index_t{1} << 62;
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      if (index < 0) return -1;
    }
    if constexpr (sizeof(T) == sizeof(index_t)) {
      if (index > static_cast<T>(kLargest)) return kLargest;
    }
    return static_cast<index_t>(index);
  } else {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const Wide value = static_cast<Wide>(index);
    if (!(value > Wide(-1))) return -1;
    if (value >= static_cast<Wide>(kLargest)) return kLargest;
    return static_cast<index_t>(value);
  }
}

/// The treatment of an index that is outside the rows.
enum class OutOfRange {
  kNearest,  ///< it selects the first or the last row, whichever is nearer
  kAround,   ///< it selects its remainder by the number of rows, so that -1 is the last
  kSkipped,  ///< it selects no row
};

/// Returns the row in [0, rows) that an index selects, or -1 for none. Requires: rows >= 1, unless
/// kRule is kSkipped.
template <OutOfRange kRule, typename T>
TESSERA_HD index_t RowFor(T index, index_t rows) {
  const index_t row = RowNumber(index);
  if (0 <= row && row < rows) return row;
  if constexpr (kRule == OutOfRange::kSkipped) {
    return -1;
  } else if constexpr (kRule == OutOfRange::kNearest) {
    return row < 0 ? 0 : rows - 1;
  } else {
    if (row >= 0) return row % rows;
    // RowNumber maps every negative index to -1, so the remainder is computed from the index.
    index_t rest = 0;
    if constexpr (std::is_integral_v<T>) {
      rest = -(static_cast<index_t>(index) % rows);
    } else if (index < T(0)) {
      rest = RowNumber(static_cast<T>(-index)) % rows;
    }
    return rest == 0 ? 0 : rows - rest;
  }
}

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_INDEX_ROW_NUMBER_H_
