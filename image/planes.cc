#include "tessera/image/planes.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/image/internal/plane_rows.h"

namespace tessera {
namespace {

using image_internal::PixelRange;
using image_internal::PlaneRow;

void WritePixels(const PlaneRow& row, int64_t channels, Mirroring mirroring, int64_t begin,
                 int64_t end) {
  const bool is_mirrored = mirroring == Mirroring::kLeftRight;
  for (int64_t x = begin; x < end; ++x) {
    const uint8_t* const pixel = row.pixels + (is_mirrored ? row.width - 1 - x : x) * channels;
    for (int64_t c = 0; c < channels; ++c) {
      row.planes[c][x] = static_cast<float>(pixel[c]) * row.factor[c] + row.shift[c];
    }
  }
}

}  // namespace

void WritePlanes(ImageView<const uint8_t> image, Mirroring mirroring, const LevelScale& scale,
                 ImageSize plane, float* planes) {
  constexpr const char* kWhat = "WritePlanes";
  image_internal::CheckHasPixels(kWhat, image.height, image.width, image.channels);
  if (image.channels > 4 || image.height > plane.height || image.width > plane.width) {
    throw InvalidArgument(kWhat, ": an image of height ", image.height, ", width ", image.width,
                          " and ", image.channels, " channels, expected at most ", plane.height,
                          ", ", plane.width, " and 4");
  }
  PlaneRow row = {.width = image.width, .factor = scale.factor.data(), .shift = scale.shift.data()};
  for (int64_t y = 0; y < plane.height; ++y) {
    for (int64_t c = 0; c < image.channels; ++c) {
      row.planes[c] = planes + (c * plane.height + y) * plane.width;
    }
    int64_t written = 0;
    if (y < image.height) {
      row.pixels = image.row(y);
      PixelRange packets;
      if (image.channels == 3) packets = image_internal::WriteRgbRow(row, mirroring);
      if (packets.begin >= packets.end) packets = {};
      WritePixels(row, image.channels, mirroring, 0, packets.begin);
      WritePixels(row, image.channels, mirroring, packets.end, image.width);
      written = image.width;
    }
    for (int64_t c = 0; c < image.channels; ++c) {
      std::fill(row.planes[c] + written, row.planes[c] + plane.width, 0.0f);
    }
  }
}

}  // namespace tessera
