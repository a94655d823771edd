#ifndef TESSERA_TENSOR_REDUCE_REDUCE_H_
#define TESSERA_TENSOR_REDUCE_REDUCE_H_

#include <algorithm>
#include <array>
#include <concepts>
#include <tuple>
#include <type_traits>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/expr/merge_dimensions.h"
#include "tessera/tensor/functors/accumulate.h"
#include "tessera/tensor/functors/adapted_reducer.h"
#include "tessera/tensor/reduce/reduce_columns.h"
#include "tessera/tensor/reduce/reduce_cuda.h"
#include "tessera/tensor/reduce/reduce_row.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Combines dst[x] with scale * Red over all rows y of e(y, x).
template <typename Red, typename Saver, typename T, typename E>
void ReduceOverRows(const Tensor<cpu, 1, T>& dst, const E& e, index_t rows, T scale) {
  using Accumulator = AccumulatorOf<Red, T>;
  Scratch<cpu> scratch;
  ReduceAcrossRows<Red>(
      e, AxisWalk<0, 2>(Shape2(rows, dst.shape_[0])), &scratch,
      [](index_t /*line*/, index_t /*column*/) -> Accumulator* { return nullptr; },
      [out = dst.dptr_, factor = static_cast<Accumulator>(scale)](
          index_t /*line*/, index_t column, const Accumulator* results, index_t count) {
        for (index_t i = 0; i < count; ++i) {
          SaveElement<Saver>(out + column + i, static_cast<T>(op::mul::Map(results[i], factor)));
        }
      });
}

/// The number of elements that a full reduction reduces to one partial result. It is constant, so
/// that the order of additions does not depend on the number of threads.
inline constexpr index_t kReduceChunk = index_t{1} << 14;
/// The number of partial results that are kept before they are combined in order.
inline constexpr index_t kReducePartials = 64;
/// Returns the number of chunks in a task, for elements of cost `cost`.
inline index_t ReduceGrain(index_t cost) { return StepsPerTask(kReduceChunk, cost); }

/// Divides (rows, columns) of elements into chunks of about kReduceChunk elements. A single row is
/// cut by columns, and several rows are cut by rows. The chunks depend only on the shape.
struct ChunkPlan {
  Shape<2> shape;
  bool cuts_row;
  index_t extent;  // the number of columns if cuts_row, else of rows
  index_t chunk;   // the number of columns or rows in a chunk
  index_t count;

  explicit ChunkPlan(const Shape<2>& all)
      : shape(all),
        cuts_row(all[0] == 1),
        extent(all[cuts_row ? 1 : 0]),
        chunk(cuts_row ? kReduceChunk
                       : std::max<index_t>(1, kReduceChunk / std::max<index_t>(1, all[1]))),
        count(all.Size() == 0 ? 0 : (extent + chunk - 1) / chunk) {}
};

/// Divides the work of a reduction that keeps a dimension other than the last: by results, or if
/// these are few, by chunks of the elements of each result. The chunks depend only on the shape; an
/// element's cost affects only how many chunks a task has.
struct ExceptPlan {
  ChunkPlan of_each;
  bool in_chunks;
  TaskPlan tasks;

  /// Plans `kept` results, each reduced from `rows` rows of `columns` elements.
  ExceptPlan(index_t kept, index_t rows, index_t columns, index_t cost)
      : of_each(Shape2(rows, columns)),
        in_chunks(kept < kMaxPieces && of_each.count > 1),
        tasks(in_chunks ? TaskPlan{kept * of_each.count, ReduceGrain(cost)}
                        : TaskPlan::Of(kept, rows * columns, cost)) {}
};

/// The node of sumall_except_dim<kAxis>(e) and reduce_except_dim<kAxis, Red>(e): a reduction to a
/// vector.
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
  template <typename Visitor>
  decltype(auto) VisitOperands(const Visitor& visit) const {
    return visit(e);
  }

  template <typename Saver, typename Device>
  requires SameDevice<E, Tensor<Device, 1, T>>
  void AssignTo(const Tensor<Device, 1, T>& dst) const {
    if (dst.shape_ != shape()) {
      throw InvalidArgument("reduction: dimension ", kAxis, " of shape ", e.shape(),
                            " does not fit a destination of shape ", dst.shape_);
    }
    if constexpr (NeedsMaterialization<E>()) {
      Scratch<Device> scratch(dst.stream_);
      ReduceSafely<Saver>(dst, Materialize<false>(e, &scratch));
    } else {
      ReduceSafely<Saver>(dst, e);
    }
  }

 private:
  /// Reduces by way of a temporary if `ready` reads dst, because results are written before later
  /// results have been read for.
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
    if constexpr (Device::kDevCPU) {
      ReduceWhole<Saver>(dst, MergeShortRows(ready, E::kRank - 1 - kAxis));
    } else {
      ReduceWhole<Saver>(dst, ready);
    }
  }

  template <typename Saver, typename Device, typename Ready>
  void ReduceWhole(const Tensor<Device, 1, T>& dst, const Ready& ready) const {
    const auto shape = ready.shape();
    const index_t outer = shape.ProdShape(0, kAxis);
    const index_t kept = shape[kAxis];
    if constexpr (!Device::kDevCPU) {
      ReduceExceptCuda<Red, Saver, kAxis>(dst, ready, scale);
    } else if constexpr (kAxis == E::kRank - 1) {
      ReduceOverRows<Red, Saver>(dst, ready, outer, scale);
    } else {
      // Each result is reduced from `outer` groups of rows. A group counts as one row if its rows
      // are contiguous.
      using Op = typename Red::OPType;
      using Accumulator = AccumulatorOf<Red, T>;
      using Total = TotalOf<Red, Accumulator>;
      const bool flat = ready.IsFlat();
      const index_t inner_rows = flat ? 1 : shape.ProdShape(kAxis + 1, E::kRank - 1);
      const index_t columns = shape.ProdShape(flat ? kAxis + 1 : E::kRank - 1, E::kRank);
      const index_t rows = outer * inner_rows;
      // Returns Op over rows [first_row, end_row) of result i, elements [begin, end) of each row.
      // The partial results are in Total, because there may be any number of them.
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
      if constexpr (kAxis == E::kRank - 2) {
        // Each result is reduced from one row, so many rows are reduced at a time.
        if (rows == 1 && columns <= kReduceChunk && !plan.in_chunks) {
          ParallelFor(plan.tasks.count, plan.tasks.grain, [&](index_t first, index_t last) {
            constexpr index_t kResults = 64;
            alignas(64) Accumulator values[kResults];
            for (index_t i = first; i < last; i += kResults) {
              const index_t count = std::min(kResults, last - i);
              ReduceEachRow<Red, finish::None>(ready, i, count, columns, values);
              for (index_t k = 0; k < count; ++k) {
                save(i + k, Op::Map(Red::template InitialValue<Total>(), Total(values[k])));
              }
            }
          });
          return;
        }
      }
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

/// Returns the sum over every dimension except kAxis, for `dst = scale * sumall_except_dim<1>(a *
/// b)` with a vector dst of shape()[kAxis] elements. On a matrix, kAxis 0 sums each row and 1 each
/// column.
///
/// There is no temporary of the operand's size; on a GPU, there is one with a value for each row
/// unless kAxis is the last dimension. half and bfloat16 accumulate in float, integers in 64 bits.
/// The order of additions depends on the shape and on whether rows are padded, not on the number of
/// threads. An empty sum is 0.
template <int kAxis, Operand E>
ReduceExceptExp<red::sum, kAxis, OperandNode<E>> sumall_except_dim(const E& e) {
  return ReduceExceptExp<red::sum, kAxis, OperandNode<E>>(AsNode(e));
}

/// Returns the reduction by Red over every dimension except kAxis, to be assigned to a vector of
/// shape()[kAxis] elements. Red is red::sum, red::maximum, red::minimum, or a struct with Reduce
/// and SetInitValue as in mshadow. Such a struct must be associative, because it also combines
/// partial results, and its initial value must be neutral. A maximum or minimum of elements with a
/// NaN is NaN.
template <int kAxis, typename Red, Operand E>
ReduceExceptExp<ReducerOf<Red>, kAxis, OperandNode<E>> reduce_except_dim(const E& e) {
  return ReduceExceptExp<ReducerOf<Red>, kAxis, OperandNode<E>>(AsNode(e));
}

/// Returns the sum of a matrix's rows: one value for each column.
template <Operand E>
ReduceExceptExp<red::sum, 1, OperandNode<E>> sum_rows(const E& e) {
  static_assert(E::kRank == 2, "sum_rows is defined for matrices");
  return ReduceExceptExp<red::sum, 1, OperandNode<E>>(AsNode(e));
}

/// Plans the chunks in which ReduceToNumber reduces an expression. A flat expression counts as one
/// row.
template <typename E>
ChunkPlan PlanChunks(const E& e) {
  const auto shape = e.shape();
  return ChunkPlan(e.IsFlat() ? Shape2(1, shape.Size()) : shape.FlatTo2D());
}

/// Reduces `count` chunks of a CPU expression in their order; `count` may be any number.
/// reduce(local, c) returns the reduction of chunk c of `local`, which is a task's own copy of e.
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

/// Reduces a CPU expression whose operands are materialized to one number.
template <typename Red, typename E>
AccumulatorOf<Red, typename E::value_type> ReduceToNumber(const E& e) {
  static_assert(!std::is_same_v<DeviceOf<E>, gpu>, "the host cannot read a GPU's memory");
  const auto& merged = MergeShortRows(e, E::kRank);
  const ChunkPlan plan = PlanChunks(merged);
  return ReduceChunks<Red>(merged, plan.count, [&plan](const E& local, index_t c) {
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

/// GpuOperand is an expression over a GPU's memory; HostOperand is one that the host can read.
template <typename E>
concept GpuOperand = Operand<E> && std::same_as<DeviceOf<E>, gpu>;
template <typename E>
concept HostOperand = Operand<E> && !GpuOperand<E>;

/// Reduces a whole CPU expression to one number. An empty sum is 0, an empty maximum the type's
/// lowest value, and an empty minimum its highest.
template <typename Red, HostOperand E>
typename E::value_type ReduceAll(const E& expression) {
  Scratch<cpu> scratch;
  return static_cast<typename E::value_type>(
      ReduceToNumber<Red>(Materialize<false>(AsNode(expression), &scratch)));
}

/// Deleted for a GPU's memory, which the host cannot read. The result type names the functions to
/// use instead; see reductions.h.
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

#endif  // TESSERA_TENSOR_REDUCE_REDUCE_H_
