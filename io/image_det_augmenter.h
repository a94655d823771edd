#ifndef TESSERA_IO_IMAGE_DET_AUGMENTER_H_
#define TESSERA_IO_IMAGE_DET_AUGMENTER_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/dialect.h"
#include "tessera/image/image.h"
#include "tessera/io/image_random.h"

namespace tessera {

/// The objects of an image, as the labels of a detection record give them: a header of numbers, the
/// first two of which are its length and that of an object, and then the objects. An object is a
/// class, its box (left, top, right, bottom, as fractions of the image's sides), and further
/// numbers.
struct DetectionLabel {
  std::vector<float> header;   ///< at least 2 numbers
  std::vector<float> objects;  ///< the numbers of all objects
  int64_t object_width = 5;    ///< numbers of an object, at least 5

  /// Returns the number of objects.
  int64_t num_objects() const { return static_cast<int64_t>(objects.size()) / object_width; }
  /// Returns the numbers of object `i`.
  std::span<float> object(int64_t i) {
    return std::span(objects).subspan(static_cast<size_t>(i * object_width),
                                      static_cast<size_t>(object_width));
  }
};

/// Reads the labels of a record, and leaves out objects with empty boxes. `name` begins the error.
/// Throws Error(kDataLoss) that names the number found and what is expected.
DetectionLabel ParseDetectionLabel(std::span<const float> numbers, std::string_view name);

/// A way of cutting out a part of an image with objects (Liu et al., "SSD: Single shot multibox
/// detector", 2016, section 2.2). A part is drawn up to max_trials times, until for one object at
/// least all three shares are in their ranges, and one object at least is kept.
struct DetectionCrop {
  /// The range of the square root of the part's area as a fraction of the whole.
  float min_scale = 0;
  float max_scale = 1;
  /// The range of the ratio of the part's width to its height, in pixels. Of the range, ratios are
  /// preferred with which the part fits into the image.
  float min_aspect_ratio = 1;
  float max_aspect_ratio = 1;
  /// The ranges of the intersection of part and object as a share of their union, of the part, and
  /// of the object.
  float min_overlap = 0;
  float max_overlap = 1;
  float min_sample_coverage = 0;
  float max_sample_coverage = 1;
  float min_object_coverage = 0;
  float max_object_coverage = 1;
  int64_t max_trials = 25;
};

/// The objects that are kept when a part is cut out.
enum class CropEmitMode {
  kCenter,   ///< those whose center is in the part
  kOverlap,  ///< those of which more than emit_overlap_thresh is in the part
};

/// The way in which an image gets the size of the examples.
enum class DetResizeMode {
  kForce,   ///< it is resized to the size
  kShrink,  ///< it shrinks to fit into the size if it is larger, and keeps its ratio
  kFit,     ///< it shrinks or grows to fit into the size, and keeps its ratio
};

/// The changes by which an image with objects becomes an example, in their order. The names are
/// those of MXNet's ImageDetRecordIter. Numbers are drawn uniformly; a probability decides whether
/// a change happens at all.
struct ImageDetAugmenterOptions {
  /// The size of every example.
  ImageSize size;
  /// The number of an interpolation; see ChooseInterpolation.
  int inter_method = 1;

  int64_t resize = -1;  ///< the new length of the shorter side, which keeps the ratio; -1: as it is

  int max_random_hue = 0;  ///< the range of the change of the hue, in units of 2 degrees
  float random_hue_prob = 0;
  int max_random_saturation = 0;  ///< that of the saturation, in units of 1/255
  float random_saturation_prob = 0;
  int max_random_illumination = 0;  ///< that of the lightness, in units of 1/255
  float random_illumination_prob = 0;
  /// Levels are multiplied by 1 plus a number in [-max_random_contrast, max_random_contrast].
  float max_random_contrast = 0;
  float random_contrast_prob = 0;

  float rand_mirror_prob = 0;  ///< of exchanging left and right

  /// Puts the image at a random place of one whose sides are up to max_pad_scale times as long.
  float rand_pad_prob = 0;
  float max_pad_scale = 1;
  int fill_value = 127;  ///< the level of the rest

  /// Cuts out a part as one of `crops` says, which are tried in a random order.
  float rand_crop_prob = 0;
  std::vector<DetectionCrop> crops = {DetectionCrop{}};
  CropEmitMode crop_emit_mode = CropEmitMode::kCenter;
  float emit_overlap_thresh = 0.3f;

  DetResizeMode resize_mode = DetResizeMode::kForce;
};

/// Turns images with objects into examples.
///
/// Threads: concurrent calls of Augment are safe if their images, labels and random numbers are
/// distinct.
class ImageDetAugmenter {
 public:
  /// Throws Error(kInvalidArgument) that names the option if one is out of range.
  explicit ImageDetAugmenter(const ImageDetAugmenterOptions& options);

  /// Changes an image, whose channels stay, and the boxes of its objects with it; a part that is
  /// cut out clips them. Colors change only if the image has 3 channels. The result depends on
  /// nothing but the arguments. Throws Error(kInvalidArgument) if the image would become too large.
  void Augment(ImageRandom* random, Image* image, DetectionLabel* label) const;

 private:
  void ChangeColors(ImageRandom* random, Image* image) const;
  void PadRandomly(ImageRandom* random, Image* image, DetectionLabel* label) const;
  void CropRandomly(ImageRandom* random, Image* image, DetectionLabel* label) const;
  bool TryCrop(const DetectionCrop& crop, ImageRandom* random, Image* image,
               DetectionLabel* label) const;
  void ResizeToSize(ImageRandom* random, Image* image) const;

  const ImageDetAugmenterOptions options_;
};

}  // namespace tessera

#endif  // TESSERA_IO_IMAGE_DET_AUGMENTER_H_
