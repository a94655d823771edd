#include "tessera/image/color.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {

void SwapRedAndBlue(ImageView<uint8_t> image) {
  if (image.channels < 3) {
    throw InvalidArgument("SwapRedAndBlue: the image has ", image.channels,
                          " channels, expected 3 at least");
  }
  uint8_t* pixel = image.pixels;
  for (int64_t i = 0; i < image.height * image.width; ++i, pixel += image.channels) {
    std::swap(pixel[0], pixel[2]);
  }
}

void ConvertToGray(ImageView<const uint8_t> rgb, ImageView<uint8_t> gray) {
  if ((rgb.channels != 3 && rgb.channels != 4) || gray.channels != 1 || rgb.height != gray.height ||
      rgb.width != gray.width) {
    throw InvalidArgument("ConvertToGray: the images have shapes (", rgb.height, ", ", rgb.width,
                          ", ", rgb.channels, ") and (", gray.height, ", ", gray.width, ", ",
                          gray.channels, "); expected 3 or 4 channels, and 1 of the same size");
  }
  // In units of 2^-14.
  constexpr int kRed = 4899, kGreen = 9617, kBlue = 1868, kShift = 14;
  const uint8_t* pixel = rgb.pixels;
  for (int64_t i = 0; i < rgb.height * rgb.width; ++i, pixel += rgb.channels) {
    const int sum = pixel[0] * kRed + pixel[1] * kGreen + pixel[2] * kBlue;
    gray.pixels[i] = static_cast<uint8_t>((sum + (1 << (kShift - 1))) >> kShift);
  }
}

HlsColor RgbToHls(float red, float green, float blue) {
  const float most = std::max({red, green, blue}), least = std::min({red, green, blue});
  const float sum = most + least, difference = most - least;
  HlsColor color = {.lightness = sum / 2};
  if (difference <= std::numeric_limits<float>::epsilon()) return color;
  color.saturation = difference / (color.lightness < 0.5f ? sum : 2 - sum);
  const float degrees = 60 / difference;
  if (most == red) {
    color.hue = (green - blue) * degrees;
  } else if (most == green) {
    color.hue = (blue - red) * degrees + 120;
  } else {
    color.hue = (red - green) * degrees + 240;
  }
  if (color.hue < 0) color.hue += 360;
  return color;
}

void HlsToRgb(const HlsColor& color, float* red, float* green, float* blue) {
  const float lightness = color.lightness, saturation = color.saturation;
  const float most = lightness <= 0.5f ? lightness * (1 + saturation)
                                       : lightness + saturation - lightness * saturation;
  const float least = 2 * lightness - most;
  // The part of the way from the least to the greatest value at a hue.
  const auto value = [&](float hue) {
    const float sixths = hue / 60 - 6 * std::floor(hue / 360);
    if (sixths < 1) return least + (most - least) * sixths;
    if (sixths < 3) return most;
    if (sixths < 4) return least + (most - least) * (4 - sixths);
    return least;
  };
  *red = value(color.hue + 120);
  *green = value(color.hue);
  *blue = value(color.hue - 120);
}

}  // namespace tessera
