#ifndef TESSERA_TENSOR_SHAPE_TRANSPOSE_H_
#define TESSERA_TENSOR_SHAPE_TRANSPOSE_H_

#include <tuple>
#include <utility>

#include "tessera/tensor/shape/row_map.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The row map of transpose and swapaxis. kKeepsLast says at compile time that the last axis stays
/// the last. Whole rows are then read and packets can be used.
template <int N, bool kKeepsLast>
struct TransposeMap {
  static constexpr int kRank = N;
  static constexpr bool kWholeRows = kKeepsLast;
  static constexpr bool kSharesWork = !kKeepsLast;
  static constexpr bool kOneToOne = true;

  Shape<N> target;
  Shape<N> row_step;     // operand rows in one step of each axis of the result
  Shape<N> column_step;  // operand columns in one step: 1 for the axis that is its last, else 0

  TransposeMap(const Shape<N>& source, const Shape<N>& axes) {
    Shape<N> seen{};
    for (int i = 0; i < N; ++i) {
      if (axes[i] < 0 || axes[i] >= N || seen[static_cast<int>(axes[i])]++ != 0) {
        throw InvalidArgument("transpose: the axes ", axes, " are no permutation of the ", N,
                              " dimensions of shape ", source);
      }
    }
    Shape<N> source_step;  // rows in one step of each axis of the operand
    source_step[N - 1] = 0;
    index_t step = 1;
    for (int i = N - 2; i >= 0; --i) {
      source_step[i] = step;
      step *= source[i];
    }
    for (int i = 0; i < N; ++i) {
      const int axis = static_cast<int>(axes[i]);
      target[i] = source[axis];
      row_step[i] = source_step[axis];
      column_step[i] = axis == N - 1 ? 1 : 0;
    }
  }
  const Shape<N>& shape() const { return target; }
  RowsAcross Across() const requires(!kKeepsLast) {
    index_t step = 1;
    for (int i = N - 2; i >= 0; --i) {
      if (column_step[i] == 1) return {target[i], step};
      step *= target[i];
    }
    return {};
  }
  TESSERA_HD RowSource operator()(index_t y) const {
    RowSource s{0, 0, row_step[N - 1], column_step[N - 1]};
    for (int i = N - 2; i >= 0; --i) {
      const index_t rest = i == 0 ? 0 : y / target[i];
      const index_t at = y - rest * target[i];
      s.y += at * row_step[i];
      if constexpr (!kKeepsLast) s.x0 += at * column_step[i];
      y = rest;
    }
    return s;
  }
};

/// The node of the function transpose_indices.
template <int N, typename E>
struct TransposeIndicesExp : Exp<TransposeIndicesExp<N, E>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  static constexpr int kRank = E::kRank;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = false;

  E e;
  Shape<N> source;
  Shape<N> axes;
  Shape<N> target_step;  // elements of the result in one step of each axis of the source

  TransposeIndicesExp(const E& indices, const Shape<N>& shape, const Shape<N>& order)
      : e(indices), source(shape), axes(order) {
    const TransposeMap<N, false> checked(shape, axes);
    index_t step = 1;
    for (int i = N - 1; i >= 0; --i) {
      target_step[static_cast<int>(axes[i])] = step;
      step *= checked.target[i];
    }
  }

  auto operands() const { return std::tuple<E>(e); }
  template <typename A>
  TransposeIndicesExp<N, A> WithOperands(const A& indices) const {
    return {indices, source, axes};
  }
  auto shape() const { return e.shape(); }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    index_t rest = static_cast<index_t>(e.Eval(y, x));
    index_t index = 0;
    for (int i = N - 1; i >= 0; --i) {
      const index_t next = rest / source[i];
      index += (rest - next * source[i]) * target_step[i];
      rest = next;
    }
    return static_cast<value_type>(index);
  }
  bool IsFlat() const { return e.IsFlat(); }
};

/// Returns the axes 0 … N - 1 with a and b exchanged, for transpose. Throws Error(kInvalidArgument)
/// unless both are among them.
template <int N>
Shape<N> SwappedAxes(int a, int b) {
  if (a < 0 || a >= N || b < 0 || b >= N) {
    throw InvalidArgument("swapaxis: there are no dimensions ", a, " and ", b, " among ", N);
  }
  Shape<N> axes;
  for (int i = 0; i < N; ++i) axes[i] = i;
  std::swap(axes[a], axes[b]);
  return axes;
}

/// Permutes dimensions: dimension i of the result is dimension axes[i] of e. The result may also be
/// assigned to. Throws Error(kInvalidArgument) unless axes are a permutation of 0 … rank - 1.
template <Operand E>
RowMapExp<TransposeMap<E::kRank, false>, OperandNode<E>> transpose(const E& e,
                                                                   const Shape<E::kRank>& axes) {
  return {{e.shape(), axes}, AsNode(e)};
}

/// Exchanges the dimensions kA and kB, in either order of the two. The result may also be assigned
/// to.
template <int kA, int kB, Operand E>
auto swapaxis(const E& e) {
  constexpr int kRank = E::kRank;
  static_assert(0 <= kA && kA < kRank && 0 <= kB && kB < kRank && kA != kB,
                "swapaxis<a, b>: two different dimensions of the expression");
  using Map = TransposeMap<kRank, (kA < kRank - 1 && kB < kRank - 1)>;
  return RowMapExp<Map, OperandNode<E>>(Map(e.shape(), SwappedAxes<kRank>(kA, kB)), AsNode(e));
}
/// Exchanges the dimensions a and b. The result may also be assigned to. Throws
/// Error(kInvalidArgument) if e has no such dimensions.
template <Operand E>
auto swapaxis(const E& e, int a, int b) {
  return transpose(e, SwappedAxes<E::kRank>(a, b));
}

/// Maps each index into an array of shape `source` to the index of the same element in
/// transpose(array, axes). Both arrays are contiguous. Each index must lie in the array. The result
/// for any other index is a number without meaning. Throws Error(kInvalidArgument) unless axes are
/// a permutation.
template <Operand E, int N>
TransposeIndicesExp<N, OperandNode<E>> transpose_indices(const E& indices, const Shape<N>& source,
                                                         const Shape<N>& axes) {
  return {AsNode(indices), source, axes};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::swapaxis;
using expr::transpose;
using expr::transpose_indices;

}  // namespace tessera

#endif  // TESSERA_TENSOR_SHAPE_TRANSPOSE_H_
