#ifndef TESSERA_TENSOR_REDUCE_REDUCER_H_
#define TESSERA_TENSOR_REDUCE_REDUCER_H_

#include <algorithm>
#include <array>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/functors/adapted_reducer.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/reduce/reduce_columns.h"
#include "tessera/tensor/reduce/reduce_row.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The rows of a CPU expression that a reduction combines: the `count` rows first, first + step,
/// and so on.
struct RowsToReduce {
  index_t first;
  index_t step;
  index_t count;
};

/// Sets out[i] to the reduction by Red of element begin + i over the rows, as ReduceColumns
/// computes it.
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

/// Sets out[i] to the reduction by Red of element begin + i over the rows. Each `piece` rows are
/// reduced separately and in parallel, and their results are combined in order.
template <typename Red, typename E>
void ReduceRowsInPieces(const E& expression, const RowsToReduce& rows, index_t piece, index_t begin,
                        index_t end, typename E::value_type* out) {
  using T = typename E::value_type;
  using Accumulator = AccumulatorOf<Red, T>;
  const index_t pieces = (rows.count + piece - 1) / piece;
  Scratch<cpu> scratch;
  auto* const partial = static_cast<Accumulator*>(
      scratch.Allocate(pieces * kColumnBlock * static_cast<index_t>(sizeof(Accumulator))));
  for (index_t x = begin; x < end; x += kColumnBlock) {
    const index_t count = std::min(kColumnBlock, end - x);
    const TaskPlan tasks = TaskPlan::Of(pieces, piece * count, CostOf(expression));
    ParallelFor(tasks.count, tasks.grain, [&](index_t first, index_t last) {
      for (index_t p = first; p < last; ++p) {
        ReduceColumns<Red>(partial + p * kColumnBlock, expression, rows.first, rows.step, p * piece,
                           std::min(rows.count, (p + 1) * piece), x, count);
      }
    });
    for (index_t i = 0; i < count; ++i) {
      Accumulator value = partial[i];
      for (index_t p = 1; p < pieces; ++p) {
        value = Red::OPType::Map(value, partial[p * kColumnBlock + i]);
      }
      *out++ = static_cast<T>(value);
    }
  }
}

/// Reduces row y of `extent` elements by Red, in chunks that several threads share.
template <typename Red, typename E>
AccumulatorOf<Red, typename E::value_type> ReduceLongRow(const E& e, index_t y, index_t extent) {
  return ReduceChunks<Red>(
      e, (extent + kReduceChunk - 1) / kReduceChunk, [=](const E& local, index_t c) {
        const index_t begin = c * kReduceChunk;
        return ReduceRow<Red>(local, y, begin, std::min(extent, begin + kReduceChunk));
      });
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_REDUCE_REDUCER_H_
