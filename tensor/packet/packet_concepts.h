#ifndef TESSERA_TENSOR_PACKET_PACKET_CONCEPTS_H_
#define TESSERA_TENSOR_PACKET_PACKET_CONCEPTS_H_

#include <concepts>

#include "tessera/base/host_device.h"

/// The concepts by which functors declare their packet forms. This header has no packets, so that
/// functors of single elements compile without them; a file that uses packets includes packet.h.
namespace tessera {
namespace tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

template <typename T>
struct PacketTraits;  // in packet.h
template <typename P>
struct PacketProperties;  // in packet.h

/// The element type of a packet.
template <typename P>
using PacketElement = typename PacketProperties<P>::Element;

/// True if P is the packet of half_packet.h.
template <typename P>
inline constexpr bool kIsHalfPacket = false;

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tensor_internal

inline namespace TESSERA_ISA_NAMESPACE {

/// Satisfied if packets of type P can be compared. A functor requires it for its packet form, and
/// works element by element if it is missing.
template <typename P>
concept ComparesPackets = tensor_internal::PacketProperties<P>::kCompares;

/// Packets of float or double.
template <typename P>
concept RealPacket = std::same_as < tensor_internal::PacketElement<P>,
float > || std::same_as<tensor_internal::PacketElement<P>, double>;

/// Packets of float, double or half_t.
template <typename P>
concept FloatingPacket = RealPacket<P> || tensor_internal::kIsHalfPacket<P>;

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_PACKET_PACKET_CONCEPTS_H_
