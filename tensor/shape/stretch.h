#ifndef TESSERA_TENSOR_SHAPE_STRETCH_H_
#define TESSERA_TENSOR_SHAPE_STRETCH_H_

#include <algorithm>

#include "tessera/tensor/device/size_bytes.h"
#include "tessera/tensor/shape/row_map.h"

/// Broadcasts: elements repeated along new or stretched dimensions. broadcast.h has the commonest
/// form, a vector spread over a shape.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// One element everywhere.
template <int N>
struct ScalarMap {
  static constexpr int kRank = N;
  static constexpr bool kWholeRows = true;
  static constexpr bool kSharesWork = false;
  static constexpr bool kOneToOne = false;

  Shape<N> target;

  ScalarMap(const Shape<1>& source, const Shape<N>& shape)
      : target(tensor_internal::CountableShape(shape, "broadcast_scalar")) {
    if (source[0] != 1) {
      throw InvalidArgument("broadcast_scalar: an expression of shape ", source,
                            " has not one element to spread over shape ", shape);
    }
  }
  const Shape<N>& shape() const { return target; }
  TESSERA_HD RowSource operator()(index_t) const { return RowSource::Repeated(0, 0); }
  int MergeableDimensions() const { return N; }
  ScalarMap MergeDimensions(int count) const {
    ScalarMap merged = *this;
    merged.target = expr::MergeDimensions(target, count);
    return merged;
  }
  bool MergesOperand() const { return false; }
};

/// Dimensions of extent 1 stretched to those of `target`.
template <int N>
struct StretchMap {
  static constexpr int kRank = N;
  static constexpr bool kWholeRows = true;
  static constexpr bool kSharesWork = false;
  static constexpr bool kOneToOne = false;

  Shape<N> target;
  Shape<N> row_step;  // operand rows in one step of each axis; 0 for a stretched one
  bool repeats_columns;

  StretchMap(const Shape<N>& source, const Shape<N>& shape, const char* operation)
      : target(shape), repeats_columns(source[N - 1] == 1) {
    index_t step = 1;
    row_step[N - 1] = 0;
    for (int i = N - 1; i >= 0; --i) {
      if (shape[i] < 0 || (source[i] != shape[i] && source[i] != 1)) {
        throw InvalidArgument(operation, ": shape ", source, " cannot be stretched to ", shape,
                              "; dimension ", i, " must be 1 or ", shape[i]);
      }
      if (i == N - 1) continue;
      row_step[i] = source[i] == 1 ? 0 : step;
      step *= source[i];
    }
    tensor_internal::CountableShape(target, operation);
  }
  const Shape<N>& shape() const { return target; }
  TESSERA_HD RowSource operator()(index_t y) const {
    index_t row = 0;
    for (int i = N - 2; i >= 0; --i) {
      const index_t rest = i == 0 ? 0 : y / target[i];
      row += (y - rest * target[i]) * row_step[i];
      y = rest;
    }
    return repeats_columns ? RowSource::Repeated(row, 0) : RowSource::Whole(row, 0);
  }
  /// Those that are stretched like the last, or like it are not.
  int MergeableDimensions() const {
    int count = 1;
    for (int i = N - 2; i >= 0; --i, ++count) {
      const bool stretched = row_step[i] == 0;
      if (stretched != repeats_columns && target[i] != 1) break;
    }
    return count;
  }
  StretchMap MergeDimensions(int count) const {
    StretchMap merged = *this;
    merged.target = expr::MergeDimensions(target, count);
    if (MergesOperand()) {  // of which that many rows become one
      const index_t rows = target.ProdShape(N - count, N - 1);
      for (int i = 0; i < N - count; ++i) merged.row_step[i] /= rows;
    }
    return merged;
  }
  bool MergesOperand() const { return !repeats_columns; }
};

/// broadcast_with_axis: see the function below.
template <int N>
struct InsertAxisMap {
  static constexpr int kRank = N;
  static constexpr bool kWholeRows = true;
  static constexpr bool kSharesWork = false;
  static constexpr bool kOneToOne = false;

  Shape<N> target;
  bool innermost;      // the new dimension is the last
  int behind;          // dimensions behind it
  index_t columns;     // of the operand
  index_t inner_rows;  // rows of the operand in one step of the dimensions before the new one
  index_t rows;        // rows of the result in the same

  InsertAxisMap(const Shape<N - 1>& source, int axis, index_t size) {
    if (axis < -1 || axis >= N - 1 || size < 0) {
      throw InvalidArgument("broadcast_with_axis: shape ", source, " has no dimension ", axis,
                            " behind which ", size, " repetitions could stand");
    }
    for (int i = 0; i < N; ++i) target[i] = i <= axis ? source[i] : source[i == 0 ? 0 : i - 1];
    target[axis + 1] = size;
    tensor_internal::CountableShape(target, "broadcast_with_axis");
    behind = N - 2 - axis;
    innermost = behind == 0;
    columns = source[N - 2];
    inner_rows = innermost ? 1 : source.ProdShape(axis + 1, N - 2);
    rows = size * inner_rows;
  }
  const Shape<N>& shape() const { return target; }
  TESSERA_HD RowSource operator()(index_t y) const {
    if (innermost) {
      const index_t row = y / columns;
      return RowSource::Repeated(row, y - row * columns);
    }
    const index_t outer = y / rows;
    return RowSource::Whole(outer * inner_rows + (y - outer * rows) % inner_rows, 0);
  }
  /// Those behind the new one.
  int MergeableDimensions() const { return std::max(1, behind); }
  InsertAxisMap MergeDimensions(int count) const {
    InsertAxisMap merged = *this;
    const index_t merged_rows = target.ProdShape(N - count, N - 1);
    merged.target = expr::MergeDimensions(target, count);
    merged.inner_rows /= merged_rows;
    merged.rows /= merged_rows;
    return merged;
  }
  bool MergesOperand() const { return true; }
};

/// The one element of e everywhere in `shape`.
/// Throws Error(kInvalidArgument) unless e has one element.
template <Operand E, int N>
requires(E::kRank ==
         1) RowMapExp<ScalarMap<N>, OperandNode<E>> broadcast_scalar(const E& e,
                                                                     const Shape<N>& shape) {
  return {{e.shape(), shape}, AsNode(e)};
}

/// A new dimension of extent `size` behind dimension `axis` (-1: before the first), along which e
/// is repeated. Throws Error(kInvalidArgument) if there is no such dimension.
template <Operand E>
RowMapExp<InsertAxisMap<E::kRank + 1>, OperandNode<E>> broadcast_with_axis(const E& e, int axis,
                                                                           index_t size) {
  return {{e.shape(), axis, size}, AsNode(e)};
}

/// Dimension `axis`, of extent 1, repeated `size` times.
/// Throws Error(kInvalidArgument) if there is no such dimension or its extent is not 1.
template <Operand E>
RowMapExp<StretchMap<E::kRank>, OperandNode<E>> broadcast_keepdim(const E& e, int axis,
                                                                  index_t size) {
  auto target = e.shape();
  if (axis < 0 || axis >= E::kRank || target[axis] != 1) {
    throw InvalidArgument("broadcast_keepdim: shape ", target, " has no dimension ", axis,
                          " of extent 1");
  }
  target[axis] = size;
  return {{e.shape(), target, "broadcast_keepdim"}, AsNode(e)};
}

/// Several dimensions of extent 1 repeated: dimension axes[i] sizes[i] times. Axes and Sizes are
/// shapes: TShape or Shape<k>.
/// Throws Error(kInvalidArgument) if their lengths differ, or as broadcast_keepdim.
template <Operand E, typename Axes, typename Sizes>
RowMapExp<StretchMap<E::kRank>, OperandNode<E>> broadcast_multi_axes(const E& e, const Axes& axes,
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
  return {{source, target, "broadcast_multi_axes"}, AsNode(e)};
}

/// Every dimension of extent 1 repeated as often as `shape` says.
/// Throws Error(kInvalidArgument) unless each dimension is 1 or already that of `shape`.
template <Operand E>
RowMapExp<StretchMap<E::kRank>, OperandNode<E>> broadcast_to(const E& e,
                                                             const Shape<E::kRank>& shape) {
  return {{e.shape(), shape, "broadcast_to"}, AsNode(e)};
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
