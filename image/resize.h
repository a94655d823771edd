#ifndef TESSERA_IMAGE_RESIZE_H_
#define TESSERA_IMAGE_RESIZE_H_

#include <cstdint>
#include <string_view>

#include "tessera/base/dialect.h"
#include "tessera/image/image.h"

namespace tessera {

/// The way in which a pixel of a resized image follows from the pixels of the original. The values
/// are OpenCV's, by which MXNet's programs name them.
enum class Interpolation {
  kNearest = 0,   ///< the nearest pixel
  kBilinear = 1,  ///< the weighted mean of 2 x 2 pixels
  kCubic = 2,     ///< the cubic convolution of 4 x 4 pixels, with a = -3/4 (Keys, 1981)
  kArea = 3,      ///< the mean of the area that the pixel covers; bilinear if a side grows
  kLanczos = 4,   ///< the windowed sinc of 8 x 8 pixels (Duchon, 1979)
};

/// Returns the interpolation for one of MXNet's numbers: 0 to 4 are those of Interpolation, 9 is
/// cubic if both sides grow, area if both shrink, and else bilinear, 10 is `draw` modulo 5. `what`
/// begins the error. Throws Error(kInvalidArgument) for another number.
Interpolation ChooseInterpolation(std::string_view what, int number, ImageSize from, ImageSize to,
                                  uint64_t draw);

/// Resizes an image to the size of `out`, whose memory does not overlap that of `in`.
///
/// Pixel centers lie at halves. Beyond the border a pixel is the nearest one of the border. T is
/// uint8_t, float or double.
/// Accuracy: equal to OpenCV's resize to one level for uint8_t, whose weights are multiples of
/// 1/2048 except those of areas, and to 1e-5 of the largest value for the other types.
/// Cost: grows with the sum of both images, for kArea, and else with `out`; one thread.
/// Threads: concurrent calls are safe if their outputs are distinct.
/// Throws Error(kInvalidArgument) if an image has no pixels or the channels differ.
template <typename T>
void ResizeImage(ImageView<const T> in, ImageView<T> out, Interpolation interpolation);

extern template void ResizeImage(ImageView<const uint8_t>, ImageView<uint8_t>, Interpolation);
extern template void ResizeImage(ImageView<const float>, ImageView<float>, Interpolation);
extern template void ResizeImage(ImageView<const double>, ImageView<double>, Interpolation);

}  // namespace tessera

#endif  // TESSERA_IMAGE_RESIZE_H_
