#ifndef TESSERA_IO_IMAGES_IMAGE_PIXELS_H_
#define TESSERA_IO_IMAGES_IMAGE_PIXELS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tessera/image/image.h"

namespace tessera::io_internal {

inline constexpr float kMostLevel = 255;

/// Returns the nearest level.
inline uint8_t LevelOf(float value) {
  return static_cast<uint8_t>(std::clamp(value, 0.0f, kMostLevel) + 0.5f);
}

/// Calls change(red, green, blue), pointers to levels as float, for each pixel. Requires: the image
/// has 3 channels.
template <typename Change>
void ForEachPixel(Image* image, const Change& change) {
  for (size_t i = 0; i + 2 < image->pixels.size(); i += 3) {
    uint8_t* const pixel = &image->pixels[i];
    float red = pixel[0], green = pixel[1], blue = pixel[2];
    change(&red, &green, &blue);
    pixel[0] = LevelOf(red);
    pixel[1] = LevelOf(green);
    pixel[2] = LevelOf(blue);
  }
}

}  // namespace tessera::io_internal

#endif  // TESSERA_IO_IMAGES_IMAGE_PIXELS_H_
