#ifndef TESSERA_TENSOR_TAKE_H_
#define TESSERA_TENSOR_TAKE_H_

#include <algorithm>
#include <array>
#include <tuple>

#include "tessera/tensor/accumulate.h"
#include "tessera/tensor/internal/row_map.h"
#include "tessera/tensor/internal/row_number.h"

/// Rows chosen by number, as an embedding chooses them. The numbers may be of any type; a fraction
/// is cut off. A number that is no row stands for the nearest row, the first or the last (NaN for
/// the first), in take and take_grad alike, so that the one is the gradient of the other.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// take: see the function below.
template <typename I, typename E>
struct TakeExp : Exp<TakeExp<I, E>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = CommonDevice<I, E>;
  static constexpr int kRank = 2;
  static constexpr bool kHasPacket = E::kHasPacket;
  static constexpr bool kMovesElements = true;

  I index;
  E e;
  index_t rows;  // of the operand
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

/// take_grad: see the function below.
template <typename I, typename E>
struct TakeGradExp : Exp<TakeGradExp<I, E>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = CommonDevice<I, E>;
  using Accumulator = typename AccumulateIn<value_type>::type;
  static constexpr int kRank = 2;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;
  static constexpr bool kSharesWork = true;

  I index;
  E e;
  index_t count;  // of rows that were taken
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
      if (RowOf(i) == y) sum += static_cast<Accumulator>(e.Eval(i, x));
    }
    return static_cast<value_type>(sum);
  }
  bool IsFlat() const { return false; }

  /// Looks at each number once for a block of columns.
  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    constexpr index_t kBlock = 256;
    const TakeGradExp local = *this;
    alignas(64) std::array<Accumulator, kBlock> sums;
    for (index_t x = begin; x < end; x += kBlock) {
      const index_t width = std::min(kBlock, end - x);
      std::fill_n(sums.data(), width, Accumulator(0));
      for (index_t i = 0; i < local.count; ++i) {
        if (local.RowOf(i) != y) continue;
        for (index_t k = 0; k < width; ++k) {
          sums[static_cast<size_t>(k)] += static_cast<Accumulator>(local.e.Eval(i, x + k));
        }
      }
      for (index_t k = 0; k < width; ++k) {
        *out++ = static_cast<value_type>(sums[static_cast<size_t>(k)]);
      }
    }
  }

 private:
  TESSERA_HD index_t RowOf(index_t i) const {
    return tensor_internal::RowFor<tensor_internal::OutOfRange::kNearest>(index.Eval(0, i),
                                                                          target[0]);
  }
};

/// Two operands of any types, whose memory one device can read.
template <typename A, typename B>
concept OnOneDevice = Operand<A> && Operand<B> && SameDevice<A, B>;

/// Row index[y] of the matrix as row y.
/// Throws Error(kInvalidArgument) if rows are asked for and the matrix has none.
template <typename I, typename E>
requires OnOneDevice<I, E> TakeExp<OperandNode<I>, OperandNode<E>> take(const I& index,
                                                                        const E& matrix) {
  static_assert(I::kRank == 1 && E::kRank == 2, "take(index, matrix): a vector and a matrix");
  return {AsNode(index), AsNode(matrix)};
}

/// The gradient of take with respect to its matrix of `rows` rows: row r is the sum of the
/// gradient's rows y with index[y] == r, in order; half and bfloat16 add up in float. Every row
/// looks at every index: where there are many, AddTakeGrad is the faster way.
/// Throws Error(kInvalidArgument) unless index and gradient have equally many rows.
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

#endif  // TESSERA_TENSOR_TAKE_H_
