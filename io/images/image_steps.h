#ifndef TESSERA_IO_IMAGES_IMAGE_STEPS_H_
#define TESSERA_IO_IMAGES_IMAGE_STEPS_H_

#include <cstdint>
#include <string_view>

#include "tessera/image/image.h"
#include "tessera/image/resize.h"
#include "tessera/io/image_random.h"

namespace tessera::io_internal {

/// The most pixels along an axis of an image that augmentation makes.
inline constexpr int64_t kMostSidePixels = int64_t{1} << 24;

/// Returns a number in [low, high].
double Draw(ImageRandom* random, double low, double high);

/// Returns an integer in [0, bound).
int64_t DrawBelow(ImageRandom* random, int64_t bound);

/// Throws Error(kInvalidArgument) that names the option unless its value is in [low, high].
void CheckOption(std::string_view what, const char* name, double value, double low, double high);

/// Throws Error(kInvalidArgument) if an image of this size would get more pixels than images may
/// have. `what` begins the error.
void CheckSize(std::string_view what, ImageSize from, ImageSize to);

/// Resizes an image. Throws what CheckSize throws.
void ResizeTo(std::string_view what, ImageSize size, Interpolation interpolation, Image* image);

/// Resizes an image whose shorter side gets this length. `inter_method` is a number of
/// ChooseInterpolation.
void ResizeShorterSide(std::string_view what, int64_t length, int inter_method, ImageRandom* random,
                       Image* image);

/// Keeps the rows from `top` and the columns from `left` on. Requires: they lie in the image.
void Crop(int64_t top, int64_t left, ImageSize size, Image* image);

/// Puts an image into one of another size, `top` rows and `left` columns from its corner, with
/// `level` around it. Throws what CheckSize throws.
void Pad(std::string_view what, int64_t top, int64_t left, ImageSize size, int level, Image* image);

/// Adds to the hue, in degrees, and to saturation and lightness, which are 0 to 1. Requires: the
/// image has 3 channels.
void ShiftHls(float hue, float saturation, float lightness, Image* image);

}  // namespace tessera::io_internal

#endif  // TESSERA_IO_IMAGES_IMAGE_STEPS_H_
