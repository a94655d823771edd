#include "tessera/io/image_det_augmenter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/image/image.h"
#include "tessera/io/image_random.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// An image whose pixel (y, x) has the levels x, y and 200.
Image Coordinates(int64_t height, int64_t width) {
  Image image;
  image.Resize(height, width, 3);
  for (int64_t p = 0; p < height * width; ++p) {
    image.pixels[static_cast<size_t>(3 * p)] = static_cast<uint8_t>(p % width);
    image.pixels[static_cast<size_t>(3 * p + 1)] = static_cast<uint8_t>(p / width);
    image.pixels[static_cast<size_t>(3 * p + 2)] = 200;
  }
  return image;
}

DetectionLabel Objects(const std::vector<float>& objects) {
  return {.header = {2, 5}, .objects = objects, .object_width = 5};
}

struct Example {
  Image image;
  DetectionLabel label;
};

Example Augmented(const ImageDetAugmenterOptions& options, uint64_t seed, Image image,
                  DetectionLabel label) {
  ImageRandom random(seed);
  ImageDetAugmenter(options).Augment(&random, &image, &label);
  return {std::move(image), std::move(label)};
}

std::string MessageOf(const std::vector<float>& numbers) {
  try {
    ParseDetectionLabel(numbers, "who");
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Error::kDataLoss);
    return error.what();
  }
  return "no error";
}

TEST(DetectionLabelTest, NumbersAreAHeaderAndObjects) {
  const std::vector<float> numbers = {4, 6,    77,   78,             //
                                      1, 0.2f, 0.2f, 0.5f, 0.6f, 9,  //
                                      2, 0.5f, 0.5f, 0.5f, 0.6f, 9,  // no width
                                      3, 0.5f, 0.5f, 0.6f, 0.4f, 9,  // no height
                                      4, 0.1f, 0.2f, 0.3f, 0.4f, -1.5f};
  const DetectionLabel label = ParseDetectionLabel(numbers, "x");
  EXPECT_THAT(label.header, ElementsAre(4, 6, 77, 78));
  EXPECT_EQ(label.num_objects(), 2);
  EXPECT_THAT(label.objects, ElementsAre(1, 0.2f, 0.2f, 0.5f, 0.6f, 9,  //
                                         4, 0.1f, 0.2f, 0.3f, 0.4f, -1.5f));
  EXPECT_EQ(ParseDetectionLabel(std::vector<float>{2, 5}, "x").num_objects(), 0);
}

TEST(DetectionLabelTest, OtherNumbersAreErrors) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(MessageOf({2}), HasSubstr("who: found 1 labels"));
  EXPECT_THAT(MessageOf({1, 5}),
              HasSubstr("a header of length 1, expected an integer from 2 to 2"));
  EXPECT_THAT(MessageOf({3, 5}), HasSubstr("a header of length 3"));
  EXPECT_THAT(MessageOf({2.5f, 5, 1}), HasSubstr("a header of length 2.5"));
  EXPECT_THAT(MessageOf({kNan, 5, 1}), HasSubstr("a header of length"));
  EXPECT_THAT(MessageOf({1e30f, 5, 1}), HasSubstr("a header of length"));
  EXPECT_THAT(MessageOf({2, 4, 1, 2, 3, 4}), HasSubstr("objects of length 4"));
  EXPECT_THAT(MessageOf({2, kNan, 1, 2, 3, 4}), HasSubstr("objects of length"));
  EXPECT_THAT(MessageOf({2, 5, 1, 2, 3, 4}), HasSubstr("found 4 labels behind the header"));
}

TEST(ImageDetAugmenterTest, MirroringMirrorsBoxes) {
  const Example example = Augmented({.size = {3, 4}, .rand_mirror_prob = 1}, 1, Coordinates(3, 4),
                                    Objects({1, 0.25f, 0.5f, 0.75f, 1, 2, 0, 0, 0.25f, 0.5f}));
  EXPECT_THAT(example.label.objects, ElementsAre(1, 0.25f, 0.5f, 0.75f, 1,  //
                                                 2, 0.75f, 0, 1, 0.5f));
  for (int64_t x = 0; x < 4; ++x) EXPECT_EQ(example.image.view().row(1)[3 * x], 3 - x);
}

TEST(ImageDetAugmenterTest, ImagesGetTheSizeAsTheModeSays) {
  const auto size = [](DetResizeMode mode, int64_t height, int64_t width) {
    const Example example = Augmented({.size = {16, 16}, .resize_mode = mode}, 1,
                                      Coordinates(height, width), Objects({}));
    return std::vector<int64_t>{example.image.height, example.image.width};
  };
  // As MXNet 1.9.1 computes them.
  EXPECT_THAT(size(DetResizeMode::kForce, 20, 30), ElementsAre(16, 16));
  EXPECT_THAT(size(DetResizeMode::kShrink, 20, 30), ElementsAre(10, 16));
  EXPECT_THAT(size(DetResizeMode::kShrink, 40, 24), ElementsAre(16, 9));
  EXPECT_THAT(size(DetResizeMode::kShrink, 17, 20), ElementsAre(13, 16));
  EXPECT_THAT(size(DetResizeMode::kShrink, 10, 12), ElementsAre(10, 12));
  EXPECT_THAT(size(DetResizeMode::kShrink, 41, 20), ElementsAre(15, 7));
  EXPECT_THAT(size(DetResizeMode::kFit, 10, 12), ElementsAre(13, 16));
  EXPECT_THAT(size(DetResizeMode::kFit, 20, 17), ElementsAre(16, 13));
  EXPECT_THAT(size(DetResizeMode::kFit, 20, 55), ElementsAre(5, 15));
  // MXNet fails.
  EXPECT_THAT(size(DetResizeMode::kFit, 100, 3), ElementsAre(16, 1));
}

/// Boxes move with the pixels, and padding has its level.
TEST(ImageDetAugmenterTest, PaddingMovesBoxes) {
  constexpr int kSide = 20, kImages = 400;
  const Image image = Coordinates(kSide, kSide);
  double sum = 0;
  for (int seed = 0; seed < kImages; ++seed) {
    // Without a resize at the end, the larger size shows in the labels.
    const Example example = Augmented({.size = {300, 300},
                                       .rand_pad_prob = 1,
                                       .max_pad_scale = 3,
                                       .fill_value = 7,
                                       .resize_mode = DetResizeMode::kShrink},
                                      static_cast<uint64_t>(seed), image, Objects({1, 0, 0, 1, 1}));
    const ImageView<const uint8_t> padded = example.image.view();
    ASSERT_GE(padded.height, kSide);
    ASSERT_LE(padded.height, 3 * kSide);
    ASSERT_EQ(padded.height, padded.width);
    sum += static_cast<double>(padded.height);
    const std::vector<float>& box = example.label.objects;
    const auto pixel = [&padded](float fraction) {
      return std::lround(fraction * static_cast<float>(padded.width));
    };
    const int64_t left = pixel(box[1]), top = pixel(box[2]);
    ASSERT_EQ(pixel(box[3]) - left, kSide);
    ASSERT_EQ(pixel(box[4]) - top, kSide);
    EXPECT_EQ(padded.row(top)[3 * left], 0);
    EXPECT_EQ(padded.row(top + 5)[3 * (left + 6)], 6);
    EXPECT_EQ(padded.row(top + 5)[3 * (left + 6) + 1], 5);
    const int64_t filled = std::count(example.image.pixels.begin(), example.image.pixels.end(), 7);
    EXPECT_GE(filled, 3 * (padded.height * padded.width - kSide * kSide));
  }
  // The scale is uniform between 1 and 3; the standard error of the mean is 0.6.
  EXPECT_NEAR(sum / kImages, 2 * kSide, 2.5);
}

TEST(ImageDetAugmenterTest, PartsHaveTheirAreaAndRatio) {
  constexpr int64_t kHeight = 200, kWidth = 100;
  const Image image = Coordinates(kHeight, kWidth);
  for (int seed = 0; seed < 300; ++seed) {
    const Example example = Augmented({.size = {250, 250},
                                       .rand_crop_prob = 1,
                                       .crops = {{.min_scale = 0.3f,
                                                  .max_scale = 0.6f,
                                                  .min_aspect_ratio = 0.5f,
                                                  .max_aspect_ratio = 1.5f}},
                                       .resize_mode = DetResizeMode::kShrink},
                                      static_cast<uint64_t>(seed), image, Objects({}));
    const auto height = static_cast<double>(example.image.height);
    const auto width = static_cast<double>(example.image.width);
    const double scale = std::sqrt(height * width / (kHeight * kWidth));
    EXPECT_GE(scale, 0.29);
    EXPECT_LE(scale, 0.61);
    EXPECT_GE(width / height, 0.48);
    EXPECT_LE(width / height, 1.55);
  }
}

TEST(ImageDetAugmenterTest, BoxesAreThoseOfThePart) {
  const Image image = Coordinates(100, 200);
  const std::vector<float> box = {1, 0.4f, 0.4f, 0.6f, 0.6f};
  int smaller = 0;
  for (int seed = 0; seed < 300; ++seed) {
    const Example example =
        Augmented({.size = {250, 250},
                   .rand_crop_prob = 1,
                   .crops = {{.min_scale = 0.3f, .max_scale = 0.6f, .max_aspect_ratio = 2}},
                   .resize_mode = DetResizeMode::kShrink},
                  static_cast<uint64_t>(seed), image, Objects(box));
    const std::vector<float>& found = example.label.objects;
    ASSERT_EQ(found.size(), 5u);
    const ImageView<const uint8_t> part = example.image.view();
    const auto width = static_cast<float>(part.width), height = static_cast<float>(part.height);
    const auto left = static_cast<float>(part.row(0)[0]), top = static_cast<float>(part.row(0)[1]);
    EXPECT_NEAR(found[1], std::max(80 - left, 0.0f) / width, 1e-4);
    EXPECT_NEAR(found[2], std::max(40 - top, 0.0f) / height, 1e-4);
    EXPECT_NEAR(found[3], std::min((120 - left) / width, 1.0f), 1e-4);
    EXPECT_NEAR(found[4], std::min((60 - top) / height, 1.0f), 1e-4);
    // The center is kept unless nothing that fits was drawn.
    EXPECT_LE(left, 100);
    EXPECT_LE(top, 50);
    if (part.width < 200) ++smaller;
  }
  EXPECT_GE(smaller, 290);
}

TEST(ImageDetAugmenterTest, PartsMeetTheRangesOfOneObject) {
  const Image image = Coordinates(200, 200);
  const std::vector<float> boxes = {1, 0.3f, 0.3f, 0.6f, 0.6f, 2, 0.1f, 0.1f, 0.9f, 0.2f};
  for (int seed = 0; seed < 200; ++seed) {
    const Example example = Augmented({.size = {250, 250},
                                       .rand_crop_prob = 1,
                                       .crops = {{.min_scale = 0.35f,
                                                  .max_scale = 0.6f,
                                                  .min_object_coverage = 1,
                                                  .max_trials = 1000}},
                                       .resize_mode = DetResizeMode::kShrink},
                                      static_cast<uint64_t>(seed), image, Objects(boxes));
    // The whole of the first object, since the second does not fit.
    ASSERT_GE(example.label.num_objects(), 1);
    const std::vector<float>& found = example.label.objects;
    EXPECT_EQ(found[0], 1);
    const auto side = static_cast<float>(example.image.width);
    EXPECT_LT(side, 121);
    EXPECT_NEAR((found[3] - found[1]) * side, 60, 0.01);
    EXPECT_NEAR((found[4] - found[2]) * side, 60, 0.01);
  }
}

TEST(ImageDetAugmenterTest, ImpossibleRangesLeaveTheImage) {
  const Image image = Coordinates(50, 50);
  const Example example =
      Augmented({.size = {60, 60},
                 .rand_crop_prob = 1,
                 .crops = {{.max_scale = 0.5f, .min_overlap = 0.9f}, {.max_scale = 0.1f}},
                 .crop_emit_mode = CropEmitMode::kOverlap,
                 .emit_overlap_thresh = 0.9f,
                 .resize_mode = DetResizeMode::kShrink},
                1, image, Objects({1, 0, 0, 1, 1}));
  EXPECT_EQ(example.image.pixels, image.pixels);
  EXPECT_THAT(example.label.objects, ElementsAre(1, 0, 0, 1, 1));
}

TEST(ImageDetAugmenterTest, CropsAreTriedInARandomOrder) {
  int small = 0;
  for (int seed = 0; seed < 400; ++seed) {
    const Example example = Augmented(
        {.size = {60, 60},
         .rand_crop_prob = 1,
         .crops = {{.min_scale = 0.3f, .max_scale = 0.3f}, {.min_scale = 0.8f, .max_scale = 0.8f}},
         .resize_mode = DetResizeMode::kShrink},
        static_cast<uint64_t>(seed), Coordinates(50, 50), Objects({}));
    EXPECT_TRUE(example.image.width == 15 || example.image.width == 40) << example.image.width;
    if (example.image.width == 15) ++small;
  }
  // The standard deviation is 10.
  EXPECT_NEAR(small, 200, 50);
}

TEST(ImageDetAugmenterTest, ProbabilitiesDecide) {
  const Image image = Coordinates(20, 20);
  ImageDetAugmenterOptions options = {.size = {20, 20}, .max_random_contrast = 0.5f};
  const auto changed = [&] {
    int count = 0;
    for (int seed = 0; seed < 400; ++seed) {
      const Example example = Augmented(options, static_cast<uint64_t>(seed), image, Objects({}));
      // The blue level, 200, times 0.5 to 1.5.
      const uint8_t level = example.image.pixels[2];
      EXPECT_GE(level, 100);
      if (level != 200) ++count;
    }
    return count;
  };
  EXPECT_EQ(changed(), 0);
  options.random_contrast_prob = 0.5f;
  EXPECT_NEAR(changed(), 200, 50);
  options.random_contrast_prob = 1;
  EXPECT_GE(changed(), 390);
}

TEST(ImageDetAugmenterTest, ColorsChangeInTheirUnits) {
  Image image;
  image.Resize(1, 1, 3);
  image.pixels = {100, 100, 100};
  int lowest = 255, highest = 0;
  for (int seed = 0; seed < 300; ++seed) {
    const Example example =
        Augmented({.size = {1, 1}, .max_random_illumination = 30, .random_illumination_prob = 1},
                  static_cast<uint64_t>(seed), image, Objects({}));
    // A gray stays one: its lightness changes by up to 30 levels.
    EXPECT_EQ(example.image.pixels[0], example.image.pixels[1]);
    lowest = std::min<int>(lowest, example.image.pixels[0]);
    highest = std::max<int>(highest, example.image.pixels[0]);
  }
  EXPECT_NEAR(lowest, 70, 2);
  EXPECT_NEAR(highest, 130, 2);
}

TEST(ImageDetAugmenterTest, ImpossibleOptionsAreErrors) {
  for (const ImageDetAugmenterOptions& options :
       {ImageDetAugmenterOptions{.size = {0, 4}},
        ImageDetAugmenterOptions{.size = {4, 4}, .inter_method = 7},
        ImageDetAugmenterOptions{.size = {4, 4}, .rand_mirror_prob = 1.5f},
        ImageDetAugmenterOptions{.size = {4, 4}, .max_pad_scale = 0.5f},
        ImageDetAugmenterOptions{.size = {4, 4}, .crops = {{.min_scale = 0.5f, .max_scale = 0.4f}}},
        ImageDetAugmenterOptions{.size = {4, 4}, .crops = {{.min_aspect_ratio = 0}}},
        ImageDetAugmenterOptions{.size = {4, 4}, .crops = {{.max_trials = 0}}}}) {
    EXPECT_THROW(ImageDetAugmenter{options}, Error);
  }
}

}  // namespace
}  // namespace tessera
