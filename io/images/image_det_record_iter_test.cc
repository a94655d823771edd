// The batches without random numbers are those of MXNet 1.9.1's ImageDetRecordIter for the same
// files.
#include "tessera/io/image_det_record_iter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/image/encode.h"
#include "tessera/image/image.h"
#include "tessera/io/image_record.h"
#include "tessera/io/record_writer.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using ndarray_testing::ReadAs;
using testing::ElementsAre;
using testing::HasSubstr;

using Labels = std::vector<std::vector<float>>;

const Labels& ThreeLabels() {
  static const auto* const labels =
      new Labels{{2, 5, 0, 0.1f, 0.2f, 0.5f, 0.6f},
                 {2, 5, 1, 0.2f, 0.2f, 0.5f, 0.6f, 2, 0.3f, 0.3f, 0.9f, 0.95f},
                 {4, 6, 77, 78, 1, 0.2f, 0.2f, 0.5f, 0.6f, 9}};
  return *labels;
}

/// Writes images of one color, of height 10 and width 20, whose levels are 10 i, 20 and 30.
std::string WriteImages(const std::string& name, const Labels& labels) {
  const std::string path = testing::TempDir() + "/" + name;
  RecordWriter writer(path);
  for (size_t i = 0; i < labels.size(); ++i) {
    Image image;
    image.Resize(10, 20, 3);
    for (size_t p = 0; p < image.pixels.size(); ++p) {
      image.pixels[p] = static_cast<uint8_t>(p % 3 == 0 ? 10 * i : 10 * (p % 3 + 1));
    }
    const std::vector<uint8_t> file = EncodePng(std::as_const(image).view());
    writer.WriteRecord(PackImageRecord({.label = labels[i], .id = i, .file = file}));
  }
  writer.Close();
  return path;
}

ImageDetRecordIterOptions Options(const std::string& path, index_t batch_size) {
  return {.path_imgrec = path, .batch_size = batch_size, .augmenter = {.size = {8, 8}}};
}

std::string MessageOf(const ImageDetRecordIterOptions& options) {
  try {
    ImageDetRecordIter iter(options);
    while (iter.Next()) {
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ImageDetRecordIterTest, LabelsArePaddedToTheLongest) {
  ImageDetRecordIter iter(Options(WriteImages("det.rec", ThreeLabels()), 2));
  EXPECT_EQ(iter.ProvideData()[0].shape, TShape({2, 3, 8, 8}));
  EXPECT_EQ(iter.ProvideLabel()[0].shape, TShape({2, 16}));
  ASSERT_TRUE(iter.Next());
  EXPECT_THAT(
      ReadAs<float>(iter.GetBatch().label[0]),
      ElementsAre(3, 8, 8, 7, 2, 5, 0, 0.1f, 0.2f, 0.5f, 0.6f, -1, -1, -1, -1, -1,  //
                  3, 8, 8, 12, 2, 5, 1, 0.2f, 0.2f, 0.5f, 0.6f, 2, 0.3f, 0.3f, 0.9f, 0.95f));
  ASSERT_TRUE(iter.Next());
  EXPECT_EQ(iter.GetBatch().pad, 1);
  EXPECT_THAT(iter.GetBatch().index, ElementsAre(2, 0));
  const std::vector<float> labels = ReadAs<float>(iter.GetBatch().label[0]);
  EXPECT_THAT(std::vector<float>(labels.begin(), labels.begin() + 16),
              ElementsAre(3, 8, 8, 10, 4, 6, 77, 78, 1, 0.2f, 0.2f, 0.5f, 0.6f, 9, -1, -1));
  EXPECT_FALSE(iter.Next());
}

TEST(ImageDetRecordIterTest, LevelsAreNormalizedAndTheRestIsZero) {
  ImageDetRecordIterOptions options = Options(WriteImages("fit.rec", ThreeLabels()), 1);
  options.augmenter.resize_mode = DetResizeMode::kFit;
  options.mean = {1, 2, 3, 0};
  options.deviation = {2, 4, 8, 1};
  options.scale = 0.5f;
  options.label_pad_width = 13;
  options.label_pad_value = -3;
  ImageDetRecordIter iter(options);
  ASSERT_TRUE(iter.Next());
  ASSERT_TRUE(iter.Next());
  const std::vector<float> labels = ReadAs<float>(iter.GetBatch().label[0]);
  EXPECT_THAT(std::vector<float>(labels.begin(), labels.begin() + 4), ElementsAre(3, 4, 8, 12));
  EXPECT_EQ(labels.size(), 17u);
  EXPECT_EQ(labels.back(), -3);
  const std::vector<float> pixels = ReadAs<float>(iter.GetBatch().data[0]);
  const float expected[] = {(10 - 1) * 0.25f, (20 - 2) * 0.125f, (30 - 3) * 0.0625f};
  for (size_t c = 0; c < 3; ++c) {
    for (size_t p = 0; p < 64; ++p) {
      EXPECT_FLOAT_EQ(pixels[64 * c + p], p < 32 ? expected[c] : 0.0f);
    }
  }
}

TEST(ImageDetRecordIterTest, LabelsMayComeFromAList) {
  ImageDetRecordIterOptions options = Options(WriteImages("listed.rec", ThreeLabels()), 2);
  options.path_imglist = testing::TempDir() + "/det.lst";
  std::ofstream(options.path_imglist)
      << "2\t2\t5\t8\t0.1\t0.1\t0.2\t0.2\tx\n0\t2\t5\t9\t0.1\t0.1\t0.3\t0.3\ty\n";
  ImageDetRecordIter iter(options);
  EXPECT_EQ(iter.ProvideLabel()[0].shape, TShape({2, 11}));
  ASSERT_TRUE(iter.Next());
  EXPECT_THAT(ReadAs<float>(iter.GetBatch().label[0]),
              ElementsAre(3, 8, 8, 7, 2, 5, 9, 0.1f, 0.1f, 0.3f, 0.3f,  //
                          3, 8, 8, 7, 2, 5, 8, 0.1f, 0.1f, 0.2f, 0.2f));
}

TEST(ImageDetRecordIterTest, OtherLabelsAreErrorsOrLeftOut) {
  Labels labels = ThreeLabels();
  labels[1] = {2, 5, 1, 2};
  ImageDetRecordIterOptions options = Options(WriteImages("labels.rec", labels), 3);
  EXPECT_THAT(MessageOf(options), HasSubstr("labels.rec: the record at byte "));
  EXPECT_THAT(MessageOf(options), HasSubstr("found 2 labels behind the header"));
  options.damaged = DamagedImages::kSkip;
  ImageDetRecordIter lenient(options);
  ASSERT_TRUE(lenient.Next());
  EXPECT_EQ(lenient.GetBatch().pad, 1);
  EXPECT_THAT(lenient.GetBatch().index, ElementsAre(0, 2, 0));
  EXPECT_EQ(lenient.num_damaged(), 1);
}

TEST(ImageDetRecordIterTest, AClaimOfManyLabelsTakesNoMemory) {
  const std::string path = testing::TempDir() + "/claim.rec";
  RecordWriter writer(path);
  std::string record = PackImageRecord({.label = ThreeLabels()[0], .id = 1, .file = {}});
  record[3] = '\x7f';  // the number of labels becomes two billions
  writer.WriteRecord(record);
  writer.Close();
  const ImageDetRecordIterOptions options = Options(path, 1);
  EXPECT_EQ(ImageDetRecordIter(options).ProvideLabel()[0].shape, TShape({1, 4}));
  EXPECT_THAT(MessageOf(options), HasSubstr("labels behind its header"));
}

TEST(ImageDetRecordIterTest, ImpossibleOptionsAreErrors) {
  const std::string path = WriteImages("options.rec", ThreeLabels());
  ImageDetRecordIterOptions options = Options(path, 1);
  options.label_pad_width = 5;
  EXPECT_THAT(MessageOf(options), HasSubstr("label_pad_width 5, expected at least 12"));
  options = Options(path, 1);
  options.label_width = 7;
  EXPECT_THAT(MessageOf(options), HasSubstr("found 12 labels, expected label_width 7"));
  options = Options(path, 1);
  options.channels = 2;
  EXPECT_THAT(MessageOf(options), HasSubstr("2 channels"));
  options = Options(path, 0);
  EXPECT_THAT(MessageOf(options), HasSubstr("batch_size 0"));
  options = Options(path, 1);
  options.deviation[2] = 0;
  EXPECT_THAT(MessageOf(options), HasSubstr("a deviation is 0"));
}

}  // namespace
}  // namespace tessera
