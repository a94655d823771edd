#ifndef TESSERA_IMAGE_COLOR_H_
#define TESSERA_IMAGE_COLOR_H_

#include <cstdint>

#include "tessera/base/dialect.h"
#include "tessera/image/image.h"

namespace tessera {

/// Exchanges the first and the third channel of each pixel: red and blue. Throws
/// Error(kInvalidArgument) if there are fewer than 3 channels.
void SwapRedAndBlue(ImageView<uint8_t> image);

/// Computes 0.299 red + 0.587 green + 0.114 blue of each pixel (ITU-R BT.601), rounded: OpenCV's
/// gray, to one level. `rgb` has 3 channels or 4, of which the last is ignored, and `gray` the same
/// size with 1. Throws Error(kInvalidArgument) if the shapes do not fit.
void ConvertToGray(ImageView<const uint8_t> rgb, ImageView<uint8_t> gray);

/// A color as hue in degrees, 0 to 360, and lightness and saturation, 0 to 1.
struct HlsColor {
  float hue = 0;
  float lightness = 0;
  float saturation = 0;
};

/// Convert one color; red, green and blue are 0 to 1. The hue of a gray is 0. Any hue is taken
/// modulo 360. Smith, "Color gamut transform pairs", 1978, in the form of Foley and van Dam.
HlsColor RgbToHls(float red, float green, float blue);
void HlsToRgb(const HlsColor& color, float* red, float* green, float* blue);

}  // namespace tessera

#endif  // TESSERA_IMAGE_COLOR_H_
