#include "tessera/io/idx_iter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tessera/base/testing/errors.h"
#include "tessera/io/internal/idx_bytes.h"

namespace tessera {
namespace {

using base_testing::ErrorOf;
using io_internal::Bytes;
using io_internal::IdxBytes;
using io_internal::WriteTestFile;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Ten images of 1x2 pixels: image i is (i, 10), and its label i % 4.
class IdxIterTest : public testing::Test {
 protected:
  IdxIterTest() {
    Bytes pixels, labels;
    for (uint8_t i = 0; i < 10; ++i) {
      pixels.insert(pixels.end(), {i, 10});
      labels.push_back(i % 4);
    }
    options_.image = WriteTestFile("iter-images", IdxBytes(0x08, {10, 1, 2}, pixels));
    options_.label = WriteTestFile("iter-labels", IdxBytes(0x08, {10}, labels));
    options_.batch_size = 4;
    options_.shuffle = false;
  }

  /// The numbers of the epoch's examples, padding included, in order.
  static std::vector<index_t> Epoch(DataIter* iter) {
    std::vector<index_t> examples;
    while (iter->Next()) {
      const std::vector<index_t>& index = iter->GetBatch().index;
      examples.insert(examples.end(), index.begin(), index.end());
    }
    return examples;
  }

  Error ConstructionError() const {
    return ErrorOf([this] { IdxIter iter(options_); });
  }

  IdxIterOptions options_;
};

TEST_F(IdxIterTest, DescribesItsBatches) {
  const IdxIter iter(options_);
  ASSERT_EQ(iter.ProvideData().size(), 1u);
  EXPECT_EQ(iter.ProvideData()[0].name, "data");
  EXPECT_EQ(iter.ProvideData()[0].shape, TShape({4, 1, 1, 2}));
  EXPECT_EQ(iter.ProvideLabel()[0].name, "softmax_label");
  EXPECT_EQ(iter.ProvideLabel()[0].shape, TShape({4}));
  EXPECT_EQ(iter.batch_size(), 4);
  EXPECT_EQ(iter.num_examples(), 10);
  EXPECT_EQ(iter.num_batches(), 3);
  EXPECT_EQ(iter.image_shape(), TShape({1, 2}));
  options_.flat = true;
  EXPECT_EQ(IdxIter(options_).ProvideData()[0].shape, TShape({4, 2}));
}

TEST_F(IdxIterTest, GivesScaledImagesWithTheirLabels) {
  IdxIter iter(options_);
  EXPECT_FLOAT_EQ(iter.scale(), 0.1f);
  ASSERT_TRUE(iter.Next());
  ASSERT_TRUE(iter.Next());
  const DataBatch& batch = iter.GetBatch();
  EXPECT_THAT(batch.index, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(batch.data[0].ToVector(), ElementsAre(0.4f, 1, 0.5f, 1, 0.6f, 1, 0.7f, 1));
  EXPECT_THAT(batch.label[0].ToVector(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(batch.pad, 0);
}

TEST_F(IdxIterTest, TakesAGivenScale) {
  options_.scale = 0.5f;
  IdxIter iter(options_);
  ASSERT_TRUE(iter.Next());
  EXPECT_THAT(iter.GetBatch().data[0].ToVector(), ElementsAre(0, 5, 0.5f, 5, 1, 5, 1.5f, 5));
}

TEST_F(IdxIterTest, PadsTheLastBatchFromTheBeginning) {
  IdxIter iter(options_);
  while (iter.Next()) {
    if (iter.GetBatch().index[0] != 8) continue;
    EXPECT_EQ(iter.GetBatch().pad, 2);
    EXPECT_THAT(iter.GetBatch().index, ElementsAre(8, 9, 0, 1));
    EXPECT_THAT(iter.GetBatch().label[0].ToVector(), ElementsAre(0, 1, 0, 1));
  }
}

TEST_F(IdxIterTest, LeavesTheRestOutIfNotRound) {
  options_.round_batch = false;
  IdxIter iter(options_);
  EXPECT_THAT(Epoch(&iter), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(IdxIterTest, ShufflesEveryEpochAnewAndTheSameForOneSeed) {
  options_.shuffle = true;
  options_.batch_size = 5;
  options_.seed = 3;
  IdxIter iter(options_);
  const std::vector<index_t> first = Epoch(&iter);
  EXPECT_EQ(std::set<index_t>(first.begin(), first.end()).size(), 10u);
  iter.BeforeFirst();
  const std::vector<index_t> second = Epoch(&iter);
  EXPECT_NE(second, first);

  IdxIter again(options_);
  again.BeforeFirst();  // changes nothing before the first batch
  EXPECT_EQ(Epoch(&again), first);
  again.BeforeFirst();
  again.BeforeFirst();
  EXPECT_EQ(Epoch(&again), second);

  options_.seed = 4;
  IdxIter other(options_);
  EXPECT_NE(Epoch(&other), first);
}

TEST_F(IdxIterTest, PartsTogetherAreTheWhole) {
  options_.batch_size = 1;
  options_.num_parts = 3;
  std::vector<index_t> all;
  for (options_.part_index = 0; options_.part_index < 3; ++options_.part_index) {
    IdxIter iter(options_);
    const std::vector<index_t> part = Epoch(&iter);
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  options_.part_index = 3;
  EXPECT_THAT(ConstructionError().what(), HasSubstr("part_index 3 of num_parts 3"));
}

TEST_F(IdxIterTest, ABatchStaysAsItIsForOperationsPushedOnIt) {
  options_.shuffle = true;
  options_.batch_size = 3;
  IdxIter iter(options_);
  std::vector<NDArray> copies;
  std::vector<std::vector<index_t>> indices;
  for (int epoch = 0; epoch < 20; ++epoch) {
    iter.BeforeFirst();
    while (iter.Next()) {
      copies.push_back(iter.GetBatch().data[0].Copy(Device::Cpu()));
      indices.push_back(iter.GetBatch().index);
    }
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    const std::vector<float> pixels = copies[i].ToVector();
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_FLOAT_EQ(pixels[2 * k], static_cast<float>(indices[i][k]) * 0.1f) << i;
    }
  }
}

TEST_F(IdxIterTest, ThereIsNoBatchBeforeTheFirstAndAfterTheLast) {
  IdxIter iter(options_);
  EXPECT_EQ(ErrorOf([&] { iter.GetBatch(); }).code(), Error::kFailedPrecondition);
  Epoch(&iter);
  EXPECT_FALSE(iter.Next());
  EXPECT_EQ(ErrorOf([&] { iter.GetBatch(); }).code(), Error::kFailedPrecondition);
}

TEST_F(IdxIterTest, ABatchLargerThanTheDataNamesBoth) {
  options_.batch_size = 11;
  const Error error = ConstructionError();
  EXPECT_EQ(error.code(), Error::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("batch_size 11"), HasSubstr("at most 10")));
  options_.batch_size = 0;
  EXPECT_THAT(ConstructionError().what(), HasSubstr("batch_size 0, expected at least 1"));
}

TEST_F(IdxIterTest, FilesWithoutExamplesAreRefused) {
  std::ofstream(options_.image, std::ios::binary)
      << std::string("\0\0\10\3\0\0\0\0\0\0\0\1\0\0\0\2", 16);
  std::ofstream(options_.label, std::ios::binary) << std::string("\0\0\10\1\0\0\0\0", 8);
  const Error error = ConstructionError();
  EXPECT_EQ(error.code(), Error::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("found no examples, expected at least 1"));
}

TEST_F(IdxIterTest, ALabelOutOfRangeNamesFilePositionAndRange) {
  options_.num_classes = 3;
  const Error error = ConstructionError();
  EXPECT_EQ(error.code(), Error::kOutOfRange);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(options_.label), HasSubstr("label 3 at position 3"),
                                  HasSubstr("from 0 to 2")));
  options_.num_classes = 4;
  IdxIter iter(options_);
}

TEST_F(IdxIterTest, ImagesWithoutAPixelAreRefused) {
  options_.image = WriteTestFile("no-pixels", IdxBytes(0x08, {10, 0, 2}, {}));
  const Error error = ConstructionError();
  EXPECT_EQ(error.code(), Error::kDataLoss);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("no-pixels"), HasSubstr("shape (10,0,2)"),
                                  HasSubstr("expected images of at least one pixel")));
}

TEST_F(IdxIterTest, AScaleIsNotTakenFromPixelsThatAreNotFinite) {
  Bytes pixels(10 * 2 * 4);
  pixels[4 * 7] = 0x7f;  // the eighth, infinite
  pixels[4 * 7 + 1] = 0x80;
  options_.image = WriteTestFile("infinite", IdxBytes(0x0d, {10, 1, 2}, pixels));
  const Error error = ConstructionError();
  EXPECT_EQ(error.code(), Error::kDataLoss);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("infinite"), HasSubstr("inf at position 7")));
  options_.scale = 1.0f;
  EXPECT_EQ(IdxIter(options_).num_examples(), 10);
}

TEST_F(IdxIterTest, FilesThatDoNotBelongTogetherAreRefused) {
  const std::string images = options_.image;
  options_.image = options_.label;
  EXPECT_THAT(ConstructionError().what(), HasSubstr("expected images"));
  options_.image = images;
  options_.label = images;
  EXPECT_THAT(ConstructionError().what(), HasSubstr("expected labels"));
  options_.label = WriteTestFile("few-labels", IdxBytes(0x08, {9}, Bytes(9)));
  const Error error = ConstructionError();
  EXPECT_EQ(error.code(), Error::kDataLoss);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("found 9 labels, expected 10"), HasSubstr(images)));
}

TEST_F(IdxIterTest, ReadsPixelsOfOtherTypes) {
  options_.image = WriteTestFile(
      "float-images", IdxBytes(0x0d, {2, 1, 1}, {0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0}));  // 1, -2
  options_.label = WriteTestFile("two-labels", IdxBytes(0x0c, {2}, {0, 0, 0, 1, 0, 0, 1, 0}));
  options_.batch_size = 2;
  IdxIter iter(options_);
  ASSERT_TRUE(iter.Next());
  EXPECT_THAT(iter.GetBatch().data[0].ToVector(), ElementsAre(1, -2));
  EXPECT_THAT(iter.GetBatch().label[0].ToVector(), ElementsAre(1, 256));
}

}  // namespace
}  // namespace tessera
