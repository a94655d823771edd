#ifndef TESSERA_TENSOR_SHAPE_BROADCAST_H_
#define TESSERA_TENSOR_SHAPE_BROADCAST_H_

#include <tuple>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/materialize_operand.h"
#include "tessera/tensor/device/size_bytes.h"
#include "tessera/tensor/expr/merge_dimensions.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The node of broadcast<kAxis>(vector, shape): element i of the vector at every index whose
/// coordinate along kAxis is i.
template <typename E, int N, int kAxis>
struct BroadcastExp : Exp<BroadcastExp<E, N, kAxis>, typename E::value_type>,
                      MaterializesOperand<kIsExpensiveToRepeat<E>> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  static constexpr int kRank = N;
  static constexpr bool kMovesElements = true;
  static constexpr bool kIsItsOperands = true;
  static constexpr bool kAlongRow = kAxis == N - 1;
  static constexpr bool kHasPacket =
      kAlongRow ? E::kHasPacket : PacketTraits<value_type>::kVectorizable;
  static constexpr bool kHasAvx2Packet = !kAlongRow || HasAvx2Packet<E>();

  E vector;
  Shape<N> target;
  index_t inner_rows;  // rows between two steps of index kAxis

  BroadcastExp(const E& source, const Shape<N>& shape)
      : vector(source),
        target(tensor_internal::CountableShape(shape, "broadcast")),
        inner_rows(kAlongRow ? 1 : shape.ProdShape(kAxis + 1, N - 1)) {
    if (source.shape()[0] != shape[kAxis]) {
      throw InvalidArgument("broadcast<", kAxis, ">: a vector of shape ", source.shape(),
                            " does not fit dimension ", kAxis, " of shape ", shape);
    }
  }
  const Shape<N>& shape() const { return target; }
  std::tuple<E> operands() const { return {vector}; }
  template <typename NewE>
  auto WithOperands(const NewE& new_vector) const {
    return BroadcastExp<NewE, N, kAxis>(new_vector, target);
  }
  template <typename Device>
  auto Materialized(Scratch<Device>* scratch) const requires kIsExpensiveToRepeat<E> {
    return WithOperands(MaterializeWhole(vector, scratch));
  }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    if constexpr (kAlongRow) {
      return vector.Eval(0, x);
    } else {
      // Both divisions are skipped if possible. Merged dimensions leave none behind kAxis, and none
      // precedes axis 0.
      const index_t i = inner_rows == 1 ? y : y / inner_rows;
      return vector.Eval(0, kAxis == 0 ? i : i % target[kAxis]);
    }
  }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    if constexpr (kAlongRow) {
      return vector.template EvalPacket<P>(0, x);
    } else {
      return pk::pset1<P>(Eval(y, x));
    }
  }
  ScalarExp<value_type> AtRow(index_t y) const requires(!kAlongRow) {
    return ScalarExp<value_type>(Eval(y, 0));
  }
  bool IsFlat() const { return N == 1; }
  int MergeableDimensions() const { return kAlongRow ? 1 : N - 1 - kAxis; }
  BroadcastExp MergeDimensions(int count) const {
    return {vector, expr::MergeDimensions(target, count)};
  }
};

/// Broadcasts a vector over `shape` along dimension kAxis: out[…, i at kAxis, …] = vector[i].
///
/// The vector may be any expression of one dimension. An expensive one (a function such as exp, a
/// reduction) is materialized once in a temporary of its own size. Any other vector is computed at
/// each read. Throws Error(kInvalidArgument) unless the vector has shape[kAxis] elements. Throws it
/// too if the shape is negative or has 2^63 elements or more, as all functions that take a shape
/// do.
template <int kAxis, Operand E, int N>
BroadcastExp<OperandNode<E>, N, kAxis> broadcast(const E& vector, const Shape<N>& shape) {
  static_assert(0 <= kAxis && kAxis < N, "broadcast<axis>: the axis must lie in the shape");
  static_assert(E::kRank == 1, "broadcast<axis>: only a vector is spread; see also repmat");
  return {AsNode(vector), shape};
}

/// Returns a matrix with `rows` copies of a vector, one below the other. Throws
/// Error(kInvalidArgument) if rows is negative or the matrix has 2^63 elements or more.
template <Operand E>
BroadcastExp<OperandNode<E>, 2, 1> repmat(const E& vector, index_t rows) {
  static_assert(E::kRank == 1, "repmat: only a vector is repeated");
  return {AsNode(vector), Shape2(rows, vector.shape()[0])};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::broadcast;
using expr::repmat;

}  // namespace tessera

#endif  // TESSERA_TENSOR_SHAPE_BROADCAST_H_
