#include "tessera/io/image_augmenter.h"

#include <algorithm>
#include <cmath>
#include <numbers>

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

constexpr const char* kWhat = "ImageAugmenter";

const ImageAugmenterOptions& Checked(const ImageAugmenterOptions& options) {
  const auto check = [](const char* name, double value, double low, double high) {
    CheckOption(kWhat, name, value, low, high);
  };
  const auto most = static_cast<double>(kMostSidePixels);
  check("the height", static_cast<double>(options.size.height), 1, most);
  check("the width", static_cast<double>(options.size.width), 1, most);
  if (options.resize != -1) check("resize", static_cast<double>(options.resize), 1, most);
  check("pad", static_cast<double>(options.pad), 0, most);
  check("fill_value", options.fill_value, 0, kMostLevel);
  check("brightness", options.brightness, 0, kMostLevel);
  check("contrast", options.contrast, 0, kMostLevel);
  check("saturation", options.saturation, 0, kMostLevel);
  check("random_h", options.random_h, 0, 180);
  check("random_s", options.random_s, 0, kMostLevel);
  check("random_l", options.random_l, 0, kMostLevel);
  if (options.random_resized_crop) {
    check("max_random_area", options.max_random_area, 1e-6, 1);
    check("min_random_area", options.min_random_area, 1e-6, options.max_random_area);
    if (options.min_aspect_ratio) {
      check("max_aspect_ratio", options.max_aspect_ratio, 1e-3, 1e3);
      check("min_aspect_ratio", *options.min_aspect_ratio, 1e-3, options.max_aspect_ratio);
    } else {
      check("max_aspect_ratio", options.max_aspect_ratio, 0, 0.999);
    }
  }
  check("max_random_scale", options.max_random_scale, 1e-3, 1e3);
  check("min_random_scale", options.min_random_scale, 1e-3, options.max_random_scale);
  check("max_img_size", options.max_img_size, 1, 1e10);
  check("min_img_size", options.min_img_size, 0, std::min(options.max_img_size, 1e6f));
  if (options.max_crop_size != -1 || options.min_crop_size != -1) {
    check("max_crop_size", static_cast<double>(options.max_crop_size), 1, most);
    check("min_crop_size", static_cast<double>(options.min_crop_size), 1,
          static_cast<double>(options.max_crop_size));
  }
  check("pca_noise", options.pca_noise, 0, kMostLevel);
  // Throws for an unknown number.
  ChooseInterpolation(kWhat, options.inter_method, {1, 1}, {1, 1}, 0);
  return options;
}

/// Returns a number of the standard normal distribution (Box and Muller, 1958).
double DrawNormal(ImageRandom* random) {
  const double radius = std::sqrt(-2 * std::log(Draw(random, 0x1p-53, 1)));
  return radius * std::cos(Draw(random, 0, 2 * std::numbers::pi));
}

float GrayOf(float red, float green, float blue) {
  return 0.299f * red + 0.587f * green + 0.114f * blue;
}

}  // namespace

ImageAugmenter::ImageAugmenter(const ImageAugmenterOptions& options) : options_(Checked(options)) {}

void ImageAugmenter::Augment(ImageRandom* random, Image* image) const {
  if (options_.resize > 0) {
    ResizeShorterSide(kWhat, options_.resize, options_.inter_method, random, image);
  }
  const bool was_cropped = options_.random_resized_crop && CropResized(random, image);
  if (!options_.random_resized_crop) Scale(random, image);
  if (options_.pad > 0) {
    const int64_t pad = options_.pad;
    const ImageSize size = {image->height + 2 * pad, image->width + 2 * pad};
    Pad(kWhat, pad, pad, size, options_.fill_value, image);
  }
  if (options_.max_crop_size != -1 && !options_.random_resized_crop) CropSquare(random, image);
  if (!was_cropped || options_.pad > 0) CropToSize(random, image);
  if (image->channels == 3) ChangeColors(random, image);
}

/// Returns false, and changes nothing, if no part that was drawn fits into the image.
bool ImageAugmenter::CropResized(ImageRandom* random, Image* image) const {
  constexpr int kTrials = 10;
  const double least_ratio = options_.min_aspect_ratio.value_or(1 - options_.max_aspect_ratio);
  const double most_ratio =
      options_.min_aspect_ratio ? options_.max_aspect_ratio : 1 + options_.max_aspect_ratio;
  const auto whole = static_cast<double>(image->height) * static_cast<double>(image->width);
  for (int trial = 0; trial < kTrials; ++trial) {
    const double area = whole * Draw(random, options_.min_random_area, options_.max_random_area);
    const double ratio = Draw(random, least_ratio, most_ratio);
    const auto width = static_cast<int64_t>(std::lround(std::sqrt(area * ratio)));
    const auto height = static_cast<int64_t>(std::lround(std::sqrt(area / ratio)));
    if (width < 1 || height < 1 || width > image->width || height > image->height) continue;
    const int64_t top = DrawBelow(random, image->height - height + 1);
    const int64_t left = DrawBelow(random, image->width - width + 1);
    Crop(top, left, {height, width}, image);
    ResizeTo(kWhat, options_.size,
             ChooseInterpolation(kWhat, options_.inter_method, {height, width}, options_.size,
                                 (*random)()),
             image);
    return true;
  }
  return false;
}

void ImageAugmenter::Scale(ImageRandom* random, Image* image) const {
  if (options_.min_random_scale != 1 || options_.max_random_scale != 1) {
    const double scale = Draw(random, options_.min_random_scale, options_.max_random_scale);
    const auto scaled = [scale](int64_t side) {
      return std::max<int64_t>(std::lround(static_cast<double>(side) * scale), 1);
    };
    const ImageSize from = {image->height, image->width};
    const ImageSize size = {scaled(from.height), scaled(from.width)};
    ResizeTo(kWhat, size,
             ChooseInterpolation(kWhat, options_.inter_method, from, size, (*random)()), image);
  }
  const auto limited = [this](int64_t side) {
    return static_cast<int64_t>(std::clamp(static_cast<double>(side),
                                           std::floor(static_cast<double>(options_.min_img_size)),
                                           std::floor(static_cast<double>(options_.max_img_size))));
  };
  const ImageSize size = {limited(image->height), limited(image->width)};
  const ImageSize both = {std::max(size.height, image->height), std::max(size.width, image->width)};
  if (both.height > image->height || both.width > image->width) {
    Pad(kWhat, (both.height - image->height) / 2, (both.width - image->width) / 2, both,
        options_.fill_value, image);
  }
  Crop((both.height - size.height) / 2, (both.width - size.width) / 2, size, image);
}

void ImageAugmenter::CropSquare(ImageRandom* random, Image* image) const {
  const int64_t range = options_.max_crop_size - options_.min_crop_size + 1;
  const int64_t side = std::min(options_.min_crop_size + DrawBelow(random, range),
                                std::min(image->height, image->width));
  CropAt({side, side}, random, image);
  ResizeTo(
      kWhat, options_.size,
      ChooseInterpolation(kWhat, options_.inter_method, {side, side}, options_.size, (*random)()),
      image);
}

/// Cuts out a part at a random place or from the middle. Requires: it fits.
void ImageAugmenter::CropAt(ImageSize size, ImageRandom* random, Image* image) const {
  const int64_t rows = image->height - size.height, columns = image->width - size.width;
  const int64_t top = options_.rand_crop ? DrawBelow(random, rows + 1) : rows / 2;
  const int64_t left = options_.rand_crop ? DrawBelow(random, columns + 1) : columns / 2;
  Crop(top, left, size, image);
}

void ImageAugmenter::CropToSize(ImageRandom* random, Image* image) const {
  const ImageSize size = options_.size;
  if (image->height < size.height || image->width < size.width) {
    // By the side that lacks more.
    const bool by_height = image->height * size.width < image->width * size.height;
    const ImageSize grown = by_height
                                ? ImageSize{size.height, image->width * size.height / image->height}
                                : ImageSize{image->height * size.width / image->width, size.width};
    ResizeTo(kWhat, grown, Interpolation::kBilinear, image);
  }
  CropAt(size, random, image);
}

void ImageAugmenter::ChangeColors(ImageRandom* random, Image* image) const {
  const auto factor = [random](float range) {
    return static_cast<float>(1 + Draw(random, -range, range));
  };
  if (options_.brightness > 0) {
    const float by = factor(options_.brightness);
    ForEachPixel(image, [by](float* red, float* green, float* blue) {
      *red *= by;
      *green *= by;
      *blue *= by;
    });
  }
  if (options_.contrast > 0) {
    const float by = factor(options_.contrast);
    double sum = 0;
    ForEachPixel(image, [&sum](const float* red, const float* green, const float* blue) {
      sum += static_cast<double>(GrayOf(*red, *green, *blue));
    });
    const auto mean = static_cast<float>(sum / static_cast<double>(image->height * image->width));
    ForEachPixel(image, [by, mean](float* red, float* green, float* blue) {
      for (float* const level : {red, green, blue}) *level = mean + (*level - mean) * by;
    });
  }
  if (options_.saturation > 0) {
    const float by = factor(options_.saturation);
    ForEachPixel(image, [by](float* red, float* green, float* blue) {
      const float gray = GrayOf(*red, *green, *blue);
      for (float* const level : {red, green, blue}) *level = gray + (*level - gray) * by;
    });
  }
  if (options_.random_h > 0 || options_.random_s > 0 || options_.random_l > 0) {
    const auto shift = [random](int range) {
      return static_cast<float>(Draw(random, -range, range));
    };
    const float hue = 2 * shift(options_.random_h);
    const float saturation = shift(options_.random_s) / kMostLevel;
    const float lightness = shift(options_.random_l) / kMostLevel;
    ShiftHls(hue, saturation, lightness, image);
  }
  if (options_.pca_noise > 0) {
    // The square roots of the eigenvalues of the covariance of ImageNet's levels, and the axes.
    constexpr double kDeviations[3] = {55.46, 4.794, 1.148};
    constexpr double kAxes[3][3] = {{-0.5675, 0.7192, 0.4009},    // red
                                    {-0.5808, -0.0045, -0.8140},  // green
                                    {-0.5836, -0.6948, 0.4203}};  // blue
    float shift[3] = {0, 0, 0};
    for (int axis = 0; axis < 3; ++axis) {
      const double by = static_cast<double>(options_.pca_noise) * DrawNormal(random);
      for (int c = 0; c < 3; ++c) {
        shift[c] += static_cast<float>(kAxes[c][axis] * kDeviations[axis] * by);
      }
    }
    ForEachPixel(image, [&shift](float* red, float* green, float* blue) {
      *red += shift[0];
      *green += shift[1];
      *blue += shift[2];
    });
  }
}

}  // namespace tessera
