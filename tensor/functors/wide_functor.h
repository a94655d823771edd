#ifndef TESSERA_TENSOR_FUNCTORS_WIDE_FUNCTOR_H_
#define TESSERA_TENSOR_FUNCTORS_WIDE_FUNCTOR_H_

#include "tessera/base/host_device.h"

namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {

/// The base of functors whose PacketMap uses only those functions of pk that avx2_packet.h has.
struct WideFunctor {
  static constexpr bool kHasAvx2Packet = true;  ///< see Avx2Packet
};
/// The base of functors whose PacketMap rounds at the same steps as Map, so that it gives the same
/// results for packets of half_t.
struct StepwiseFunctor : WideFunctor {
  static constexpr bool kHasHalfPacket = true;  ///< see half_packet.h
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_FUNCTORS_WIDE_FUNCTOR_H_
