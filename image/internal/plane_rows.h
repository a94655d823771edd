#ifndef TESSERA_IMAGE_INTERNAL_PLANE_ROWS_H_
#define TESSERA_IMAGE_INTERNAL_PLANE_ROWS_H_

#include <cstdint>

#include "tessera/image/planes.h"

namespace tessera::image_internal {

/// A row of an image, and the rows of the planes into which its channels go.
struct PlaneRow {
  const uint8_t* pixels = nullptr;
  int64_t width = 0;
  const float* factor = nullptr;  ///< of each channel
  const float* shift = nullptr;
  float* planes[4] = {};
};

/// Pixels [begin, end) of a row that is written.
struct PixelRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// Writes pixels of a row of 3 channels by AVX2, as many as fill its packets, and returns which:
/// none on machines without it. Some pixels at both ends are left, and the range is empty if begin
/// is not below end.
PixelRange WriteRgbRow(const PlaneRow& row, Mirroring mirroring);

}  // namespace tessera::image_internal

#endif  // TESSERA_IMAGE_INTERNAL_PLANE_ROWS_H_
