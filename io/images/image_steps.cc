#include "tessera/io/images/image_steps.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/image/border.h"
#include "tessera/image/color.h"
#include "tessera/io/images/image_pixels.h"

namespace tessera::io_internal {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 28;  // of an image

}  // namespace

double Draw(ImageRandom* random, double low, double high) {
  const double unit = static_cast<double>((*random)() >> 11) * 0x1p-53;
  return low + unit * (high - low);
}

int64_t DrawBelow(ImageRandom* random, int64_t bound) {
  return static_cast<int64_t>((*random)() % static_cast<uint64_t>(bound));
}

void CheckOption(std::string_view what, const char* name, double value, double low, double high) {
  if (value >= low && value <= high) return;
  throw InvalidArgument(what, ": ", name, " ", value, ", expected ", low, " to ", high);
}

void CheckSize(std::string_view what, ImageSize from, ImageSize to) {
  if (to.height >= 1 && to.width >= 1 && to.height <= kMostSidePixels &&
      to.width <= kMostSidePixels && to.height * to.width <= kMostPixels) {
    return;
  }
  throw InvalidArgument(what, ": an image of height ", from.height, " and width ", from.width,
                        " would get height ", to.height, " and width ", to.width,
                        ", expected 1 to ", kMostPixels, " pixels");
}

void ResizeTo(std::string_view what, ImageSize size, Interpolation interpolation, Image* image) {
  if (size.height == image->height && size.width == image->width) return;
  CheckSize(what, {image->height, image->width}, size);
  Image resized;
  resized.Resize(size.height, size.width, image->channels);
  ResizeImage(std::as_const(*image).view(), resized.view(), interpolation);
  std::swap(*image, resized);
}

void ResizeShorterSide(std::string_view what, int64_t length, int inter_method, ImageRandom* random,
                       Image* image) {
  const int64_t shorter = std::min(image->height, image->width);
  const ImageSize from = {image->height, image->width};
  const ImageSize size = {length * from.height / shorter, length * from.width / shorter};
  ResizeTo(what, size, ChooseInterpolation(what, inter_method, from, size, (*random)()), image);
}

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

void Pad(std::string_view what, int64_t top, int64_t left, ImageSize size, int level,
         Image* image) {
  CheckSize(what, {image->height, image->width}, size);
  Image padded;
  padded.Resize(size.height, size.width, image->channels);
  const std::vector<double> values(static_cast<size_t>(image->channels), level);
  CopyWithBorder(std::as_const(*image).view(), top, left, BorderType::kConstant, values,
                 padded.view());
  std::swap(*image, padded);
}

void ShiftHls(float hue, float saturation, float lightness, Image* image) {
  ForEachPixel(image, [=](float* red, float* green, float* blue) {
    HlsColor color = RgbToHls(*red / kMostLevel, *green / kMostLevel, *blue / kMostLevel);
    color.hue += hue;
    color.saturation = std::clamp(color.saturation + saturation, 0.0f, 1.0f);
    color.lightness = std::clamp(color.lightness + lightness, 0.0f, 1.0f);
    HlsToRgb(color, red, green, blue);
    for (float* const level : {red, green, blue}) *level *= kMostLevel;
  });
}

}  // namespace tessera::io_internal
