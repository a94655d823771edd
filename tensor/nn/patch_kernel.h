// Shifted copies of planes under masks, for patch_planes.cc. One .cc for each instruction set
// includes this file and is compiled for that set. No function here may instantiate a template that
// other code shares; see gemm_kernel.h. A masked load does not access the elements that it leaves
// out, so shifts may point outside the planes.
#ifndef TESSERA_TENSOR_NN_PATCH_KERNEL_H_
#define TESSERA_TENSOR_NN_PATCH_KERNEL_H_

#include <cstdint>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#ifndef TESSERA_PATCH_NAMESPACE
#error "define TESSERA_PATCH_NAMESPACE to the kernel's instruction set"
#endif

namespace tessera::tensor_internal::TESSERA_PATCH_NAMESPACE {
namespace {

#if defined(__AVX512F__)

using Lanes = __m512;
constexpr int64_t kLanes = 16;
Lanes Zero() { return _mm512_setzero_ps(); }
Lanes Add(Lanes a, Lanes b) { return _mm512_add_ps(a, b); }
Lanes Load(const float* from, uint64_t mask) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
}
void Store(float* to, Lanes value) { _mm512_storeu_ps(to, value); }
void StoreFirst(float* to, Lanes value, int64_t count) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1 << count) - 1), value);
}

#elif defined(__AVX2__)

using Lanes = __m256;
constexpr int64_t kLanes = 8;
__m256i Expand(uint64_t mask) {
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i all = _mm256_set1_epi32(static_cast<int>(mask & 0xff));
  return _mm256_cmpeq_epi32(_mm256_and_si256(all, bit), bit);
}
Lanes Zero() { return _mm256_setzero_ps(); }
Lanes Add(Lanes a, Lanes b) { return _mm256_add_ps(a, b); }
Lanes Load(const float* from, uint64_t mask) { return _mm256_maskload_ps(from, Expand(mask)); }
void Store(float* to, Lanes value) { _mm256_storeu_ps(to, value); }
void StoreFirst(float* to, Lanes value, int64_t count) {
  _mm256_maskstore_ps(to, Expand((uint64_t{1} << count) - 1), value);
}

#else  // without masks: one lane, so that the file compiles for every machine

using Lanes = float;
constexpr int64_t kLanes = 1;
Lanes Zero() { return 0; }
Lanes Add(Lanes a, Lanes b) { return a + b; }
Lanes Load(const float* from, uint64_t mask) { return (mask & 1) != 0 ? *from : 0; }
void Store(float* to, Lanes value) { *to = value; }
void StoreFirst(float*, Lanes, int64_t) {}

#endif

// Returns the bits of lanes [at, at + kLanes). Requires: at is a multiple of kLanes.
uint64_t Bits(const uint64_t* mask, int64_t at) { return mask[at / 64] >> (at % 64); }

}  // namespace

// Writes rows [begin, end) of the unpacked matrix. Row (plane, tap) has out[i] = plane[i +
// shift[tap]] if bit i of the tap's mask is set, else 0. A tap's mask has `words` words, and a
// plane `size` elements.
void UnpackRows(const uint64_t* masks, const int64_t* shift, int64_t words, int64_t taps,
                int64_t size, const float* planes, int64_t begin, int64_t end, float* out,
                int64_t stride) {
  int64_t tap = begin % taps;
  const float* plane = planes + begin / taps * size;
  for (int64_t row = begin; row < end; ++row) {
    const uint64_t* const mask = masks + tap * words;
    const float* const from = plane + shift[tap];
    float* const to = out + row * stride;
    int64_t i = 0;
    for (; i + kLanes <= size; i += kLanes) Store(to + i, Load(from + i, Bits(mask, i)));
    if (i < size) StoreFirst(to + i, Load(from + i, Bits(mask, i)), size - i);
    if (++tap == taps) {
      tap = 0;
      plane += size;
    }
  }
}

// Writes planes [begin, end). plane[i] is the sum, over taps whose mask has bit i set, of element i
// + shift[tap] of row (plane, tap).
void PackPlanes(const uint64_t* masks, const int64_t* shift, int64_t words, int64_t taps,
                int64_t size, const float* columns, int64_t stride, int64_t begin, int64_t end,
                float* planes) {
  for (int64_t plane = begin; plane < end; ++plane) {
    const float* const rows = columns + plane * taps * stride;
    float* const to = planes + plane * size;
    for (int64_t i = 0; i < size; i += kLanes) {
      Lanes sum = Zero();
      for (int64_t tap = 0; tap < taps; ++tap) {
        const float* const from = rows + tap * stride + shift[tap] + i;
        sum = Add(sum, Load(from, Bits(masks + tap * words, i)));
      }
      if (i + kLanes <= size) {
        Store(to + i, sum);
      } else {
        StoreFirst(to + i, sum, size - i);
      }
    }
  }
}

}  // namespace tessera::tensor_internal::TESSERA_PATCH_NAMESPACE

#endif  // TESSERA_TENSOR_NN_PATCH_KERNEL_H_
