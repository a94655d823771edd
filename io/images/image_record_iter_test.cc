#include "tessera/io/image_record_iter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/image/encode.h"
#include "tessera/image/image.h"
#include "tessera/io/image_record.h"
#include "tessera/io/record_writer.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kHeight = 3, kWidth = 4;

/// The PNG file of image `i`, whose pixel (y, x) has the levels 10 i, y and x.
std::vector<uint8_t> FileOf(int i) {
  Image image;
  image.Resize(kHeight, kWidth, 3);
  for (int64_t p = 0; p < kHeight * kWidth; ++p) {
    image.pixels[static_cast<size_t>(3 * p)] = static_cast<uint8_t>(10 * i);
    image.pixels[static_cast<size_t>(3 * p + 1)] = static_cast<uint8_t>(p / kWidth);
    image.pixels[static_cast<size_t>(3 * p + 2)] = static_cast<uint8_t>(p % kWidth);
  }
  return EncodePng({kHeight, kWidth, 3, image.pixels.data()});
}

std::string PathOf(const std::string& name) { return testing::TempDir() + "/" + name; }

/// Writes `count` images with the labels i, and the numbers 100 + i. Damages the files of those in
/// `damaged`.
std::string WriteImages(const std::string& name, int count, const std::vector<int>& damaged = {},
                        int labels = 1) {
  RecordWriter writer(PathOf(name));
  for (int i = 0; i < count; ++i) {
    std::vector<uint8_t> file = FileOf(i);
    if (std::ranges::count(damaged, i) > 0) file.resize(file.size() / 2);
    std::vector<float> label;
    for (int k = 0; k < labels; ++k) label.push_back(static_cast<float>(i) + 0.5f * k);
    writer.WriteRecord(
        PackImageRecord({.label = label, .id = 100 + static_cast<uint64_t>(i), .file = file}));
  }
  writer.Close();
  return PathOf(name);
}

ImageRecordIterOptions Options(const std::string& path, index_t batch_size) {
  return {.path_imgrec = path,
          .batch_size = batch_size,
          .prefetch_buffer = 2,
          .augmenter = {.size = {kHeight, kWidth}}};
}

std::vector<float> ValuesOf(const NDArray& array) {
  std::vector<float> values(static_cast<size_t>(array.shape().Size()));
  array.SyncCopyToCPU(values.data(), array.shape().Size());
  return values;
}

std::vector<float> LabelsOf(const DataIter& iter) { return ValuesOf(iter.GetBatch().label[0]); }

/// Reads an epoch: labels of the batches without padding.
std::vector<float> EpochOf(DataIter* iter) {
  std::vector<float> all;
  while (iter->Next()) {
    const std::vector<float> labels = LabelsOf(*iter);
    all.insert(all.end(), labels.begin(), labels.end() - iter->GetBatch().pad);
  }
  return all;
}

std::string MessageOfNext(DataIter* iter) {
  try {
    while (iter->Next()) {
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ImageRecordIterTest, BatchesHaveImagesLabelsAndNumbers) {
  ImageRecordIter iter(Options(WriteImages("batches.rec", 5), 2));
  EXPECT_EQ(iter.ProvideData()[0].shape, TShape({2, 3, kHeight, kWidth}));
  EXPECT_EQ(iter.ProvideLabel()[0].shape, TShape({2}));
  EXPECT_THROW(iter.GetBatch(), Error);
  ASSERT_TRUE(iter.Next());
  ASSERT_TRUE(iter.Next());
  const DataBatch& batch = iter.GetBatch();
  EXPECT_THAT(ValuesOf(batch.label[0]), ElementsAre(2, 3));
  EXPECT_THAT(batch.index, ElementsAre(102, 103));
  EXPECT_EQ(batch.pad, 0);
  const std::vector<float> pixels = ValuesOf(batch.data[0]);
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t p = 0; p < kHeight * kWidth; ++p) {
      const float* const image = pixels.data() + i * 3 * kHeight * kWidth;
      EXPECT_EQ(image[p], static_cast<float>(10 * (2 + i)));
      EXPECT_EQ(image[kHeight * kWidth + p], static_cast<float>(p / kWidth));
      EXPECT_EQ(image[2 * kHeight * kWidth + p], static_cast<float>(p % kWidth));
    }
  }
}

TEST(ImageRecordIterTest, TheNextEpochsImagesPadTheLastBatch) {
  ImageRecordIter iter(Options(WriteImages("round.rec", 7), 3));
  std::vector<std::vector<float>> labels;
  std::vector<index_t> pads;
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (iter.Next()) {
      labels.push_back(LabelsOf(iter));
      pads.push_back(iter.GetBatch().pad);
    }
    EXPECT_FALSE(iter.Next());
    iter.BeforeFirst();
  }
  EXPECT_THAT(labels, ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5), ElementsAre(6, 0, 1),
                                  ElementsAre(2, 3, 4), ElementsAre(5, 6, 0)));
  EXPECT_THAT(pads, ElementsAre(0, 0, 2, 0, 1));
}

TEST(ImageRecordIterTest, WithoutRoundBatchZerosPadIt) {
  ImageRecordIterOptions options = Options(WriteImages("zeros.rec", 4), 3);
  options.round_batch = false;
  ImageRecordIter iter(options);
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_THAT(EpochOf(&iter), ElementsAre(0, 1, 2, 3));
    iter.BeforeFirst();
  }
  ASSERT_TRUE(iter.Next());
  ASSERT_TRUE(iter.Next());
  EXPECT_EQ(iter.GetBatch().pad, 2);
  EXPECT_THAT(LabelsOf(iter), ElementsAre(3, 0, 0));
}

TEST(ImageRecordIterTest, WholeBatchesAndLargeOnesEndEpochs) {
  for (const index_t batch_size : {1, 2, 6, 7, 20}) {
    ImageRecordIter iter(Options(WriteImages("sizes.rec", 6), batch_size));
    EXPECT_THAT(EpochOf(&iter), ElementsAre(0, 1, 2, 3, 4, 5)) << batch_size;
  }
}

TEST(ImageRecordIterTest, BeforeFirstInTheMiddleBeginsAnew) {
  ImageRecordIter iter(Options(WriteImages("middle.rec", 9), 2));
  iter.BeforeFirst();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(iter.Next());
    EXPECT_THAT(LabelsOf(iter), ElementsAre(0, 1));
    ASSERT_TRUE(iter.Next());
    iter.BeforeFirst();
  }
}

/// Reads an epoch: labels and pixels of the batches, and their padding.
std::vector<std::vector<float>> AllOfEpoch(DataIter* iter) {
  std::vector<std::vector<float>> all;
  while (iter->Next()) {
    const DataBatch& batch = iter->GetBatch();
    all.push_back(ValuesOf(batch.label[0]));
    all.push_back(ValuesOf(batch.data[0]));
    all.push_back({static_cast<float>(batch.pad)});
  }
  return all;
}

TEST(ImageRecordIterTest, AStateContinuesBatchForBatch) {
  ImageRecordIterOptions options = Options(WriteImages("state.rec", 7, {2}), 3);
  options.rand_mirror = true;
  options.damaged = DamagedImages::kSkip;
  for (const bool round_batch : {true, false}) {
    for (const bool shuffle : {false, true}) {
      for (int given = 0; given <= 9; ++given) {
        SCOPED_TRACE(testing::Message() << round_batch << " " << shuffle << " " << given);
        options.round_batch = round_batch;
        options.shuffle = shuffle;
        ImageRecordIter whole(options);
        for (int i = 0; i < given; ++i) {
          if (!whole.Next()) whole.BeforeFirst();
        }
        ImageRecordIter resumed(options);
        resumed.Next();
        const TrainingState state = whole.SaveState();
        resumed.LoadState(state);
        EXPECT_THROW(resumed.GetBatch(), Error);
        EXPECT_EQ(resumed.num_damaged(), whole.num_damaged());
        EXPECT_EQ(resumed.SaveState().integers, state.integers);
        if (given % 3 == 2) {  // in the midst of an epoch, or behind it
          whole.BeforeFirst();
          resumed.BeforeFirst();
        }
        for (int epoch = 0; epoch < 3; ++epoch) {
          EXPECT_EQ(AllOfEpoch(&resumed), AllOfEpoch(&whole)) << epoch;
          EXPECT_EQ(resumed.num_damaged(), whole.num_damaged());
          whole.BeforeFirst();
          resumed.BeforeFirst();
        }
      }
    }
  }
}

TEST(ImageRecordIterTest, AStateOutsideOfTheFileIsRefused) {
  for (const bool shuffle : {false, true}) {
    ImageRecordIterOptions options = Options(WriteImages("outside.rec", 5), 2);
    options.shuffle = shuffle;
    ImageRecordIter iter(options);
    TrainingState state = iter.SaveState();
    state.integers["record"] = {int64_t{1} << 40};
    try {
      iter.LoadState(state);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kDataLoss);
      EXPECT_THAT(error.what(), HasSubstr("outside.rec: there is no position 1099511627776"));
    }
    EXPECT_FALSE(iter.Next());
    iter.BeforeFirst();
    EXPECT_EQ(EpochOf(&iter).size(), 5u);
  }
}

TEST(ImageRecordIterTest, PartsHaveAllImagesOnce) {
  const std::string path = WriteImages("parts.rec", 23);
  for (const int parts : {1, 2, 5, 40}) {
    std::vector<float> all;
    for (int part = 0; part < parts; ++part) {
      ImageRecordIterOptions options = Options(path, 1);
      options.num_parts = parts;
      options.part_index = part;
      ImageRecordIter iter(options);
      try {
        const std::vector<float> labels = EpochOf(&iter);
        all.insert(all.end(), labels.begin(), labels.end());
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("no records in part"));
      }
    }
    ASSERT_EQ(all.size(), 23u) << parts;
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<float>(i));
  }
}

TEST(ImageRecordIterTest, ShuffledEpochsAreOrdersThatTheSeedDecides) {
  ImageRecordIterOptions options = Options(WriteImages("shuffled.rec", 12), 4);
  options.shuffle = true;
  options.seed = 3;
  ImageRecordIter iter(options), same(options);
  const std::vector<float> first = EpochOf(&iter);
  EXPECT_EQ(first, EpochOf(&same));
  iter.BeforeFirst();
  const std::vector<float> second = EpochOf(&iter);
  EXPECT_NE(first, second);
  for (std::vector<float> epoch : {first, second}) {
    std::ranges::sort(epoch);
    EXPECT_THAT(epoch, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  }
}

TEST(ImageRecordIterTest, NormalizesAndMirrors) {
  ImageRecordIterOptions options = Options(WriteImages("normalized.rec", 4), 4);
  options.mirror = true;
  options.mean = {10, 1, 2, 0};
  options.deviation = {2, 4, 5, 1};
  options.scale = 0.5f;
  ImageRecordIter iter(options);
  ASSERT_TRUE(iter.Next());
  const std::vector<float> pixels = ValuesOf(iter.GetBatch().data[0]);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t p = 0; p < kHeight * kWidth; ++p) {
      const float* const image = pixels.data() + i * 3 * kHeight * kWidth;
      const auto y = static_cast<float>(p / kWidth);
      const auto x = static_cast<float>(kWidth - 1 - p % kWidth);
      EXPECT_NEAR(image[p], (10 * static_cast<float>(i) - 10) * 0.5f / 2, 1e-5);
      EXPECT_NEAR(image[kHeight * kWidth + p], (y - 1) * 0.5f / 4, 1e-5);
      EXPECT_NEAR(image[2 * kHeight * kWidth + p], (x - 2) * 0.5f / 5, 1e-5);
    }
  }
}

TEST(ImageRecordIterTest, IntegersAreLevels) {
  ImageRecordIterOptions options = Options(WriteImages("integers.rec", 26), 26);
  options.mean = {100, 0, 0, 0};
  options.scale = 3;
  options.dtype = DType::kInt8;
  ImageRecordIter signed_iter(options);
  ASSERT_TRUE(signed_iter.Next());
  constexpr size_t kSize = 3 * kHeight * kWidth;
  std::vector<int8_t> signed_pixels(26 * kSize);
  signed_iter.GetBatch().data[0].SyncCopyToCPU(signed_pixels.data(), 26 * kSize);
  options.dtype = DType::kUint8;
  ImageRecordIter iter(options);
  ASSERT_TRUE(iter.Next());
  std::vector<uint8_t> pixels(26 * kSize);
  iter.GetBatch().data[0].SyncCopyToCPU(pixels.data(), 26 * kSize);
  for (size_t i = 0; i < 26; ++i) {
    const int level = static_cast<int>(10 * i);
    EXPECT_EQ(pixels[i * kSize], level);
    EXPECT_EQ(signed_pixels[i * kSize], std::min(level - 100, 127));
  }
}

TEST(ImageRecordIterTest, LabelsHaveTheirWidthOrComeFromAList) {
  ImageRecordIterOptions options = Options(WriteImages("labels.rec", 4, {}, 2), 2);
  ImageRecordIter narrow(options);
  EXPECT_THAT(MessageOfNext(&narrow), HasSubstr("found 2 labels, expected label_width 1"));
  options.label_width = 2;
  ImageRecordIter wide(options);
  EXPECT_EQ(wide.ProvideLabel()[0].shape, TShape({2, 2}));
  ASSERT_TRUE(wide.Next());
  EXPECT_THAT(LabelsOf(wide), ElementsAre(0, 0.5, 1, 1.5));

  options.label_width = 1;
  options.path_imglist = PathOf("labels.lst");
  std::ofstream(options.path_imglist) << "103\t7\tc.png\n101\t8.5\ta.png\n";
  ImageRecordIter listed(options);
  ASSERT_TRUE(listed.Next());
  EXPECT_THAT(LabelsOf(listed), ElementsAre(8.5, 7));
  std::ofstream(options.path_imglist) << "103\t7\tc.png\nnonsense\n";
  try {
    ImageRecordIter wrong(options);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("labels.lst: at line 2: found \"nonsense\""));
  }
}

TEST(ImageRecordIterTest, ADamagedImageIsAnErrorOrLeftOut) {
  ImageRecordIterOptions options = Options(WriteImages("damaged.rec", 6, {1, 4}), 3);
  ImageRecordIter strict(options);
  const std::string message = MessageOfNext(&strict);
  EXPECT_THAT(message, HasSubstr("damaged.rec: the record at byte "));
  EXPECT_THAT(message, HasSubstr("truncated at byte "));
  EXPECT_FALSE(strict.Next());
  strict.BeforeFirst();
  EXPECT_THAT(MessageOfNext(&strict), HasSubstr("truncated at byte "));

  options.damaged = DamagedImages::kSkip;
  ImageRecordIter lenient(options);
  for (int epoch = 1; epoch <= 2; ++epoch) {
    ASSERT_TRUE(lenient.Next());
    EXPECT_EQ(lenient.GetBatch().pad, 1);
    EXPECT_THAT(LabelsOf(lenient), ElementsAre(0, 2, 0));
    EXPECT_THAT(EpochOf(&lenient), ElementsAre(3, 5));
    EXPECT_EQ(lenient.num_damaged(), 2 * epoch);
    lenient.BeforeFirst();
  }
}

TEST(ImageRecordIterTest, ADamagedRecordIsAnErrorOrLeftOut) {
  const std::string path = WriteImages("broken.rec", 6);
  std::string bytes;
  {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  // The magic number of the third record.
  size_t at = 0;
  for (int i = 0; i < 2; ++i) at = bytes.find("\x0a\x23\xd7\xce", at + 4);
  bytes[at] = 'x';
  std::ofstream(path, std::ios::binary) << bytes;
  for (const bool shuffle : {false, true}) {
    ImageRecordIterOptions options = Options(path, 2);
    options.shuffle = shuffle;
    ImageRecordIter strict(options);
    if (!shuffle) {
      EXPECT_THAT(MessageOfNext(&strict),
                  HasSubstr("broken.rec: at byte " + std::to_string(at) + ": found"));
    }
    options.damaged = DamagedImages::kSkip;
    ImageRecordIter lenient(options);
    std::vector<float> labels = EpochOf(&lenient);
    std::ranges::sort(labels);
    EXPECT_THAT(labels, ElementsAre(0, 1, 3, 4, 5));
  }
}

TEST(ImageRecordIterTest, AugmentationDoesNotDependOnThePrefetching) {
  ImageRecordIterOptions options = Options(WriteImages("drawn.rec", 10), 5);
  options.augmenter.size = {2, 2};
  options.augmenter.rand_crop = true;
  options.rand_mirror = true;
  options.max_random_contrast = 0.5f;
  options.max_random_illumination = 9;
  std::vector<std::vector<float>> epochs;
  for (const int prefetch : {1, 7}) {
    options.prefetch_buffer = prefetch;
    ImageRecordIter iter(options);
    std::vector<float>& all = epochs.emplace_back();
    for (int epoch = 0; epoch < 2; ++epoch) {
      while (iter.Next()) {
        const std::vector<float> pixels = ValuesOf(iter.GetBatch().data[0]);
        all.insert(all.end(), pixels.begin(), pixels.end());
      }
      iter.BeforeFirst();
    }
  }
  EXPECT_EQ(epochs[0], epochs[1]);
  // Epochs differ.
  const auto half = static_cast<std::ptrdiff_t>(epochs[0].size() / 2);
  EXPECT_FALSE(std::equal(epochs[0].begin(), epochs[0].begin() + half, epochs[0].begin() + half));
}

TEST(ImageRecordIterTest, BatchesStayForTheOperationsOnThem) {
  ImageRecordIter iter(Options(WriteImages("kept.rec", 30), 3));
  std::vector<NDArray> copies;
  while (iter.Next()) copies.push_back(iter.GetBatch().label[0].Copy(Device::Cpu()));
  ASSERT_EQ(copies.size(), 10u);
  for (size_t i = 0; i < copies.size(); ++i) {
    const auto first = static_cast<float>(3 * i);
    EXPECT_THAT(ValuesOf(copies[i]), ElementsAre(first, first + 1, first + 2));
  }
}

TEST(ImageRecordIterTest, MayBeDestroyedWhileBatchesAreMade) {
  ImageRecordIterOptions options = Options(WriteImages("destroyed.rec", 40), 7);
  options.prefetch_buffer = 9;
  for (int batches = 0; batches < 12; ++batches) {
    ImageRecordIter iter(options);
    for (int i = 0; i < batches; ++i) iter.Next();
  }
}

TEST(ImageRecordIterTest, TheChildOfAForkMakesItsOwn) {
  const ImageRecordIterOptions options = Options(WriteImages("forked.rec", 12), 3);
  auto iter = std::make_unique<ImageRecordIter>(options);
  ASSERT_TRUE(iter->Next());
  NDArray::WaitAll();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      iter->Next();
    } catch (const Error&) {
      // The parent's engine has no threads here.
    }
    iter.reset();
    ImageRecordIter fresh(options);
    int batches = 0;
    while (fresh.Next()) ++batches;
    _exit(batches == 4 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(iter->Next());
}

TEST(ImageRecordIterTest, ImpossibleOptionsAreErrors) {
  const std::string path = WriteImages("options.rec", 2);
  const auto create = [](const ImageRecordIterOptions& options) { ImageRecordIter iter(options); };
  EXPECT_THROW(create(Options(path, 0)), Error);
  EXPECT_THROW(create(Options("/no/such.rec", 1)), Error);
  for (int i = 0; i < 5; ++i) {
    ImageRecordIterOptions options = Options(path, 1);
    if (i == 0) options.channels = 2;
    if (i == 1) options.part_index = 1;
    if (i == 2) options.dtype = DType::kFloat16;
    if (i == 3) options.deviation[1] = 0;
    if (i == 4) options.path_imglist = "/no/such.lst";
    EXPECT_THROW(create(options), Error) << i;
  }
  ImageRecordIter empty(Options(WriteImages("empty.rec", 0), 1));
  EXPECT_THAT(MessageOfNext(&empty), HasSubstr("found no records"));
}

}  // namespace
}  // namespace tessera
