#include "tessera/image/resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/image/image.h"
#include "tessera/image/testing/files.h"

namespace tessera {
namespace {

using image_testing::LargestDifference;
using image_testing::ReadNetpbm;
using testing::HasSubstr;

Image Resized(const Image& image, int64_t height, int64_t width, Interpolation interpolation) {
  Image out;
  out.Resize(height, width, image.channels);
  ResizeImage(image.view(), out.view(), interpolation);
  return out;
}

constexpr std::pair<int64_t, int64_t> kSizes[] = {{11, 7}, {7, 5},  {31, 40},
                                                  {22, 9}, {9, 30}, {1, 1}};

TEST(ResizeImageTest, GivesTheLevelsOfOpenCv) {
  const Image source = ReadNetpbm("source.ppm");
  for (int kind = 0; kind < 5; ++kind) {
    for (const auto& [width, height] : kSizes) {
      const std::string name = "resize-" + std::to_string(kind) + "-" + std::to_string(width) +
                               "x" + std::to_string(height) + ".ppm";
      const Image out = Resized(source, height, width, static_cast<Interpolation>(kind));
      EXPECT_LE(LargestDifference(out, ReadNetpbm(name)), kind == 0 ? 0 : 1) << name;
    }
  }
}

TEST(ResizeImageTest, FloatingPointAgreesWithLevels) {
  const Image source = ReadNetpbm("source.ppm");
  const std::vector<float> floats(source.pixels.begin(), source.pixels.end());
  const std::vector<double> doubles(source.pixels.begin(), source.pixels.end());
  for (int kind = 0; kind < 5; ++kind) {
    const auto interpolation = static_cast<Interpolation>(kind);
    for (const auto& [width, height] : kSizes) {
      const Image levels = Resized(source, height, width, interpolation);
      std::vector<float> of_float(levels.pixels.size());
      std::vector<double> of_double(levels.pixels.size());
      ResizeImage<float>({source.height, source.width, 3, floats.data()},
                         {height, width, 3, of_float.data()}, interpolation);
      ResizeImage<double>({source.height, source.width, 3, doubles.data()},
                          {height, width, 3, of_double.data()}, interpolation);
      for (size_t i = 0; i < levels.pixels.size(); ++i) {
        EXPECT_NEAR(of_float[i], of_double[i], 2e-3);
        // Half a level of rounding, and the weights' rounding to 1/2048.
        EXPECT_NEAR(std::clamp(of_double[i], 0.0, 255.0), levels.pixels[i], 1.2);
      }
    }
  }
}

TEST(ResizeImageTest, AnyNumberOfChannelsIsResizedAlike) {
  const Image source = ReadNetpbm("source.ppm");
  for (int kind = 0; kind < 5; ++kind) {
    const auto interpolation = static_cast<Interpolation>(kind);
    const Image expected = Resized(source, 9, 30, interpolation);
    for (const int64_t channels : {1, 2, 4, 5}) {
      Image repeated;
      repeated.Resize(source.height, source.width, channels);
      for (size_t i = 0; i < repeated.pixels.size(); ++i) {
        const size_t c = i % static_cast<size_t>(channels);
        repeated.pixels[i] = source.pixels[i / static_cast<size_t>(channels) * 3 + c % 3];
      }
      const Image out = Resized(repeated, 9, 30, interpolation);
      for (size_t i = 0; i < out.pixels.size(); ++i) {
        const size_t c = i % static_cast<size_t>(channels);
        EXPECT_EQ(out.pixels[i], expected.pixels[i / static_cast<size_t>(channels) * 3 + c % 3]);
      }
    }
  }
}

TEST(ResizeImageTest, TheSameSizeIsACopy) {
  const Image source = ReadNetpbm("source.ppm");
  for (int kind = 0; kind < 5; ++kind) {
    const Image out =
        Resized(source, source.height, source.width, static_cast<Interpolation>(kind));
    EXPECT_EQ(LargestDifference(out, source), 0);
  }
}

TEST(ResizeImageTest, ImagesOfOnePixelStayUniform) {
  Image pixel;
  pixel.Resize(1, 1, 1);
  pixel.pixels[0] = 201;
  for (int kind = 0; kind < 5; ++kind) {
    const Image out = Resized(pixel, 5, 9, static_cast<Interpolation>(kind));
    for (const uint8_t level : out.pixels) EXPECT_EQ(level, 201);
  }
}

TEST(ResizeImageTest, ImagesWithoutPixelsAreErrors) {
  Image image = ReadNetpbm("source.ppm");
  for (const ImageView<uint8_t> out : {ImageView<uint8_t>{0, 3, 3, image.pixels.data()},
                                       ImageView<uint8_t>{2, 2, 1, image.pixels.data()}}) {
    EXPECT_THROW(ResizeImage(std::as_const(image).view(), out, Interpolation::kBilinear), Error);
  }
  EXPECT_THROW(ResizeImage<uint8_t>({}, image.view(), Interpolation::kBilinear), Error);
}

TEST(ChooseInterpolationTest, NineGoesByTheSizes) {
  const ImageSize from = {10, 20};
  EXPECT_EQ(ChooseInterpolation("x", 9, from, {11, 21}, 0), Interpolation::kCubic);
  EXPECT_EQ(ChooseInterpolation("x", 9, from, {9, 19}, 0), Interpolation::kArea);
  EXPECT_EQ(ChooseInterpolation("x", 9, from, {9, 21}, 0), Interpolation::kBilinear);
  EXPECT_EQ(ChooseInterpolation("x", 9, from, {10, 30}, 0), Interpolation::kBilinear);
}

TEST(ChooseInterpolationTest, TenIsDrawnAndOthersAreThemselves) {
  for (int kind = 0; kind < 5; ++kind) {
    const auto interpolation = static_cast<Interpolation>(kind);
    EXPECT_EQ(ChooseInterpolation("x", kind, {1, 1}, {2, 2}, 77), interpolation);
    EXPECT_EQ(ChooseInterpolation("x", 10, {1, 1}, {2, 2}, 1000 + static_cast<uint64_t>(kind)),
              interpolation);
  }
  for (const int wrong : {-1, 5, 8, 11}) {
    try {
      ChooseInterpolation("who", wrong, {1, 1}, {1, 1}, 0);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("who: there is no interpolation"));
    }
  }
}

}  // namespace
}  // namespace tessera
