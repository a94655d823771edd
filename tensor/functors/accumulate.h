#ifndef TESSERA_TENSOR_FUNCTORS_ACCUMULATE_H_
#define TESSERA_TENSOR_FUNCTORS_ACCUMULATE_H_

#include <cstdint>
#include <type_traits>

#include "tessera/base/dtype.h"
#include "tessera/tensor/functors/functor_packets.h"
#include "tessera/tensor/functors/functors.h"
#include "tessera/tensor/functors/reducers.h"
#include "tessera/tensor/functors/wide_functor.h"
#include "tessera/tensor/packet/avx2_packet.h"
#include "tessera/tensor/packet/packet.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The type in which elements of T are added up: float for the 16-bit floating-point types, a
/// 64-bit integer for integers, and T for others.
template <typename T>
struct AccumulateIn {
  using type = std::conditional_t<!std::is_integral_v<T>, T,
                                  std::conditional_t<std::is_same_v<T, uint64_t>, T, int64_t>>;
};
template <>
struct AccumulateIn<half_t> {
  using type = float;
};
template <>
struct AccumulateIn<bfloat16_t> {
  using type = float;
};

/// The type in which the reducer Red reduces elements of T. Among the reductions of integers, only
/// sums need more bits than T has.
template <typename Red, typename T>
using AccumulatorOf = std::conditional_t<std::is_same_v<Red, red::sum> || !std::is_integral_v<T>,
                                         typename AccumulateIn<T>::type, T>;

/// The type in which the results of chunks are combined. It is double for sums in float, since
/// there may be any number of chunks.
template <typename Red, typename Accumulator>
using TotalOf =
    std::conditional_t<std::is_same_v<Red, red::sum> && std::is_same_v<Accumulator, float>, double,
                       Accumulator>;

/// The last step of a reduction: Map computes the result from the reduced value of `count`
/// elements. PacketMap does the same for packets of values of the result's type.
namespace finish {

/// Returns the reduced value unchanged.
struct None : WideFunctor {
  template <typename T, typename Accumulator>
  TESSERA_HD static T Map(Accumulator value, index_t) {
    return static_cast<T>(value);
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& value, index_t) {
    return value;
  }
};
/// Computes the mean, which is NaN for no elements. The mean of integers is cut off towards 0, and
/// is 0 for no elements.
struct Mean : WideFunctor {
  template <typename T, typename Accumulator>
  TESSERA_HD static T Map(Accumulator value, index_t count) {
    if constexpr (std::is_integral_v<Accumulator>) {
      return count == 0 ? T(0) : static_cast<T>(value / static_cast<Accumulator>(count));
    } else {
      return static_cast<T>(value / static_cast<Accumulator>(count));
    }
  }
  template <FloatingPacket P>
  TESSERA_HD static P PacketMap(const P& value, index_t count) {
    return pk::pdiv(value, pk::pset1<P>(static_cast<typename pk::unpacket_traits<P>::type>(count)));
  }
};
/// Computes the square root of the value.
struct Root : WideFunctor {
  template <typename T, typename Accumulator>
  TESSERA_HD static T Map(Accumulator value, index_t) {
    return static_cast<T>(op::square_root::Map(value));
  }
  template <RealPacket P>
  TESSERA_HD static P PacketMap(const P& value, index_t) {
    return op::square_root::PacketMap(value);
  }
};

}  // namespace finish

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_FUNCTORS_ACCUMULATE_H_
