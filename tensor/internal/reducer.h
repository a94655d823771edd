#ifndef TESSERA_TENSOR_INTERNAL_REDUCER_H_
#define TESSERA_TENSOR_INTERNAL_REDUCER_H_

#include <algorithm>
#include <array>

#include "tessera/tensor/dense.h"
#include "tessera/tensor/internal/adapted_reducer.h"
#include "tessera/tensor/reduce.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Which elements of a CPU expression a reduction over rows takes: elements [begin, end) of the
/// `count` rows first, first + step, and so on.
struct RowsToReduce {
  index_t first;
  index_t step;
  index_t count;
};

/// out[i] = Red over the rows of element begin + i, as ReduceColumns reduces them.
template <typename Red, typename E>
void ReduceRows(const E& expression, const RowsToReduce& rows, index_t begin, index_t end,
                typename E::value_type* out) {
  using T = typename E::value_type;
  alignas(64) std::array<AccumulatorOf<Red, T>, static_cast<size_t>(kColumnBlock)> results;
  for (index_t x = begin; x < end; x += kColumnBlock) {
    const index_t count = std::min(kColumnBlock, end - x);
    ReduceColumns<Red>(results.data(), expression, rows.first, rows.step, 0, rows.count, x, count);
    for (index_t i = 0; i < count; ++i) *out++ = static_cast<T>(results[static_cast<size_t>(i)]);
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_INTERNAL_REDUCER_H_
