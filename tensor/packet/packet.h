#ifndef TESSERA_TENSOR_PACKET_PACKET_H_
#define TESSERA_TENSOR_PACKET_PACKET_H_

#include <Eigen/Core>
#include <string_view>
#include <type_traits>

#include "tessera/base/host_device.h"
#include "tessera/base/shape.h"
#include "tessera/tensor/packet/packet_concepts.h"

namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {

/// Eigen's packet functions, with which functors and expression nodes are written.
namespace pk = Eigen::internal;

}  // namespace TESSERA_ISA_NAMESPACE

namespace tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// The packet that the instruction set of this translation unit offers for T. kSize is 1 if there
/// is none (most integers, half on most machines, and all types under nvcc).
template <typename T>
struct PacketTraits {
  /// Eigen's packet.
  using type = typename pk::packet_traits<T>::type;
  /// True if the instruction set offers one.
  static constexpr bool kVectorizable = pk::packet_traits<T>::Vectorizable;
  /// The number of T that a packet holds.
  static constexpr index_t kSize = kVectorizable ? pk::packet_traits<T>::size : 1;
};

/// The name of the instruction set for which packets are compiled.
inline constexpr std::string_view kInstructionSet = PacketTraits<float>::kSize == 16  ? "AVX-512"
                                                    : PacketTraits<float>::kSize == 8 ? "AVX"
                                                    : PacketTraits<float>::kSize == 4
                                                        ? "SSE or NEON"
                                                        : "none";

/// The properties of a packet by which the concepts of packet_concepts.h are satisfied.
template <typename P>
struct PacketProperties {
  /// The type of its elements.
  using Element = typename pk::unpacket_traits<P>::type;
  /// True if such packets can be compared.
  static constexpr bool kCompares =
      kIsHalfPacket<P> || static_cast<bool>(pk::packet_traits<Element>::HasCmp);
};

/// True if PacketInSteps has packets of T. Eigen 3.4 can neither gather nor reverse some packets of
/// integers.
template <typename T>
inline constexpr bool kHasPacketsInSteps = PacketTraits<T>::kVectorizable && !std::is_integral_v<T>;

/// Returns the packet of first[0], first[step], first[2 * step] and so on; `step` may be negative.
template <typename P, typename T>
TESSERA_HD P PacketInSteps(const T* first, index_t step) {
  constexpr index_t kSize = pk::unpacket_traits<P>::size;
  if (step == 1) return pk::ploadu<P>(first);
  if (step == -1) return pk::preverse(pk::ploadu<P>(first - (kSize - 1)));
  return pk::pgather<T, P>(first, step);
}

template <typename T>
struct ElementGroup;  // in element_group.h
template <typename P>
struct IsElementGroup : std::false_type {};
template <typename T>
struct IsElementGroup<ElementGroup<T>> : std::true_type {};

/// Applies the packet form of functor Op. A user's functor may call it MapPacket, beside Map;
/// Tessera's own functors call it PacketMap.
template <typename Op, typename... P>
requires(!IsElementGroup<P>::value && ...) && requires(const P&... p) { Op::PacketMap(p...); }
TESSERA_HD auto MapPackets(const P&... p) { return Op::PacketMap(p...); }
template <typename Op, typename... P>
requires(!IsElementGroup<P>::value && ...) && requires(const P&... p) { Op::MapPacket(p...); }
TESSERA_HD auto MapPackets(const P&... p) { return Op::MapPacket(p...); }

/// Satisfied if functor Op has a packet form for one packet of T.
template <typename Op, typename T>
concept HasUnaryPacket = requires(const typename PacketTraits<T>::type& p) {
  MapPackets<Op>(p);
};
/// Satisfied if functor Op has a packet form for two packets of T.
template <typename Op, typename T>
concept HasBinaryPacket = requires(const typename PacketTraits<T>::type& p) {
  MapPackets<Op>(p, p);
};
/// Satisfied if functor Op has a packet form for three packets of T.
template <typename Op, typename T>
concept HasTernaryPacket = requires(const typename PacketTraits<T>::type& p) {
  MapPackets<Op>(p, p, p);
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tensor_internal
}  // namespace tessera

#endif  // TESSERA_TENSOR_PACKET_PACKET_H_
