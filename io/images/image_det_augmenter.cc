#include "tessera/io/image_det_augmenter.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/image/resize.h"
#include "tessera/io/images/image_pixels.h"
#include "tessera/io/images/image_steps.h"

namespace tessera {
namespace {

using io_internal::CheckOption;
using io_internal::Crop;
using io_internal::Draw;
using io_internal::DrawBelow;
using io_internal::ForEachPixel;
using io_internal::kMostLevel;
using io_internal::kMostSidePixels;
using io_internal::Pad;
using io_internal::ResizeShorterSide;
using io_internal::ResizeTo;
using io_internal::ShiftHls;

constexpr const char* kWhat = "ImageDetAugmenter";
constexpr size_t kLeastHeader = 2;
constexpr size_t kLeastObject = 5;

/// A part of an image, as fractions of its sides or in pixels.
struct Box {
  double left, top, right, bottom;

  double area() const { return std::max(right - left, 0.0) * std::max(bottom - top, 0.0); }
};

Box Intersection(const Box& a, const Box& b) {
  return {std::max(a.left, b.left), std::max(a.top, b.top), std::min(a.right, b.right),
          std::min(a.bottom, b.bottom)};
}

Box BoxOf(std::span<const float> object) {
  return {static_cast<double>(object[1]), static_cast<double>(object[2]),
          static_cast<double>(object[3]), static_cast<double>(object[4])};
}

void SetBox(const Box& box, std::span<float> object) {
  object[1] = static_cast<float>(box.left);
  object[2] = static_cast<float>(box.top);
  object[3] = static_cast<float>(box.right);
  object[4] = static_cast<float>(box.bottom);
}

/// Returns a length that a label gives. Throws unless it is an integer in [least, most].
size_t LengthOf(const char* what, float number, size_t least, size_t most, std::string_view name) {
  const auto length = static_cast<double>(number);
  if (length >= static_cast<double>(least) && length <= static_cast<double>(most) &&
      length == std::floor(length)) {
    return static_cast<size_t>(length);
  }
  throw DataLoss(name, ": found labels with ", what, " ", number, ", expected an integer from ",
                 least, " to ", most);
}

void CheckCrop(const DetectionCrop& crop) {
  const auto check = [](const char* name, double value, double low, double high) {
    CheckOption(kWhat, name, value, low, high);
  };
  const auto check_range = [&check](const char* low_name, float low, const char* high_name,
                                    float high, double least, double most) {
    check(high_name, high, least, most);
    check(low_name, low, least, high);
  };
  check_range("min_crop_scale", crop.min_scale, "max_crop_scale", crop.max_scale, 0, 1);
  check_range("min_crop_aspect_ratio", crop.min_aspect_ratio, "max_crop_aspect_ratio",
              crop.max_aspect_ratio, 1e-3, 1e3);
  check_range("min_crop_overlap", crop.min_overlap, "max_crop_overlap", crop.max_overlap, 0, 1);
  check_range("min_crop_sample_coverage", crop.min_sample_coverage, "max_crop_sample_coverage",
              crop.max_sample_coverage, 0, 1);
  check_range("min_crop_object_coverage", crop.min_object_coverage, "max_crop_object_coverage",
              crop.max_object_coverage, 0, 1);
  check("max_crop_trials", static_cast<double>(crop.max_trials), 1, 1e6);
}

const ImageDetAugmenterOptions& Checked(const ImageDetAugmenterOptions& options) {
  const auto check = [](const char* name, double value, double low, double high) {
    CheckOption(kWhat, name, value, low, high);
  };
  const auto most = static_cast<double>(kMostSidePixels);
  check("the height", static_cast<double>(options.size.height), 1, most);
  check("the width", static_cast<double>(options.size.width), 1, most);
  if (options.resize != -1) check("resize", static_cast<double>(options.resize), 1, most);
  check("max_random_hue", options.max_random_hue, 0, 180);
  check("max_random_saturation", options.max_random_saturation, 0, kMostLevel);
  check("max_random_illumination", options.max_random_illumination, 0, kMostLevel);
  check("max_random_contrast", options.max_random_contrast, 0, kMostLevel);
  check("max_pad_scale", options.max_pad_scale, 1, 1e3);
  check("fill_value", options.fill_value, 0, kMostLevel);
  for (const auto& [name, value] : {std::pair("random_hue_prob", options.random_hue_prob),
                                    {"random_saturation_prob", options.random_saturation_prob},
                                    {"random_illumination_prob", options.random_illumination_prob},
                                    {"random_contrast_prob", options.random_contrast_prob},
                                    {"rand_mirror_prob", options.rand_mirror_prob},
                                    {"rand_pad_prob", options.rand_pad_prob},
                                    {"rand_crop_prob", options.rand_crop_prob},
                                    {"emit_overlap_thresh", options.emit_overlap_thresh}}) {
    check(name, value, 0, 1);
  }
  for (const DetectionCrop& crop : options.crops) CheckCrop(crop);
  // Throws for an unknown number.
  ChooseInterpolation(kWhat, options.inter_method, {1, 1}, {1, 1}, 0);
  return options;
}

/// Draws whether something of this probability happens.
bool Happens(float probability, ImageRandom* random) {
  return probability > 0 && Draw(random, 0, 1) <= static_cast<double>(probability);
}

void Mirror(Image* image, DetectionLabel* label) {
  const ImageView<uint8_t> pixels = image->view();
  const int64_t channels = image->channels;
  for (int64_t y = 0; y < image->height; ++y) {
    uint8_t* left = pixels.row(y);
    uint8_t* right = left + (image->width - 1) * channels;
    for (; left < right; left += channels, right -= channels) {
      std::swap_ranges(left, left + channels, right);
    }
  }
  for (int64_t i = 0; i < label->num_objects(); ++i) {
    const std::span<float> object = label->object(i);
    const Box box = BoxOf(object);
    SetBox({1 - box.right, box.top, 1 - box.left, box.bottom}, object);
  }
}

/// Draws a part in pixels of an image of that size.
Box DrawPart(const DetectionCrop& crop, ImageSize whole, ImageRandom* random) {
  const auto height = static_cast<double>(whole.height), width = static_cast<double>(whole.width);
  const double scale = Draw(random, crop.min_scale, crop.max_scale);
  // As fractions of the sides, the part has the area scale^2. Both fit if the ratio of the fraction
  // of the width to that of the height is in [scale^2, 1 / scale^2].
  const double aspect = width / height, area = std::max(scale * scale, 1e-12);
  const double least = std::max(static_cast<double>(crop.min_aspect_ratio) / aspect, area);
  const double most = std::min(static_cast<double>(crop.max_aspect_ratio) / aspect, 1 / area);
  const double root = std::sqrt(Draw(random, least, most));
  const auto pixels = [](double fraction, int64_t side) {
    const double length = std::round(std::min(fraction, 1.0) * static_cast<double>(side));
    return std::clamp(static_cast<int64_t>(length), int64_t{1}, side);
  };
  const int64_t part_width = pixels(scale * root, whole.width);
  const int64_t part_height = pixels(scale / root, whole.height);
  const int64_t left = DrawBelow(random, whole.width - part_width + 1);
  const int64_t top = DrawBelow(random, whole.height - part_height + 1);
  return {static_cast<double>(left), static_cast<double>(top),
          static_cast<double>(left + part_width), static_cast<double>(top + part_height)};
}

/// Returns whether the shares of the intersection of part and object are in their ranges.
bool IsInRanges(const DetectionCrop& crop, const Box& part, const Box& object) {
  const double both = Intersection(part, object).area();
  const auto is_in = [both](double of, float low, float high) {
    const double share = of > 0 ? both / of : 0;
    return share >= static_cast<double>(low) && share <= static_cast<double>(high);
  };
  return is_in(part.area() + object.area() - both, crop.min_overlap, crop.max_overlap) &&
         is_in(part.area(), crop.min_sample_coverage, crop.max_sample_coverage) &&
         is_in(object.area(), crop.min_object_coverage, crop.max_object_coverage);
}

}  // namespace

DetectionLabel ParseDetectionLabel(std::span<const float> numbers, std::string_view name) {
  if (numbers.size() < kLeastHeader) {
    throw DataLoss(name, ": found ", numbers.size(), " labels, expected the length of the header, ",
                   "that of an object, and the objects");
  }
  const size_t header =
      LengthOf("a header of length", numbers[0], kLeastHeader, numbers.size(), name);
  constexpr size_t kMostObject = size_t{1} << 20;
  const size_t width = LengthOf("objects of length", numbers[1], kLeastObject, kMostObject, name);
  const std::span<const float> rest = numbers.subspan(header);
  if (rest.size() % width != 0) {
    throw DataLoss(name, ": found ", rest.size(), " labels behind the header, expected objects of ",
                   width, " numbers");
  }
  DetectionLabel label = {.header = {numbers.begin(), numbers.begin() + header},
                          .object_width = static_cast<int64_t>(width)};
  for (size_t i = 0; i < rest.size(); i += width) {
    const std::span<const float> object = rest.subspan(i, width);
    // Also false for NaN.
    if (!(object[3] > object[1] && object[4] > object[2])) continue;
    label.objects.insert(label.objects.end(), object.begin(), object.end());
  }
  return label;
}

ImageDetAugmenter::ImageDetAugmenter(const ImageDetAugmenterOptions& options)
    : options_(Checked(options)) {}

void ImageDetAugmenter::Augment(ImageRandom* random, Image* image, DetectionLabel* label) const {
  if (options_.resize > 0) {
    ResizeShorterSide(kWhat, options_.resize, options_.inter_method, random, image);
  }
  if (image->channels == 3) ChangeColors(random, image);
  if (Happens(options_.rand_mirror_prob, random)) Mirror(image, label);
  if (Happens(options_.rand_pad_prob, random)) PadRandomly(random, image, label);
  if (Happens(options_.rand_crop_prob, random)) CropRandomly(random, image, label);
  ResizeToSize(random, image);
}

void ImageDetAugmenter::ChangeColors(ImageRandom* random, Image* image) const {
  const auto draw = [random](float probability, float range) {
    if (!Happens(probability, random)) return 0.0f;
    return static_cast<float>(Draw(random, -range, range));
  };
  const float hue = 2 * draw(options_.random_hue_prob, static_cast<float>(options_.max_random_hue));
  const float saturation =
      draw(options_.random_saturation_prob, static_cast<float>(options_.max_random_saturation)) /
      kMostLevel;
  const float lightness = draw(options_.random_illumination_prob,
                               static_cast<float>(options_.max_random_illumination)) /
                          kMostLevel;
  const float contrast = draw(options_.random_contrast_prob, options_.max_random_contrast);
  if (hue != 0 || saturation != 0 || lightness != 0) ShiftHls(hue, saturation, lightness, image);
  if (contrast != 0) {
    ForEachPixel(image, [contrast](float* red, float* green, float* blue) {
      for (float* const level : {red, green, blue}) *level *= 1 + contrast;
    });
  }
}

void ImageDetAugmenter::PadRandomly(ImageRandom* random, Image* image,
                                    DetectionLabel* label) const {
  const double scale = Draw(random, 1, options_.max_pad_scale);
  const auto grown = [scale](int64_t side) {
    return static_cast<int64_t>(std::round(static_cast<double>(side) * scale));
  };
  const ImageSize old = {image->height, image->width};
  const ImageSize size = {grown(old.height), grown(old.width)};
  const int64_t top = DrawBelow(random, size.height - old.height + 1);
  const int64_t left = DrawBelow(random, size.width - old.width + 1);
  Pad(kWhat, top, left, size, options_.fill_value, image);
  const auto moved = [](double at, int64_t old_side, int64_t by, int64_t side) {
    return (at * static_cast<double>(old_side) + static_cast<double>(by)) /
           static_cast<double>(side);
  };
  for (int64_t i = 0; i < label->num_objects(); ++i) {
    const std::span<float> object = label->object(i);
    const Box box = BoxOf(object);
    SetBox(
        {moved(box.left, old.width, left, size.width), moved(box.top, old.height, top, size.height),
         moved(box.right, old.width, left, size.width),
         moved(box.bottom, old.height, top, size.height)},
        object);
  }
}

void ImageDetAugmenter::CropRandomly(ImageRandom* random, Image* image,
                                     DetectionLabel* label) const {
  std::vector<size_t> order(options_.crops.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto left = static_cast<int64_t>(order.size() - i);
    std::swap(order[i], order[i + static_cast<size_t>(DrawBelow(random, left))]);
    const DetectionCrop& crop = options_.crops[order[i]];
    for (int64_t trial = 0; trial < crop.max_trials; ++trial) {
      if (TryCrop(crop, random, image, label)) return;
    }
  }
}

/// Draws a part, and cuts it out if it is a valid one.
bool ImageDetAugmenter::TryCrop(const DetectionCrop& crop, ImageRandom* random, Image* image,
                                DetectionLabel* label) const {
  const Box part = DrawPart(crop, {image->height, image->width}, random);
  const auto height = static_cast<double>(image->height), width = static_cast<double>(image->width);
  bool is_valid = label->num_objects() == 0;
  std::vector<float> kept;
  for (int64_t i = 0; i < label->num_objects(); ++i) {
    const std::span<const float> object = label->object(i);
    const Box fractions = BoxOf(object);
    const Box box = {fractions.left * width, fractions.top * height, fractions.right * width,
                     fractions.bottom * height};
    is_valid = is_valid || IsInRanges(crop, part, box);
    const Box inside = Intersection(part, box);
    bool is_kept = inside.area() > 0;
    if (options_.crop_emit_mode == CropEmitMode::kCenter) {
      const double x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
      is_kept = is_kept && x >= part.left && x <= part.right && y >= part.top && y <= part.bottom;
    } else {
      is_kept =
          is_kept && inside.area() > static_cast<double>(options_.emit_overlap_thresh) * box.area();
    }
    if (!is_kept) continue;
    const auto at = static_cast<std::ptrdiff_t>(kept.size());
    kept.insert(kept.end(), object.begin(), object.end());
    const double part_width = part.right - part.left, part_height = part.bottom - part.top;
    SetBox({(inside.left - part.left) / part_width, (inside.top - part.top) / part_height,
            (inside.right - part.left) / part_width, (inside.bottom - part.top) / part_height},
           std::span(kept.begin() + at, kept.end()));
  }
  if (!is_valid || (label->num_objects() > 0 && kept.empty())) return false;
  label->objects = std::move(kept);
  Crop(static_cast<int64_t>(part.top), static_cast<int64_t>(part.left),
       {static_cast<int64_t>(part.bottom - part.top), static_cast<int64_t>(part.right - part.left)},
       image);
  return true;
}

void ImageDetAugmenter::ResizeToSize(ImageRandom* random, Image* image) const {
  const ImageSize from = {image->height, image->width};
  ImageSize size = options_.size;
  if (options_.resize_mode != DetResizeMode::kForce) {
    // In floats, as MXNet computes them: a side may lose a pixel to their rounding.
    const float by = std::min(static_cast<float>(size.height) / static_cast<float>(from.height),
                              static_cast<float>(size.width) / static_cast<float>(from.width));
    if (options_.resize_mode == DetResizeMode::kShrink && by >= 1) return;
    const auto scaled = [by](int64_t side, int64_t most) {
      const auto length = static_cast<int64_t>(by * static_cast<float>(side));
      return std::clamp(length, int64_t{1}, most);
    };
    size = {scaled(from.height, size.height), scaled(from.width, size.width)};
  }
  ResizeTo(kWhat, size, ChooseInterpolation(kWhat, options_.inter_method, from, size, (*random)()),
           image);
}

}  // namespace tessera
