#ifndef TESSERA_TENSOR_BROADCAST_H_
#define TESSERA_TENSOR_BROADCAST_H_

#include "tessera/tensor/dense.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// broadcast<kAxis>(vector, shape): element i of the vector everywhere where index kAxis is i.
template <typename Device, typename T, int N, int kAxis>
struct BroadcastExp : Exp<BroadcastExp<Device, T, N, kAxis>> {
  using value_type = T;
  using device_type = Device;
  static constexpr int kRank = N;
  static constexpr bool kHasPacket = PacketTraits<T>::kVectorizable;
  static constexpr bool kAlongRow = kAxis == N - 1;

  const T* vector;
  Shape<N> target;
  index_t inner_rows;  // rows between two steps of index kAxis

  BroadcastExp(const Tensor<Device, 1, T>& source, const Shape<N>& shape)
      : vector(source.dptr_),
        target(shape),
        inner_rows(kAlongRow ? 1 : shape.ProdShape(kAxis + 1, N - 1)) {
    if (source.shape_[0] != shape[kAxis]) {
      throw InvalidArgument("broadcast<", kAxis, ">: a vector of ", source.shape_[0],
                            " elements does not fit dimension ", kAxis, " of shape ", shape);
    }
  }
  const Shape<N>& shape() const { return target; }
  TESSERA_HD T Eval(index_t y, index_t x) const {
    if constexpr (kAlongRow) {
      return vector[x];
    } else {
      return vector[(y / inner_rows) % target[kAxis]];
    }
  }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    if constexpr (kAlongRow) {
      return pk::ploadu<P>(vector + x);
    } else {
      return pk::pset1<P>(Eval(y, x));
    }
  }
  bool IsFlat() const { return N == 1; }
};

/// Spreads a vector over `shape` along dimension kAxis: out[…, i at kAxis, …] = vector[i].
/// Throws Error(kInvalidArgument) unless the vector has shape[kAxis] elements.
template <int kAxis, typename Device, typename T, int N>
BroadcastExp<Device, T, N, kAxis> broadcast(const Tensor<Device, 1, T>& vector,
                                            const Shape<N>& shape) {
  static_assert(0 <= kAxis && kAxis < N, "broadcast<axis>: the axis must lie in the shape");
  return {vector, shape};
}

/// `rows` copies of a vector, one below the other.
template <typename Device, typename T>
BroadcastExp<Device, T, 2, 1> repmat(const Tensor<Device, 1, T>& vector, index_t rows) {
  return {vector, Shape2(rows, vector.shape_[0])};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::broadcast;
using expr::repmat;

}  // namespace tessera

#endif  // TESSERA_TENSOR_BROADCAST_H_
