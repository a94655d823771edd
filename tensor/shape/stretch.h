#ifndef TESSERA_TENSOR_SHAPE_STRETCH_H_
#define TESSERA_TENSOR_SHAPE_STRETCH_H_

#include <algorithm>

#include "tessera/tensor/device/size_bytes.h"
#include "tessera/tensor/shape/row_map.h"

/// Broadcasts along new dimensions, or along dimensions of extent 1. The header broadcast.h has the
/// most common form: a vector broadcast over a shape.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// A broadcast: each axis of the result runs along an axis of the operand, in the operand's order,
/// or repeats it with a stride of 0.
template <int N>
struct BroadcastMap {
  static constexpr int kRank = N;
  static constexpr bool kWholeRows = true;
  static constexpr bool kSharesWork = false;
  static constexpr bool kOneToOne = false;

  Shape<N> target;
  Shape<N> row_step;     // operand rows in one step of an axis
  int column_axis = -1;  // the axis before the last that runs along the operand's columns
  int new_axes = 0;      // bit i: no axis of the operand stands for axis i
  bool repeats_columns;  // all of a row is one element of the operand

  /// Requires: source_axis(i) is the operand's axis that stands for axis i of the result, or -1,
  /// and its extent is 1 or shape[i]. The axes of the operand appear in order; one of extent 1 may
  /// be left out.
  template <int M, typename SourceAxis>
  BroadcastMap(const Shape<M>& source, const Shape<N>& shape, const char* operation,
               const SourceAxis& source_axis)
      : target(tensor_internal::CountableShape(shape, operation)) {
    index_t rows = 1;
    for (int i = N - 1; i >= 0; --i) {
      const int axis = source_axis(i);
      row_step[i] = 0;
      if (axis < 0) {
        new_axes |= 1 << i;
      } else if (axis == M - 1) {
        if (i < N - 1 && source[axis] != 1) column_axis = i;
      } else {
        row_step[i] = source[axis] == 1 ? 0 : rows;
        rows *= source[axis];
      }
    }
    // Axes of extent 1 at the end leave the axis before them to say what a row is.
    int last = N - 1;
    while (last > 0 && target[last] == 1 && !IsNew(last)) --last;
    repeats_columns = IsNew(last) || source[source_axis(last)] == 1;
  }
  const Shape<N>& shape() const { return target; }
  TESSERA_HD RowSource operator()(index_t y) const {
    index_t row = 0, column = 0;
    for (int i = N - 2; i >= 0; --i) {
      const index_t rest = i == 0 ? 0 : y / target[i];
      const index_t index = y - rest * target[i];
      row += index * row_step[i];
      if (i == column_axis) column = index;
      y = rest;
    }
    return repeats_columns ? RowSource::Repeated(row, column) : RowSource::Whole(row, column);
  }
  /// The axes at the end that all repeat the operand, or all run along it.
  int MergeableDimensions() const {
    int count = 1;
    for (int i = N - 2; i >= 0; --i, ++count) {
      const bool repeats = row_step[i] == 0 && i != column_axis;
      if (repeats_columns ? !repeats : IsNew(i) || (repeats && target[i] != 1)) break;
    }
    return count;
  }
  BroadcastMap MergeDimensions(int count) const {
    BroadcastMap merged = *this;
    merged.target = expr::MergeDimensions(target, count);
    if (MergesOperand()) {  // that many of its rows become one
      const index_t rows = target.ProdShape(N - count, N - 1);
      for (int i = 0; i < N - count; ++i) merged.row_step[i] /= rows;
    }
    return merged;
  }
  bool MergesOperand() const { return !repeats_columns; }

 private:
  TESSERA_HD bool IsNew(int i) const { return (new_axes >> i & 1) != 0; }
};

/// The map of an operand whose axes of extent 1 repeat to those of `shape`. Throws
/// Error(kInvalidArgument) where another extent differs.
template <int N>
BroadcastMap<N> RepeatAxes(const Shape<N>& source, const Shape<N>& shape, const char* operation) {
  for (int i = N - 1; i >= 0; --i) {
    if (shape[i] < 0 || (source[i] != shape[i] && source[i] != 1)) {
      throw InvalidArgument(operation, ": shape ", source, " cannot be stretched to ", shape,
                            "; dimension ", i, " must be 1 or ", shape[i]);
    }
  }
  return {source, shape, operation, [](int i) { return i; }};
}

/// Broadcasts the one element of e over `shape`. Throws Error(kInvalidArgument) unless e has one
/// element.
template <Operand E, int N>
requires(E::kRank ==
         1) RowMapExp<BroadcastMap<N>, OperandNode<E>> broadcast_scalar(const E& e,
                                                                        const Shape<N>& shape) {
  const auto source = e.shape();
  const BroadcastMap<N> map(source, shape, "broadcast_scalar",
                            [](int i) { return i == N - 1 ? 0 : -1; });
  if (source[0] != 1) {
    throw InvalidArgument("broadcast_scalar: an expression of shape ", source,
                          " has not one element to spread over shape ", shape);
  }
  return {map, AsNode(e)};
}

/// Broadcasts e along a new dimension of extent `size` behind dimension `axis`. The axis -1 puts it
/// before the first dimension. Throws Error(kInvalidArgument) if there is no such dimension.
template <Operand E>
RowMapExp<BroadcastMap<E::kRank + 1>, OperandNode<E>> broadcast_with_axis(const E& e, int axis,
                                                                          index_t size) {
  constexpr int kRank = E::kRank + 1;
  const auto source = e.shape();
  if (axis < -1 || axis >= kRank - 1 || size < 0) {
    throw InvalidArgument("broadcast_with_axis: shape ", source, " has no dimension ", axis,
                          " behind which ", size, " repetitions could stand");
  }
  const auto source_axis = [axis](int i) { return i <= axis ? i : i == axis + 1 ? -1 : i - 1; };
  Shape<kRank> target;
  for (int i = 0; i < kRank; ++i) target[i] = i == axis + 1 ? size : source[source_axis(i)];
  return {{source, target, "broadcast_with_axis", source_axis}, AsNode(e)};
}

/// Repeats dimension `axis`, of extent 1, `size` times. Throws Error(kInvalidArgument) if there is
/// no such dimension or its extent is not 1.
template <Operand E>
RowMapExp<BroadcastMap<E::kRank>, OperandNode<E>> broadcast_keepdim(const E& e, int axis,
                                                                    index_t size) {
  auto target = e.shape();
  if (axis < 0 || axis >= E::kRank || target[axis] != 1) {
    throw InvalidArgument("broadcast_keepdim: shape ", target, " has no dimension ", axis,
                          " of extent 1");
  }
  target[axis] = size;
  return {RepeatAxes(e.shape(), target, "broadcast_keepdim"), AsNode(e)};
}

/// Repeats several dimensions of extent 1: dimension axes[i] is repeated sizes[i] times. Axes and
/// Sizes are shapes: TShape or Shape<k>. Throws Error(kInvalidArgument) if axes and sizes differ in
/// length, if there is no such dimension or if its extent is not 1.
template <Operand E, typename Axes, typename Sizes>
RowMapExp<BroadcastMap<E::kRank>, OperandNode<E>> broadcast_multi_axes(const E& e, const Axes& axes,
                                                                       const Sizes& sizes) {
  const auto length = [](const auto& list) {
    if constexpr (requires { list.ndim(); }) {
      return static_cast<int>(list.ndim());
    } else {
      return list.kDimension;
    }
  };
  const auto source = e.shape();
  auto target = source;
  if (length(axes) != length(sizes)) {
    throw InvalidArgument("broadcast_multi_axes: ", length(axes), " axes and ", length(sizes),
                          " sizes");
  }
  for (int i = 0; i < length(axes); ++i) {
    const int axis = static_cast<int>(axes[i]);
    if (axis < 0 || axis >= E::kRank || source[axis] != 1) {
      throw InvalidArgument("broadcast_multi_axes: shape ", source, " has no dimension ", axis,
                            " of extent 1");
    }
    target[axis] = static_cast<index_t>(sizes[i]);
  }
  return {RepeatAxes(source, target, "broadcast_multi_axes"), AsNode(e)};
}

/// Repeats every dimension of extent 1 as often as `shape` says. Throws Error(kInvalidArgument)
/// unless each dimension is 1 or already that of `shape`.
template <Operand E>
RowMapExp<BroadcastMap<E::kRank>, OperandNode<E>> broadcast_to(const E& e,
                                                               const Shape<E::kRank>& shape) {
  return {RepeatAxes(e.shape(), shape, "broadcast_to"), AsNode(e)};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::broadcast_keepdim;
using expr::broadcast_multi_axes;
using expr::broadcast_scalar;
using expr::broadcast_to;
using expr::broadcast_with_axis;

}  // namespace tessera

#endif  // TESSERA_TENSOR_SHAPE_STRETCH_H_
