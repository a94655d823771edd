#include "tessera/tensor/nn/patch_planes.h"

#include <algorithm>
#include <cstdint>

#include "tessera/tensor/device/instruction_set.h"

namespace tessera::tensor_internal {

#define TESSERA_DECLARE_PATCH_KERNEL(isa)                                                   \
  namespace isa {                                                                           \
  void UnpackRows(const uint64_t*, const int64_t*, int64_t, int64_t, int64_t, const float*, \
                  int64_t, int64_t, float*, int64_t);                                       \
  void PackPlanes(const uint64_t*, const int64_t*, int64_t, int64_t, int64_t, const float*, \
                  int64_t, int64_t, int64_t, float*);                                       \
  }
TESSERA_DECLARE_PATCH_KERNEL(patch_avx2)
TESSERA_DECLARE_PATCH_KERNEL(patch_avx512)
#undef TESSERA_DECLARE_PATCH_KERNEL

namespace {

// Limits of one window's masks: the words of all taps, and the number of taps.
constexpr index_t kMaxWords = 1024;
constexpr index_t kMaxTaps = 128;

bool HasAvx512() { return UsedInstructionSet() == InstructionSet::kAvx512; }

// For each tap, the shift from an element to the element that the tap reads, and a mask with one
// bit for each element of a plane. A set bit means that the element read is inside the plane.
struct TapMasks {
  uint64_t bits[kMaxWords];
  int64_t shift[kMaxTaps];
  index_t words;

  // Computes masks of taps that read element + sign * (the tap's offset from the window's centre).
  TapMasks(const PlaneWindow& w, index_t sign) : words((w.height * w.width + 63) / 64) {
    index_t tap = 0;
    for (index_t ky = 0; ky < w.kernel_y; ++ky) {
      const index_t dy = sign * (ky * w.dilate_y - w.pad_y);
      for (index_t kx = 0; kx < w.kernel_x; ++kx, ++tap) {
        const index_t dx = sign * (kx * w.dilate_x - w.pad_x);
        uint64_t* const mask = bits + tap * words;
        std::fill_n(mask, words, uint64_t{0});
        shift[tap] = dy * w.width + dx;
        const index_t x_begin = std::max<index_t>(0, -dx);
        const index_t x_end = std::min(w.width, w.width - dx);
        const index_t y_end = std::min(w.height, w.height - dy);
        for (index_t y = std::max<index_t>(0, -dy); y < y_end; ++y) {
          SetBits(mask, y * w.width + x_begin, y * w.width + x_end);
        }
      }
    }
  }

 private:
  static void SetBits(uint64_t* mask, index_t begin, index_t end) {
    while (begin < end) {
      const index_t bit = begin % 64;
      const index_t count = std::min<index_t>(64 - bit, end - begin);
      const uint64_t ones = count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
      mask[begin / 64] |= ones << bit;
      begin += count;
    }
  }
};

}  // namespace

bool MovesPlanes(const PlaneWindow& w) {
  if (UsedInstructionSet() == InstructionSet::kBaseline) return false;
  const bool same =
      2 * w.pad_y == (w.kernel_y - 1) * w.dilate_y && 2 * w.pad_x == (w.kernel_x - 1) * w.dilate_x;
  if (!same || w.kernel_y > kMaxTaps || w.kernel_x > kMaxTaps) return false;
  const index_t taps = w.kernel_y * w.kernel_x;
  constexpr index_t kMaxExtent = 64 * kMaxWords;
  if (taps > kMaxTaps || w.height > kMaxExtent || w.width > kMaxExtent) return false;
  return taps * ((w.height * w.width + 63) / 64) <= kMaxWords;
}

void UnpackPlanes(const PlaneWindow& w, const float* planes, index_t begin, index_t end, float* out,
                  index_t stride) {
  const TapMasks masks(w, 1);
  const auto kernel = HasAvx512() ? patch_avx512::UnpackRows : patch_avx2::UnpackRows;
  kernel(masks.bits, masks.shift, masks.words, w.kernel_y * w.kernel_x, w.height * w.width, planes,
         begin, end, out, stride);
}

void PackPlanes(const PlaneWindow& w, const float* columns, index_t stride, index_t begin,
                index_t end, float* planes) {
  const TapMasks masks(w, -1);
  const auto kernel = HasAvx512() ? patch_avx512::PackPlanes : patch_avx2::PackPlanes;
  kernel(masks.bits, masks.shift, masks.words, w.kernel_y * w.kernel_x, w.height * w.width, columns,
         stride, begin, end, planes);
}

}  // namespace tessera::tensor_internal
