#ifndef TESSERA_TENSOR_SHAPE_PAD_H_
#define TESSERA_TENSOR_SHAPE_PAD_H_

#include <algorithm>
#include <tuple>

#include "tessera/base/checked_size.h"
#include "tessera/tensor/dense/materialize_operand.h"
#include "tessera/tensor/device/size_bytes.h"
#include "tessera/tensor/shape/row_map.h"

/// Functions that enlarge images: pad adds a border of zeros, upsampling_nearest repeats elements.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The node of the function pad.
template <typename E>
struct PadExp : Exp<PadExp<E>, typename E::value_type>, MaterializesOperand<kIsReadInTiles<E>> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  static constexpr int kRank = E::kRank;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;

  E e;
  index_t pad_y, pad_x;
  index_t height, width;  // of the operand
  Shape<kRank> target;

  PadExp(const E& operand, index_t border_y, index_t border_x)
      : e(operand), pad_y(border_y), pad_x(border_x), target(operand.shape()) {
    if (pad_y < 0 || pad_x < 0) {
      throw InvalidArgument("pad: a border of ", pad_y, "x", pad_x, " around shape ", target,
                            " must be at least 0");
    }
    height = target[kRank - 2];
    width = target[kRank - 1];
    const auto rows = (CheckedSize(height) + pad_y + pad_y).value();
    const auto columns = (CheckedSize(width) + pad_x + pad_x).value();
    if (!rows || !columns) {
      throw InvalidArgument("pad: a border of ", pad_y, "x", pad_x, " around shape ", target,
                            " gives an extent that is not below 2^63");
    }
    target[kRank - 2] = *rows;
    target[kRank - 1] = *columns;
    tensor_internal::CountableShape(target, "pad");
  }

  auto operands() const { return std::tuple<E>(e); }
  template <typename A>
  PadExp<A> WithOperands(const A& a) const {
    return {a, pad_y, pad_x};
  }
  template <typename Device>
  auto Materialized(Scratch<Device>* scratch) const requires kIsReadInTiles<E> {
    return WithOperands(MaterializeWhole(e, scratch));
  }

  const Shape<kRank>& shape() const { return target; }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    const index_t row = OperandRow(y);
    const index_t column = x - pad_x;
    if (row < 0 || column < 0 || column >= width) return value_type(0);
    return e.Eval(row, column);
  }
  bool IsFlat() const { return false; }

  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    if (begin >= end) return;
    const index_t row = OperandRow(y);
    const index_t first = row < 0 ? end : std::clamp(pad_x, begin, end);
    const index_t last = row < 0 ? end : std::clamp(pad_x + width, begin, end);
    std::fill_n(out, first - begin, value_type(0));
    if (first < last) EvalSpan(e, row, first - pad_x, last - pad_x, out + (first - begin));
    std::fill_n(out + (last - begin), end - last, value_type(0));
  }

 private:
  /// Returns the operand's row that row y of the result holds, or -1 if row y lies in the border.
  TESSERA_HD index_t OperandRow(index_t y) const {
    const index_t plane = y / target[kRank - 2];
    const index_t row = y - plane * target[kRank - 2] - pad_y;
    return row < 0 || row >= height ? -1 : plane * height + row;
  }
};

/// The node of the function upsampling_nearest.
template <typename E>
struct UpsamplingExp : Exp<UpsamplingExp<E>, typename E::value_type>,
                       MaterializesOperand<kIsExpensiveToRepeat<E>> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  static constexpr int kRank = E::kRank;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;
  static constexpr bool kSharesWork = true;  // Eval divides twice for each element

  E e;
  index_t scale;
  Shape<kRank> target;

  UpsamplingExp(const E& operand, index_t factor)
      : e(operand), scale(factor), target(operand.shape()) {
    if (scale < 1) throw InvalidArgument("upsampling_nearest: scale ", scale, " is less than 1");
    const auto rows = (CheckedSize(target[kRank - 2]) * scale).value();
    const auto columns = (CheckedSize(target[kRank - 1]) * scale).value();
    if (!rows || !columns) {
      throw InvalidArgument("upsampling_nearest: ", scale, " times shape ", target,
                            " gives an extent that is not below 2^63");
    }
    target[kRank - 2] = *rows;
    target[kRank - 1] = *columns;
    tensor_internal::CountableShape(target, "upsampling_nearest");
  }

  auto operands() const { return std::tuple<E>(e); }
  template <typename A>
  UpsamplingExp<A> WithOperands(const A& a) const {
    return {a, scale};
  }
  template <typename Device>
  auto Materialized(Scratch<Device>* scratch) const requires kIsExpensiveToRepeat<E> {
    return WithOperands(MaterializeWhole(e, scratch));
  }

  const Shape<kRank>& shape() const { return target; }
  /// Evaluates an element. Planes have a multiple of `scale` rows, so that finding the operand's
  /// row needs no division by the height of a plane.
  TESSERA_HD value_type Eval(index_t y, index_t x) const { return e.Eval(y / scale, x / scale); }
  bool IsFlat() const { return false; }

  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    const E operand = e;  // a local copy stays in registers although `out` may alias
    const index_t row = y / scale;
    index_t column = begin / scale;
    for (index_t x = begin; x < end; ++column) {
      const value_type value = operand.Eval(row, column);
      const index_t next = std::min(end, (column + 1) * scale);
      for (; x < next; ++x) *out++ = value;
    }
  }
  /// Writes rows [begin, end). The first of `scale` equal rows is computed, and the others are
  /// copies.
  bool EvalRows(index_t begin, index_t end, value_type* data, index_t stride) const {
    const index_t columns = target[kRank - 1];
    for (index_t y = begin; y < end; ++y) {
      value_type* const row = data + y * stride;
      if (y == begin || y % scale == 0) {
        EvalRow(y, 0, columns, row);
      } else {
        std::copy_n(row - stride, columns, row);
      }
    }
    return true;
  }
};

/// Adds a border of zeros around the last two dimensions: pad_y rows above and below, pad_x columns
/// on either side. Throws Error(kInvalidArgument) if a border is negative.
template <Operand E>
PadExp<OperandNode<E>> pad(const E& e, index_t pad_y, index_t pad_x) {
  static_assert(E::kRank >= 2, "pad: the last two dimensions are the image's");
  return {AsNode(e), pad_y, pad_x};
}
template <Operand E>
PadExp<OperandNode<E>> pad(const E& e, index_t border) {
  return pad(e, border, border);
}

/// Repeats each element of the last two dimensions as a square of scale x scale equal elements.
/// Throws Error(kInvalidArgument) if scale is less than 1.
template <Operand E>
UpsamplingExp<OperandNode<E>> upsampling_nearest(const E& e, index_t scale) {
  static_assert(E::kRank >= 2, "upsampling_nearest: the last two dimensions are the image's");
  return {AsNode(e), scale};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::pad;
using expr::upsampling_nearest;

}  // namespace tessera

#endif  // TESSERA_TENSOR_SHAPE_PAD_H_
