#ifndef TESSERA_TENSOR_EVAL_EVALUATOR_CPU_H_
#define TESSERA_TENSOR_EVAL_EVALUATOR_CPU_H_

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "tessera/base/device.h"
#include "tessera/tensor/device/copy_bytes.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/eval/avx2_loop.h"
#include "tessera/tensor/eval/span.h"
#include "tessera/tensor/eval/tile.h"
#include "tessera/tensor/expr/at_row.h"
#include "tessera/tensor/expr/cost.h"
#include "tessera/tensor/expr/expression.h"
#include "tessera/tensor/expr/merge_dimensions.h"
#include "tessera/tensor/expr/overlap.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

using tensor_internal::ParallelForLines;
using tensor_internal::ParallelForRange;
using tensor_internal::TaskPlan;

/// True if E can write several rows at once; see EvalRows in operand.h.
template <typename E, typename T>
concept HasEvalRows = requires(const E& e, index_t i, T* out) {
  { e.EvalRows(i, i, out, i) } -> std::same_as<bool>;
};

/// The loops that can compute the elements of a row.
enum class RowLoop {
  kOwn,       ///< the node's EvalRow or EvalRows
  kSpans,     ///< blocks, with buffers for parts of the expression; see span.h
  kPackets,   ///< packets, then the rest of the row one by one
  kElements,  ///< one element at a time
};

/// Returns the loop that EvaluateRow runs.
template <typename Saver, typename T, typename E>
constexpr RowLoop RowLoopOf() {
  if constexpr (std::is_same_v<Saver, sv::saveto> && HasEvalRow<E, T>) {
    return RowLoop::kOwn;
  } else if constexpr (HoldsSpans<E>()) {
    return RowLoop::kSpans;
  } else if constexpr (E::kHasPacket && PacketTraits<T>::kVectorizable &&
                       HasBinaryPacket<typename Saver::OPType, T>) {
    return RowLoop::kPackets;
  } else {
    return RowLoop::kElements;
  }
}

/// Returns true if the loop over packets, or over elements, has a form for AVX2 packets.
template <typename Saver, typename T, typename E>
constexpr bool HasAvx2Loop() {
  constexpr RowLoop kLoop = RowLoopOf<Saver, T, E>();
  return FitsAvx2Packets<Saver, T, E>() &&
         (kLoop == RowLoop::kPackets || kLoop == RowLoop::kElements);
}

/// Returns how many of the elements from `address` on precede a multiple of 32 bytes.
template <typename T>
index_t ElementsBeforeAvx2(const T* address) {
  constexpr uintptr_t kBytes = 32;
  const uintptr_t past = reinterpret_cast<uintptr_t>(address) % kBytes;
  return static_cast<index_t>((kBytes - past) % kBytes / sizeof(T));
}

/// Evaluates elements [begin, end) of row y. `row` is the address of the row's element 0. The
/// function is always inlined. At -O2 GCC would call it, with the copy of the expression in memory,
/// and the call takes a fourth of the time of 16 elements.
template <typename Saver, typename T, typename E>
[[gnu::always_inline]] inline void EvaluateRow(T* row, const E& expression, index_t y,
                                               index_t begin, index_t end,
                                               [[maybe_unused]] Stores stores = Stores::kCached) {
  constexpr RowLoop kLoop = RowLoopOf<Saver, T, E>();
  if constexpr (kLoop == RowLoop::kOwn) {
    expression.EvalRow(y, begin, end, row + begin);
  } else if constexpr (kLoop == RowLoop::kSpans) {
    if constexpr (std::is_same_v<Saver, sv::saveto>) {
      EvaluateSpans(expression, y, begin, end - begin, row + begin);
    } else {
      const auto combine = [&](index_t x, index_t count, BlockPrefetch* ahead) {
        T block[kSpanBlock<T>];
        EvaluateBlock(expression, y, x, count, block, ahead);
        EvaluateRow<Saver>(row, BlockExp<T>(block - x), y, x, x + count);
      };
      ForEachBlock(expression, y, begin, end - begin, row + begin, combine);
    }
  } else if constexpr (HasAtRow<E>) {
    EvaluateRow<Saver>(row, AtRow(expression, y), y, begin, end, stores);
  } else {
    // No other code has the copy's address, so that its fields stay in registers although packet
    // stores may alias anything.
    const E e = expression;
    index_t x = begin;
    if constexpr (HasAvx2Loop<Saver, T, E>()) {
      if (end - begin >= kMinAvx2RowOf<T, E> && RunsAvx2()) {
        if (stores == Stores::kStreamed) {
          const index_t aligned = std::min(end, x + ElementsBeforeAvx2(row + x));
          for (; x < aligned; ++x) SaveElement<Saver>(row + x, e.Eval(y, x));
        }
        x = EvaluateAvx2<Saver>(row, e, y, x, end, stores);
      }
    }
    if constexpr (kLoop == RowLoop::kPackets) {
      using P = typename PacketTraits<T>::type;
      constexpr index_t kSize = PacketTraits<T>::kSize;
      const auto save = [&](index_t at) {
        const P value = e.template EvalPacket<P>(y, at);
        if constexpr (std::is_same_v<Saver, sv::saveto>) {
          pk::pstoreu(row + at, value);
        } else {
          pk::pstoreu(row + at, MapPackets<typename Saver::OPType>(pk::ploadu<P>(row + at), value));
        }
      };
      // Two packets an iteration keep both load ports busy and halve the loop's own instructions.
      for (; x + 2 * kSize <= end; x += 2 * kSize) {
        save(x);
        save(x + kSize);
      }
      if (x + kSize <= end) {
        save(x);
        x += kSize;
      }
    } else {
      x = EvaluateInBlocks<Saver>(row, e, y, x, end);
    }
    for (; x < end; ++x) SaveElement<Saver>(row + x, e.Eval(y, x));
  }
}

template <typename Saver, typename T, typename E>
void EvaluateTile(T* data, index_t stride, const E& e, const Tile& tile) {
  const auto evaluate = [&](const auto& over_tiles) {
    for (index_t y = tile.begin_y; y < tile.end_y; ++y) {
      EvaluateRow<Saver>(data + y * stride, over_tiles, y, tile.begin_x, tile.end_x);
    }
  };
  if constexpr (HasEvalTile<E, T>) {
    evaluate(TileOperand<E>(e, tile).node());
  } else {
    VisitOperands(e, [&]<typename... Operand>(const Operand&... operand) {
      const auto evaluate_over = [&](const auto&... in_tile) {
        evaluate(e.WithOperands(in_tile.node()...));
      };
      evaluate_over(TileOperand<Operand>(operand, tile)...);
    });
  }
}

/// Evaluates rows [begin, end) of an expression for which HoldsTiles is true. Element x of row y
/// lies at data[y * stride + x].
template <typename Saver, typename T, typename E>
void EvaluateTiles(T* data, index_t stride, index_t columns, const E& e, index_t begin,
                   index_t end) {
  if constexpr (std::is_same_v<Saver, sv::saveto> && HasEvalTile<E, T>) {
    e.EvalTile(begin, end, 0, columns, data + begin * stride, stride);
  } else if (columns > 0) {
    const index_t width = std::min(columns, kTileColumns);
    const index_t height = kTileElements / width;
    for (index_t y = begin; y < end; y += height) {
      for (index_t x = 0; x < columns; x += width) {
        EvaluateTile<Saver>(data, stride, e,
                            Tile{y, std::min(end, y + height), x, std::min(columns, x + width)});
      }
    }
  }
}

/// Returns the loop that computes a row of a tensor. Evaluate calls an overload of this function
/// for each kind of destination.
template <typename Saver, int N, typename T, typename E>
RowLoop RowLoopInto(const Tensor<cpu, N, T>& /*dst*/, const E& /*e*/) {
  return RowLoopOf<Saver, T, E>();
}
/// Evaluates elements [begin, end) of row y of a tensor. Evaluate calls an overload of this
/// function for each kind of destination.
template <typename Saver, int N, typename T, typename E>
void EvaluateRowInto(const Tensor<cpu, N, T>& dst, const E& e, index_t y, index_t begin,
                     index_t end) {
  EvaluateRow<Saver>(dst.dptr_ + y * dst.stride_, e, y, begin, end);
}

/// The division of a destination among tasks. Tasks divide the rows, or the elements of one row if
/// cuts_row is true.
struct LoopPlan {
  index_t rows;
  index_t columns;
  bool cuts_row;
  index_t cost;  // of an element; see CostOf

  /// Arguments of ParallelFor: the number of rows or elements, and how many of them a task takes.
  index_t count() const { return cuts_row ? columns : rows; }
  index_t grain() const { return cuts_row ? ElementsPerTask(cost) : StepsPerTask(columns, cost); }
};

/// Plans the loop over a destination. The elements are one long row if everything is contiguous. A
/// single row is divided if it is more than a task's work. The function is always inlined, so that
/// a cost that the type states needs no division.
template <int N, typename T, typename E>
[[gnu::always_inline]] inline LoopPlan PlanLoop(const Tensor<cpu, N, T>& dst, const E& e) {
  const index_t cost = CostOf(e);
  if (dst.CheckContiguous() && e.IsFlat()) return {1, dst.shape_.Size(), /*cuts_row=*/true, cost};
  const Shape<2> shape = dst.shape_.FlatTo2D();
  return {shape[0], shape[1], shape[0] == 1 && shape[1] > ElementsPerTask(cost), cost};
}

/// The evaluation of an expression into a destination, in parts that a LoopPlan defines.
template <typename Saver, typename T, typename E>
struct RowsTask {
  T* data;
  index_t stride;
  index_t columns;
  bool flat;  // all elements are one row
  Stores stores;
  const E& e;

  /// Evaluates elements [begin, end) of the one long row, or rows [begin, end). The function is not
  /// inlined. The loops are by far the most code of an assignment, and exist once for all ways of
  /// running them.
  [[gnu::noinline]] static void Run(const void* context, index_t begin, index_t end) {
    const auto& task = *static_cast<const RowsTask*>(context);
    if constexpr (std::is_same_v<Saver, sv::saveto> && HasEvalRows<E, T>) {
      if (!task.flat && task.e.EvalRows(begin, end, task.data, task.stride)) return;
    }
    if constexpr (HoldsTiles<E>()) {
      if (!task.flat) {
        EvaluateTiles<Saver>(task.data, task.stride, task.columns, task.e, begin, end);
        return;
      }
    }
    const index_t first_row = task.flat ? 0 : begin;
    const index_t end_row = task.flat ? 1 : end;
    const index_t first_column = task.flat ? begin : 0;
    const index_t end_column = task.flat ? end : task.columns;
    for (index_t y = first_row; y < end_row; ++y) {
      EvaluateRow<Saver>(task.data + y * task.stride, task.e, y, first_column, end_column,
                         task.stores);
    }
  }
};

/// The number of tensors that E reads.
template <typename E>
inline constexpr index_t kTensorsRead = kIsTensor<E> ? 1 : kTensorsRead<OperandTupleOf<E>>;
/// The number of tensors that a tuple of expressions reads.
template <typename... E>
inline constexpr index_t kTensorsRead<std::tuple<E...>> = (index_t{0} + ... + kTensorsRead<E>);

/// Selects whether a result is streamed, which is so if it cannot stay in the caches anyway, by the
/// bounds of copy_bytes.h. Each element is then written to memory without being read from there
/// first, and nothing else is evicted from the caches. A result is not streamed if the expression
/// reads the destination, which brings its cache lines into the caches anyway.
template <typename Saver, int N, typename T, typename E>
Stores StoresInto([[maybe_unused]] const Tensor<cpu, N, T>& dst, [[maybe_unused]] const E& e,
                  [[maybe_unused]] const LoopPlan& plan) {
  if constexpr (HasAvx2Loop<Saver, T, E>() && std::is_same_v<Saver, sv::saveto>) {
    constexpr index_t kElementBytes = sizeof(T);
    constexpr index_t kLeast = std::min(tensor_internal::kStreamedResultBytes,
                                        tensor_internal::kStreamedBytes / (1 + kTensorsRead<E>)) /
                               kElementBytes;
    if (plan.rows * plan.columns > kLeast &&
        plan.columns >= tensor_internal::kStreamedRowBytes / kElementBytes && RunsAvx2() &&
        !ReadsAnywhere(e, PlaceOf(dst))) {
      return Stores::kStreamed;
    }
  }
  return Stores::kCached;
}

/// Evaluates the expression into the destination, in parallel if it is large enough. Requires: the
/// shapes have been checked.
template <AnySaver Saver, int N, typename T, typename E>
void Evaluate(const Tensor<cpu, N, T>& dst, const E& e) {
  if constexpr (N > 1 && MergesShortRows<E>) {
    if (const int count = DimensionsToMerge(dst.shape_, e, MergeableDimensions(dst)); count > 1) {
      Evaluate<Saver>(MergeDimensions(dst, count), MergeDimensions(e, count));
      return;
    }
  }
  using Task = RowsTask<Saver, T, E>;
  const LoopPlan plan = PlanLoop(dst, e);
  const Task task{
      dst.dptr_, dst.stride_, plan.columns, plan.cuts_row, StoresInto<Saver>(dst, e, plan), e};
  index_t grain = plan.grain();
  // A task of fewer rows would read whole cache lines for a few elements of each.
  if (HoldsTiles<E>() && !plan.cuts_row) grain = std::max(grain, kTileRows);
  ParallelForRange(plan.count(), grain, dst.dptr_,
                   (plan.cuts_row ? 1 : dst.stride_) * static_cast<index_t>(sizeof(T)), &Task::Run,
                   &task);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_EVAL_EVALUATOR_CPU_H_
