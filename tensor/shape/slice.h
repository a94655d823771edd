#ifndef TESSERA_TENSOR_SHAPE_SLICE_H_
#define TESSERA_TENSOR_SHAPE_SLICE_H_

#include "tessera/tensor/shape/row_map.h"

/// Parts of an expression: slices, crops and reversals. A part of a tensor, or of another part, may
/// also be assigned to with = += -= *= /=.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The row map of the function slice<kAxis>(e, begin, end).
template <int N, int kAxis>
struct AxisSliceMap {
  static constexpr int kRank = N;
  static constexpr bool kWholeRows = true;
  static constexpr bool kSharesWork = false;
  static constexpr bool kOneToOne = true;

  Shape<N> target;
  index_t begin;
  index_t left_out;  // rows of the operand that one step of the axes before kAxis leaves out
  index_t first;     // rows of the operand before the slice's first
  index_t rows;      // rows of the slice in one step of the axes before kAxis

  AxisSliceMap(const Shape<N>& source, index_t from, index_t to) : target(source), begin(from) {
    if (from < 0 || to < from || to > source[kAxis]) {
      throw InvalidArgument("slice<", kAxis, ">: [", from, ", ", to, ") does not lie in dimension ",
                            kAxis, " of shape ", source);
    }
    target[kAxis] = to - from;
    const index_t inner = kAxis == N - 1 ? 1 : source.ProdShape(kAxis + 1, N - 1);
    rows = target[kAxis] * inner;
    first = from * inner;
    left_out = (source[kAxis] - target[kAxis]) * inner;
  }
  const Shape<N>& shape() const { return target; }
  TESSERA_HD RowSource operator()(index_t y) const {
    if constexpr (kAxis == N - 1) return RowSource::Whole(y, begin);
    if constexpr (kAxis == 0) return RowSource::Whole(y + first, 0);
    return RowSource::Whole(y + y / rows * left_out + first, 0);
  }
};

/// The row map of the function slice(e, begin, end, step).
template <int N>
struct BlockMap {
  static constexpr int kRank = N;
  static constexpr bool kWholeRows = false;
  static constexpr bool kStepsAlongRows = true;
  // The map of a matrix does next to nothing, and a short row is done before a buffer is filled.
  static constexpr bool kSharesWork = N > 2;
  static constexpr bool kOneToOne = true;

  Shape<N> source;
  Shape<N> begin;
  Shape<N> step;
  Shape<N> target;

  BlockMap(const Shape<N>& from, const Shape<N>& first, const Shape<N>& end, const Shape<N>& steps)
      : source(from), begin(first), step(steps) {
    for (int i = 0; i < N; ++i) {
      if (first[i] < 0 || end[i] < first[i] || end[i] > from[i]) {
        throw InvalidArgument("slice: from ", first, " to ", end, " does not lie in shape ", from);
      }
      if (steps[i] < 1) throw InvalidArgument("slice: the steps ", steps, " must be at least 1");
      target[i] = end[i] == first[i] ? 0 : (end[i] - first[i] - 1) / steps[i] + 1;
    }
  }
  const Shape<N>& shape() const { return target; }
  TESSERA_HD RowSource operator()(index_t y) const {
    index_t row = 0;
    index_t scale = 1;
    for (int i = N - 2; i >= 0; --i) {
      const index_t rest = i == 0 ? 0 : y / target[i];
      row += (begin[i] + (y - rest * target[i]) * step[i]) * scale;
      y = rest;
      scale *= source[i];
    }
    return {row, begin[N - 1], 0, step[N - 1]};
  }
};

/// The row map of the function crop(e, shape, y, x).
template <int N>
struct CropMap {
  static constexpr int kRank = N;
  static constexpr bool kWholeRows = true;
  static constexpr bool kSharesWork = false;
  static constexpr bool kOneToOne = true;

  Shape<N> target;
  index_t height;  // of the operand
  index_t start_y;
  index_t start_x;

  CropMap(const Shape<N>& source, const Shape<2>& extent, index_t y, index_t x)
      : target(source), height(source[N - 2]), start_y(y), start_x(x) {
    if (y < 0 || x < 0 || extent[0] < 0 || extent[1] < 0 || extent[0] > source[N - 2] - y ||
        extent[1] > source[N - 1] - x) {
      throw InvalidArgument("crop: ", extent, " from (", y, ",", x, ") does not lie in shape ",
                            source);
    }
    target[N - 2] = extent[0];
    target[N - 1] = extent[1];
  }
  const Shape<N>& shape() const { return target; }
  TESSERA_HD RowSource operator()(index_t y) const {
    const index_t plane = y / target[N - 2];
    return RowSource::Whole(y + plane * (height - target[N - 2]) + start_y, start_x);
  }
};

/// The row map of the function flip(e, axis).
template <int N>
struct FlipMap {
  static constexpr int kRank = N;
  static constexpr bool kWholeRows = false;
  static constexpr bool kStepsAlongRows = true;
  static constexpr bool kSharesWork = true;
  static constexpr bool kOneToOne = true;

  Shape<N> target;
  bool reverses_rows;
  index_t extent;
  index_t inner;  // rows in one step of the axis

  FlipMap(const Shape<N>& source, int axis) : target(source), reverses_rows(axis == N - 1) {
    if (axis < 0 || axis >= N) {
      throw InvalidArgument("flip: shape ", source, " has no dimension ", axis);
    }
    extent = source[axis];
    inner = reverses_rows ? 1 : source.ProdShape(axis + 1, N - 1);
  }
  const Shape<N>& shape() const { return target; }
  TESSERA_HD RowSource operator()(index_t y) const {
    if (reverses_rows) return {y, extent - 1, 0, -1};
    const index_t at = y / inner % extent;
    return RowSource::Whole(y + (extent - 1 - 2 * at) * inner, 0);
  }
};

/// The result type of slice, crop, flip and mirror: rows of E, read as Map says.
template <typename Map, typename E>
using RowMapOf = RowMapExp<Map, OperandNode<E>>;

/// Returns elements [begin, end) of dimension kAxis. The other dimensions stay. Throws
/// Error(kInvalidArgument) unless 0 <= begin <= end <= shape()[kAxis].
template <int kAxis, Operand E>
RowMapOf<AxisSliceMap<E::kRank, kAxis>, E> slice(const E& e, index_t begin, index_t end) {
  static_assert(0 <= kAxis && kAxis < E::kRank, "slice<axis>: the axis must lie in the expression");
  return {{e.shape(), begin, end}, AsNode(e)};
}

/// Returns every step[i]-th element of each dimension i, from begin[i] to before end[i]. Steps are
/// 1 without `step`. Throws Error(kInvalidArgument) unless begin <= end lie in the shape and steps
/// are at least 1.
template <Operand E>
RowMapOf<BlockMap<E::kRank>, E> slice(const E& e, const Shape<E::kRank>& begin,
                                      const Shape<E::kRank>& end, const Shape<E::kRank>& step) {
  return {{e.shape(), begin, end, step}, AsNode(e)};
}
template <Operand E>
RowMapOf<BlockMap<E::kRank>, E> slice(const E& e, const Shape<E::kRank>& begin,
                                      const Shape<E::kRank>& end) {
  Shape<E::kRank> ones;
  for (int i = 0; i < E::kRank; ++i) ones[i] = 1;
  return slice(e, begin, end, ones);
}

/// Returns the window of shape `extent` of the last two dimensions whose first element is (y, x).
/// The default window is in the middle, where an odd remainder stays below and to the right. Throws
/// Error(kInvalidArgument) if the window does not lie in the image.
template <Operand E>
RowMapOf<CropMap<E::kRank>, E> crop(const E& e, const Shape<2>& extent, index_t y, index_t x) {
  static_assert(E::kRank >= 2, "crop: the last two dimensions are the image's");
  return {{e.shape(), extent, y, x}, AsNode(e)};
}
template <Operand E>
RowMapOf<CropMap<E::kRank>, E> crop(const E& e, const Shape<2>& extent) {
  const auto shape = e.shape();
  // A negative extent is refused by crop, wherever the window begins.
  const auto middle = [](index_t all, index_t part) { return part < 0 ? 0 : (all - part) / 2; };
  return crop(e, extent, middle(shape[E::kRank - 2], extent[0]),
              middle(shape[E::kRank - 1], extent[1]));
}

/// Reverses dimension `axis`. Throws Error(kInvalidArgument) if there is no such dimension.
template <Operand E>
RowMapOf<FlipMap<E::kRank>, E> flip(const E& e, int axis) {
  return {{e.shape(), axis}, AsNode(e)};
}

/// Reverses the last dimension: images seen in a mirror.
template <Operand E>
RowMapOf<FlipMap<E::kRank>, E> mirror(const E& e) {
  return flip(e, E::kRank - 1);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::crop;
using expr::flip;
using expr::mirror;
using expr::slice;

}  // namespace tessera

#endif  // TESSERA_TENSOR_SHAPE_SLICE_H_
