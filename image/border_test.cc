#include "tessera/image/border.h"

#include <gtest/gtest.h>

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

constexpr double kColor[] = {200, 100, 50};

TEST(CopyWithBorderTest, GivesTheLevelsOfOpenCv) {
  struct Widths {
    int64_t top, bottom, left, right;
  };
  const Image source = ReadNetpbm("source.ppm");
  for (int kind = 0; kind < 5; ++kind) {
    for (const Widths& w : {Widths{2, 3, 1, 4}, Widths{0, 17, 30, 0}}) {
      Image out;
      out.Resize(w.top + source.height + w.bottom, w.left + source.width + w.right, 3);
      CopyWithBorder(source.view(), w.top, w.left, static_cast<BorderType>(kind), kColor,
                     out.view());
      const std::string name = "border-" + std::to_string(kind) + "-" + std::to_string(w.top) +
                               "-" + std::to_string(w.bottom) + "-" + std::to_string(w.left) + "-" +
                               std::to_string(w.right) + ".ppm";
      EXPECT_EQ(LargestDifference(out, ReadNetpbm(name)), 0) << name;
    }
  }
}

TEST(CopyWithBorderTest, OnePixelFillsEveryBorder) {
  const double pixel = 0.25;
  for (const BorderType type :
       {BorderType::kReplicate, BorderType::kReflect, BorderType::kWrap, BorderType::kReflect101}) {
    std::vector<double> out(5 * 4, -1);
    CopyWithBorder<double>({1, 1, 1, &pixel}, 3, 2, type, {}, {5, 4, 1, out.data()});
    for (const double value : out) EXPECT_EQ(value, pixel);
  }
}

TEST(CopyWithBorderTest, ConstantsAreRoundedClampedAndDefaultTo0) {
  const uint8_t pixel[] = {1, 2, 3};
  const double values[] = {99.6, 300};
  std::vector<uint8_t> out(6);
  CopyWithBorder<uint8_t>({1, 1, 3, pixel}, 0, 1, BorderType::kConstant, values,
                          {1, 2, 3, out.data()});
  EXPECT_EQ(out, (std::vector<uint8_t>{100, 255, 0, 1, 2, 3}));
  const float number = 5;
  std::vector<float> floats(2);
  CopyWithBorder<float>({1, 1, 1, &number}, 0, 0, BorderType::kConstant, values,
                        {2, 1, 1, floats.data()});
  EXPECT_EQ(floats, (std::vector<float>{5, 99.6f}));
}

TEST(CopyWithBorderTest, AnImageThatDoesNotFitIsAnError) {
  const Image source = ReadNetpbm("source.ppm");
  Image out;
  out.Resize(source.height + 1, source.width + 1, 3);
  for (const auto& [top, left] : {std::pair<int64_t, int64_t>{2, 0}, {0, 2}, {-1, 0}, {0, -1}}) {
    EXPECT_THROW(CopyWithBorder(source.view(), top, left, BorderType::kWrap, kColor, out.view()),
                 Error);
  }
}

}  // namespace
}  // namespace tessera
