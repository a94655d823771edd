#include "tessera/image/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/image/color.h"
#include "tessera/image/encode.h"
#include "tessera/image/image.h"
#include "tessera/image/testing/files.h"

namespace tessera {
namespace {

using image_testing::LargestDifference;
using image_testing::ReadFile;
using image_testing::ReadNetpbm;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kFiles[] = {"half.jpg",  "full.jpg",    "progressive.jpg", "cmyk.jpg",
                                  "gray.jpg",  "color.png",   "gray.png",        "bit.png",
                                  "alpha.png", "palette.png", "wide.png",        "interlaced.png"};

Image Decode(const std::vector<uint8_t>& file, const DecodeOptions& options = {}) {
  Image image;
  DecodeImage(file, "the file", options, &image);
  return image;
}

/// Expects an error of that code whose message has all those words.
void ExpectError(std::span<const uint8_t> file, const DecodeOptions& options, absl::StatusCode code,
                 const std::vector<std::string>& words) {
  try {
    Image image;
    DecodeImage(file, "the file", options, &image);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
  }
}

TEST(DecodeImageTest, GivesThePixelsOfOpenCv) {
  for (const std::string name : kFiles) {
    const std::vector<uint8_t> file = ReadFile(name);
    EXPECT_LE(LargestDifference(Decode(file), ReadNetpbm(name + ".color.ppm")), 1) << name;
    EXPECT_LE(LargestDifference(Decode(file, {.channels = 1}), ReadNetpbm(name + ".gray.pgm")), 1)
        << name;
  }
}

TEST(DecodeImageTest, OrderBgrExchangesRedAndBlue) {
  for (const std::string name : kFiles) {
    for (const int channels : {1, 3, 4}) {
      const std::vector<uint8_t> file = ReadFile(name);
      Image expected = Decode(file, {.channels = channels});
      if (channels > 1) SwapRedAndBlue(expected.view());
      const Image bgr = Decode(file, {.channels = channels, .order = ColorOrder::kBgr});
      EXPECT_EQ(LargestDifference(bgr, expected), 0) << name << " " << channels;
    }
  }
}

TEST(DecodeImageTest, AlphaIsThatOfTheFileOr255) {
  for (const std::string name : kFiles) {
    const std::vector<uint8_t> file = ReadFile(name);
    const Image color = Decode(file), with_alpha = Decode(file, {.channels = 4});
    ASSERT_EQ(with_alpha.channels, 4);
    bool is_opaque = true;
    for (size_t i = 0; i < color.pixels.size() / 3; ++i) {
      for (size_t c = 0; c < 3; ++c) {
        EXPECT_EQ(with_alpha.pixels[4 * i + c], color.pixels[3 * i + c]) << name;
      }
      is_opaque = is_opaque && with_alpha.pixels[4 * i + 3] == 255;
    }
    EXPECT_EQ(is_opaque, name != "alpha.png" && name != "palette.png") << name;
  }
}

TEST(DecodeImageTest, ReadsTheSizeAlone) {
  const ImageSize size = ReadImageSize(ReadFile("half.jpg"), "half.jpg");
  EXPECT_EQ(size.height, 19);
  EXPECT_EQ(size.width, 26);
}

TEST(DecodeImageTest, AnyTruncationIsAnErrorThatNamesTheByte) {
  for (const std::string name : kFiles) {
    const std::vector<uint8_t> file = ReadFile(name);
    // The end of a JPEG file holds no pixels.
    const size_t needed = file.size() - (name.ends_with(".png") ? 0 : 6);
    for (size_t size = 0; size < needed; size += 1 + size / 50) {
      const std::span<const uint8_t> part(file.data(), size);
      ExpectError(part, {}, Error::kDataLoss, {"the file: ", " byte "});
    }
  }
  const std::vector<uint8_t> jpeg = ReadFile("half.jpg"), png = ReadFile("color.png");
  ExpectError(std::span(jpeg).first(jpeg.size() - 40), {}, Error::kDataLoss,
              {"truncated at byte " + std::to_string(jpeg.size() - 40)});
  ExpectError(std::span(png).first(png.size() / 2), {}, Error::kDataLoss, {"truncated at byte "});
}

TEST(DecodeImageTest, AMissingEndMarkerIsNoError) {
  std::vector<uint8_t> file = ReadFile("half.jpg");
  const Image whole = Decode(file);
  file.resize(file.size() - 2);
  EXPECT_EQ(LargestDifference(Decode(file), whole), 0);
}

TEST(DecodeImageTest, OtherFilesAreNamed) {
  const auto bytes = [](std::string_view text) {
    return std::vector<uint8_t>(text.begin(), text.end());
  };
  const std::pair<std::string_view, std::string> kOthers[] = {
      {"", "an empty file"},           {"GIF89a....", "a GIF file"},
      {"BM......", "a BMP file"},      {"RIFF....WEBPVP8 ", "a WebP file"},
      {"II*\x08", "a TIFF file"},      {"<html>", "an HTML page"},
      {"anything else", "other bytes"}};
  for (const auto& [text, name] : kOthers) {
    ExpectError(bytes(text), {}, Error::kDataLoss,
                {"the file: at byte 0: found " + name, "expected a JPEG or PNG file"});
  }
}

TEST(DecodeImageTest, DamagedChecksumsAreErrors) {
  std::vector<uint8_t> file = ReadFile("color.png");
  file[file.size() / 2] ^= 1;
  ExpectError(file, {}, Error::kDataLoss, {"the PNG file is damaged at byte "});
}

TEST(DecodeImageTest, TooManyPixelsAreAnErrorBeforeMemoryIsTaken) {
  for (const char* const name : {"half.jpg", "color.png"}) {
    ExpectError(ReadFile(name), {.max_pixels = 19 * 26 - 1}, Error::kResourceExhausted,
                {"the file: claims 19 x 26 pixels", "at most 493", "TESSERA_IMAGE_MAX_PIXELS"});
    EXPECT_EQ(Decode(ReadFile(name), {.max_pixels = 19 * 26}).height, 19);
  }
  // A header of 65500 x 65500 pixels: more than the default.
  std::vector<uint8_t> huge = ReadFile("half.jpg");
  bool was_found = false;
  for (size_t i = 0; i + 8 < huge.size() && !was_found; ++i) {
    if (huge[i] != 0xff || huge[i + 1] != 0xc0) continue;
    was_found = true;
    huge[i + 5] = huge[i + 7] = 0xff;
    huge[i + 6] = huge[i + 8] = 0xdc;
  }
  ASSERT_TRUE(was_found);
  ExpectError(huge, {}, Error::kResourceExhausted, {"claims 65500 x 65500 pixels"});
}

TEST(DecodeImageTest, OtherChannelsAreAnError) {
  ExpectError(ReadFile("half.jpg"), {.channels = 2}, Error::kInvalidArgument,
              {"2 channels", "1, 3 or 4"});
}

TEST(EncodeImageTest, PngComesBackExactly) {
  for (const char* const name : {"source.ppm", "gray.png.gray.pgm"}) {
    const Image image = ReadNetpbm(name);
    for (const int compression : {0, 3, 9}) {
      const Image back = Decode(EncodePng(image.view(), compression),
                                {.channels = static_cast<int>(image.channels)});
      EXPECT_EQ(LargestDifference(back, image), 0);
    }
  }
  const Image alpha = Decode(ReadFile("alpha.png"), {.channels = 4});
  EXPECT_EQ(LargestDifference(Decode(EncodePng(alpha.view()), {.channels = 4}), alpha), 0);
}

TEST(EncodeImageTest, JpegComesBackNearlyAndSmallerAtLowerQuality) {
  Image smooth;
  smooth.Resize(40, 50, 3);
  for (int64_t i = 0; i < 40 * 50; ++i) {
    uint8_t* const pixel = &smooth.pixels[static_cast<size_t>(3 * i)];
    pixel[0] = static_cast<uint8_t>(100 + i / 50);
    pixel[1] = static_cast<uint8_t>(50 + 2 * (i % 50));
    pixel[2] = 200;
  }
  const std::vector<uint8_t> fine = EncodeJpeg(std::as_const(smooth).view(), 98);
  const std::vector<uint8_t> coarse = EncodeJpeg(std::as_const(smooth).view(), 20);
  EXPECT_LE(LargestDifference(Decode(fine), smooth), 8);
  EXPECT_LT(coarse.size(), fine.size());
  const Image gray = ReadNetpbm("gray.png.gray.pgm");
  const Image back = Decode(EncodeJpeg(gray.view(), 100), {.channels = 1});
  EXPECT_LE(LargestDifference(back, gray), 3);
}

TEST(EncodeImageTest, WrongArgumentsAreErrors) {
  const Image image = ReadNetpbm("source.ppm");
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message([&] { EncodeJpeg(image.view(), 0); }), HasSubstr("quality 0"));
  EXPECT_THAT(message([&] { EncodeJpeg(image.view(), 101); }), HasSubstr("1 to 100"));
  EXPECT_THAT(message([&] { EncodePng(image.view(), 10); }), HasSubstr("compression 10"));
  EXPECT_THAT(message([&] { EncodePng({}); }), HasSubstr("no pixels"));
  EXPECT_THAT(message([&] {
                EncodeJpeg({2, 2, 4, image.pixels.data()});
              }),
              AllOf(HasSubstr("4 channels"), HasSubstr("1 or 3")));
  EXPECT_THAT(message([&] {
                EncodeJpeg({1, 65501, 1, image.pixels.data()});
              }),
              HasSubstr("at most 65500"));
}

}  // namespace
}  // namespace tessera
