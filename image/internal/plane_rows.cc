// The function for AVX2 has that set in its attribute, and not the whole file: what the headers
// define inline must run everywhere.
#include "tessera/image/internal/plane_rows.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tessera::image_internal {

#if defined(__x86_64__)
namespace {

constexpr int64_t kPacket = 8;

/// Eight pixels of 3 bytes spread to one for each 32-bit lane, whose lowest byte is the first
/// channel; the other channels follow by shifts.
__attribute__((target("avx2"))) PixelRange WriteByAvx2(const PlaneRow& row, Mirroring mirroring) {
  const bool is_mirrored = mirroring == Mirroring::kLeftRight;
  // In a half, lane i has the bytes 3i, 3i + 1 and 3i + 2 of its 16.
  const __m256i spread = _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1,  //
                                          0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
  const __m256i reversed = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  const __m256i lowest = _mm256_set1_epi32(0xff);
  __m256 factor[3], shift[3];
  for (int c = 0; c < 3; ++c) {
    factor[c] = _mm256_set1_ps(row.factor[c]);
    shift[c] = _mm256_set1_ps(row.shift[c]);
  }
  // The second half of a packet is loaded as 16 bytes, of which 12 belong to it: 28 bytes from the
  // packet's beginning must lie in the row. Mirrored, the row's last pixels come first.
  const int64_t begin = is_mirrored ? 2 : 0;
  int64_t x = begin;
  for (; x + kPacket <= row.width; x += kPacket) {
    const int64_t from = is_mirrored ? row.width - x - kPacket : x;
    if (3 * from + 28 > 3 * row.width) break;
    const uint8_t* const pixels = row.pixels + 3 * from;
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels + 12));
    __m256i lanes =
        _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1), spread);
    if (is_mirrored) lanes = _mm256_permutevar8x32_epi32(lanes, reversed);
    const __m256i levels[3] = {_mm256_and_si256(lanes, lowest),
                               _mm256_and_si256(_mm256_srli_epi32(lanes, 8), lowest),
                               _mm256_srli_epi32(lanes, 16)};
    for (int c = 0; c < 3; ++c) {
      const __m256 product = _mm256_mul_ps(_mm256_cvtepi32_ps(levels[c]), factor[c]);
      _mm256_storeu_ps(row.planes[c] + x, _mm256_add_ps(product, shift[c]));
    }
  }
  return {.begin = begin, .end = x};
}

}  // namespace

PixelRange WriteRgbRow(const PlaneRow& row, Mirroring mirroring) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  return has_avx2 ? WriteByAvx2(row, mirroring) : PixelRange{};
}
#else
PixelRange WriteRgbRow(const PlaneRow&, Mirroring) { return {}; }
#endif

}  // namespace tessera::image_internal
