// The batches are those of MXNet 1.9.1's LibSVMIter for the same files.
#include "tessera/io/libsvm_iter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/io/internal/idx_bytes.h"
#include "tessera/io/libsvm_reader.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using ndarray_testing::ReadAs;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kRows =
    "1.0 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n5 1:1e2";

std::string WriteText(const std::string& name, std::string_view text) {
  return io_internal::WriteTestFile(name, {text.begin(), text.end()});
}

LibSvmIterOptions Options(const std::string& name, std::string_view text, index_t batch_size) {
  return {.data_libsvm = WriteText(name, text), .data_size = 3, .batch_size = batch_size};
}

/// Returns the labels and the padding of each batch of an epoch, as text, and appends the data.
std::string Epoch(LibSvmIter* iter, std::vector<float>* data = nullptr) {
  std::string text;
  while (iter->Next()) {
    const DataBatch& batch = iter->GetBatch();
    for (const float label : ReadAs<float>(batch.label[0])) {
      text += std::to_string(static_cast<int>(label)) + " ";
    }
    text += "pad " + std::to_string(batch.pad) + "; ";
    if (data == nullptr) continue;
    const std::vector<float> rows = ReadAs<float>(batch.data[0]);
    data->insert(data->end(), rows.begin(), rows.end());
  }
  return text;
}

std::string MessageOf(const LibSvmIterOptions& options) {
  try {
    LibSvmIter iter(options);
    while (iter.Next()) {
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(LibSvmIterTest, PaddingBeginsTheNextEpoch) {
  LibSvmIter iter(Options("rows.svm", kRows, 2));
  EXPECT_EQ(iter.ProvideData()[0].shape, TShape({2, 3}));
  EXPECT_EQ(iter.ProvideLabel()[0].shape, TShape({2}));
  std::vector<float> data;
  EXPECT_EQ(Epoch(&iter, &data), "1 -2 pad 0; -3 4 pad 0; 5 1 pad 1; ");
  EXPECT_THAT(data, ElementsAre(0.5f, 0, 1.2f, 0, 0, 0, 0.6f, 2.4f, 1.2f, 0, 0, -1.2f, 0, 100, 0,
                                0.5f, 0, 1.2f));
  EXPECT_FALSE(iter.Next());
  iter.BeforeFirst();
  EXPECT_EQ(Epoch(&iter), "-2 -3 pad 0; 4 5 pad 0; ");
  iter.BeforeFirst();
  EXPECT_EQ(Epoch(&iter), "1 -2 pad 0; -3 4 pad 0; 5 1 pad 1; ");
}

TEST(LibSvmIterTest, BatchesStoreTheElementsOfTheFile) {
  LibSvmIter iter(Options("csr.svm", "1 2:5 0:4 2:6\n2\n3 1:0\n", 3));
  EXPECT_EQ(iter.ProvideData()[0].storage, StorageType::kCsr);
  EXPECT_EQ(iter.ProvideLabel()[0].storage, StorageType::kDefault);
  ASSERT_TRUE(iter.Next());
  const NDArray data = iter.GetBatch().data[0];
  EXPECT_EQ(StorageTypeOf(data), StorageType::kCsr);
  sparse::CheckFormat(data);
  EXPECT_THAT(ReadAs<int64_t>(sparse::IndPtr(data)), ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(data)), ElementsAre(0, 2, 1));
  EXPECT_THAT(ReadAs<float>(sparse::Values(data)), ElementsAre(4, 6, 0));
  // A batch that is kept stays what it is.
  EXPECT_FALSE(iter.Next());
  iter.BeforeFirst();
  ASSERT_TRUE(iter.Next());
  EXPECT_THAT(ReadAs<float>(data), ElementsAre(4, 0, 6, 0, 0, 0, 0, 0, 0));
}

TEST(LibSvmIterTest, ExamplesMayBeLongerThanMemory) {
  LibSvmIterOptions options = Options("long.svm", "1 999999999999:2\n-1 5:3\n", 2);
  options.data_size = 1'000'000'000'000;
  LibSvmIter iter(options);
  ASSERT_TRUE(iter.Next());
  const NDArray data = iter.GetBatch().data[0];
  EXPECT_EQ(data.shape(), TShape({2, 1'000'000'000'000}));
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(data)), ElementsAre(999'999'999'999, 5));
}

TEST(LibSvmIterTest, AStateContinuesBatchForBatch) {
  LibSvmIterOptions options = Options("state.svm", kRows, 2);
  for (const bool round_batch : {true, false}) {
    options.round_batch = round_batch;
    for (int given = 0; given <= 7; ++given) {
      LibSvmIter whole(options);
      for (int i = 0; i < given; ++i) {
        if (!whole.Next()) whole.BeforeFirst();
      }
      LibSvmIter resumed(options);
      resumed.Next();
      resumed.LoadState(whole.SaveState());
      EXPECT_THROW(resumed.GetBatch(), Error);
      for (int epoch = 0; epoch < 3; ++epoch) {
        std::vector<float> data, expected;
        const std::string batches = Epoch(&whole, &expected);
        EXPECT_EQ(Epoch(&resumed, &data), batches) << round_batch << " " << given << " " << epoch;
        EXPECT_EQ(data, expected);
        whole.BeforeFirst();
        resumed.BeforeFirst();
      }
    }
  }
}

TEST(LibSvmIterTest, AStateBeyondTheFileIsRefused) {
  LibSvmIter iter(Options("beyond.svm", kRows, 2));
  TrainingState state = iter.SaveState();
  state.integers["example"] = {6};
  try {
    iter.LoadState(state);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kDataLoss);
    EXPECT_THAT(error.what(), HasSubstr("beyond.svm: ends after 5 rows, expected at least 6"));
  }
  iter.BeforeFirst();
  EXPECT_EQ(Epoch(&iter), "1 -2 pad 0; -3 4 pad 0; 5 1 pad 1; ");
}

TEST(LibSvmIterTest, ABatchMayBeLargerThanTheData) {
  LibSvmIterOptions options = Options("large.svm", kRows, 8);
  LibSvmIter iter(options);
  EXPECT_EQ(Epoch(&iter), "1 -2 -3 4 5 1 -2 -3 pad 3; ");
  options.round_batch = false;
  LibSvmIter zeros(options);
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<float> data;
    EXPECT_EQ(Epoch(&zeros, &data), "1 -2 -3 4 5 0 0 0 pad 3; ");
    EXPECT_EQ(std::vector<float>(data.end() - 9, data.end()), std::vector<float>(9, 0.0f));
    zeros.BeforeFirst();
  }
}

TEST(LibSvmIterTest, PartsDivideTheLines) {
  LibSvmIterOptions options = Options("parts.svm", kRows, 1);
  options.num_parts = 2;
  LibSvmIter first(options);
  EXPECT_EQ(Epoch(&first), "1 pad 0; -2 pad 0; -3 pad 0; ");
  options.part_index = 1;
  LibSvmIter second(options);
  ASSERT_TRUE(second.Next());
  ASSERT_TRUE(second.Next());
  EXPECT_THAT(second.GetBatch().index, ElementsAre(1)) << "counted within the part";
  EXPECT_FALSE(second.Next());
  second.BeforeFirst();
  EXPECT_EQ(Epoch(&second), "4 pad 0; 5 pad 0; ");
}

TEST(LibSvmIterTest, EveryLineIsInOnePart) {
  const std::string path = WriteText("each.svm", "1 0:0.5\n   -2\n\r\n#\n  -3 1:1\r\n4\n\n \t5");
  for (int parts = 1; parts <= 40; ++parts) {
    std::string found;
    for (int part = 0; part < parts; ++part) {
      LibSvmReader reader(path, parts, part);
      LibSvmRow row;
      while (reader.ReadRow(3, &row)) found += std::to_string(static_cast<int>(row.label)) + " ";
    }
    EXPECT_EQ(found, "1 -2 -3 4 5 ") << parts << " parts";
  }
}

TEST(LibSvmIterTest, LabelsMayComeFromAFile) {
  LibSvmIterOptions options = Options("data.svm", kRows, 3);
  options.label_libsvm = WriteText("labels.svm", "0 0:1 2:2\n0 1:3\n0\n0 0:4\n0 1:5\n");
  options.label_size = 3;
  LibSvmIter iter(options);
  EXPECT_EQ(iter.ProvideLabel()[0].shape, TShape({3, 3}));
  EXPECT_EQ(iter.ProvideLabel()[0].storage, StorageType::kCsr);
  ASSERT_TRUE(iter.Next());
  EXPECT_EQ(StorageTypeOf(iter.GetBatch().label[0]), StorageType::kCsr);
  EXPECT_THAT(ReadAs<float>(iter.GetBatch().label[0]), ElementsAre(1, 0, 2, 0, 3, 0, 0, 0, 0));
  // Padding begins both files again.
  ASSERT_TRUE(iter.Next());
  EXPECT_EQ(iter.GetBatch().pad, 1);
  EXPECT_THAT(ReadAs<float>(iter.GetBatch().label[0]), ElementsAre(4, 0, 0, 0, 5, 0, 1, 0, 2));
  options.round_batch = false;
  LibSvmIter zeros(options);
  ASSERT_TRUE(zeros.Next() && zeros.Next());
  EXPECT_THAT(ReadAs<float>(zeros.GetBatch().label[0]), ElementsAre(4, 0, 0, 0, 5, 0, 0, 0, 0));
  options.label_libsvm = WriteText("few.svm", "0\n0\n");
  EXPECT_THAT(MessageOf(options), HasSubstr("few.svm: ends after 2 rows, expected one for each"));
}

TEST(LibSvmIterTest, CommentsAndEmptyLinesAreIgnored) {
  LibSvmIter iter(Options("comments.svm", "# all\n\n1 1:2#3:4\n \t\r\n+2.5 0:1 0:3 # end", 2));
  std::vector<float> data;
  EXPECT_EQ(Epoch(&iter, &data), "1 2 pad 0; ");
  EXPECT_THAT(data, ElementsAre(0, 2, 0, 3, 0, 0));
}

TEST(LibSvmIterTest, ErrorsNameTheLine) {
  const auto message = [](std::string_view text) { return MessageOf(Options("bad.svm", text, 1)); };
  EXPECT_THAT(message("1\n2 3:4"), HasSubstr("bad.svm: line 2: found index 3, expected 0 to 2"));
  EXPECT_THAT(message("1 -1:4"), HasSubstr("line 1: found index -1"));
  EXPECT_THAT(message("1 x:2"), HasSubstr("line 1: found \"x:2\", expected an index, a colon"));
  EXPECT_THAT(message("1 0:y"), HasSubstr("found \"y\", expected a number behind index:"));
  EXPECT_THAT(message("1 0: 1"), HasSubstr("found \"\", expected a number behind index:"));
  EXPECT_THAT(message("1 99999999999999999999:1"), HasSubstr("line 1: found \"9999"));
  EXPECT_THAT(message("1 2"), HasSubstr("found \"\", expected an index, a colon and a number"));
  EXPECT_THAT(message("one"), HasSubstr("found \"one\", expected a label"));
  EXPECT_THAT(message("1:2 0:1"), HasSubstr("found \"1:2\", expected a label"));
  EXPECT_THAT(message(""), HasSubstr("bad.svm: found no rows"));
  LibSvmIterOptions options = Options("bad.svm", kRows, 0);
  EXPECT_THAT(MessageOf(options), HasSubstr("batch_size 0"));
  options = Options("bad.svm", kRows, 1);
  options.data_size = 0;
  EXPECT_THAT(MessageOf(options), HasSubstr("data_size 0, expected 1 to"));
  options.data_size = 3;
  options.num_parts = 2;
  options.part_index = 2;
  EXPECT_THAT(MessageOf(options), HasSubstr("there is no part 2 of 2"));
}

}  // namespace
}  // namespace tessera
