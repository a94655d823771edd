#include "tessera/image/color.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/image/image.h"

namespace tessera {
namespace {

TEST(ColorTest, RedAndBlueAreExchanged) {
  std::vector<uint8_t> pixels = {1, 2, 3, 4, 5, 6, 7, 8};
  SwapRedAndBlue({1, 2, 4, pixels.data()});
  EXPECT_EQ(pixels, (std::vector<uint8_t>{3, 2, 1, 4, 7, 6, 5, 8}));
  EXPECT_THROW(SwapRedAndBlue({4, 1, 2, pixels.data()}), Error);
}

TEST(ColorTest, GrayIsTheWeightedMean) {
  for (int red = 0; red < 256; red += 15) {
    for (int green = 0; green < 256; green += 17) {
      for (int blue = 0; blue < 256; blue += 51) {
        const uint8_t pixel[] = {static_cast<uint8_t>(red), static_cast<uint8_t>(green),
                                 static_cast<uint8_t>(blue)};
        uint8_t gray = 0;
        ConvertToGray({1, 1, 3, pixel}, {1, 1, 1, &gray});
        EXPECT_NEAR(gray, 0.299 * red + 0.587 * green + 0.114 * blue, 0.52);
      }
    }
  }
  const uint8_t pixel[] = {1, 2, 3, 4};
  uint8_t gray = 0;
  EXPECT_THROW(ConvertToGray({2, 1, 2, pixel}, {2, 1, 1, &gray}), Error);
}

TEST(ColorTest, HlsIsThatOfOpenCvAndComesBack) {
  struct Row {
    float red, green, blue;
    HlsColor hls;
  };
  const Row rows[] = {{10, 200, 90, {145.263153f, 0.411764711f, 0.904761910f}},
                      {255, 255, 255, {0, 1, 0}},
                      {0, 0, 255, {240, 0.5f, 1}},
                      {128, 128, 127, {60, 0.5f, 0.0039216f}},
                      {200, 30, 31, {359.647064f, 0.450980395f, 0.739130437f}},
                      {1, 2, 3, {210, 0.00784313772f, 0.49999994f}}};
  for (const Row& row : rows) {
    const HlsColor hls = RgbToHls(row.red / 255, row.green / 255, row.blue / 255);
    EXPECT_NEAR(hls.hue, row.hls.hue, 1e-3);
    EXPECT_NEAR(hls.lightness, row.hls.lightness, 1e-6);
    EXPECT_NEAR(hls.saturation, row.hls.saturation, 1e-5);
    for (const float turns : {-360.0f, 0.0f, 720.0f}) {
      float red = 0, green = 0, blue = 0;
      HlsToRgb({hls.hue + turns, hls.lightness, hls.saturation}, &red, &green, &blue);
      EXPECT_NEAR(red * 255, row.red, 1e-2);
      EXPECT_NEAR(green * 255, row.green, 1e-2);
      EXPECT_NEAR(blue * 255, row.blue, 1e-2);
    }
  }
}

}  // namespace
}  // namespace tessera
