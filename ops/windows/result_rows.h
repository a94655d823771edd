#ifndef TESSERA_OPS_WINDOWS_RESULT_ROWS_H_
#define TESSERA_OPS_WINDOWS_RESULT_ROWS_H_

#include <algorithm>

#include "tessera/base/shape.h"
#include "tessera/ops/epilogue.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/tensor/linalg/gemm.h"

namespace tessera::ops_internal {

/// Adds a number to each of n elements.
template <typename A>
void AddTo(index_t n, A value, A* out) {
  ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { out[i] += value; });
}

/// The rows of results that a product computes, one for each filter, and what follows for elements
/// that it has finished: a bias is added, then the epilogue of the call runs.
template <typename A>
struct ResultRows {
  A* data;
  index_t stride;           ///< elements from row to row
  const A* bias = nullptr;  ///< of each row; null for none
  index_t first = 0;        ///< the number of data[0] among the elements of the call's output
  const Epilogue* epilogue = nullptr;

  /// Takes elements that the product has finished.
  void Finish(index_t row, index_t rows, index_t column, index_t columns) const {
    // Rows stay in the first-level cache from one step to the next.
    constexpr index_t kNearElements = index_t{1} << 11;
    const index_t step = bias == nullptr
                             ? rows
                             : std::max<index_t>(1, kNearElements / std::max<index_t>(1, columns));
    for (const index_t end = row + rows; row < end; row += step) {
      const index_t last = std::min(end, row + step);
      for (index_t i = row; bias != nullptr && i < last; ++i) {
        AddTo(columns, bias[i], data + i * stride + column);
      }
      if (epilogue == nullptr) continue;
      epilogue->Run({.first = first + row * stride + column,
                     .run = columns,
                     .count = last - row,
                     .stride = stride});
    }
  }

  /// Returns this as the end of a product, which must not outlive it.
  tensor_internal::ProductEnd End() const {
    if (bias == nullptr && epilogue == nullptr) return {};
    return {[](const void* context, index_t row, index_t rows, index_t column, index_t columns) {
              static_cast<const ResultRows*>(context)->Finish(row, rows, column, columns);
            },
            this};
  }
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_WINDOWS_RESULT_ROWS_H_
