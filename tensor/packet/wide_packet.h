#ifndef TESSERA_TENSOR_PACKET_WIDE_PACKET_H_
#define TESSERA_TENSOR_PACKET_WIDE_PACKET_H_

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "tessera/base/float16.h"
#include "tessera/tensor/device/instruction_set.h"
#include "tessera/tensor/packet/packet.h"

/// Packets of 32 bytes for programs that are compiled for the x86-64 baseline, whose own have 16.
///
/// A loop over them is compiled for AVX2 (TESSERA_WIDE_LOOP) and runs where RunsWide says
/// so. All arithmetic is that of the baseline, each operation rounded by itself, so that a result
/// has the same bits in either loop. (Of two NaNs that meet, the compiler may take either, and with
/// it its sign.)
///
/// They are written in the compiler's vector extensions, which mean the same everywhere: inlined
/// into a loop for AVX2 an operation becomes one instruction, elsewhere two.
namespace tessera {

/// 1 where this build has wide packets: one for the baseline by GCC 12 or later. Others have wide
/// ones of Eigen's, or none.
#if defined(__x86_64__) && __GNUC__ >= 12 && !defined(__clang__) && !defined(__AVX__) && \
    !defined(__CUDACC__)
#define TESSERA_HAS_WIDE_PACKETS 1
/// On a loop, and on what such loops call and nobody else.
#define TESSERA_WIDE_LOOP __attribute__((target("avx2"), noinline))
#define TESSERA_IN_WIDE_LOOP __attribute__((target("avx2"), always_inline)) inline
#else
#define TESSERA_HAS_WIDE_PACKETS 0
#define TESSERA_WIDE_LOOP
#define TESSERA_IN_WIDE_LOOP inline
#endif

inline namespace TESSERA_ISA_NAMESPACE {

/// The base of functors whose PacketMap uses nothing but the functions of pk that this header has.
struct WideFunctor {
  static constexpr bool kHasWidePacket = true;  ///< see WidePacket
};
/// The base of those whose PacketMap rounds where Map does, step by step, so that it is the same of
/// packets of half_t.
struct StepwiseFunctor : WideFunctor {
  static constexpr bool kHasHalfPacket = true;  ///< see half_packet.h
};

/// 32 bytes of float or double; half_packet.h has that of half_t.
template <typename T>
struct WidePacket;

/// Whether loops over elements of T may use wide packets.
template <typename T>
inline constexpr bool kHasWidePacketsOf = TESSERA_HAS_WIDE_PACKETS &&
                                          (std::same_as<T, float> || std::same_as<T, double> ||
                                           std::same_as<T, half_t>);

/// Whether loops that fit wide packets run over them: this build has such, the machine has what
/// they are compiled for, and TESSERA_INSTRUCTION_SET allows it. Throws what UsedInstructionSet
/// throws.
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

  TESSERA_HD WidePacket(const Vector& vector) : v(vector) {}  // NOLINT: it is nothing else
  /// Not trivial, so that a function which is not inlined takes and returns it through memory:
  /// through registers, code for AVX2 and code for the baseline would not understand each other.
  TESSERA_HD WidePacket(const WidePacket& other) : v(other.v) {}
  TESSERA_HD WidePacket& operator=(const WidePacket& other) {
    v = other.v;
    return *this;
  }

  TESSERA_HD static WidePacket OfBits(const Bits& bits) { return reinterpret_cast<Vector>(bits); }
};

/// Half of a wide packet, from lane kFrom on: a packet of the build's own.
template <int kFrom, typename T>
TESSERA_HD typename PacketTraits<T>::type HalfFrom(const WidePacket<T>& a) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_shufflevector(a.v, a.v, kFrom, kFrom + 1, kFrom + 2, kFrom + 3);
  } else {
    return __builtin_shufflevector(a.v, a.v, kFrom, kFrom + 1);
  }
}
/// That half of two packets in one.
template <int kFrom, typename T>
TESSERA_HD WidePacket<T> HalvesFrom(const WidePacket<T>& a, const WidePacket<T>& b) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_shufflevector(a.v, b.v, kFrom, kFrom + 1, kFrom + 2, kFrom + 3, kFrom + 8,
                                   kFrom + 9, kFrom + 10, kFrom + 11);
  } else {
    return __builtin_shufflevector(a.v, b.v, kFrom, kFrom + 1, kFrom + 4, kFrom + 5);
  }
}

/// The lower half, and the higher one; of one packet or of two.
template <typename T>
TESSERA_HD auto LowHalf(const WidePacket<T>& a) {
  return HalfFrom<0>(a);
}
template <typename T>
TESSERA_HD auto HighHalf(const WidePacket<T>& a) {
  return HalfFrom<WidePacket<T>::kSize / 2>(a);
}
template <typename T>
TESSERA_HD auto LowHalves(const WidePacket<T>& a, const WidePacket<T>& b) {
  return HalvesFrom<0>(a, b);
}
template <typename T>
TESSERA_HD auto HighHalves(const WidePacket<T>& a, const WidePacket<T>& b) {
  return HalvesFrom<WidePacket<T>::kSize / 2>(a, b);
}

#endif  // TESSERA_HAS_WIDE_PACKETS

/// Stores past the caches, so that memory which is overwritten as a whole is not fetched first.
/// `to` is a multiple of 32 bytes. Other threads see it after a FenceStreamed, and what follows
/// that. Called in a wide loop alone.
template <typename T>
TESSERA_IN_WIDE_LOOP void StreamWide([[maybe_unused]] T* to,
                                     [[maybe_unused]] const WidePacket<T>& packet) {
#if TESSERA_HAS_WIDE_PACKETS
  asm volatile("vmovntps %1, %0"
               : "=m"(*reinterpret_cast<typename WidePacket<T>::Vector*>(to))
               : "x"(packet.v));
#endif
}
/// Orders what StreamWide has stored before all that follows.
inline void FenceStreamed() {
#if TESSERA_HAS_WIDE_PACKETS
  asm volatile("sfence" ::: "memory");
#endif
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#if TESSERA_HAS_WIDE_PACKETS

/// The functions of pk that functors are written in.
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

// Through whole numbers: a vector written as a list, or to which GCC 12 can reduce the expression,
// would be put together lane by lane.
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

// A packet's lanes as whole numbers; no function, which would return them in a register.
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
/// Of a mask all bits of a lane are equal.
template <typename T>
TESSERA_HD tessera::WidePacket<T> pselect(const tessera::WidePacket<T>& mask,
                                          const tessera::WidePacket<T>& a,
                                          const tessera::WidePacket<T>& b) {
  return TESSERA_WIDE_BITS(mask) < 0 ? a.v : b.v;
}
// In assembler, for no vector extension is a root, and two packets of the build's own would take
// twice as long. Through memory, which costs a twentieth: a build that inlines less, as at -O0 or
// under sanitizers, compiles it into functions for the baseline, where no register holds a packet.
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
