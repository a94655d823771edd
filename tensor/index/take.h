#ifndef TESSERA_TENSOR_INDEX_TAKE_H_
#define TESSERA_TENSOR_INDEX_TAKE_H_

#include <algorithm>
#include <array>
#include <tuple>
#include <type_traits>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/functors/accumulate.h"
#include "tessera/tensor/index/row_number.h"
#include "tessera/tensor/shape/row_map.h"

/// Expressions that take rows of a matrix by number, as an embedding does, and their gradient.
/// Numbers may have any numeric type; a fraction is truncated. A number outside the rows selects
/// the nearest row, the first or the last; NaN selects the first. take and take_grad agree in this,
/// so that take_grad is the gradient of take.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The node of take, which is described at the function.
template <typename I, typename E>
struct TakeExp : Exp<TakeExp<I, E>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = CommonDevice<I, E>;
  static constexpr int kRank = 2;
  static constexpr bool kHasPacket = E::kHasPacket;
  static constexpr bool kMovesElements = true;

  I index;
  E e;
  index_t rows;  // the operand's row count
  Shape<2> target;

  TakeExp(const I& numbers, const E& operand)
      : index(numbers),
        e(operand),
        rows(operand.shape()[0]),
        target(Shape2(numbers.shape()[0], operand.shape()[1])) {
    if (rows == 0 && target[0] != 0) {
      throw InvalidArgument("take: ", target[0], " rows cannot be taken from shape ",
                            operand.shape());
    }
  }

  auto operands() const { return std::tuple<I, E>(index, e); }
  template <typename A, typename B>
  TakeExp<A, B> WithOperands(const A& a, const B& b) const {
    return {a, b};
  }

  const Shape<2>& shape() const { return target; }
  TESSERA_HD value_type Eval(index_t y, index_t x) const { return e.Eval(RowOf(y), x); }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    return e.template EvalPacket<P>(RowOf(y), x);
  }
  bool IsFlat() const { return false; }

  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    if (begin < end) EvalSpan(e, RowOf(y), begin, end, out);
  }

 private:
  TESSERA_HD index_t RowOf(index_t y) const {
    return tensor_internal::RowFor<tensor_internal::OutOfRange::kNearest>(index.Eval(0, y), rows);
  }
};

/// The node of take_grad, which is described at the function.
template <typename I, typename E>
struct TakeGradExp : Exp<TakeGradExp<I, E>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = CommonDevice<I, E>;
  using Accumulator = typename AccumulateIn<value_type>::type;
  static constexpr int kRank = 2;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;
  static constexpr bool kIsItsOperands = true;
  // Materializing all rows reads each number once. On a GPU each element reads every number.
  static constexpr bool kIsMaterialized = std::is_same_v<device_type, cpu>;

  I index;
  E e;
  index_t count;  // the count of rows taken
  Shape<2> target;

  TakeGradExp(const I& numbers, const E& gradient, index_t rows)
      : index(numbers),
        e(gradient),
        count(numbers.shape()[0]),
        target(Shape2(rows, gradient.shape()[1])) {
    if (gradient.shape()[0] != count || rows < 0 || (rows == 0 && count != 0)) {
      throw InvalidArgument("take_grad: ", count, " rows taken from ", rows,
                            " do not have a gradient of shape ", gradient.shape());
    }
  }

  auto operands() const { return std::tuple<I, E>(index, e); }
  template <typename A, typename B>
  TakeGradExp<A, B> WithOperands(const A& a, const B& b) const {
    return {a, b, target[0]};
  }

  const Shape<2>& shape() const { return target; }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    Accumulator sum = Accumulator(0);
    for (index_t i = 0; i < count; ++i) {
      if (RowOf(index, i) == y) sum += static_cast<Accumulator>(e.Eval(i, x));
    }
    return static_cast<value_type>(sum);
  }
  bool IsFlat() const { return false; }

  auto Materialized(Scratch<cpu>* scratch) const {
    const auto results = TemporaryTensor<cpu, 2, value_type>(target, scratch->stream(), scratch);
    ComputeInto(results, scratch);
    return results;
  }
  /// Computes all rows into `results`; see MaterializesInto.
  void ComputeInto(const Tensor<cpu, 2, value_type>& results, Scratch<cpu>* scratch) const {
    const auto& numbers = MaterializeInPlace(index, scratch);
    const auto& gradient = MaterializeInPlace(e, scratch);
    const index_t rows = target[0], columns = target[1];
    if (target.Size() == 0) return;
    // Each row has a linked list of the gradient's rows that it sums.
    index_t* const first = TemporaryTensor<cpu, 1, index_t>(Shape1(rows), nullptr, scratch).dptr_;
    index_t* const next = TemporaryTensor<cpu, 1, index_t>(Shape1(count), nullptr, scratch).dptr_;
    std::fill_n(first, rows, index_t{-1});
    for (index_t i = count - 1; i >= 0; --i) {  // backwards, so that lists ascend
      index_t* const head = first + RowOf(numbers, i);
      next[i] = *head;
      *head = i;
    }
    const TaskPlan tasks = TaskPlan::Of(rows, (count / rows + 1) * columns, CostOf(gradient));
    ParallelFor(tasks.count, tasks.grain, [&](index_t begin, index_t end) {
      for (index_t y = begin; y < end; ++y) {
        SumRows(gradient, first[y], next, columns, results.dptr_ + y * columns);
      }
    });
  }

 private:
  template <typename Numbers>
  TESSERA_HD index_t RowOf(const Numbers& numbers, index_t i) const {
    return tensor_internal::RowFor<tensor_internal::OutOfRange::kNearest>(numbers.Eval(0, i),
                                                                          target[0]);
  }

  /// Writes the sum of the gradient's rows i, next[i] and so on until -1 to `out`.
  template <typename Gradient>
  static void SumRows(const Gradient& gradient, index_t i, const index_t* next, index_t columns,
                      value_type* out) {
    if constexpr (std::is_same_v<value_type, Accumulator>) {
      std::fill_n(out, columns, value_type(0));
      for (; i >= 0; i = next[i]) EvaluateRow<sv::plusto>(out, gradient, i, 0, columns);
    } else {
      constexpr index_t kBlock = 256;
      const TypecastExp<Accumulator, Gradient> wide(gradient);
      alignas(64) std::array<Accumulator, kBlock> sums;
      for (index_t x = 0; x < columns; x += kBlock) {
        const index_t width = std::min(kBlock, columns - x);
        std::fill_n(sums.data(), width, Accumulator(0));
        for (index_t from = i; from >= 0; from = next[from]) {
          EvaluateRow<sv::plusto>(sums.data() - x, wide, from, x, x + width);
        }
        for (index_t k = 0; k < width; ++k) {
          out[x + k] = static_cast<value_type>(sums[static_cast<size_t>(k)]);
        }
      }
    }
  }
};

/// Two operands of any element types whose memory one device can read.
template <typename A, typename B>
concept OnOneDevice = Operand<A> && Operand<B> && SameDevice<A, B>;

/// Returns the matrix whose row y is row index[y] of `matrix`. Throws Error(kInvalidArgument) if
/// there are indices and the matrix has no rows.
template <typename I, typename E>
requires OnOneDevice<I, E> TakeExp<OperandNode<I>, OperandNode<E>> take(const I& index,
                                                                        const E& matrix) {
  static_assert(I::kRank == 1 && E::kRank == 2, "take(index, matrix): a vector and a matrix");
  return {AsNode(index), AsNode(matrix)};
}

/// Returns the gradient of take with respect to its matrix of `rows` rows. Row r is the sum of the
/// gradient's rows y with index[y] == r, in ascending order of y; half and bfloat16 accumulate in
/// float. In a larger expression the result is first materialized in a temporary. AddTakeGrad is
/// faster for adding the gradient to a matrix of which few rows change. Throws
/// Error(kInvalidArgument) if index and gradient differ in their number of rows.
template <typename I, typename E>
requires OnOneDevice<I, E> TakeGradExp<OperandNode<I>, OperandNode<E>> take_grad(const I& index,
                                                                                 const E& gradient,
                                                                                 index_t rows) {
  static_assert(I::kRank == 1 && E::kRank == 2,
                "take_grad(index, gradient, rows): a vector and a matrix");
  return {AsNode(index), AsNode(gradient), rows};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::take;
using expr::take_grad;

}  // namespace tessera

#endif  // TESSERA_TENSOR_INDEX_TAKE_H_
