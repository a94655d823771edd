#ifndef TESSERA_TENSOR_INDEX_ROW_ELEMENT_H_
#define TESSERA_TENSOR_INDEX_ROW_ELEMENT_H_

#include <algorithm>
#include <tuple>

#include "tessera/tensor/index/row_number.h"
#include "tessera/tensor/index/take.h"
#include "tessera/tensor/shape/row_map.h"

/// Expressions that choose, fill or scale one element or row of a matrix by a vector of column
/// numbers or factors. Column numbers may have any numeric type; a fraction is truncated.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The node of mat_choose_row_element, which is described at the function.
template <typename E, typename I>
struct ChooseExp : Exp<ChooseExp<E, I>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = CommonDevice<E, I>;
  static constexpr int kRank = 1;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;

  E e;
  I index;
  index_t columns;

  ChooseExp(const E& matrix, const I& numbers)
      : e(matrix), index(numbers), columns(matrix.shape()[1]) {
    if (matrix.shape()[0] != numbers.shape()[0] || (columns == 0 && numbers.shape()[0] != 0)) {
      throw InvalidArgument("mat_choose_row_element: indices of shape ", numbers.shape(),
                            " do not choose from the rows of shape ", matrix.shape());
    }
  }

  auto operands() const { return std::tuple<E, I>(e, index); }
  template <typename A, typename B>
  ChooseExp<A, B> WithOperands(const A& a, const B& b) const {
    return {a, b};
  }

  Shape<1> shape() const { return index.shape(); }
  TESSERA_HD value_type Eval(index_t, index_t x) const {
    return e.Eval(x, tensor_internal::RowFor<tensor_internal::OutOfRange::kNearest>(
                         index.Eval(0, x), columns));
  }
  bool IsFlat() const { return true; }
};

/// The node of mat_fill_row_element, which is described at the function.
template <typename E, typename V, typename I>
struct FillExp : Exp<FillExp<E, V, I>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = CommonDevice<E, I>;
  static constexpr int kRank = 2;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;

  E e;
  V values;
  I index;

  FillExp(const E& matrix, const V& elements, const I& numbers)
      : e(matrix), values(elements), index(numbers) {
    const index_t rows = matrix.shape()[0];
    if (values.shape()[0] != rows || index.shape()[0] != rows) {
      throw InvalidArgument("mat_fill_row_element: values of shape ", values.shape(),
                            " and indices of shape ", index.shape(),
                            " do not fit the rows of shape ", matrix.shape());
    }
  }

  auto operands() const { return std::tuple<E, V, I>(e, values, index); }
  template <typename A, typename B, typename C>
  FillExp<A, B, C> WithOperands(const A& a, const B& b, const C& c) const {
    return {a, b, c};
  }

  Shape<2> shape() const { return e.shape(); }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    return tensor_internal::RowNumber(index.Eval(0, y)) == x ? values.Eval(0, y) : e.Eval(y, x);
  }
  bool IsFlat() const { return false; }

  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    const index_t column = tensor_internal::RowNumber(index.Eval(0, y));
    EvalSpan(e, y, begin, end, out);
    if (begin <= column && column < end) out[column - begin] = values.Eval(0, y);
  }
};

/// The node of one_hot_encode, which is described at the function.
template <typename I>
struct OneHotExp : Exp<OneHotExp<I>, typename I::value_type> {
  using value_type = typename I::value_type;
  using device_type = DeviceOf<I>;
  static constexpr int kRank = 2;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;

  I index;
  index_t choices;

  OneHotExp(const I& numbers, index_t columns) : index(numbers), choices(columns) {
    if (choices < 0) {
      throw InvalidArgument("one_hot_encode: there cannot be ", choices, " choices");
    }
  }

  auto operands() const { return std::tuple<I>(index); }
  template <typename A>
  OneHotExp<A> WithOperands(const A& a) const {
    return {a, choices};
  }

  Shape<2> shape() const { return Shape2(index.shape()[0], choices); }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    return static_cast<value_type>(tensor_internal::RowNumber(index.Eval(0, y)) == x ? 1 : 0);
  }
  bool IsFlat() const { return false; }

  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    const index_t column = tensor_internal::RowNumber(index.Eval(0, y));
    std::fill_n(out, end - begin, value_type(0));
    if (begin <= column && column < end) out[column - begin] = value_type(1);
  }
};

/// The node of mask, which is described at the function.
template <typename M, typename E>
struct MaskExp : Exp<MaskExp<M, E>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = CommonDevice<M, E>;
  static constexpr int kRank = 2;
  static constexpr bool kHasPacket = E::kHasPacket && HasBinaryPacket<op::mul, value_type>;
  static constexpr bool kMovesElements = true;

  M factors;
  E e;

  MaskExp(const M& rows, const E& matrix) : factors(rows), e(matrix) {
    if (rows.shape()[0] != matrix.shape()[0]) {
      throw InvalidArgument("mask: factors of shape ", rows.shape(),
                            " do not fit the rows of shape ", matrix.shape());
    }
  }

  auto operands() const { return std::tuple<M, E>(factors, e); }
  template <typename A, typename B>
  MaskExp<A, B> WithOperands(const A& a, const B& b) const {
    return {a, b};
  }

  Shape<2> shape() const { return e.shape(); }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    return op::mul::Map(Factor(y), e.Eval(y, x));
  }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    return op::mul::PacketMap(pk::pset1<P>(Factor(y)), e.template EvalPacket<P>(y, x));
  }
  bool IsFlat() const { return false; }

 private:
  TESSERA_HD value_type Factor(index_t y) const {
    return static_cast<value_type>(factors.Eval(0, y));
  }
};

/// Returns the vector of elements matrix[y][index[y]]. An index outside the columns selects the
/// nearest column, the first or the last; NaN selects the first. Throws Error(kInvalidArgument)
/// unless the matrix has one row for each index, or if there are indices and no columns.
template <typename E, typename I>
requires OnOneDevice<E, I> ChooseExp<OperandNode<E>, OperandNode<I>> mat_choose_row_element(
    const E& matrix, const I& index) {
  static_assert(E::kRank == 2 && I::kRank == 1, "mat_choose_row_element(matrix, vector)");
  return {AsNode(matrix), AsNode(index)};
}

/// Returns the matrix with element index[y] of each row y replaced by values[y]. An index outside
/// the columns replaces nothing. Throws Error(kInvalidArgument) unless there are one value and one
/// index for each row.
template <typename E, typename V, typename I>
requires(OnOneDevice<E, V>&& SameElementType<E, V>&& OnOneDevice<E, I>)
    FillExp<OperandNode<E>, OperandNode<V>, OperandNode<I>> mat_fill_row_element(const E& matrix,
                                                                                 const V& values,
                                                                                 const I& index) {
  static_assert(E::kRank == 2 && V::kRank == 1 && I::kRank == 1,
                "mat_fill_row_element(matrix, vector, vector)");
  return {AsNode(matrix), AsNode(values), AsNode(index)};
}

/// Returns a matrix of `choices` columns with a row for each index: row y is 1 in column index[y]
/// and 0 elsewhere. An index outside the columns gives a row of zeros. The elements have the
/// indices' type; tcast<T>(index) gives another. Throws Error(kInvalidArgument) if choices is
/// negative.
template <Operand I>
OneHotExp<OperandNode<I>> one_hot_encode(const I& index, index_t choices) {
  static_assert(I::kRank == 1, "one_hot_encode: the indices are a vector");
  return {AsNode(index), choices};
}

/// Returns the matrix with each row y multiplied by factors[y], which is first converted to the
/// matrix's element type. Throws Error(kInvalidArgument) unless there is one factor for each row.
template <typename M, typename E>
requires OnOneDevice<M, E> MaskExp<OperandNode<M>, OperandNode<E>> mask(const M& factors,
                                                                        const E& matrix) {
  static_assert(M::kRank == 1 && E::kRank == 2, "mask(vector, matrix)");
  return {AsNode(factors), AsNode(matrix)};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::mask;
using expr::mat_choose_row_element;
using expr::mat_fill_row_element;
using expr::one_hot_encode;

}  // namespace tessera

#endif  // TESSERA_TENSOR_INDEX_ROW_ELEMENT_H_
