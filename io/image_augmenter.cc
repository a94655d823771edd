#include "tessera/io/image_augmenter.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/image/border.h"
#include "tessera/image/color.h"
#include "tessera/image/resize.h"

namespace tessera {
namespace {

constexpr const char* kWhat = "ImageAugmenter";
constexpr int64_t kMostPixels = int64_t{1} << 24;         // along an axis
constexpr int64_t kMostResizedPixels = int64_t{1} << 28;  // of a whole image
constexpr float kMostLevel = 255;

/// Returns a number in [low, high].
double Draw(ImageRandom* random, double low, double high) {
  const double unit = static_cast<double>((*random)() >> 11) * 0x1p-53;
  return low + unit * (high - low);
}

/// Returns an integer in [0, bound).
int64_t DrawBelow(ImageRandom* random, int64_t bound) {
  return static_cast<int64_t>((*random)() % static_cast<uint64_t>(bound));
}

uint8_t LevelOf(float value) {
  return static_cast<uint8_t>(std::clamp(value, 0.0f, kMostLevel) + 0.5f);
}

const ImageAugmenterOptions& Checked(const ImageAugmenterOptions& options) {
  const auto check = [](const char* name, double value, double low, double high) {
    if (value >= low && value <= high) return;
    throw InvalidArgument(kWhat, ": ", name, " ", value, ", expected ", low, " to ", high);
  };
  const auto most = static_cast<double>(kMostPixels);
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
  // Throws for an unknown number.
  ChooseInterpolation(kWhat, options.inter_method, {1, 1}, {1, 1}, 0);
  return options;
}

void ResizeTo(ImageSize size, Interpolation interpolation, Image* image) {
  if (size.height == image->height && size.width == image->width) return;
  if (size.height > kMostPixels || size.width > kMostPixels ||
      size.height * size.width > kMostResizedPixels) {
    throw InvalidArgument(kWhat, ": an image of height ", image->height, " and width ",
                          image->width, " would get height ", size.height, " and width ",
                          size.width, ", expected at most ", kMostResizedPixels, " pixels");
  }
  Image resized;
  resized.Resize(size.height, size.width, image->channels);
  ResizeImage(std::as_const(*image).view(), resized.view(), interpolation);
  std::swap(*image, resized);
}

/// Keeps the rows from `top` and the columns from `left` on. Requires: they lie in the image.
void Crop(int64_t top, int64_t left, ImageSize size, Image* image) {
  if (size.height == image->height && size.width == image->width) return;
  const ImageView<uint8_t> pixels = image->view();
  const int64_t length = size.width * image->channels;
  uint8_t* to = pixels.pixels;
  for (int64_t y = 0; y < size.height; ++y) {
    // To lower addresses.
    to = std::copy_n(pixels.row(top + y) + left * image->channels, length, to);
  }
  image->Resize(size.height, size.width, image->channels);
}

/// Calls change(red, green, blue) for each pixel of levels as float.
template <typename Change>
void ForEachPixel(Image* image, const Change& change) {
  for (size_t i = 0; i + 2 < image->pixels.size(); i += 3) {
    uint8_t* const pixel = &image->pixels[i];
    float red = pixel[0], green = pixel[1], blue = pixel[2];
    change(&red, &green, &blue);
    pixel[0] = LevelOf(red);
    pixel[1] = LevelOf(green);
    pixel[2] = LevelOf(blue);
  }
}

float GrayOf(float red, float green, float blue) {
  return 0.299f * red + 0.587f * green + 0.114f * blue;
}

}  // namespace

ImageAugmenter::ImageAugmenter(const ImageAugmenterOptions& options) : options_(Checked(options)) {}

void ImageAugmenter::Augment(ImageRandom* random, Image* image) const {
  if (options_.resize > 0) {
    const int64_t shorter = std::min(image->height, image->width);
    const ImageSize size = {options_.resize * image->height / shorter,
                            options_.resize * image->width / shorter};
    ResizeTo(size,
             ChooseInterpolation(kWhat, options_.inter_method, {image->height, image->width}, size,
                                 (*random)()),
             image);
  }
  const bool was_cropped = options_.random_resized_crop && CropResized(random, image);
  if (options_.pad > 0) {
    const int64_t pad = options_.pad;
    Image padded;
    padded.Resize(image->height + 2 * pad, image->width + 2 * pad, image->channels);
    const std::vector<double> values(static_cast<size_t>(image->channels), options_.fill_value);
    CopyWithBorder(std::as_const(*image).view(), pad, pad, BorderType::kConstant, values,
                   padded.view());
    std::swap(*image, padded);
  }
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
    ResizeTo(options_.size,
             ChooseInterpolation(kWhat, options_.inter_method, {height, width}, options_.size,
                                 (*random)()),
             image);
    return true;
  }
  return false;
}

void ImageAugmenter::CropToSize(ImageRandom* random, Image* image) const {
  const ImageSize size = options_.size;
  if (image->height < size.height || image->width < size.width) {
    // By the side that lacks more.
    const bool by_height = image->height * size.width < image->width * size.height;
    const ImageSize grown = by_height
                                ? ImageSize{size.height, image->width * size.height / image->height}
                                : ImageSize{image->height * size.width / image->width, size.width};
    ResizeTo(grown, Interpolation::kBilinear, image);
  }
  const int64_t rows = image->height - size.height, columns = image->width - size.width;
  const int64_t top = options_.rand_crop ? DrawBelow(random, rows + 1) : rows / 2;
  const int64_t left = options_.rand_crop ? DrawBelow(random, columns + 1) : columns / 2;
  Crop(top, left, size, image);
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
    ForEachPixel(image, [=](float* red, float* green, float* blue) {
      HlsColor color = RgbToHls(*red / kMostLevel, *green / kMostLevel, *blue / kMostLevel);
      color.hue += hue;
      color.saturation = std::clamp(color.saturation + saturation, 0.0f, 1.0f);
      color.lightness = std::clamp(color.lightness + lightness, 0.0f, 1.0f);
      HlsToRgb(color, red, green, blue);
      for (float* const level : {red, green, blue}) *level *= kMostLevel;
    });
  }
}

}  // namespace tessera
