#ifndef TESSERA_TENSOR_PACKET_WIDE_PACKET_H_
#define TESSERA_TENSOR_PACKET_WIDE_PACKET_H_

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "tessera/base/float16.h"
#include "tessera/tensor/device/instruction_set.h"
#include "tessera/tensor/packet/packet.h"

/// AVX2 packets: packets of 32 bytes for programs that are compiled for the x86-64 baseline, whose
/// own packets have 16 bytes.
///
/// A loop over AVX2 packets is compiled for AVX2 (TESSERA_WIDE_LOOP) and runs if RunsWide returns
/// true. All arithmetic is that of the baseline, each operation rounded by itself, so that a result
/// has the same bits in either loop. The only exception is the sign of a NaN: if two NaNs meet, the
/// compiler may take either.
///
/// The packets are written in the compiler's vector extensions, which mean the same on every
/// machine. An operation becomes one instruction if it is inlined into a loop for AVX2, elsewhere
/// two.
namespace tessera {

/// Defined as 1 if this build has AVX2 packets: a build for the baseline by GCC 12 or later. Other
/// builds have Eigen's own packets of that size, or none.
#if defined(__x86_64__) && __GNUC__ >= 12 && !defined(__clang__) && !defined(__AVX__) && \
    !defined(__CUDACC__)
#define TESSERA_HAS_WIDE_PACKETS 1
/// Marks a loop over AVX2 packets.
#define TESSERA_WIDE_LOOP __attribute__((target("avx2"), noinline))
/// Marks a function that only loops over AVX2 packets call.
#define TESSERA_IN_WIDE_LOOP __attribute__((target("avx2"), always_inline)) inline
#else
#define TESSERA_HAS_WIDE_PACKETS 0
#define TESSERA_WIDE_LOOP
#define TESSERA_IN_WIDE_LOOP inline
#endif

inline namespace TESSERA_ISA_NAMESPACE {

/// The base of functors whose PacketMap uses only those functions of pk that this header has.
struct WideFunctor {
  static constexpr bool kHasWidePacket = true;  ///< see WidePacket
};
/// The base of functors whose PacketMap rounds at the same steps as Map, so that it gives the same
/// results for packets of half_t.
struct StepwiseFunctor : WideFunctor {
  static constexpr bool kHasHalfPacket = true;  ///< see half_packet.h
};

/// A packet of 32 bytes of float or double; half_packet.h has that of half_t.
template <typename T>
struct WidePacket;

/// True if loops over elements of T may use AVX2 packets.
template <typename T>
inline constexpr bool kHasWidePacketsOf = TESSERA_HAS_WIDE_PACKETS &&
                                          (std::same_as<T, float> || std::same_as<T, double> ||
                                           std::same_as<T, half_t>);

/// Returns whether loops that fit AVX2 packets run over them: this build has such packets, the
/// machine has the instructions of InstructionSet::kAvx2, and TESSERA_INSTRUCTION_SET allows them.
/// Throws the errors of UsedInstructionSet.
inline bool RunsWide() {
#if TESSERA_HAS_WIDE_PACKETS
  static const bool runs = UsedInstructionSet() != InstructionSet::kBaseline;
  return runs;
#else
  return false;
#endif
}

#if TESSERA_HAS_WIDE_PACKETS

template <typename T>
struct WidePacket {
  using Vector __attribute__((vector_size(32))) = T;
  using Bits __attribute__((vector_size(32))) =
      std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

  static constexpr index_t kSize = 32 / sizeof(T);

  Vector v;

  TESSERA_HD WidePacket(const Vector& vector) : v(vector) {}  // NOLINT: a packet is its vector
  /// The copy is not trivial, so that a function which is not inlined takes and returns a packet
  /// through memory. Code for AVX2 and code for the baseline pass packets in registers in different
  /// ways.
  TESSERA_HD WidePacket(const WidePacket& other) : v(other.v) {}
  TESSERA_HD WidePacket& operator=(const WidePacket& other) {
    v = other.v;
    return *this;
  }

  TESSERA_HD static WidePacket OfBits(const Bits& bits) { return reinterpret_cast<Vector>(bits); }
};

/// Returns half of an AVX2 packet, from lane kFrom on, as a packet of the build's own.
template <int kFrom, typename T>
TESSERA_HD typename PacketTraits<T>::type HalfFrom(const WidePacket<T>& a) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_shufflevector(a.v, a.v, kFrom, kFrom + 1, kFrom + 2, kFrom + 3);
  } else {
    return __builtin_shufflevector(a.v, a.v, kFrom, kFrom + 1);
  }
}
/// Returns the halves from lane kFrom on of two AVX2 packets as one AVX2 packet.
template <int kFrom, typename T>
TESSERA_HD WidePacket<T> HalvesFrom(const WidePacket<T>& a, const WidePacket<T>& b) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_shufflevector(a.v, b.v, kFrom, kFrom + 1, kFrom + 2, kFrom + 3, kFrom + 8,
                                   kFrom + 9, kFrom + 10, kFrom + 11);
  } else {
    return __builtin_shufflevector(a.v, b.v, kFrom, kFrom + 1, kFrom + 4, kFrom + 5);
  }
}

/// Returns the lower half of a packet.
template <typename T>
TESSERA_HD auto LowHalf(const WidePacket<T>& a) {
  return HalfFrom<0>(a);
}
/// Returns the higher half of a packet.
template <typename T>
TESSERA_HD auto HighHalf(const WidePacket<T>& a) {
  return HalfFrom<WidePacket<T>::kSize / 2>(a);
}
/// Returns the lower halves of two packets as one packet.
template <typename T>
TESSERA_HD auto LowHalves(const WidePacket<T>& a, const WidePacket<T>& b) {
  return HalvesFrom<0>(a, b);
}
/// Returns the higher halves of two packets as one packet.
template <typename T>
TESSERA_HD auto HighHalves(const WidePacket<T>& a, const WidePacket<T>& b) {
  return HalvesFrom<WidePacket<T>::kSize / 2>(a, b);
}

#endif  // TESSERA_HAS_WIDE_PACKETS

/// Stores a packet past the caches, so that memory which is completely overwritten is not fetched
/// first. Requires: `to` is a multiple of 32 bytes, and the caller is a loop over AVX2 packets.
/// Another thread sees the packet if it synchronizes with the storing thread after a FenceStreamed.
template <typename T>
TESSERA_IN_WIDE_LOOP void StreamWide([[maybe_unused]] T* to,
                                     [[maybe_unused]] const WidePacket<T>& packet) {
#if TESSERA_HAS_WIDE_PACKETS
  asm volatile("vmovntps %1, %0"
               : "=m"(*reinterpret_cast<typename WidePacket<T>::Vector*>(to))
               : "x"(packet.v));
#endif
}
/// Orders the stores of StreamWide before all that follows.
inline void FenceStreamed() {
#if TESSERA_HAS_WIDE_PACKETS
  asm volatile("sfence" ::: "memory");
#endif
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#if TESSERA_HAS_WIDE_PACKETS

/// The functions of pk with which functors are written, for AVX2 packets.
namespace Eigen::internal {

template <typename T>
struct unpacket_traits<tessera::WidePacket<T>> {
  using type = T;
  enum { size = tessera::WidePacket<T>::kSize };
};

#define TESSERA_DEFINE_WIDE_MEMORY(T)                                                              \
  template <>                                                                                      \
  TESSERA_HD tessera::WidePacket<T> ploadu<tessera::WidePacket<T>>(const T* from) {                \
    using Unaligned __attribute__((vector_size(32), aligned(alignof(T)), may_alias)) = T;          \
    const typename tessera::WidePacket<T>::Vector value =                                          \
        *reinterpret_cast<const Unaligned*>(from);                                                 \
    return value;                                                                                  \
  }                                                                                                \
  template <>                                                                                      \
  TESSERA_HD void pstoreu<T, tessera::WidePacket<T>>(T * to, const tessera::WidePacket<T>& from) { \
    using Unaligned __attribute__((vector_size(32), aligned(alignof(T)), may_alias)) = T;          \
    *reinterpret_cast<Unaligned*>(to) = from.v;                                                    \
  }
TESSERA_DEFINE_WIDE_MEMORY(float)
TESSERA_DEFINE_WIDE_MEMORY(double)
#undef TESSERA_DEFINE_WIDE_MEMORY

// The value goes through integers. GCC 12 would put a vector together lane by lane if it were
// written as a list, or as an expression that GCC can reduce to one.
template <>
TESSERA_HD tessera::WidePacket<float> pset1<tessera::WidePacket<float>>(const float& a) {
  using P = tessera::WidePacket<float>;
  return P::OfBits(P::Bits{} | __builtin_bit_cast(int32_t, a));
}
template <>
TESSERA_HD tessera::WidePacket<double> pset1<tessera::WidePacket<double>>(const double& a) {
  using P = tessera::WidePacket<double>;
  return P::OfBits(P::Bits{} | __builtin_bit_cast(int64_t, a));
}
template <typename T>
TESSERA_HD tessera::WidePacket<T> pzero(const tessera::WidePacket<T>&) {
  return typename tessera::WidePacket<T>::Vector{};
}

// The lanes of a packet as integers. It is no function, since a function would return them in a
// register.
#define TESSERA_WIDE_BITS(packet) \
  reinterpret_cast<typename tessera::WidePacket<T>::Bits>((packet).v)

#define TESSERA_DEFINE_WIDE_BINARY(function, ...)                               \
  template <typename T>                                                         \
  TESSERA_HD tessera::WidePacket<T> function(const tessera::WidePacket<T>& a,   \
                                             const tessera::WidePacket<T>& b) { \
    return __VA_ARGS__;                                                         \
  }
TESSERA_DEFINE_WIDE_BINARY(padd, a.v + b.v)
TESSERA_DEFINE_WIDE_BINARY(psub, a.v - b.v)
TESSERA_DEFINE_WIDE_BINARY(pmul, a.v* b.v)
TESSERA_DEFINE_WIDE_BINARY(pdiv, a.v / b.v)
TESSERA_DEFINE_WIDE_BINARY(pcmp_eq, tessera::WidePacket<T>::OfBits(a.v == b.v))
TESSERA_DEFINE_WIDE_BINARY(pcmp_lt, tessera::WidePacket<T>::OfBits(a.v < b.v))
TESSERA_DEFINE_WIDE_BINARY(pcmp_le, tessera::WidePacket<T>::OfBits(a.v <= b.v))
TESSERA_DEFINE_WIDE_BINARY(pand, tessera::WidePacket<T>::OfBits(TESSERA_WIDE_BITS(a) &
                                                                TESSERA_WIDE_BITS(b)))
TESSERA_DEFINE_WIDE_BINARY(por, tessera::WidePacket<T>::OfBits(TESSERA_WIDE_BITS(a) |
                                                               TESSERA_WIDE_BITS(b)))
TESSERA_DEFINE_WIDE_BINARY(pxor, tessera::WidePacket<T>::OfBits(TESSERA_WIDE_BITS(a) ^
                                                                TESSERA_WIDE_BITS(b)))
TESSERA_DEFINE_WIDE_BINARY(pandnot, tessera::WidePacket<T>::OfBits(TESSERA_WIDE_BITS(a) &
                                                                   ~TESSERA_WIDE_BITS(b)))
#undef TESSERA_DEFINE_WIDE_BINARY

template <typename T>
TESSERA_HD tessera::WidePacket<T> pmadd(const tessera::WidePacket<T>& a,
                                        const tessera::WidePacket<T>& b,
                                        const tessera::WidePacket<T>& c) {
  return a.v * b.v + c.v;  // two roundings, as the baseline has them
}
template <typename T>
TESSERA_HD tessera::WidePacket<T> pabs(const tessera::WidePacket<T>& a) {
  return pandnot(a, pset1<tessera::WidePacket<T>>(T(-0.0)));
}
/// Returns a where the mask is set, else b. All bits of a lane of the mask are equal.
template <typename T>
TESSERA_HD tessera::WidePacket<T> pselect(const tessera::WidePacket<T>& mask,
                                          const tessera::WidePacket<T>& a,
                                          const tessera::WidePacket<T>& b) {
  return TESSERA_WIDE_BITS(mask) < 0 ? a.v : b.v;
}
// The square roots are written in assembler, since the vector extensions have none, and two packets
// of the build's own would take twice as long. The operands go through memory, which costs a
// twentieth of the time: a build that inlines less, as at -O0 or under sanitizers, compiles them
// into functions for the baseline, where no register holds a packet.
#define TESSERA_DEFINE_WIDE_ROOT(T, instruction)                                           \
  TESSERA_HD tessera::WidePacket<T> psqrt(const tessera::WidePacket<T>& a) {               \
    tessera::WidePacket<T>::Vector root;                                                   \
    asm(instruction " %1, %%ymm0\n\tvmovups %%ymm0, %0" : "=m"(root) : "m"(a.v) : "xmm0"); \
    return root;                                                                           \
  }
TESSERA_DEFINE_WIDE_ROOT(float, "vsqrtps")
TESSERA_DEFINE_WIDE_ROOT(double, "vsqrtpd")
#undef TESSERA_DEFINE_WIDE_ROOT

#undef TESSERA_WIDE_BITS

}  // namespace Eigen::internal

#endif  // TESSERA_HAS_WIDE_PACKETS

#endif  // TESSERA_TENSOR_PACKET_WIDE_PACKET_H_
