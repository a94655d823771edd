#ifndef TESSERA_IMAGE_ENCODE_H_
#define TESSERA_IMAGE_ENCODE_H_

#include <cstdint>
#include <vector>

#include "tessera/base/dialect.h"
#include "tessera/image/image.h"

namespace tessera {

/// Returns an image as a JPEG file. It has 1 channel (gray) or 3 (red, green, blue), whose colors
/// get half the resolution, and sides of at most 65500 pixels. `quality` is 1 to 100.
///
/// Threads: concurrent calls are safe.
/// Throws Error: kInvalidArgument for another image or quality, kResourceExhausted if memory is
/// used up.
std::vector<uint8_t> EncodeJpeg(ImageView<const uint8_t> image, int quality = 95);

/// Returns an image as a PNG file. It has 1 channel (gray), 3 (red, green, blue) or 4 (with alpha).
/// `compression` is zlib's level, 0 (none) to 9 (smallest).
///
/// Threads: concurrent calls are safe.
/// Throws Error: kInvalidArgument for another image or level, kResourceExhausted if memory is used
/// up.
std::vector<uint8_t> EncodePng(ImageView<const uint8_t> image, int compression = 3);

}  // namespace tessera

#endif  // TESSERA_IMAGE_ENCODE_H_
