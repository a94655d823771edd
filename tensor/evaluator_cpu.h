#ifndef TESSERA_TENSOR_EVALUATOR_CPU_H_
#define TESSERA_TENSOR_EVALUATOR_CPU_H_

#include <algorithm>

#include "tessera/base/device.h"
#include "tessera/tensor/expression.h"
#include "tessera/tensor/parallel.h"
#include "tessera/tensor/span.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Elements that one task should at least have: below it, waking a second worker costs more than
/// the work that it takes over (about 10 us at one element a nanosecond and less).
inline constexpr index_t kElementsPerTask = index_t{1} << 15;

/// Combines one element: dst = Saver(dst, value).
template <typename Saver, typename T>
TESSERA_HD void SaveElement(T* dst, T value) {
  if constexpr (std::is_same_v<Saver, sv::saveto>) {
    *dst = value;
  } else {
    *dst = Saver::OPType::Map(*dst, value);
  }
}

template <typename E, typename T>
concept HasEvalRow = requires(const E& e, index_t i, T* out) {
  e.EvalRow(i, i, i, out);
};

template <typename E, typename T>
concept HasEvalRows = requires(const E& e, index_t i, T* out) {
  { e.EvalRows(i, i, out, i) } -> std::same_as<bool>;
};

/// Evaluates elements [begin, end) of row y; `row` is the address of the row's element 0. The
/// expression comes by value: nobody else has the copy's address, so that its fields stay in
/// registers although packet stores may alias anything.
template <typename Saver, typename T, typename E>
inline void EvaluateRow(T* row, const E e, index_t y, index_t begin, index_t end) {
  if constexpr (std::is_same_v<Saver, sv::saveto> && HasEvalRow<E, T>) {
    e.EvalRow(y, begin, end, row + begin);
  } else if constexpr (HoldsSpans<E>()) {
    for (index_t x = begin; x < end; x += kSpanBlock) {
      const index_t count = std::min(kSpanBlock, end - x);
      if constexpr (std::is_same_v<Saver, sv::saveto>) {
        EvaluateBlock(e, y, x, count, row + x);
      } else {
        T block[kSpanBlock];
        EvaluateBlock(e, y, x, count, block);
        EvaluateRow<Saver>(row, BlockExp<T>(block - x), y, x, x + count);
      }
    }
  } else {
    index_t x = begin;
    if constexpr (E::kHasPacket && PacketTraits<T>::kVectorizable &&
                  HasBinaryPacket<typename Saver::OPType, T>) {
      using P = typename PacketTraits<T>::type;
      constexpr index_t kSize = PacketTraits<T>::kSize;
      const auto save = [&](index_t at) {
        const P value = e.template EvalPacket<P>(y, at);
        if constexpr (std::is_same_v<Saver, sv::saveto>) {
          pk::pstoreu(row + at, value);
        } else {
          pk::pstoreu(row + at, Saver::OPType::PacketMap(pk::ploadu<P>(row + at), value));
        }
      };
      // Two packets a turn keep both load ports busy and halve the loop's own instructions.
      for (; x + 2 * kSize <= end; x += 2 * kSize) {
        save(x);
        save(x + kSize);
      }
      if (x + kSize <= end) {
        save(x);
        x += kSize;
      }
    }
    for (; x < end; ++x) SaveElement<Saver>(row + x, e.Eval(y, x));
  }
}

/// An expression on its way into a destination: as one long row where everything is contiguous,
/// else row by row.
template <typename Saver, typename T, typename E>
struct RowsTask {
  T* data;
  index_t stride;
  index_t columns;
  bool flat;
  const E& e;

  /// Elements of the long row, or rows. Not inlined: the loops are by far the most of what an
  /// assignment compiles to, and stand here once for all ways of running them.
  [[gnu::noinline]] static void Run(const void* context, index_t begin, index_t end) {
    const auto& task = *static_cast<const RowsTask*>(context);
    if constexpr (std::is_same_v<Saver, sv::saveto> && HasEvalRows<E, T>) {
      if (!task.flat && task.e.EvalRows(begin, end, task.data, task.stride)) return;
    }
    const index_t first_row = task.flat ? 0 : begin;
    const index_t end_row = task.flat ? 1 : end;
    const index_t first_column = task.flat ? begin : 0;
    const index_t end_column = task.flat ? end : task.columns;
    for (index_t y = first_row; y < end_row; ++y) {
      EvaluateRow<Saver>(task.data + y * task.stride, task.e, y, first_column, end_column);
    }
  }
};

/// Runs the expression over the destination, in parallel where there is enough of it. The shapes
/// have been checked.
template <AnySaver Saver, int N, typename T, typename E>
void Evaluate(const Tensor<cpu, N, T>& dst, const E& e) {
  using Task = RowsTask<Saver, T, E>;
  const bool flat = dst.CheckContiguous() && e.IsFlat();
  const Shape<2> shape = dst.shape_.FlatTo2D();
  const Task task{dst.dptr_, dst.stride_, shape[1], flat, e};
  if (flat) {
    ParallelForRange(shape.Size(), kElementsPerTask, &Task::Run, &task);
  } else {
    ParallelForRange(shape[0],
                     std::max<index_t>(1, kElementsPerTask / std::max<index_t>(1, shape[1])),
                     &Task::Run, &task);
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_EVALUATOR_CPU_H_
