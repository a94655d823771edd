#ifndef TESSERA_TENSOR_SHAPE_SPREAD_H_
#define TESSERA_TENSOR_SHAPE_SPREAD_H_

#include <tuple>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/materialize_operand.h"
#include "tessera/tensor/device/size_bytes.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The node of the function spread<kAxis>(e, extent). An operand that is not a tensor is
/// materialized once, and not computed again for each index.
template <int kAxis, typename E>
struct SpreadExp : Exp<SpreadExp<kAxis, E>, typename E::value_type>,
                   MaterializesOperand<!kIsTensor<E>> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  static constexpr int kRank = E::kRank + 1;
  static constexpr bool kAlongRow = kAxis == kRank - 1;
  static constexpr bool kHasPacket = E::kHasPacket;
  static constexpr bool kHasAvx2Packet = HasAvx2Packet<E>();
  static constexpr bool kMovesElements = true;
  static constexpr bool kIsItsOperands = true;

  E e;
  index_t extent;
  index_t inner_rows;  // rows between two steps along the axis
  index_t columns;     // the operand's last extent

  SpreadExp(const E& operand, index_t size) : e(operand), extent(size) {
    const Shape<E::kRank> inner = e.shape();
    inner_rows = kAlongRow ? 1 : inner.ProdShape(kAxis, E::kRank - 1);
    columns = inner[E::kRank - 1];
    if (extent < 0) {
      throw InvalidArgument("spread<", kAxis, ">: an expression of shape ", inner,
                            " cannot be spread over ", extent, " places");
    }
    tensor_internal::CountableShape(shape(), "spread");
  }
  Shape<kRank> shape() const {
    const Shape<E::kRank> inner = e.shape();
    Shape<kRank> outer;
    for (int i = 0; i < kRank; ++i) {
      outer[i] = i == kAxis ? extent : inner[i < kAxis ? i : i - 1];
    }
    return outer;
  }
  std::tuple<E> operands() const { return {e}; }
  template <typename NewE>
  auto WithOperands(const NewE& new_e) const {
    return SpreadExp<kAxis, NewE>(new_e, extent);
  }
  template <typename Device>
  auto Materialized(Scratch<Device>* scratch) const requires(!kIsTensor<E>) {
    return WithOperands(MaterializeWhole(e, scratch));
  }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    if constexpr (kAlongRow) {
      if constexpr (E::kRank == 1) {
        return e.Eval(0, y);
      } else {
        return e.Eval(y / columns, y % columns);
      }
    } else {
      return e.Eval(Row(y), x);
    }
  }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    if constexpr (kAlongRow) {
      return pk::pset1<P>(Eval(y, x));
    } else {
      return e.template EvalPacket<P>(Row(y), x);
    }
  }
  bool IsFlat() const { return false; }

 private:
  TESSERA_HD index_t Row(index_t y) const {
    if constexpr (E::kRank == 1) {
      return 0;
    } else {
      return y / (extent * inner_rows) * inner_rows + y % inner_rows;
    }
  }
};

/// Broadcasts an expression along a new axis: out[…, i at kAxis, …] = e[…, …] for i below `extent`.
/// For a vector v, spread<0>(v, n) has n equal rows v, and spread<1>(v, n) has n equal columns v.
/// An expression that is not a tensor is materialized once in a temporary of its own size. Throws
/// Error(kInvalidArgument) if extent is negative.
template <int kAxis, Operand E>
SpreadExp<kAxis, OperandNode<E>> spread(const E& e, index_t extent) {
  static_assert(0 <= kAxis && kAxis <= E::kRank,
                "spread<axis>: the new axis must lie in the result");
  return {AsNode(e), extent};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::spread;

}  // namespace tessera

#endif  // TESSERA_TENSOR_SHAPE_SPREAD_H_
