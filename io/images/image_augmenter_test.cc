#include "tessera/io/image_augmenter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/image/image.h"
#include "tessera/io/image_random.h"

namespace tessera {
namespace {

/// An image whose pixel (y, x) has the levels y, x and 100.
Image Coordinates(int64_t height, int64_t width) {
  Image image;
  image.Resize(height, width, 3);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      uint8_t* const pixel = image.view().row(y) + 3 * x;
      pixel[0] = static_cast<uint8_t>(y);
      pixel[1] = static_cast<uint8_t>(x);
      pixel[2] = 100;
    }
  }
  return image;
}

Image Augmented(const ImageAugmenterOptions& options, Image image, uint64_t seed = 1) {
  ImageRandom random(seed);
  ImageAugmenter(options).Augment(&random, &image);
  return image;
}

TEST(ImageAugmenterTest, CutsOutTheMiddle) {
  const Image out = Augmented({.size = {12, 14}}, Coordinates(19, 26));
  EXPECT_EQ(out.height, 12);
  EXPECT_EQ(out.width, 14);
  EXPECT_EQ(out.pixels[0], 3);
  EXPECT_EQ(out.pixels[1], 6);
  EXPECT_EQ(out.pixels.back(), 100);
}

TEST(ImageAugmenterTest, SmallImagesGrowBefore) {
  // 19 x 26 becomes 30 x 41, of which 40 columns stay.
  const Image out = Augmented({.size = {30, 40}}, Coordinates(19, 26));
  EXPECT_EQ(out.height, 30);
  EXPECT_EQ(out.width, 40);
  EXPECT_EQ(out.pixels[0], 0);
  EXPECT_EQ(out.view().row(29)[0], 18);
  EXPECT_NEAR(out.view().row(29)[3 * 39 + 1], 24, 1);
}

TEST(ImageAugmenterTest, ResizesTheShorterSide) {
  Image out = Augmented({.size = {16, 21}, .resize = 16}, Coordinates(19, 26));
  EXPECT_EQ(out.height, 16);
  EXPECT_EQ(out.width, 21);
  // The whole width, and not a part.
  EXPECT_NEAR(out.pixels[1], 0, 1);
  EXPECT_NEAR(out.view().row(0)[3 * 20 + 1], 25, 1);
}

TEST(ImageAugmenterTest, PadsBeforeItCuts) {
  const Image out = Augmented({.size = {23, 30}, .pad = 2, .fill_value = 77}, Coordinates(19, 26));
  EXPECT_EQ(out.view().row(1)[3 * 5], 77);
  EXPECT_EQ(out.view().row(2)[3 * 1], 77);
  EXPECT_EQ(out.view().row(2)[3 * 2 + 1], 0);
  EXPECT_EQ(out.view().row(20)[3 * 27], 18);
  EXPECT_EQ(out.view().row(21)[3 * 27], 77);
}

TEST(ImageAugmenterTest, RandomPartsReachEveryPlace) {
  std::set<int> rows, columns;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Image out = Augmented({.size = {3, 4}, .rand_crop = true}, Coordinates(5, 7), seed);
    rows.insert(out.pixels[0]);
    columns.insert(out.pixels[1]);
    EXPECT_EQ(out.view().row(2)[3 * 3] - out.pixels[0], 2);
    EXPECT_EQ(out.view().row(2)[3 * 3 + 1] - out.pixels[1], 3);
  }
  EXPECT_EQ(rows, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(columns, (std::set<int>{0, 1, 2, 3}));
}

TEST(ImageAugmenterTest, RandomResizedPartsHaveTheAreaAndRatio) {
  const ImageAugmenterOptions options = {.size = {20, 20},
                                         .inter_method = 0,
                                         .random_resized_crop = true,
                                         .min_random_area = 0.2f,
                                         .max_random_area = 0.5f,
                                         .min_aspect_ratio = 0.75f,
                                         .max_aspect_ratio = 1.25f};
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Image out = Augmented(options, Coordinates(100, 100), seed);
    ASSERT_EQ(out.height, 20);
    ASSERT_EQ(out.width, 20);
    // The nearest pixels are up to a twentieth apart.
    const double height = (out.view().row(19)[0] - out.pixels[0]) * 20.0 / 19;
    const double width = (out.view().row(0)[3 * 19 + 1] - out.pixels[1]) * 20.0 / 19;
    EXPECT_GE(height * width, 0.2e4 * 0.9);
    EXPECT_LE(height * width, 0.5e4 * 1.1);
    EXPECT_GE(width / height, 0.7);
    EXPECT_LE(width / height, 1.35);
  }
}

TEST(ImageAugmenterTest, ColorsStayInTheirRange) {
  Image gray;
  gray.Resize(2, 2, 3);
  std::fill(gray.pixels.begin(), gray.pixels.end(), uint8_t{100});
  double sum = 0;
  constexpr int kImages = 300;
  for (uint64_t seed = 0; seed < kImages; ++seed) {
    const Image brighter = Augmented({.size = {2, 2}, .brightness = 0.3f}, gray, seed);
    EXPECT_GE(brighter.pixels[0], 70);
    EXPECT_LE(brighter.pixels[0], 130);
    sum += brighter.pixels[0];
    // Neither the distance from the mean nor that from the gray can grow from 0.
    const Image same =
        Augmented({.size = {2, 2}, .contrast = 0.5f, .saturation = 0.5f}, gray, seed);
    EXPECT_EQ(same.pixels[0], 100);
    const Image lighter = Augmented({.size = {2, 2}, .random_l = 20}, gray, seed);
    EXPECT_NEAR(lighter.pixels[0], 100, 21);
  }
  // The standard deviation of the mean is 17 / sqrt(300), about 1.
  EXPECT_NEAR(sum / kImages, 100, 5);
}

TEST(ImageAugmenterTest, HuesTurnAndLightnessStays) {
  Image red;
  red.Resize(1, 1, 3);
  red.pixels = {255, 0, 0};
  std::set<int> brightest;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Image out = Augmented({.size = {1, 1}, .random_h = 180}, red, seed);
    EXPECT_EQ(*std::max_element(out.pixels.begin(), out.pixels.end()), 255);
    EXPECT_EQ(*std::min_element(out.pixels.begin(), out.pixels.end()), 0);
    brightest.insert(static_cast<int>(std::max_element(out.pixels.begin(), out.pixels.end()) -
                                      out.pixels.begin()));
  }
  EXPECT_EQ(brightest.size(), 3u);
}

TEST(ImageAugmenterTest, ASeedDecidesAll) {
  const ImageAugmenterOptions options = {.size = {9, 9},
                                         .inter_method = 10,
                                         .random_resized_crop = true,
                                         .min_random_area = 0.1f,
                                         .max_aspect_ratio = 0.3f,
                                         .brightness = 0.2f,
                                         .contrast = 0.2f,
                                         .random_h = 10};
  EXPECT_EQ(Augmented(options, Coordinates(30, 40), 5).pixels,
            Augmented(options, Coordinates(30, 40), 5).pixels);
  EXPECT_NE(Augmented(options, Coordinates(30, 40), 5).pixels,
            Augmented(options, Coordinates(30, 40), 6).pixels);
}

TEST(ImageAugmenterTest, ScalesAreDrawnAndSidesLimited) {
  std::set<int> found;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    // The middle 10 x 10 pixels of an image of 20 to 40 pixels: 10 to 5 pixels of the original.
    const Image out = Augmented({.size = {10, 10}, .min_random_scale = 1, .max_random_scale = 2},
                                Coordinates(20, 20), seed);
    ASSERT_EQ(out.height, 10);
    ASSERT_EQ(out.width, 10);
    const int columns = out.pixels[3 * 9 + 1] - out.pixels[1];
    EXPECT_GE(columns, 4);
    EXPECT_LE(columns, 9);
    found.insert(columns);
  }
  EXPECT_GE(found.size(), 4u);
  // Cut to 12 x 12 pixels.
  const Image cut = Augmented({.size = {12, 12}, .max_img_size = 12}, Coordinates(20, 20));
  EXPECT_EQ(cut.pixels[0], 4);
  EXPECT_EQ(cut.pixels[1], 4);
  // Put into the middle of 30 x 30 pixels.
  const Image framed = Augmented({.size = {30, 30}, .min_img_size = 30}, Coordinates(20, 20));
  EXPECT_EQ(framed.pixels[0], 255);
  EXPECT_EQ(framed.view().row(5)[3 * 5], 0);
  EXPECT_EQ(framed.view().row(24)[3 * 24 + 1], 19);
}

TEST(ImageAugmenterTest, SquaresAreCutOutAndResized) {
  const Image middle =
      Augmented({.size = {10, 10}, .min_crop_size = 10, .max_crop_size = 10}, Coordinates(20, 30));
  EXPECT_EQ(middle.pixels[0], 5);
  EXPECT_EQ(middle.pixels[1], 10);
  std::set<int> found;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Image out = Augmented({.size = {10, 10},
                                 .inter_method = 0,
                                 .rand_crop = true,
                                 .min_crop_size = 10,
                                 .max_crop_size = 20},
                                Coordinates(20, 30), seed);
    found.insert(out.pixels[3 * 9 + 1] - out.pixels[1]);
  }
  // The tenth of 10 pixels, and that of 20.
  EXPECT_EQ(*found.begin(), 9);
  EXPECT_EQ(*found.rbegin(), 18);
}

/// The changes of the levels of a gray have the covariance that axes and deviations give.
TEST(ImageAugmenterTest, NoiseFollowsTheAxesOfColors) {
  Image gray;
  gray.Resize(1, 1, 3);
  gray.pixels = {128, 128, 128};
  double sum[3] = {}, squares[3] = {}, red_blue = 0;
  constexpr int kImages = 2000;
  for (uint64_t seed = 0; seed < kImages; ++seed) {
    const Image out = Augmented({.size = {1, 1}, .pca_noise = 0.5f}, gray, seed);
    double change[3];
    for (int c = 0; c < 3; ++c) {
      change[c] = static_cast<double>(out.pixels[static_cast<size_t>(c)]) - 128;
      sum[c] += change[c] / kImages;
      squares[c] += change[c] * change[c] / kImages;
    }
    red_blue += change[0] * change[2] / kImages;
  }
  // For red, (0.5675 * 55.46 / 2)^2 + (0.7192 * 4.794 / 2)^2 + (0.4009 * 1.148 / 2)^2.
  constexpr double kSquares[3] = {250.7, 259.6, 264.7};
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(sum[c], 0, 1.8);
    EXPECT_NEAR(squares[c], kSquares[c], 40);
  }
  EXPECT_NEAR(red_blue, 251.9, 40);
}

TEST(ImageAugmenterTest, ImpossibleOptionsAreErrors) {
  for (const ImageAugmenterOptions& options :
       {ImageAugmenterOptions{.size = {0, 4}}, ImageAugmenterOptions{.size = {4, 4}, .resize = 0},
        ImageAugmenterOptions{.size = {4, 4}, .inter_method = 5},
        ImageAugmenterOptions{.size = {4, 4}, .random_resized_crop = true, .min_random_area = 2},
        ImageAugmenterOptions{.size = {4, 4}, .fill_value = 256},
        ImageAugmenterOptions{.size = {4, 4}, .brightness = -1},
        ImageAugmenterOptions{.size = {4, 4}, .min_crop_size = 5},
        ImageAugmenterOptions{.size = {4, 4}, .min_random_scale = 2},
        ImageAugmenterOptions{.size = {4, 4}, .min_img_size = 9, .max_img_size = 8}}) {
    EXPECT_THROW(ImageAugmenter{options}, Error);
  }
  // A small image that would grow to hundreds of gigabytes.
  Image line;
  line.Resize(1, 60000, 1);
  EXPECT_THROW(Augmented({.size = {224, 224}}, line), Error);
}

}  // namespace
}  // namespace tessera
