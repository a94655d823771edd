#ifndef TESSERA_TENSOR_PACKET_AVX2_PACKET_H_
#define TESSERA_TENSOR_PACKET_AVX2_PACKET_H_

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "tessera/base/float16.h"
#include "tessera/tensor/device/runs_avx2.h"
#include "tessera/tensor/packet/packet.h"

/// AVX2 packets: packets of 32 bytes for programs that are compiled for the x86-64 baseline, whose
/// own packets have 16 bytes.
///
/// A loop over AVX2 packets is compiled for AVX2 (TESSERA_AVX2_LOOP) and runs if RunsAvx2 returns
/// true. All arithmetic is that of the baseline, each operation rounded by itself, so that a result
/// has the same bits in either loop. The only exception is the sign of a NaN: if two NaNs meet, the
/// compiler may take either.
///
/// The packets are written in the compiler's vector extensions, which mean the same on every
/// machine. An operation becomes one instruction if it is inlined into a loop for AVX2, elsewhere
/// two.
namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// A packet of 32 bytes of float or double; half_packet.h has that of half_t.
template <typename T>
struct Avx2Packet;

/// Satisfied by Avx2Packet<T> of any T.
template <typename P>
inline constexpr bool kIsAvx2Packet = false;
template <typename T>
inline constexpr bool kIsAvx2Packet<Avx2Packet<T>> = true;
template <typename P>
concept AnyAvx2Packet = kIsAvx2Packet<P>;

/// True if loops over elements of T may use AVX2 packets.
template <typename T>
inline constexpr bool kHasAvx2PacketsOf = TESSERA_HAS_AVX2_PACKETS &&
                                          (std::same_as<T, float> || std::same_as<T, double> ||
                                           std::same_as<T, half_t>);

#if TESSERA_HAS_AVX2_PACKETS

template <typename T>
struct Avx2Packet {
  using Vector __attribute__((vector_size(32))) = T;
  using Bits __attribute__((vector_size(32))) =
      std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

  static constexpr index_t kSize = 32 / sizeof(T);

  Vector v;

  TESSERA_HD Avx2Packet(const Vector& vector) : v(vector) {}  // NOLINT: a packet is its vector
  /// The copy is not trivial, so that a function which is not inlined takes and returns a packet
  /// through memory. Code for AVX2 and code for the baseline pass packets in registers in different
  /// ways.
  TESSERA_HD Avx2Packet(const Avx2Packet& other) : v(other.v) {}
  TESSERA_HD Avx2Packet& operator=(const Avx2Packet& other) {
    v = other.v;
    return *this;
  }

  TESSERA_HD static Avx2Packet OfBits(const Bits& bits) { return reinterpret_cast<Vector>(bits); }
};

/// Returns half of an AVX2 packet, from lane kFrom on, as a packet of the build's own.
template <int kFrom, typename T>
TESSERA_HD typename PacketTraits<T>::type HalfFrom(const Avx2Packet<T>& a) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_shufflevector(a.v, a.v, kFrom, kFrom + 1, kFrom + 2, kFrom + 3);
  } else {
    return __builtin_shufflevector(a.v, a.v, kFrom, kFrom + 1);
  }
}
/// Returns the halves from lane kFrom on of two AVX2 packets as one AVX2 packet.
template <int kFrom, typename T>
TESSERA_HD Avx2Packet<T> HalvesFrom(const Avx2Packet<T>& a, const Avx2Packet<T>& b) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_shufflevector(a.v, b.v, kFrom, kFrom + 1, kFrom + 2, kFrom + 3, kFrom + 8,
                                   kFrom + 9, kFrom + 10, kFrom + 11);
  } else {
    return __builtin_shufflevector(a.v, b.v, kFrom, kFrom + 1, kFrom + 4, kFrom + 5);
  }
}

/// Returns the lower half of a packet.
template <typename T>
TESSERA_HD auto LowHalf(const Avx2Packet<T>& a) {
  return HalfFrom<0>(a);
}
/// Returns the higher half of a packet.
template <typename T>
TESSERA_HD auto HighHalf(const Avx2Packet<T>& a) {
  return HalfFrom<Avx2Packet<T>::kSize / 2>(a);
}
/// Returns the lower halves of two packets as one packet.
template <typename T>
TESSERA_HD auto LowHalves(const Avx2Packet<T>& a, const Avx2Packet<T>& b) {
  return HalvesFrom<0>(a, b);
}
/// Returns the higher halves of two packets as one packet.
template <typename T>
TESSERA_HD auto HighHalves(const Avx2Packet<T>& a, const Avx2Packet<T>& b) {
  return HalvesFrom<Avx2Packet<T>::kSize / 2>(a, b);
}

#endif  // TESSERA_HAS_AVX2_PACKETS

/// Stores a packet past the caches, so that memory which is completely overwritten is not fetched
/// first. Requires: `to` is a multiple of 32 bytes, and the caller is a loop over AVX2 packets.
/// Another thread sees the packet if it synchronizes with the storing thread after a FenceStreamed.
template <typename T>
TESSERA_IN_AVX2_LOOP void StreamAvx2([[maybe_unused]] T* to,
                                     [[maybe_unused]] const Avx2Packet<T>& packet) {
#if TESSERA_HAS_AVX2_PACKETS
  asm volatile("vmovntps %1, %0"
               : "=m"(*reinterpret_cast<typename Avx2Packet<T>::Vector*>(to))
               : "x"(packet.v));
#endif
}
/// Orders the stores of StreamAvx2 before all that follows.
inline void FenceStreamed() {
#if TESSERA_HAS_AVX2_PACKETS
  asm volatile("sfence" ::: "memory");
#endif
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

#if TESSERA_HAS_AVX2_PACKETS

/// The functions of pk with which functors are written, for AVX2 packets.
///
/// Each has the signature of Eigen's function template and a constraint on the packet, so that it
/// is chosen for AVX2 packets alone. Eigen 5 calls functions of pk with explicit template
/// arguments, which a template over the element type would take for elements.
namespace Eigen::internal {

template <typename T>
struct unpacket_traits<tessera::tensor_internal::Avx2Packet<T>> {
  using type = T;
  enum { size = tessera::tensor_internal::Avx2Packet<T>::kSize };
};

#define TESSERA_DEFINE_AVX2_MEMORY(T)                                                     \
  template <>                                                                             \
  TESSERA_HD tessera::tensor_internal::Avx2Packet<T>                                      \
  ploadu<tessera::tensor_internal::Avx2Packet<T>>(const T* from) {                        \
    using Unaligned __attribute__((vector_size(32), aligned(alignof(T)), may_alias)) = T; \
    const typename tessera::tensor_internal::Avx2Packet<T>::Vector value =                \
        *reinterpret_cast<const Unaligned*>(from);                                        \
    return value;                                                                         \
  }                                                                                       \
  template <>                                                                             \
  TESSERA_HD void pstoreu<T, tessera::tensor_internal::Avx2Packet<T>>(                    \
      T * to, const tessera::tensor_internal::Avx2Packet<T>& from) {                      \
    using Unaligned __attribute__((vector_size(32), aligned(alignof(T)), may_alias)) = T; \
    *reinterpret_cast<Unaligned*>(to) = from.v;                                           \
  }
TESSERA_DEFINE_AVX2_MEMORY(float)
TESSERA_DEFINE_AVX2_MEMORY(double)
#undef TESSERA_DEFINE_AVX2_MEMORY

// The value goes through integers. GCC 12 would put a vector together lane by lane if it were
// written as a list, or as an expression that GCC can reduce to one.
template <>
TESSERA_HD tessera::tensor_internal::Avx2Packet<float>
pset1<tessera::tensor_internal::Avx2Packet<float>>(const float& a) {
  using P = tessera::tensor_internal::Avx2Packet<float>;
  return P::OfBits(P::Bits{} | __builtin_bit_cast(int32_t, a));
}
template <>
TESSERA_HD tessera::tensor_internal::Avx2Packet<double>
pset1<tessera::tensor_internal::Avx2Packet<double>>(const double& a) {
  using P = tessera::tensor_internal::Avx2Packet<double>;
  return P::OfBits(P::Bits{} | __builtin_bit_cast(int64_t, a));
}
template <tessera::tensor_internal::AnyAvx2Packet P>
TESSERA_HD P pzero(const P&) {
  return typename P::Vector{};
}

// The lanes of a packet as integers. It is no function, since a function would return them in a
// register.
#define TESSERA_AVX2_BITS(packet) reinterpret_cast<typename P::Bits>((packet).v)

#define TESSERA_DEFINE_AVX2_BINARY(function, ...)      \
  template <tessera::tensor_internal::AnyAvx2Packet P> \
  TESSERA_HD P function(const P& a, const P& b) {      \
    return __VA_ARGS__;                                \
  }
TESSERA_DEFINE_AVX2_BINARY(padd, a.v + b.v)
TESSERA_DEFINE_AVX2_BINARY(psub, a.v - b.v)
TESSERA_DEFINE_AVX2_BINARY(pmul, a.v* b.v)
TESSERA_DEFINE_AVX2_BINARY(pdiv, a.v / b.v)
TESSERA_DEFINE_AVX2_BINARY(pcmp_eq, P::OfBits(a.v == b.v))
TESSERA_DEFINE_AVX2_BINARY(pcmp_lt, P::OfBits(a.v < b.v))
TESSERA_DEFINE_AVX2_BINARY(pcmp_le, P::OfBits(a.v <= b.v))
TESSERA_DEFINE_AVX2_BINARY(pand, P::OfBits(TESSERA_AVX2_BITS(a) & TESSERA_AVX2_BITS(b)))
TESSERA_DEFINE_AVX2_BINARY(por, P::OfBits(TESSERA_AVX2_BITS(a) | TESSERA_AVX2_BITS(b)))
TESSERA_DEFINE_AVX2_BINARY(pxor, P::OfBits(TESSERA_AVX2_BITS(a) ^ TESSERA_AVX2_BITS(b)))
TESSERA_DEFINE_AVX2_BINARY(pandnot, P::OfBits(TESSERA_AVX2_BITS(a) & ~TESSERA_AVX2_BITS(b)))
#undef TESSERA_DEFINE_AVX2_BINARY

template <tessera::tensor_internal::AnyAvx2Packet P>
TESSERA_HD P pmadd(const P& a, const P& b, const P& c) {
  return a.v * b.v + c.v;  // two roundings, as the baseline has them
}
template <tessera::tensor_internal::AnyAvx2Packet P>
TESSERA_HD P pabs(const P& a) {
  return pandnot(a, pset1<P>(typename unpacket_traits<P>::type(-0.0)));
}
/// Returns a where the mask is set, else b. All bits of a lane of the mask are equal.
template <tessera::tensor_internal::AnyAvx2Packet P>
TESSERA_HD P pselect(const P& mask, const P& a, const P& b) {
  return TESSERA_AVX2_BITS(mask) < 0 ? a.v : b.v;
}
// The square roots are written in assembler, since the vector extensions have none, and two packets
// of the build's own would take twice as long. The operands go through memory, which costs a
// twentieth of the time: a build that inlines less, as at -O0 or under sanitizers, compiles them
// into functions for the baseline, where no register holds a packet.
#define TESSERA_DEFINE_AVX2_ROOT(T, instruction)                                           \
  template <>                                                                              \
  TESSERA_HD tessera::tensor_internal::Avx2Packet<T> psqrt(                                \
      const tessera::tensor_internal::Avx2Packet<T>& a) {                                  \
    tessera::tensor_internal::Avx2Packet<T>::Vector root;                                  \
    asm(instruction " %1, %%ymm0\n\tvmovups %%ymm0, %0" : "=m"(root) : "m"(a.v) : "xmm0"); \
    return root;                                                                           \
  }
TESSERA_DEFINE_AVX2_ROOT(float, "vsqrtps")
TESSERA_DEFINE_AVX2_ROOT(double, "vsqrtpd")
#undef TESSERA_DEFINE_AVX2_ROOT

#undef TESSERA_AVX2_BITS

}  // namespace Eigen::internal

#endif  // TESSERA_HAS_AVX2_PACKETS

#endif  // TESSERA_TENSOR_PACKET_AVX2_PACKET_H_
