#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/image/decode.h"
#include "tessera/image/encode.h"
#include "tessera/image/image.h"
#include "tessera/io/image_list.h"
#include "tessera/io/image_record.h"
#include "tessera/io/record_reader.h"
#include "tessera/tools/im2rec/lists.h"
#include "tessera/tools/im2rec/options.h"
#include "tessera/tools/im2rec/records.h"

namespace tessera::im2rec {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

/// An image of one color, of that height and width.
std::vector<uint8_t> FileOf(int64_t height, int64_t width, uint8_t level) {
  Image image;
  image.Resize(height, width, 3);
  for (uint8_t& pixel : image.pixels) pixel = level;
  return EncodePng(std::as_const(image).view());
}

void WriteBytes(const fs::path& path, const std::vector<uint8_t>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Options Parsed(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "im2rec");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  return ParseOptions(static_cast<int>(pointers.size()), pointers.data()).value();
}

/// A folder with the images top.png, cat/a.png, cat/b.PNG and dog/c.png, and a text.
class Im2RecTest : public testing::Test {
 protected:
  Im2RecTest() {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = fs::path(testing::TempDir()) / ("im2rec-" + name);
    root_ = folder_ / "images";
    fs::remove_all(folder_);
    for (const char* const below : {"cat", "dog"}) fs::create_directories(root_ / below);
    WriteBytes(root_ / "top.png", FileOf(8, 6, 10));
    WriteBytes(root_ / "cat/a.png", FileOf(8, 6, 20));
    WriteBytes(root_ / "cat/b.PNG", FileOf(9, 12, 30));
    WriteBytes(root_ / "dog/c.png", FileOf(5, 5, 40));
    std::ofstream(root_ / "cat/text.txt") << "no image";
  }

  Options Of(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = arguments;
    all.push_back((folder_ / "set").string());
    all.push_back(root_.string());
    return Parsed(all);
  }
  std::string PathOf(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_, root_;
};

TEST_F(Im2RecTest, ListsNumberImagesAndClasses) {
  EXPECT_THAT(WriteLists(Of({"--list", "--no-shuffle"})), ElementsAre(PathOf("set.lst")));
  EXPECT_EQ(ReadText(PathOf("set.lst")), "0\t0\ttop.png\n");
  WriteLists(Of({"--list", "--no-shuffle", "--recursive"}));
  EXPECT_EQ(ReadText(PathOf("set.lst")),
            "0\t1\tcat/a.png\n1\t1\tcat/b.PNG\n2\t2\tdog/c.png\n3\t0\ttop.png\n");
  WriteLists(Of({"--list", "--no-shuffle", "--recursive", "--exts=.txt,.jpg"}));
  EXPECT_EQ(ReadText(PathOf("set.lst")), "0\t0\tcat/text.txt\n");
}

TEST_F(Im2RecTest, ListsAreDivided) {
  const Options options = Of({"--list", "--recursive", "--train-ratio=0.5", "--test-ratio=0.25"});
  EXPECT_THAT(WriteLists(options),
              ElementsAre(PathOf("set_test.lst"), PathOf("set_train.lst"), PathOf("set_val.lst")));
  std::vector<ListedImage> all;
  for (const char* const part : {"test", "train", "val"}) {
    const auto images = ReadImageList(PathOf("set_" + std::string(part) + ".lst"));
    EXPECT_EQ(images.size(), part == std::string_view("train") ? 2u : 1u);
    all.insert(all.end(), images.begin(), images.end());
  }
  uint64_t sum = 0;
  for (const ListedImage& image : all) sum += image.id;
  EXPECT_EQ(sum, 0u + 1 + 2 + 3);
  EXPECT_THAT(WriteLists(Of({"--list", "--recursive", "--chunks=2"})),
              ElementsAre(PathOf("set_0.lst"), PathOf("set_1.lst")));
  EXPECT_EQ(ReadImageList(PathOf("set_1.lst")).size(), 2u);
}

TEST_F(Im2RecTest, RecordsHaveTheImagesInTheirOrder) {
  std::ofstream(PathOf("set.lst")) << "7\t2\t3\tcat/b.PNG\n5\t1.5\t4\ttop.png\n";
  for (const char* const threads : {"--num-thread=1", "--num-thread=3"}) {
    const Options options =
        Of({threads, "--encoding=.png", "--resize=4", "--center-crop", "--pack-label"});
    ASSERT_THAT(FindLists(options), ElementsAre(PathOf("set.lst")));
    EXPECT_EQ(WriteRecords(options, PathOf("set.lst")).written, 2);
    IndexedRecordReader reader(PathOf("set.idx"), PathOf("set.rec"));
    EXPECT_THAT(reader.keys(), ElementsAre(7, 5));
    for (const int64_t key : {5, 7}) {
      const ImageRecord record = ParseImageRecord(reader.ReadRecord(key), "x");
      EXPECT_EQ(record.id, static_cast<uint64_t>(key));
      EXPECT_EQ(record.label,
                key == 7 ? (std::vector<float>{2, 3}) : (std::vector<float>{1.5f, 4}));
      Image image;
      DecodeImage(record.file, "x", {}, &image);
      EXPECT_EQ(image.height, 4);
      EXPECT_EQ(image.width, 4);
      EXPECT_EQ(image.pixels[0], key == 7 ? 30 : 10);
    }
  }
}

TEST_F(Im2RecTest, FilesMayStayAsTheyAreAndOthersBecomeJpeg) {
  std::ofstream(PathOf("set.lst")) << "0\t1\t9\tcat/b.PNG\n";
  const auto record_of = [this](const std::vector<std::string>& arguments) {
    WriteRecords(Of(arguments), PathOf("set.lst"));
    RecordReader reader(PathOf("set.rec"));
    return std::string(reader.ReadRecord().value());
  };
  const std::string same = record_of({"--pass-through"});
  const ImageRecord record = ParseImageRecord(same, "x");
  EXPECT_EQ(std::vector<uint8_t>(record.file.begin(), record.file.end()), FileOf(9, 12, 30));
  EXPECT_THAT(record.label, ElementsAre(1)) << "the first label only";
  const std::string jpeg = record_of({"--quality=90", "--color=0"});
  EXPECT_EQ(static_cast<uint8_t>(jpeg[24]), 0xff);
  Image image;
  DecodeImage(ParseImageRecord(jpeg, "x").file, "x", {.channels = 1}, &image);
  EXPECT_EQ(image.width, 12);
  EXPECT_NEAR(image.pixels[0], 30, 1);
}

TEST_F(Im2RecTest, DamagedImagesAreErrorsOrLeftOut) {
  std::vector<uint8_t> file = FileOf(8, 8, 1);
  file.resize(file.size() / 2);
  WriteBytes(root_ / "half.png", file);
  std::ofstream(PathOf("set.lst")) << "0\t1\thalf.png\n1\t1\ttop.png\n2\t1\tmissing.png\n";
  const auto write = [this](const std::vector<std::string>& arguments) {
    return WriteRecords(Of(arguments), PathOf("set.lst"));
  };
  EXPECT_THAT(MessageOf([&] { write({}); }), HasSubstr("half.png: the PNG file is truncated"));
  const RecordCount count = write({"--damaged=skip"});
  EXPECT_EQ(count.written, 1);
  EXPECT_EQ(count.damaged, 2);
  EXPECT_EQ(ReadText(PathOf("set.idx")), "1\t0\n");
}

TEST_F(Im2RecTest, WrongArgumentsAreErrors) {
  const auto message = [](const std::vector<std::string>& arguments) {
    return MessageOf([&] { Parsed(arguments); });
  };
  EXPECT_THAT(message({"prefix"}), HasSubstr("root"));
  EXPECT_THAT(message({"a", "b", "--quality=0"}), HasSubstr("--quality 0 for .jpg"));
  EXPECT_THAT(message({"a", "b", "--quality=10", "--encoding=.png"}), HasSubstr("expected 0 to 9"));
  EXPECT_THAT(message({"a", "b", "--train-ratio=0.7", "--test-ratio=0.6"}),
              HasSubstr("--test-ratio"));
  EXPECT_THAT(MessageOf([] { WriteLists({.prefix = "x", .root = "/no/such"}); }),
              HasSubstr("/no/such: there is no such folder"));
  EXPECT_THAT(MessageOf([&] { FindLists(Of({})); }), HasSubstr("there is no such list"));
}

}  // namespace
}  // namespace tessera::im2rec
