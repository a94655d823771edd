#ifndef TESSERA_TENSOR_DENSE_STORE_H_
#define TESSERA_TENSOR_DENSE_STORE_H_

#include <tuple>

#include "tessera/tensor/dense/dense.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The node of Store(dst, e), which is described at the function.
template <typename Device, int N, typename T, typename E>
struct StoreExp : Exp<StoreExp<Device, N, T, E>, T> {
  using value_type = T;
  using device_type = Device;
  static constexpr int kRank = N;
  static constexpr bool kHasPacket = E::kHasPacket && PacketTraits<T>::kVectorizable;
  static constexpr bool kHasGroups = HasGroups<E>();
  static constexpr bool kHasAvx2Packet = HasAvx2Packet<E>();
  static constexpr bool kMovesElements = false;
  static constexpr bool kMergesOperands = true;

  Tensor<Device, N, T> target;
  E e;

  StoreExp(const Tensor<Device, N, T>& destination, const E& expression)
      : target(destination), e(expression) {
    if constexpr (E::kRank > 0) {
      if (target.shape_ != e.shape()) {
        throw InvalidArgument("Store: the expression has shape ", e.shape(),
                              " but the destination has shape ", target.shape_);
      }
    }
    if (ReadsElsewhere(e, PlaceOf(target))) {
      throw InvalidArgument("Store: the expression reads the destination of shape ", target.shape_,
                            " at other places than the one being written; store it first");
    }
  }
  const Shape<N>& shape() const { return target.shape_; }
  std::tuple<Tensor<Device, N, T>, E> operands() const { return {target, e}; }
  template <typename NewE>
  auto WithOperands(const Tensor<Device, N, T>& new_target, const NewE& new_e) const {
    return StoreExp<Device, N, T, NewE>(new_target, new_e);
  }
  TESSERA_HD T Eval(index_t y, index_t x) const {
    const T value = e.Eval(y, x);
    target.dptr_[y * target.stride_ + x] = value;
    return value;
  }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    const P value = e.template EvalPacket<P>(y, x);
    StorePacket(target.dptr_ + y * target.stride_ + x, value);
    return value;
  }
  MemoryPlace Stored() const { return PlaceOf(target); }
  bool IsFlat() const { return target.IsFlat() && e.IsFlat(); }
  bool GroupsAreAligned(index_t rows) const requires kHasGroups {
    return target.GroupsAreAligned(rows) && e.GroupsAreAligned(rows);
  }
};

/// Returns an expression that stores e into dst and has e's value, like an assignment in C. `w +=
/// Store(m, 0.9f * m - 0.1f * g)` computes both results in one pass over memory.
///
/// A node that is used once is evaluated once for each element. dst may be an operand of e and of
/// the surrounding expression if it is read at the element that is stored; the read then comes
/// before the store. Throws Error(kInvalidArgument) if e reads other elements of dst, or if dst and
/// e differ in shape; a number has every shape.
template <typename Device, int N, typename T, MatchingExpressions<Tensor<Device, N, T>> E>
StoreExp<Device, N, T, OperandNode<E>> Store(const Tensor<Device, N, T>& dst, const E& e) {
  return {dst, AsNode(e)};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::Store;

}  // namespace tessera

#endif  // TESSERA_TENSOR_DENSE_STORE_H_
