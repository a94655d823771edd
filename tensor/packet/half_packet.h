#ifndef TESSERA_TENSOR_PACKET_HALF_PACKET_H_
#define TESSERA_TENSOR_PACKET_HALF_PACKET_H_

#include <cstdint>

#include "tessera/base/float16.h"
#include "tessera/tensor/packet/avx2_packet.h"

/// Packets of half_t for AVX2 loops. A packet has as many numbers as an AVX2 packet of float,
/// encoded in 16 bytes. Each operation is that of half_t: it decodes to float, computes there, and
/// rounds to half_t again.
///
/// Machines with AVX2 have one instruction for four numbers in either direction (F16C). It is
/// written in assembler: the functions here are compiled for the baseline before they are inlined
/// into a loop for AVX2, and the baseline allows no intrinsic of F16C. Division and the square root
/// are written in assembler as well, since the flags of -ffast-math would make division an
/// approximation.
namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// Converts each number of a packet of half_t or float as static_cast<To> does.
template <typename To, typename P>
TESSERA_HD Avx2Packet<To> ConvertPacket(const P& a);

#if TESSERA_HAS_AVX2_PACKETS

template <>
struct Avx2Packet<half_t> {
  using Vector __attribute__((vector_size(16))) = int16_t;
  using Bits = Vector;

  static constexpr index_t kSize = 8;

  Vector v;

  TESSERA_HD Avx2Packet(const Vector& vector) : v(vector) {}  // NOLINT: a packet is its vector
  TESSERA_HD static Avx2Packet OfBits(const Bits& bits) { return bits; }
};
template <>
inline constexpr bool kIsHalfPacket<Avx2Packet<half_t>> = true;

/// The numbers of a packet in float. Assembler instructions write local variables rather than these
/// fields, since a field that they write would be kept in memory besides.
struct DecodedHalves {
  using Vector __attribute__((vector_size(16))) = float;

  Vector low, high;
};

/// Converts the numbers to float exactly; NaN becomes quiet.
TESSERA_HD DecodedHalves DecodeHalves(const Avx2Packet<half_t>& a) {
  const Avx2Packet<half_t>::Vector upper =
      __builtin_shufflevector(a.v, a.v, 4, 5, 6, 7, 4, 5, 6, 7);
  DecodedHalves::Vector low, high;
  asm("vcvtph2ps %1, %0" : "=x"(low) : "x"(a.v));
  asm("vcvtph2ps %1, %0" : "=x"(high) : "x"(upper));
  return {low, high};
}
/// Rounds the numbers to half_t, to nearest, ties to even. NaN becomes the one that half_t(float)
/// gives.
TESSERA_HD Avx2Packet<half_t> EncodeHalves(const DecodedHalves& a) {
  using Vector = Avx2Packet<half_t>::Vector;
  Vector low, high;  // in the lower four lanes
  asm("vcvtps2ph $0, %1, %0" : "=x"(low) : "x"(a.low));
  asm("vcvtps2ph $0, %1, %0" : "=x"(high) : "x"(a.high));
  const Vector encoded = __builtin_shufflevector(low, high, 0, 1, 2, 3, 8, 9, 10, 11);
  const Vector is_nan = (encoded & int16_t{0x7fff}) > int16_t{0x7c00};
  return encoded & ~(is_nan & int16_t{0x01ff});
}

template <typename To, typename P>
TESSERA_HD Avx2Packet<To> ConvertPacket(const P& a) {
  if constexpr (kIsHalfPacket<P>) {
    const DecodedHalves decoded = DecodeHalves(a);
    return __builtin_shufflevector(decoded.low, decoded.high, 0, 1, 2, 3, 4, 5, 6, 7);
  } else {
    return EncodeHalves({__builtin_shufflevector(a.v, a.v, 0, 1, 2, 3),
                         __builtin_shufflevector(a.v, a.v, 4, 5, 6, 7)});
  }
}

#endif  // TESSERA_HAS_AVX2_PACKETS

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

#if TESSERA_HAS_AVX2_PACKETS

/// The functions of pk for packets of half_t. They specialize functions of avx2_packet.h, which
/// would compute with the encoded numbers as integers.
namespace Eigen::internal {

template <>
TESSERA_HD tessera::tensor_internal::Avx2Packet<tessera::half_t>
ploadu<tessera::tensor_internal::Avx2Packet<tessera::half_t>>(const tessera::half_t* from) {
  using Unaligned __attribute__((vector_size(16), aligned(2), may_alias)) = int16_t;
  const tessera::tensor_internal::Avx2Packet<tessera::half_t>::Vector value =
      *reinterpret_cast<const Unaligned*>(from);
  return value;
}
template <>
TESSERA_HD void pstoreu<tessera::half_t, tessera::tensor_internal::Avx2Packet<tessera::half_t>>(
    tessera::half_t* to, const tessera::tensor_internal::Avx2Packet<tessera::half_t>& from) {
  using Unaligned __attribute__((vector_size(16), aligned(2), may_alias)) = int16_t;
  *reinterpret_cast<Unaligned*>(to) = from.v;
}
template <>
TESSERA_HD tessera::tensor_internal::Avx2Packet<tessera::half_t>
pset1<tessera::tensor_internal::Avx2Packet<tessera::half_t>>(const tessera::half_t& a) {
  return tessera::tensor_internal::Avx2Packet<tessera::half_t>::Vector{} |
         static_cast<int16_t>(a.bits());
}

#define TESSERA_DEFINE_HALF_ARITHMETIC(function, instruction)                                    \
  template <>                                                                                    \
  TESSERA_HD tessera::tensor_internal::Avx2Packet<tessera::half_t> function(                     \
      const tessera::tensor_internal::Avx2Packet<tessera::half_t>& a,                            \
      const tessera::tensor_internal::Avx2Packet<tessera::half_t>& b) {                          \
    const tessera::tensor_internal::DecodedHalves x = tessera::tensor_internal::DecodeHalves(a), \
                                                  y = tessera::tensor_internal::DecodeHalves(b); \
    tessera::tensor_internal::DecodedHalves::Vector low, high;                                   \
    asm(instruction " %2, %1, %0" : "=x"(low) : "x"(x.low), "x"(y.low));                         \
    asm(instruction " %2, %1, %0" : "=x"(high) : "x"(x.high), "x"(y.high));                      \
    return tessera::tensor_internal::EncodeHalves({low, high});                                  \
  }
TESSERA_DEFINE_HALF_ARITHMETIC(padd, "vaddps")
TESSERA_DEFINE_HALF_ARITHMETIC(psub, "vsubps")
TESSERA_DEFINE_HALF_ARITHMETIC(pmul, "vmulps")
TESSERA_DEFINE_HALF_ARITHMETIC(pdiv, "vdivps")
#undef TESSERA_DEFINE_HALF_ARITHMETIC

#define TESSERA_DEFINE_HALF_COMPARISON(function, instruction)                                    \
  template <>                                                                                    \
  TESSERA_HD tessera::tensor_internal::Avx2Packet<tessera::half_t> function(                     \
      const tessera::tensor_internal::Avx2Packet<tessera::half_t>& a,                            \
      const tessera::tensor_internal::Avx2Packet<tessera::half_t>& b) {                          \
    const tessera::tensor_internal::DecodedHalves x = tessera::tensor_internal::DecodeHalves(a), \
                                                  y = tessera::tensor_internal::DecodeHalves(b); \
    __m128i low, high;                                                                           \
    asm(instruction " %2, %1, %0" : "=x"(low) : "x"(x.low), "x"(y.low));                         \
    asm(instruction " %2, %1, %0" : "=x"(high) : "x"(x.high), "x"(y.high));                      \
    return reinterpret_cast<tessera::tensor_internal::Avx2Packet<tessera::half_t>::Vector>(      \
        _mm_packs_epi32(low, high));                                                             \
  }
TESSERA_DEFINE_HALF_COMPARISON(pcmp_eq, "vcmpeqps")
TESSERA_DEFINE_HALF_COMPARISON(pcmp_lt, "vcmpltps")
TESSERA_DEFINE_HALF_COMPARISON(pcmp_le, "vcmpleps")
#undef TESSERA_DEFINE_HALF_COMPARISON

template <>
TESSERA_HD tessera::tensor_internal::Avx2Packet<tessera::half_t> pmadd(
    const tessera::tensor_internal::Avx2Packet<tessera::half_t>& a,
    const tessera::tensor_internal::Avx2Packet<tessera::half_t>& b,
    const tessera::tensor_internal::Avx2Packet<tessera::half_t>& c) {
  return padd(pmul(a, b), c);  // two roundings
}
/// Returns the absolute values; a NaN stays as it is, as with half_t.
template <>
TESSERA_HD tessera::tensor_internal::Avx2Packet<tessera::half_t> pabs(
    const tessera::tensor_internal::Avx2Packet<tessera::half_t>& a) {
  const auto sign =
      pset1<tessera::tensor_internal::Avx2Packet<tessera::half_t>>(tessera::half_t(-0.0f));
  return pandnot(a, pand(sign, pcmp_le(a, pzero(a))));
}
template <>
TESSERA_HD tessera::tensor_internal::Avx2Packet<tessera::half_t> psqrt(
    const tessera::tensor_internal::Avx2Packet<tessera::half_t>& a) {
  const tessera::tensor_internal::DecodedHalves x = tessera::tensor_internal::DecodeHalves(a);
  tessera::tensor_internal::DecodedHalves::Vector low, high;
  asm("vsqrtps %1, %0" : "=x"(low) : "x"(x.low));
  asm("vsqrtps %1, %0" : "=x"(high) : "x"(x.high));
  return tessera::tensor_internal::EncodeHalves({low, high});
}

}  // namespace Eigen::internal

#endif  // TESSERA_HAS_AVX2_PACKETS

#endif  // TESSERA_TENSOR_PACKET_HALF_PACKET_H_
