#ifndef TESSERA_TENSOR_FUNCTORS_FUNCTOR_PACKETS_H_
#define TESSERA_TENSOR_FUNCTORS_FUNCTOR_PACKETS_H_

#include "tessera/tensor/functors/functors.h"
#include "tessera/tensor/functors/real_functor_packets.h"
#include "tessera/tensor/packet/avx2_packet.h"
#include "tessera/tensor/packet/half_packet.h"
#include "tessera/tensor/packet/packet.h"
#include "tessera/tensor/packet/packet_math.h"

/// The packet forms of functors.h.
namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {
namespace op {

template <typename P>
TESSERA_HD P plus::PacketMap(const P& a, const P& b) {
  return pk::padd(a, b);
}

template <typename P>
TESSERA_HD P minus::PacketMap(const P& a, const P& b) {
  return pk::psub(a, b);
}

template <typename P>
TESSERA_HD P mul::PacketMap(const P& a, const P& b) {
  return pk::pmul(a, b);
}

template <FloatingPacket P>
TESSERA_HD P div::PacketMap(const P& a, const P& b) {
  return pk::pdiv(a, b);
}

template <typename P>
TESSERA_HD P right::PacketMap(const P&, const P& b) {
  return b;
}

template <typename P>
TESSERA_HD P identity::PacketMap(const P& a) {
  return a;
}

template <typename P>
TESSERA_HD P negation::PacketMap(const P& a) {
  if constexpr (FloatingPacket<P>) {
    return pk::pxor(a, packet_math::Set<P>(-0.0));  // AVX's pnegate, 0 - a, loses -0
  } else {
    return pk::pnegate(a);
  }
}

template <ComparesPackets P>
TESSERA_HD P maximum::PacketMap(const P& a, const P& b) {
  return pk::pselect(pk::pcmp_eq(a, a), pk::pselect(pk::pcmp_lt(b, a), a, b), a);
}

template <ComparesPackets P>
TESSERA_HD P minimum::PacketMap(const P& a, const P& b) {
  return pk::pselect(pk::pcmp_eq(a, a), pk::pselect(pk::pcmp_lt(a, b), a, b), a);
}

template <ComparesPackets P>
TESSERA_HD P clamp::PacketMap(const P& a, const P& low, const P& high) {
  return pk::pselect(pk::pcmp_lt(a, low), low, pk::pselect(pk::pcmp_lt(high, a), high, a));
}

template <ComparesPackets P>
TESSERA_HD P blend::PacketMap(const P& condition, const P& a, const P& b) {
  return pk::pselect(pk::pcmp_eq(condition, pk::pzero(condition)), b, a);
}

/// Returns 1 in the lanes where the mask is set, else 0.
template <typename P>
TESSERA_HD P OneWhere(const P& mask) {
  using Scalar = typename pk::unpacket_traits<P>::type;
  return pk::pand(mask, pk::pset1<P>(Scalar(1)));
}

template <ComparesPackets P>
TESSERA_HD P eq::PacketMap(const P& a, const P& b) {
  return OneWhere(pk::pcmp_eq(a, b));
}

template <ComparesPackets P>
TESSERA_HD P lt::PacketMap(const P& a, const P& b) {
  return OneWhere(pk::pcmp_lt(a, b));
}

template <ComparesPackets P>
TESSERA_HD P le::PacketMap(const P& a, const P& b) {
  return OneWhere(pk::pcmp_le(a, b));
}

template <ComparesPackets P>
TESSERA_HD P gt::PacketMap(const P& a, const P& b) {
  return OneWhere(pk::pcmp_lt(b, a));
}

template <ComparesPackets P>
TESSERA_HD P ge::PacketMap(const P& a, const P& b) {
  return OneWhere(pk::pcmp_le(b, a));
}

template <ComparesPackets P>
TESSERA_HD P ne::PacketMap(const P& a, const P& b) {
  return pk::pandnot(pk::pset1<P>(typename pk::unpacket_traits<P>::type(1)), pk::pcmp_eq(a, b));
}

template <ComparesPackets P>
TESSERA_HD P bit_and::PacketMap(const P& a, const P& b) {
  if constexpr (FloatingPacket<P>) {
    const P zero = pk::pzero(a);
    return pk::pandnot(pk::pset1<P>(typename pk::unpacket_traits<P>::type(1)),
                       pk::por(pk::pcmp_eq(a, zero), pk::pcmp_eq(b, zero)));
  } else {
    return pk::pand(a, b);
  }
}

template <ComparesPackets P>
TESSERA_HD P bit_or::PacketMap(const P& a, const P& b) {
  if constexpr (FloatingPacket<P>) {
    const P zero = pk::pzero(a);
    return pk::pandnot(pk::pset1<P>(typename pk::unpacket_traits<P>::type(1)),
                       pk::pand(pk::pcmp_eq(a, zero), pk::pcmp_eq(b, zero)));
  } else {
    return pk::por(a, b);
  }
}

template <typename P>
TESSERA_HD P square::PacketMap(const P& a) {
  return pk::pmul(a, a);
}

template <FloatingPacket P>
TESSERA_HD P square_root::PacketMap(const P& a) {
  return packet_math::SquareRoot(a);
}

template <FloatingPacket P>
TESSERA_HD P rcp::PacketMap(const P& a) {
  return pk::pdiv(packet_math::Set<P>(1), a);
}

template <RealPacket P>
TESSERA_HD P floor::PacketMap(const P& a) {
  return packet_math::Floor(a);
}

template <RealPacket P>
TESSERA_HD P ceil::PacketMap(const P& a) {
  return packet_math::Ceil(a);
}

template <RealPacket P>
TESSERA_HD P round::PacketMap(const P& a) {
  return packet_math::Round(a);
}

template <RealPacket P>
TESSERA_HD P trunc::PacketMap(const P& a) {
  return packet_math::Trunc(a);
}

template <ComparesPackets P>
TESSERA_HD P relu::PacketMap(const P& a) {
  return pk::pandnot(a, pk::pcmp_lt(a, pk::pzero(a)));
}

template <ComparesPackets P>
TESSERA_HD P relu_grad::PacketMap(const P& a) {
  using Scalar = typename pk::unpacket_traits<P>::type;
  return pk::pand(pk::pcmp_lt(pk::pzero(a), a), pk::pset1<P>(Scalar(1)));
}

template <FloatingPacket P>
TESSERA_HD P abs::PacketMap(const P& a) {
  return pk::pabs(a);
}

template <FloatingPacket P>
TESSERA_HD P sign::PacketMap(const P& a) {
  const P zero = pk::pzero(a), one = packet_math::Set<P>(1), less = packet_math::Set<P>(-1);
  return pk::pselect(pk::pcmp_lt(zero, a), one, pk::pselect(pk::pcmp_lt(a, zero), less, a));
}

}  // namespace op
}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_FUNCTORS_FUNCTOR_PACKETS_H_
