#ifndef TESSERA_IMAGE_PLANES_H_
#define TESSERA_IMAGE_PLANES_H_

#include <array>
#include <cstdint>

#include "tessera/base/dialect.h"
#include "tessera/image/image.h"

namespace tessera {

/// A linear function of levels for each channel: level * factor + shift.
struct LevelScale {
  std::array<float, 4> factor = {1, 1, 1, 1};
  std::array<float, 4> shift = {0, 0, 0, 0};
};

/// The direction in which a row of pixels is read.
enum class Mirroring { kNone, kLeftRight };

/// Writes the channels of an image behind each other, as networks take them:
///
///     planes[(c * plane.height + y) * plane.width + x] = image(y, x, c) * factor[c] + shift[c]
///
/// Mirrored, x counts from the image's right side. Elements beyond the image, if the planes are
/// larger, become 0.
///
/// Accuracy: product and sum are rounded one after the other, with every instruction set.
/// Threads: concurrent calls are safe if their planes are distinct.
/// Throws Error(kInvalidArgument) if the image is larger than a plane or has more than 4 channels.
void WritePlanes(ImageView<const uint8_t> image, Mirroring mirroring, const LevelScale& scale,
                 ImageSize plane, float* planes);

}  // namespace tessera

#endif  // TESSERA_IMAGE_PLANES_H_
