#include "tessera/image/planes.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/image/image.h"

namespace tessera {
namespace {

constexpr float kGuard = -12345;

Image Levels(int64_t height, int64_t width, int64_t channels) {
  Image image;
  image.Resize(height, width, channels);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * 37);
  return image;
}

/// Compares every element with the formula, and checks that nothing is written behind them. The
/// pixels are exactly as many as the image has, so that AddressSanitizer sees a read beyond.
void ExpectPlanes(const Image& image, Mirroring mirroring, ImageSize plane) {
  const LevelScale scale = {.factor = {0.25f, -3, 0.1f, 7}, .shift = {-1, 0.3f, 100, 0}};
  const auto size = static_cast<size_t>(image.channels * plane.height * plane.width);
  std::vector<float> planes(size + 8, kGuard);
  WritePlanes(image.view(), mirroring, scale, plane, planes.data());
  for (int64_t c = 0; c < image.channels; ++c) {
    for (int64_t y = 0; y < plane.height; ++y) {
      for (int64_t x = 0; x < plane.width; ++x) {
        const float found = planes[static_cast<size_t>((c * plane.height + y) * plane.width + x)];
        float expected = 0;
        if (y < image.height && x < image.width) {
          const int64_t from = mirroring == Mirroring::kNone ? x : image.width - 1 - x;
          volatile float product =
              static_cast<float>(image.view().row(y)[from * image.channels + c]);
          product = product * scale.factor[static_cast<size_t>(c)];
          expected = product + scale.shift[static_cast<size_t>(c)];
        }
        ASSERT_EQ(found, expected)
            << "channel " << c << " row " << y << " column " << x << " of width " << image.width;
      }
    }
  }
  for (size_t i = size; i < planes.size(); ++i) EXPECT_EQ(planes[i], kGuard);
}

TEST(PlanesTest, ElementsAreScaledLevels) {
  for (const Mirroring mirroring : {Mirroring::kNone, Mirroring::kLeftRight}) {
    for (const int64_t channels : {1, 2, 3, 4}) {
      for (int64_t width = 1; width <= 36; ++width) {
        ExpectPlanes(Levels(2, width, channels), mirroring, {2, width});
      }
    }
    ExpectPlanes(Levels(5, 224, 3), mirroring, {5, 224});
  }
}

TEST(PlanesTest, TheRestIsZero) {
  for (const Mirroring mirroring : {Mirroring::kNone, Mirroring::kLeftRight}) {
    ExpectPlanes(Levels(2, 17, 3), mirroring, {3, 19});
    ExpectPlanes(Levels(1, 3, 1), mirroring, {4, 3});
  }
}

TEST(PlanesTest, ImpossibleSizesAreErrors) {
  std::vector<float> planes(100);
  const auto write = [&](const Image& image, ImageSize plane) {
    WritePlanes(image.view(), Mirroring::kNone, {}, plane, planes.data());
  };
  EXPECT_THROW(write(Levels(2, 3, 3), {1, 3}), Error);
  EXPECT_THROW(write(Levels(2, 3, 3), {2, 2}), Error);
  EXPECT_THROW(write(Levels(2, 3, 5), {2, 3}), Error);
  EXPECT_THROW(write(Image(), {2, 3}), Error);
}

}  // namespace
}  // namespace tessera
