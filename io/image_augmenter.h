#ifndef TESSERA_IO_IMAGE_AUGMENTER_H_
#define TESSERA_IO_IMAGE_AUGMENTER_H_

#include <cstdint>
#include <optional>

#include "tessera/base/dialect.h"
#include "tessera/image/image.h"
#include "tessera/io/image_random.h"

namespace tessera {

/// The changes by which an image becomes an example of a fixed size, in their order. The names are
/// those of MXNet's ImageRecordIter. Ranges are drawn from uniformly.
struct ImageAugmenterOptions {
  /// The size of every example.
  ImageSize size;
  /// The number of an interpolation; see ChooseInterpolation.
  int inter_method = 1;

  int64_t resize = -1;  ///< the new length of the shorter side, which keeps the ratio; -1: as it is

  /// Cuts out a part with an area in [min_random_area, max_random_area] of the whole, and a ratio
  /// of width to height in [min_aspect_ratio, max_aspect_ratio], or, without the first number, in
  /// [1 - max_aspect_ratio, 1 + max_aspect_ratio]; then resizes it.
  bool random_resized_crop = false;
  float min_random_area = 1;
  float max_random_area = 1;
  std::optional<float> min_aspect_ratio;
  float max_aspect_ratio = 0;

  /// Multiplies both sides by a number in [min_random_scale, max_random_scale], and then cuts the
  /// middle out, or puts the image into the middle of fill_value, until both sides have
  /// min_img_size to max_img_size pixels. Not after random_resized_crop.
  float min_random_scale = 1;
  float max_random_scale = 1;
  float min_img_size = 0;
  float max_img_size = 1e10f;

  int64_t pad = 0;       ///< pixels that are added to each side
  int fill_value = 255;  ///< their level

  /// Cuts out `size` at a random place, and otherwise from the middle. A smaller image grows before
  /// until both sides suffice.
  bool rand_crop = false;

  /// Cuts out a square with a side in [min_crop_size, max_crop_size], at most the image's, instead,
  /// and resizes it. -1: does not. Not after random_resized_crop.
  int64_t min_crop_size = -1;
  int64_t max_crop_size = -1;

  float brightness = 0;  ///< levels are multiplied by 1 plus a number in [-brightness, brightness]
  float contrast = 0;    ///< their distance from the mean gray is
  float saturation = 0;  ///< the distance from the pixel's gray is
  int random_h = 0;  ///< the hue in units of 2 degrees grows by a number in [-random_h, random_h]
  int random_s = 0;  ///< the saturation in units of 1/255 does
  int random_l = 0;  ///< the lightness in units of 1/255 does
  /// Moves all colors along the principal axes of ImageNet's, by its deviations times numbers of a
  /// normal distribution with this deviation (Krizhevsky et al., "ImageNet classification with deep
  /// convolutional neural networks", 2012, section 4.1).
  float pca_noise = 0;
};

/// Turns images into examples.
///
/// Threads: concurrent calls of Augment are safe if their images and random numbers are distinct.
class ImageAugmenter {
 public:
  /// Throws Error(kInvalidArgument) that names the option if one is out of range.
  explicit ImageAugmenter(const ImageAugmenterOptions& options);

  /// Changes an image, whose channels stay. Colors change only if it has 3. The result depends on
  /// nothing but image and random numbers.
  void Augment(ImageRandom* random, Image* image) const;

 private:
  bool CropResized(ImageRandom* random, Image* image) const;
  void Scale(ImageRandom* random, Image* image) const;
  void CropToSize(ImageRandom* random, Image* image) const;
  void CropSquare(ImageRandom* random, Image* image) const;
  void CropAt(ImageSize size, ImageRandom* random, Image* image) const;
  void ChangeColors(ImageRandom* random, Image* image) const;

  const ImageAugmenterOptions options_;
};

}  // namespace tessera

#endif  // TESSERA_IO_IMAGE_AUGMENTER_H_
