#include "tessera/io/image_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/io/internal/idx_bytes.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string MessageOf(std::string_view text) {
  try {
    ParseImageList(text, "who.lst");
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Error::kDataLoss);
    return error.what();
  }
  return "no error";
}

TEST(ImageListTest, LinesHaveANumberLabelsAndAPath) {
  const std::vector<ListedImage> images =
      ParseImageList("7\t1.000000\ta b.jpg\r\n\n18446744073709551615\t-2\t3e2\tc/d.png", "x");
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(images[0].id, 7u);
  EXPECT_THAT(images[0].label, ElementsAre(1));
  EXPECT_EQ(images[0].path, "a b.jpg");
  EXPECT_EQ(images[1].id, std::numeric_limits<uint64_t>::max());
  EXPECT_THAT(images[1].label, ElementsAre(-2, 300));
  EXPECT_EQ(images[1].path, "c/d.png");
  EXPECT_TRUE(ParseImageList("", "x").empty());
}

TEST(ImageListTest, LinesComeBackExactly) {
  const ListedImage image = {.id = 12, .label = {0.1f, -1e-30f, 3}, .path = "folder/ä.jpg"};
  const std::string line = FormatListedImage(image);
  EXPECT_EQ(line.substr(0, 7), "12\t0.1\t");
  const std::vector<ListedImage> again = ParseImageList(line, "x");
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].label, image.label);
  EXPECT_EQ(again[0].path, image.path);
  EXPECT_THROW(FormatListedImage({.id = 1, .path = "a.jpg"}), Error);
  EXPECT_THROW(FormatListedImage({.label = {1}, .path = "a\tb.jpg"}), Error);
  EXPECT_THROW(FormatListedImage({.label = {1}, .path = "a\nb.jpg"}), Error);
}

TEST(ImageListTest, ErrorsNameTheLine) {
  EXPECT_THAT(MessageOf("1\t2\tx\n\n3 4 y\n"), HasSubstr("who.lst: at line 3: found \"3 4 y\""));
  EXPECT_THAT(MessageOf("1\tx"), HasSubstr("line 1"));
  EXPECT_THAT(MessageOf("-1\t2\tx"), HasSubstr("expected a number, labels and a path"));
  EXPECT_THAT(MessageOf("1\t2x\tx"), HasSubstr("line 1"));
  EXPECT_THAT(MessageOf("1\t\tx"), HasSubstr("line 1"));
}

TEST(ImageListTest, FilesAreRead) {
  std::string text;
  for (int i = 0; i < 9000; ++i) text += std::to_string(i) + "\t" + std::to_string(i % 7) + "\tx\n";
  const std::string path = io_internal::WriteTestFile("long.lst", {text.begin(), text.end()});
  const std::vector<ListedImage> images = ReadImageList(path);
  ASSERT_EQ(images.size(), 9000u);
  EXPECT_EQ(images.back().id, 8999u);
  EXPECT_THROW(ReadImageList("/no/such.lst"), Error);
}

}  // namespace
}  // namespace tessera
