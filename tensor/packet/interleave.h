// Packets of floats that alternate in memory. The header is for kernels that are compiled once for
// each instruction set, each time with another name for Eigen's namespace. All names have internal
// linkage, so that code for less capable machines shares none of them.
#ifndef TESSERA_TENSOR_PACKET_INTERLEAVE_H_
#define TESSERA_TENSOR_PACKET_INTERLEAVE_H_

#include <Eigen/Core>

#include "tessera/tensor/packet/partial_packet.h"

namespace tessera::tensor_internal {
namespace {

struct PacketPair {
  Packet<float> first, second;
};

// Returns the elements of even and of odd index of two adjacent packets.
inline PacketPair Split(Packet<float> a, Packet<float> b) {
#if defined(__AVX512F__)
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return {_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b)};
#elif defined(__AVX2__)
  const auto in_order = [](__m256 halves) {
    return _mm256_castpd_ps(
        _mm256_permute4x64_pd(_mm256_castps_pd(halves), _MM_SHUFFLE(3, 1, 2, 0)));
  };
  return {in_order(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0))),
          in_order(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)))};
#elif defined(__SSE2__) && !defined(__AVX__)
  return {_mm_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)),
          _mm_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1))};
#else
  using P = Packet<float>;
  constexpr int kWidth = kLanes<float>;
  alignas(64) float all[2 * kWidth], even[kWidth], odd[kWidth];
  pk::pstore(all, a);
  pk::pstore(all + kWidth, b);
  for (int i = 0; i < kWidth; ++i) {
    even[i] = all[2 * i];
    odd[i] = all[2 * i + 1];
  }
  return {pk::pload<P>(even), pk::pload<P>(odd)};
#endif
}

// The inverse of Split: returns the adjacent packets.
inline PacketPair Interleave(Packet<float> even, Packet<float> odd) {
#if defined(__AVX512F__)
  const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i second =
      _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return {_mm512_permutex2var_ps(even, first, odd), _mm512_permutex2var_ps(even, second, odd)};
#elif defined(__AVX2__)
  const __m256 low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
  return {_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
#elif defined(__SSE2__) && !defined(__AVX__)
  return {_mm_unpacklo_ps(even, odd), _mm_unpackhi_ps(even, odd)};
#else
  using P = Packet<float>;
  constexpr int kWidth = kLanes<float>;
  alignas(64) float all[2 * kWidth], evens[kWidth], odds[kWidth];
  pk::pstore(evens, even);
  pk::pstore(odds, odd);
  for (int i = 0; i < kWidth; ++i) {
    all[2 * i] = evens[i];
    all[2 * i + 1] = odds[i];
  }
  return {pk::pload<P>(all), pk::pload<P>(all + kWidth)};
#endif
}

}  // namespace
}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_INTERLEAVE_H_
