#ifndef TESSERA_IMAGE_IMAGE_H_
#define TESSERA_IMAGE_IMAGE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/base/dialect.h"

namespace tessera {

/// The order of the color channels in a pixel.
enum class ColorOrder { kRgb, kBgr };

/// The size of an image.
struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
};

/// Pixels that someone else owns: rows from top to bottom without gaps, the channels of a pixel
/// beside each other. T is const for pixels that are only read.
template <typename T>
struct ImageView {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  T* pixels = nullptr;

  /// Returns the number of elements in a row.
  int64_t row_size() const { return width * channels; }
  /// Returns the row `y`.
  T* row(int64_t y) const { return pixels + y * row_size(); }
};

/// An image in memory, with 8 bits for each channel: gray (1 channel), red, green and blue (3), or
/// these and alpha (4).
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;  ///< height * width * channels elements

  /// Return the pixels, which belong to the image.
  ImageView<const uint8_t> view() const { return {height, width, channels, pixels.data()}; }
  ImageView<uint8_t> view() { return {height, width, channels, pixels.data()}; }

  /// Changes the size. The values of the pixels are undefined.
  void Resize(int64_t new_height, int64_t new_width, int64_t new_channels);
};

namespace image_internal {

/// Throws Error(kInvalidArgument) unless the image has pixels. `what` begins the error.
void CheckHasPixels(std::string_view what, int64_t height, int64_t width, int64_t channels);

}  // namespace image_internal
}  // namespace tessera

#endif  // TESSERA_IMAGE_IMAGE_H_
