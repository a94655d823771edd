#ifndef TESSERA_OPS_ORDER_ROW_ORDER_H_
#define TESSERA_OPS_ORDER_ROW_ORDER_H_

#include <cstdint>
#include <memory>

#include "tessera/base/shape.h"

namespace tessera::ops_internal {

/// Finds the first elements of rows in ascending or descending order. NaN counts as greater than
/// every number.
///
/// Equal elements come in the order in which libstdc++ leaves them, as in MXNet on the CPU: that of
/// std::sort, or of std::partial_sort if 8 k is at most the length of the row. std::sort is written
/// anew, since any algorithm that makes the same comparisons' decisions leaves the same order: an
/// introsort (D. R. Musser, Introspective sorting and selection algorithms, 1997) by the median of
/// three elements, whose partitions are searched in blocks without branches (S. Edelkamp and A.
/// Weiss, BlockQuicksort, 2016) and whose parts are sorted by several threads. A few elements of a
/// row without ties are found in one pass.
///
/// T is float, double or int64_t. An object serves one thread at a time.
template <typename T>
class RowOrder {
 public:
  /// Orders rows of n elements, of which the first k are wanted. Requires: 0 <= k <= n; n < 2^32 if
  /// T is float.
  RowOrder(index_t n, index_t k, bool is_ascend);
  ~RowOrder();
  RowOrder(const RowOrder&) = delete;
  RowOrder& operator=(const RowOrder&) = delete;

  /// Writes the positions of the row's first k elements, in order.
  void Find(const T* row, int64_t* positions);

 private:
  class Entries;

  const index_t n_;
  const index_t k_;
  const bool is_ascend_;
  std::unique_ptr<Entries> entries_;  // made when a row needs it
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_ORDER_ROW_ORDER_H_
