#ifndef TESSERA_TENSOR_SHAPE_RESHAPE_H_
#define TESSERA_TENSOR_SHAPE_RESHAPE_H_

#include <algorithm>
#include <tuple>

#include "tessera/tensor/dense/materialize_operand.h"
#include "tessera/tensor/device/size_bytes.h"
#include "tessera/tensor/shape/row_map.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The node of the function reshape.
template <int N, typename E>
struct ReshapeExp : Exp<ReshapeExp<N, E>, typename E::value_type>,
                    MaterializesOperand<kIsReadInTiles<E>> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  static constexpr int kRank = N;
  static constexpr bool kHasPacket = E::kHasPacket;
  static constexpr bool kMovesElements = true;

  E e;
  Shape<N> target;
  index_t columns;  // of the operand
  bool flat;        // the operand can be read as one row

  ReshapeExp(const E& operand, const Shape<N>& shape)
      : e(operand),
        target(shape),
        columns(operand.shape()[E::kRank - 1]),
        flat(CanBeReadAsOneRow(operand)) {
    for (int i = 0; i < N; ++i) {
      if (shape[i] < 0) throw InvalidArgument("reshape: the shape ", shape, " is negative");
    }
    const auto elements = tensor_internal::CheckedProduct(shape, 0, N).value();
    if (!elements) {
      throw InvalidArgument("reshape: shape ", shape,
                            " has a number of elements that is not below "
                            "2^63");
    }
    if (operand.shape().Size() != *elements) {
      throw InvalidArgument("reshape: an expression of shape ", operand.shape(), " has ",
                            operand.shape().Size(), " elements, but shape ", shape, " needs ",
                            *elements);
    }
  }

  auto operands() const { return std::tuple<E>(e); }
  template <typename A>
  ReshapeExp<N, A> WithOperands(const A& a) const {
    return {a, target};
  }
  template <typename Device>
  auto Materialized(Scratch<Device>* scratch) const requires kIsReadInTiles<E> {
    return WithOperands(MaterializeWhole(e, scratch));
  }

  const Shape<N>& shape() const { return target; }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    const index_t i = y * target[N - 1] + x;
    if (flat) return e.Eval(0, i);
    const index_t row = i / columns;
    return e.Eval(row, i - row * columns);
  }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    constexpr index_t kSize = PacketTraits<value_type>::kSize;
    const index_t i = y * target[N - 1] + x;
    if (flat) return e.template EvalPacket<P>(0, i);
    const index_t row = i / columns;
    const index_t column = i - row * columns;
    if (column + kSize <= columns) return e.template EvalPacket<P>(row, column);
    alignas(64) value_type lanes[static_cast<size_t>(kSize)];
    for (index_t k = 0; k < kSize; ++k) lanes[k] = Eval(y, x + k);
    return pk::pload<P>(lanes);
  }
  /// Returns true: Eval(0, i) divides i itself, so that the result can always be read as one row.
  bool IsFlat() const { return true; }

  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    index_t i = y * target[N - 1] + begin;
    const index_t last = y * target[N - 1] + end;
    if (flat) {
      EvalSpan(e, 0, i, last, out);
      return;
    }
    while (i < last) {
      const index_t row = i / columns;
      const index_t column = i - row * columns;
      const index_t count = std::min(columns - column, last - i);
      EvalSpan(e, row, column, column + count, out);
      out += count;
      i += count;
    }
  }

 private:
  static bool CanBeReadAsOneRow([[maybe_unused]] const E& operand) {
    if constexpr (NeedsMaterialization<E>()) {
      return false;  // not materialized yet; WithOperands asks again
    } else {
      return E::kRank == 1 || operand.IsFlat();
    }
  }
};

/// Returns the elements in row-major order under another shape. Throws Error(kInvalidArgument)
/// unless both shapes have the same number of elements.
template <Operand E, int N>
requires(E::kRank > 0) ReshapeExp<N, OperandNode<E>> reshape(const E& e, const Shape<N>& shape) {
  return {AsNode(e), shape};
}

/// Reshaping a number, plain or computed, is a deleted function. The result type's name says why.
struct ANumberHasNoShape_ItStandsBesideEveryShapeAsItIs;
template <typename E>
concept OfNoDimensions = Scalar<E> ||(Operand<E>&& E::kRank == 0);
template <OfNoDimensions E, int N>
ANumberHasNoShape_ItStandsBesideEveryShapeAsItIs reshape(const E& e,
                                                         const Shape<N>& shape) = delete;

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::reshape;

}  // namespace tessera

#endif  // TESSERA_TENSOR_SHAPE_RESHAPE_H_
