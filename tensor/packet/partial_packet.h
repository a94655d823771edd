// Packets of which memory holds only the first elements. They are for kernels that are compiled
// once for each instruction set, each time with another name for Eigen's namespace. All names have
// internal linkage, so that code for less capable machines shares none of them.
#ifndef TESSERA_TENSOR_PACKET_PARTIAL_PACKET_H_
#define TESSERA_TENSOR_PACKET_PARTIAL_PACKET_H_

#include <Eigen/Core>
#include <cstdint>

namespace tessera::tensor_internal {
namespace {

namespace pk = Eigen::internal;

template <typename T>
using Packet = typename pk::packet_traits<T>::type;
template <typename T>
constexpr int kLanes = pk::packet_traits<T>::size;

// True if LoadFirst and StoreFirst are a few instructions rather than loops over the elements.
#if defined(__AVX2__)
constexpr bool kHasMasks = true;
#else
constexpr bool kHasMasks = false;
#endif

// Returns a packet whose first `count` elements, fewer than all, are loaded from memory. The others
// are `rest`.
template <typename T>
inline Packet<T> LoadFirst(const T* from, int64_t count, T rest = T(0)) {
  alignas(64) T all[kLanes<T>];
  for (int64_t i = 0; i < kLanes<T>; ++i) all[i] = i < count ? from[i] : rest;
  return pk::pload<Packet<T>>(all);
}
// Stores the first `count` elements of a packet, fewer than all.
template <typename T>
inline void StoreFirst(T* to, const Packet<T>& packet, int64_t count) {
  alignas(64) T all[kLanes<T>];
  pk::pstore(all, packet);
  for (int64_t i = 0; i < count; ++i) to[i] = all[i];
}
#if defined(__AVX512F__)
template <>
[[maybe_unused]] inline __m512 LoadFirst(const float* from, int64_t count, float rest) {
  return _mm512_mask_loadu_ps(_mm512_set1_ps(rest), static_cast<__mmask16>((1 << count) - 1), from);
}
template <>
[[maybe_unused]] inline __m512d LoadFirst(const double* from, int64_t count, double rest) {
  return _mm512_mask_loadu_pd(_mm512_set1_pd(rest), static_cast<__mmask8>((1 << count) - 1), from);
}
template <>
[[maybe_unused]] inline void StoreFirst(float* to, const __m512& packet, int64_t count) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1 << count) - 1), packet);
}
template <>
[[maybe_unused]] inline void StoreFirst(double* to, const __m512d& packet, int64_t count) {
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>((1 << count) - 1), packet);
}
#elif defined(__AVX2__)
inline __m256i FirstBits(int64_t bytes) {
  alignas(64) static constexpr int32_t kBits[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(reinterpret_cast<const char*>(kBits) +
                                                             sizeof(__m256i) - bytes));
}
template <>
[[maybe_unused]] inline __m256 LoadFirst(const float* from, int64_t count, float rest) {
  const __m256i bits = FirstBits(count * 4);
  return _mm256_blendv_ps(_mm256_set1_ps(rest), _mm256_maskload_ps(from, bits),
                          _mm256_castsi256_ps(bits));
}
template <>
[[maybe_unused]] inline __m256d LoadFirst(const double* from, int64_t count, double rest) {
  const __m256i bits = FirstBits(count * 8);
  return _mm256_blendv_pd(_mm256_set1_pd(rest), _mm256_maskload_pd(from, bits),
                          _mm256_castsi256_pd(bits));
}
// Masked stores are microcode on AMD's Zen 1 to 3, where one of 256 bits takes a dozen cycles.
// Narrower stores, one for each bit of the count, take three.
template <>
[[maybe_unused]] inline void StoreFirst(float* to, const __m256& packet, int64_t count) {
  __m128 rest = _mm256_castps256_ps128(packet);
  if ((count & 4) != 0) {
    _mm_storeu_ps(to, rest);
    rest = _mm256_extractf128_ps(packet, 1);
    to += 4;
  }
  if ((count & 2) != 0) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), rest);
    rest = _mm_movehl_ps(rest, rest);
    to += 2;
  }
  if ((count & 1) != 0) _mm_store_ss(to, rest);
}
template <>
[[maybe_unused]] inline void StoreFirst(double* to, const __m256d& packet, int64_t count) {
  __m128d rest = _mm256_castpd256_pd128(packet);
  if ((count & 2) != 0) {
    _mm_storeu_pd(to, rest);
    rest = _mm256_extractf128_pd(packet, 1);
    to += 2;
  }
  if ((count & 1) != 0) _mm_store_sd(to, rest);
}
#endif

// Returns the first `count` elements, at most a packet, and zeros; nothing is read if it is not
// positive.
template <typename T>
inline Packet<T> LoadUpTo(const T* from, int64_t count) {
  if (count >= kLanes<T>) return pk::ploadu<Packet<T>>(from);
  return count > 0 ? LoadFirst<T>(from, count) : pk::pset1<Packet<T>>(T(0));
}

// Stores the first `count` elements, at most a packet, added to the old ones if `add`.
template <typename T>
inline void StoreUpTo(T* to, const Packet<T>& value, int64_t count, bool add) {
  if (count >= kLanes<T>) {
    pk::pstoreu(to, add ? pk::padd(pk::ploadu<Packet<T>>(to), value) : value);
  } else {
    StoreFirst<T>(to, add ? pk::padd(LoadFirst<T>(to, count), value) : value, count);
  }
}

}  // namespace
}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_PARTIAL_PACKET_H_
