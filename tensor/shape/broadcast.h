#ifndef TESSERA_TENSOR_SHAPE_BROADCAST_H_
#define TESSERA_TENSOR_SHAPE_BROADCAST_H_

#include "tessera/tensor/device/size_bytes.h"
#include "tessera/tensor/shape/row_map.h"

/// Broadcasts: elements that are repeated along new axes, or along axes of extent 1.
///
/// An expensive operand (a function such as exp, a reduction) is materialized in a temporary of its
/// own size. The elements of others are computed wherever they are read. The functions throw
/// Error(kInvalidArgument) if the result's shape is negative or has 2^63 elements or more.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The map of a broadcast: each axis of the result runs along an axis of the operand, in the
/// operand's order, or repeats it with a stride of 0. kRows tells whether the result's rows are
/// known at compile time to be rows of the operand, or one element repeated. If kIsMaterialized,
/// any operand is materialized that is not a tensor.
template <int N, MappedRows kRows = MappedRows::kEither, bool kIsMaterialized = false>
struct BroadcastMap {
  static constexpr int kRank = N;
  static constexpr bool kWholeRows = true;
  static constexpr MappedRows kMappedRows = kRows;
  static constexpr bool kSharesWork = false;
  static constexpr bool kOneToOne = false;
  static constexpr bool kMaterializesOperand = kIsMaterialized;

  Shape<N> target;
  Shape<N> row_step;     // operand rows in one step of an axis
  int column_axis = -1;  // the axis before the last that runs along the operand's columns
  int new_axes = 0;      // bit i is set if no axis of the operand stands for axis i
  bool repeats_columns;  // a row is one element of the operand

  /// Requires: source_axis(i) is the operand's axis that stands for axis i of the result, or -1,
  /// and its extent is 1 or shape[i]. The axes of the operand appear in order. An axis of extent 1
  /// may be left out.
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
    if constexpr (kRows != MappedRows::kEither) {
      repeats_columns = kRows == MappedRows::kRepeated;
    } else {
      // Axes of extent 1 at the end leave the axis before them to say what a row is.
      int last = N - 1;
      while (last > 0 && target[last] == 1 && !IsNew(last)) --last;
      repeats_columns = IsNew(last) || source[source_axis(last)] == 1;
    }
  }
  bool operator==(const BroadcastMap&) const = default;
  const Shape<N>& shape() const { return target; }
  TESSERA_HD RowSource operator()(index_t y) const {
    index_t row = 0, column = 0;
    AddAxes<N - 2>(y, &row, &column);
    return RepeatsColumns() ? RowSource::Repeated(row, column) : RowSource::Whole(row, column);
  }
  /// Returns the number of axes at the end that all repeat the operand, or all run along it.
  int MergeableDimensions() const {
    int count = 1;
    for (int i = N - 2; i >= 0; --i, ++count) {
      const bool repeats = row_step[i] == 0 && i != column_axis;
      if (RepeatsColumns() ? !repeats : IsNew(i) || (repeats && target[i] != 1)) break;
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
  bool MergesOperand() const { return !RepeatsColumns(); }

 private:
  TESSERA_HD bool IsNew(int i) const { return (new_axes >> i & 1) != 0; }
  /// Adds to `row` and `column` what the axes up to kLast of row y contribute. A loop, which GCC
  /// would not unroll at -O2, would stay inside the loops over a row's elements.
  template <int kLast>
  TESSERA_HD void AddAxes(index_t y, index_t* row, index_t* column) const {
    if constexpr (kLast >= 0) {
      const index_t rest = kLast == 0 ? 0 : y / target[kLast];
      const index_t index = y - rest * target[kLast];
      *row += index * row_step[kLast];
      if (kLast == column_axis) *column = index;
      AddAxes<kLast - 1>(rest, row, column);
    }
  }
  TESSERA_HD bool RepeatsColumns() const {
    return kRows == MappedRows::kEither ? repeats_columns : kRows == MappedRows::kRepeated;
  }
};

/// The map of broadcast<kAxis> to rank N.
template <int N, int kAxis>
using BroadcastVectorMap =
    BroadcastMap<N, kAxis == N - 1 ? MappedRows::kWhole : MappedRows::kRepeated>;
/// The map of spread<kAxis> to rank N.
template <int N, int kAxis>
using SpreadMap =
    BroadcastMap<N, kAxis == N - 1 ? MappedRows::kRepeated : MappedRows::kWhole, true>;

/// Broadcasts a vector to `shape` along dimension kAxis: out[…, i at kAxis, …] = vector[i]. Throws
/// Error(kInvalidArgument) unless the vector has shape[kAxis] elements.
template <int kAxis, Operand E, int N>
RowMapExp<BroadcastVectorMap<N, kAxis>, OperandNode<E>> broadcast(const E& vector,
                                                                  const Shape<N>& shape) {
  static_assert(0 <= kAxis && kAxis < N, "broadcast<axis>: the axis must lie in the shape");
  static_assert(E::kRank == 1, "broadcast<axis>: only a vector is spread; see also repmat");
  const auto source = vector.shape();
  const BroadcastVectorMap<N, kAxis> map(source, shape, "broadcast",
                                         [](int i) { return i == kAxis ? 0 : -1; });
  if (source[0] != shape[kAxis]) {
    throw InvalidArgument("broadcast<", kAxis, ">: a vector of shape ", source,
                          " does not fit dimension ", kAxis, " of shape ", shape);
  }
  return {map, AsNode(vector)};
}

/// Returns `rows` copies of a vector, one below the other. Throws as broadcast does.
template <Operand E>
RowMapExp<BroadcastVectorMap<2, 1>, OperandNode<E>> repmat(const E& vector, index_t rows) {
  static_assert(E::kRank == 1, "repmat: only a vector is repeated");
  return broadcast<1>(vector, Shape2(rows, vector.shape()[0]));
}

/// Returns the map of an operand whose axes of extent 1 repeat to those of `shape`. Throws
/// Error(kInvalidArgument) if another extent differs.
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

/// Broadcasts the one element of e to `shape`.
/// Throws Error(kInvalidArgument) unless e has one element.
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

/// Repeats e `size` times along a new dimension behind dimension `axis`; -1 puts it before the
/// first. Throws Error(kInvalidArgument) if there is no such dimension.
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

/// Repeats e `size` times along dimension `axis`, which has extent 1.
/// Throws Error(kInvalidArgument) if there is no such dimension or its extent is not 1.
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

/// Repeats e sizes[i] times along each dimension axes[i], which has extent 1. Axes and Sizes are
/// shapes: TShape or Shape<k>.
/// Throws Error(kInvalidArgument) if their lengths differ, or as broadcast_keepdim.
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

/// Repeats e along its dimensions of extent 1 to those of `shape`.
/// Throws Error(kInvalidArgument) if another dimension differs from that of `shape`.
template <Operand E>
RowMapExp<BroadcastMap<E::kRank>, OperandNode<E>> broadcast_to(const E& e,
                                                               const Shape<E::kRank>& shape) {
  return {RepeatAxes(e.shape(), shape, "broadcast_to"), AsNode(e)};
}

/// Repeats an expression along a new axis: out[…, i at kAxis, …] = e[…, …] for i below `extent`.
/// For a vector v, spread<0>(v, n) has n equal rows v, and spread<1>(v, n) has n equal columns v.
/// Any e that is not a tensor is materialized in a temporary of its own size.
/// Throws Error(kInvalidArgument) if extent is negative.
template <int kAxis, Operand E>
RowMapExp<SpreadMap<E::kRank + 1, kAxis>, OperandNode<E>> spread(const E& e, index_t extent) {
  static_assert(0 <= kAxis && kAxis <= E::kRank,
                "spread<axis>: the new axis must lie in the result");
  const auto source = e.shape();
  if (extent < 0) {
    throw InvalidArgument("spread<", kAxis, ">: an expression of shape ", source,
                          " cannot be spread over ", extent, " places");
  }
  const auto source_axis = [](int i) { return i < kAxis ? i : i == kAxis ? -1 : i - 1; };
  Shape<E::kRank + 1> target;
  for (int i = 0; i <= E::kRank; ++i) target[i] = i == kAxis ? extent : source[source_axis(i)];
  return {{source, target, "spread", source_axis}, AsNode(e)};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::broadcast;
using expr::broadcast_keepdim;
using expr::broadcast_multi_axes;
using expr::broadcast_scalar;
using expr::broadcast_to;
using expr::broadcast_with_axis;
using expr::repmat;
using expr::spread;

}  // namespace tessera

#endif  // TESSERA_TENSOR_SHAPE_BROADCAST_H_
