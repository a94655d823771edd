#ifndef TESSERA_IMAGE_DECODE_H_
#define TESSERA_IMAGE_DECODE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tessera/base/dialect.h"
#include "tessera/image/image.h"

namespace tessera {

/// Options by which DecodeImage makes an image of a file.
struct DecodeOptions {
  /// The image's channels: 1 for gray, 3 for color, 4 for color and alpha. A file with others is
  /// converted: alpha is dropped, or added as 255.
  int channels = 3;
  ColorOrder order = ColorOrder::kRgb;
  /// The most pixels, height times width, that a file may claim. By default the setting
  /// TESSERA_IMAGE_MAX_PIXELS.
  std::optional<int64_t> max_pixels;
};

/// Reads the size of a JPEG or PNG file in memory without its pixels. `name` begins the errors.
/// Throws what DecodeImage throws.
ImageSize ReadImageSize(std::span<const uint8_t> file, std::string_view name,
                        const DecodeOptions& options = {});

/// Decodes a JPEG or PNG file in memory. The image's memory is used again if it suffices. `name`
/// begins the errors.
///
/// The pixels are those of OpenCV's imdecode, to one level of 255; the orientation in a file's Exif
/// data is ignored, and channels of 16 bits lose their lower 8. Damaged pixels of a JPEG file whose
/// data are complete are accepted, as libjpeg conceals them.
///
/// Memory: the image, for a progressive JPEG or interlaced PNG file also what its size needs, and
/// at most 16 MB besides.
/// Threads: concurrent calls are safe if their images are distinct.
/// Throws Error, after which the image is undefined: kDataLoss that names the byte if the file is
/// damaged, truncated, or of another format, kResourceExhausted if it claims more pixels than
/// allowed or memory is used up, kInvalidArgument for other channels than 1, 3 and 4.
void DecodeImage(std::span<const uint8_t> file, std::string_view name, const DecodeOptions& options,
                 Image* image);

}  // namespace tessera

#endif  // TESSERA_IMAGE_DECODE_H_
