// The batches are those of MXNet 1.9.1's CSVIter for the same files.
#include "tessera/io/csv_iter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/io/internal/idx_bytes.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using base_testing::ErrorOf;
using ndarray_testing::ReadAs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string WriteText(const std::string& name, std::string_view text) {
  return io_internal::WriteTestFile(name, {text.begin(), text.end()});
}

/// Seven examples: example i is (i, i + 10), and its label 100 * i.
class CsvIterTest : public testing::Test {
 protected:
  CsvIterTest() {
    std::string data, labels;
    for (int i = 0; i < 7; ++i) {
      data += std::to_string(i) + "," + std::to_string(i + 10) + "\n";
      labels += std::to_string(100 * i) + "\n";
    }
    options_ = {.data_csv = WriteText("iter-data.csv", data),
                .data_shape = {2},
                .label_csv = WriteText("iter-labels.csv", labels),
                .batch_size = 3};
  }

  /// Returns the first number of each example and the padding of each batch of an epoch, as text.
  /// Checks that the other numbers belong to them.
  static std::string Epoch(DataIter* iter) {
    std::string text;
    while (iter->Next()) {
      const DataBatch& batch = iter->GetBatch();
      const std::vector<float> data = ReadAs<float>(batch.data[0]);
      const std::vector<float> label = ReadAs<float>(batch.label[0]);
      for (size_t i = 0; i < batch.index.size(); ++i) {
        const float example = static_cast<float>(batch.index[i]);
        EXPECT_EQ(data[2 * i], example);
        EXPECT_EQ(label[i], 100 * example);
        EXPECT_EQ(data[2 * i + 1], example + 10);
        text += std::to_string(batch.index[i]) + " ";
      }
      text += "pad " + std::to_string(batch.pad) + "; ";
    }
    return text;
  }

  Error FirstError() const {
    return ErrorOf([this] {
      CsvIter iter(options_);
      while (iter.Next()) {
      }
    });
  }

  CsvIterOptions options_;
};

TEST_F(CsvIterTest, AResumedIteratorGivesTheSameBatches) {
  for (const bool round : {true, false}) {
    options_.round_batch = round;
    for (const int given : {0, 1, 2, 3, 4}) {
      CsvIter whole(options_);
      Epoch(&whole);
      whole.BeforeFirst();
      for (int i = 0; i < given; ++i) whole.Next();
      CsvIter resumed(options_);
      resumed.Next();
      resumed.LoadState(whole.SaveState());
      EXPECT_THROW(resumed.GetBatch(), Error);
      for (int epoch = 0; epoch < 3; ++epoch) {
        EXPECT_EQ(Epoch(&resumed), Epoch(&whole)) << round << " " << given << " " << epoch;
        whole.BeforeFirst();
        resumed.BeforeFirst();
      }
    }
  }
}

TEST_F(CsvIterTest, AStateBeyondTheFileIsRefused) {
  CsvIter iter(options_);
  TrainingState state = iter.SaveState();
  state.integers["example"] = {8};
  try {
    iter.LoadState(state);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kDataLoss);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("ends after 7 rows"), HasSubstr("at least 8")));
  }
  iter.BeforeFirst();
  EXPECT_TRUE(iter.Next());
}

TEST_F(CsvIterTest, DescribesItsBatches) {
  options_.data_shape = {1, 2};
  const CsvIter iter(options_);
  EXPECT_EQ(iter.ProvideData()[0].name, "data");
  EXPECT_EQ(iter.ProvideData()[0].shape, TShape({3, 1, 2}));
  EXPECT_EQ(iter.ProvideLabel()[0].name, "softmax_label");
  EXPECT_EQ(iter.ProvideLabel()[0].shape, TShape({3}));
  EXPECT_EQ(iter.batch_size(), 3);
  options_.label_csv = options_.data_csv;
  options_.label_shape = {2, 1};
  EXPECT_EQ(CsvIter(options_).ProvideLabel()[0].shape, TShape({3, 2, 1}));
  options_.data_shape = TShape::Parse("()");
  options_.label_csv = "";
  EXPECT_EQ(CsvIter(options_).ProvideLabel()[0].shape, TShape({3}));
}

TEST_F(CsvIterTest, PaddingBeginsTheNextEpoch) {
  CsvIter iter(options_);
  EXPECT_EQ(Epoch(&iter), "0 1 2 pad 0; 3 4 5 pad 0; 6 0 1 pad 2; ");
  EXPECT_FALSE(iter.Next());
  iter.BeforeFirst();
  EXPECT_EQ(Epoch(&iter), "2 3 4 pad 0; 5 6 0 pad 1; ");
  iter.BeforeFirst();
  EXPECT_EQ(Epoch(&iter), "1 2 3 pad 0; 4 5 6 pad 0; ");
  iter.BeforeFirst();
  EXPECT_EQ(Epoch(&iter), "0 1 2 pad 0; 3 4 5 pad 0; 6 0 1 pad 2; ");
}

TEST_F(CsvIterTest, WithoutRoundingEveryEpochIsTheSame) {
  options_.round_batch = false;
  CsvIter iter(options_);
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(Epoch(&iter), "0 1 2 pad 0; 3 4 5 pad 0; 6 4 5 pad 2; ");
    iter.BeforeFirst();
  }
}

TEST_F(CsvIterTest, BeforeFirstWithinAnEpochStartsAgain) {
  CsvIter iter(options_);
  ASSERT_TRUE(iter.Next());
  iter.BeforeFirst();
  EXPECT_THAT(ErrorOf([&] { iter.GetBatch(); }).what(), HasSubstr("GetBatch"));
  EXPECT_EQ(Epoch(&iter), "0 1 2 pad 0; 3 4 5 pad 0; 6 0 1 pad 2; ");
}

TEST_F(CsvIterTest, ABatchMayBeLargerThanTheData) {
  options_.batch_size = 17;
  CsvIter iter(options_);
  EXPECT_EQ(Epoch(&iter), "0 1 2 3 4 5 6 0 1 2 3 4 5 6 0 1 2 pad 10; ");
}

TEST_F(CsvIterTest, BatchesStayUntilTheRingReturns) {
  CsvIter iter(options_);
  ASSERT_TRUE(iter.Next());
  const NDArray first = iter.GetBatch().data[0];
  ASSERT_TRUE(iter.Next());
  ASSERT_TRUE(iter.Next());
  EXPECT_THAT(ReadAs<float>(first), ElementsAre(0, 10, 1, 11, 2, 12));
}

TEST_F(CsvIterTest, ReadsIntegersExactly) {
  options_.data_csv = WriteText("big.csv", "9007199254740993,-1\n");
  options_.label_csv = "";
  options_.dtype = DType::kInt64;
  options_.batch_size = 1;
  CsvIter iter(options_);
  ASSERT_TRUE(iter.Next());
  EXPECT_THAT(ReadAs<int64_t>(iter.GetBatch().data[0]), ElementsAre(9007199254740993, -1));
  EXPECT_THAT(ReadAs<int64_t>(iter.GetBatch().label[0]), ElementsAre(0));
  options_.dtype = DType::kInt32;
  EXPECT_THAT(FirstError().what(), AllOf(HasSubstr("big.csv: line 1, field 1"), HasSubstr("32")));
}

TEST_F(CsvIterTest, ReadsTheFilesOfAFolderByName) {
  const std::string folder = testing::TempDir() + "/csv-folder";
  std::filesystem::create_directories(folder);
  WriteText("csv-folder/b.csv", "3,13\n4,14\n");
  WriteText("csv-folder/a.csv", "0,10\n1,11\n2,12");
  options_.data_csv = folder;
  options_.batch_size = 5;
  CsvIter iter(options_);
  EXPECT_EQ(Epoch(&iter), "0 1 2 3 4 pad 0; ");
}

TEST_F(CsvIterTest, ErrorsNameTheFile) {
  options_.label_csv = WriteText("few.csv", "0\n100\n");
  EXPECT_THAT(FirstError().what(), AllOf(HasSubstr("few.csv: ends after 2 labels"),
                                         HasSubstr("expected one for each row of")));
  options_.label_csv = WriteText("wide.csv", "0,1\n");
  EXPECT_THAT(FirstError().what(), HasSubstr("wide.csv: line 1: found 2 or more numbers"));
  options_.label_csv = "";
  options_.data_csv = WriteText("empty.csv", "\n");
  EXPECT_EQ(FirstError().code(), Error::kDataLoss);
  options_.data_csv = "/no/such.csv";
  EXPECT_EQ(FirstError().code(), Error::kNotFound);
}

TEST_F(CsvIterTest, GoesOnAfterAnError) {
  options_.data_csv = WriteText("late.csv", "0,10\n1,11\n2,12\nx,13\n");
  CsvIter iter(options_);
  ASSERT_TRUE(iter.Next());
  EXPECT_THAT(ErrorOf([&] { iter.Next(); }).what(), HasSubstr("line 4, field 1"));
  EXPECT_FALSE(iter.Next());
  iter.BeforeFirst();
  ASSERT_TRUE(iter.Next());
  EXPECT_THAT(iter.GetBatch().index, ElementsAre(0, 1, 2));
}

TEST_F(CsvIterTest, RefusesImpossibleOptions) {
  options_.batch_size = 0;
  EXPECT_THAT(FirstError().what(), HasSubstr("batch_size 0, expected at least 1"));
  options_.batch_size = 3;
  options_.dtype = DType::kFloat16;
  EXPECT_THAT(FirstError().what(), HasSubstr("dtype float16, expected float32"));
  options_.dtype = DType::kFloat32;
  options_.data_shape = {2, 0};
  EXPECT_THAT(FirstError().what(), HasSubstr("data_shape (2,0)"));
}

}  // namespace
}  // namespace tessera
