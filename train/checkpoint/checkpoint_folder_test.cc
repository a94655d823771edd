#include "tessera/train/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/ndarray/serialization.h"
#include "tessera/tools/testing/failing_files.h"
#include "tessera/train/testing/numbered_snapshot.h"

namespace tessera {
namespace {

using base_testing::ErrorOf;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using train_testing::ExpectNumbered;
using train_testing::Numbered;

NDArray Filled(const TShape& shape, float value) {
  NDArray array(shape);
  array = value;
  return array;
}

class CheckpointFolderTest : public testing::Test {
 protected:
  CheckpointFolderTest() {
    const auto* const info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = testing::TempDir() + "/folder_" + info->name();
    std::filesystem::remove_all(path_);
  }

  /// Returns the path of a file of the checkpoint of step 7.
  std::string File(const std::string& name) const { return path_ + "/0000000007/" + name; }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  /// Returns the number of entries, hidden ones included.
  int NumEntries() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(path_),
                                          std::filesystem::directory_iterator()));
  }

  std::string path_;
};

TEST_F(CheckpointFolderTest, ReadsTheStateThatItWrote) {
  CheckpointFolder folder(path_ + "/deep/er");
  TrainingSnapshot snapshot;
  snapshot.parameters["0.weight"] = Filled({2, 3}, 1.5f);
  const double inf = std::numeric_limits<double>::infinity();
  TrainingState& state = snapshot.state;
  state.integers["counts"] = {0, -1, std::numeric_limits<int64_t>::max()};
  state.integers["none"] = {};
  state.numbers["sums"] = {0.1, -0.0, inf, 5e-324, std::numeric_limits<double>::quiet_NaN()};
  state.texts["kind"] = std::string("a\0b: ü", 6);
  state.texts["empty"] = "";
  state.arrays["a/b"] = NDArray({2}, Device::Cpu(), DType::kFloat16);
  state.arrays["a/b"] = 2.0f;
  folder.Save(12, snapshot);
  const TrainingSnapshot read = CheckpointFolder(path_ + "/deep/er").Load(12);
  EXPECT_FALSE(read.model.has_value());
  EXPECT_EQ(read.parameters.at("0.weight").ToVector(), std::vector<float>(6, 1.5f));
  EXPECT_EQ(read.state.integers, state.integers);
  EXPECT_EQ(read.state.texts, state.texts);
  ASSERT_EQ(read.state.numbers.size(), 1u);
  const std::vector<double>& sums = read.state.Numbers("sums");
  ASSERT_EQ(sums.size(), 5u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(sums[i], state.numbers["sums"][i]);
    EXPECT_EQ(std::signbit(sums[i]), std::signbit(state.numbers["sums"][i]));
  }
  EXPECT_TRUE(std::isnan(sums[4]));
  EXPECT_EQ(read.state.Array("a/b").dtype(), DType::kFloat16);
  EXPECT_THAT(read.state.Array("a/b").ToVector(), ElementsAre(2, 2));
}

TEST_F(CheckpointFolderTest, AModelIsAnOrdinaryCheckpointToo) {
  CheckpointFolder folder(path_);
  folder.Save(7, Numbered(7));
  ExpectNumbered(folder.Load(7), 7);
  EXPECT_EQ(folder.ModelPrefix(7), path_ + "/0000000007/model");
  EXPECT_EQ(LoadCheckpoint(folder.ModelPrefix(7), 0).symbol.ToJson(),
            Numbered(7).model->symbol.ToJson());
  EXPECT_THAT(LoadNDArrays(File("model-0000.params")).at("arg:fc_bias").ToVector(),
              ElementsAre(7, 7, 7));
}

TEST_F(CheckpointFolderTest, KeepsTheLast) {
  CheckpointFolder folder(path_, {.keep_last = 2});
  EXPECT_THAT(folder.Steps(), IsEmpty());
  EXPECT_FALSE(folder.Latest().has_value());
  for (const int64_t step : std::vector<int64_t>{0, 5, 5, 6, int64_t{1} << 40}) {
    folder.Save(step, Numbered(step % 100));
  }
  EXPECT_THAT(folder.Steps(), ElementsAre(6, int64_t{1} << 40));
  EXPECT_EQ(folder.Latest(), int64_t{1} << 40);
  ExpectNumbered(folder.Load(6), 6);
  EXPECT_EQ(NumEntries(), 2);
  CheckpointFolder all(path_, {.keep_last = 0});
  all.Remove(int64_t{1} << 40);
  for (const int64_t step : {7, 8, 9}) all.Save(step, Numbered(step));
  EXPECT_THAT(all.Steps(), ElementsAre(6, 7, 8, 9));
}

TEST_F(CheckpointFolderTest, WhatIsNoCheckpointIsNotOne) {
  CheckpointFolder folder(path_);
  folder.Save(7, Numbered(7));
  for (const char* name : {"7", "00000000008", "-000000009", "000000001x", ".tmp.folder.1.2",
                           "best", "99999999999999999999"}) {
    std::filesystem::create_directory(path_ + "/" + name);
  }
  EXPECT_THAT(folder.Steps(), ElementsAre(7));
}

TEST_F(CheckpointFolderTest, AnotherCourseIsNotMixedIn) {
  CheckpointFolder folder(path_);
  folder.Save(7, Numbered(7));
  const Error error = ErrorOf([&] { folder.Save(6, Numbered(6)); });
  EXPECT_EQ(error.code(), Error::kFailedPrecondition);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(path_), HasSubstr("step 7"), HasSubstr("than 6")));
  EXPECT_EQ(ErrorOf([&] { folder.Save(-1, Numbered(6)); }).code(), Error::kInvalidArgument);
  EXPECT_THAT(folder.Steps(), ElementsAre(7));
}

TEST_F(CheckpointFolderTest, WrongUsesAreNamed) {
  EXPECT_EQ(ErrorOf([&] { CheckpointFolder(path_, {.keep_last = -1}); }).code(),
            Error::kInvalidArgument);
  CheckpointFolder folder(path_);
  folder.Save(7, Numbered(7));
  const Error error = ErrorOf([&] { folder.Load(8); });
  EXPECT_EQ(error.code(), Error::kNotFound);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("step 8"), HasSubstr("one of: 7")));
  EXPECT_EQ(ErrorOf([&] { folder.Remove(8); }).code(), Error::kNotFound);
  EXPECT_EQ(ErrorOf([&] { CheckpointFolder(File("manifest") + "/x"); }).code(),
            Error::kFailedPrecondition);
  std::filesystem::remove_all(path_);
  EXPECT_EQ(ErrorOf([&] { folder.Steps(); }).code(), Error::kNotFound);
}

TEST_F(CheckpointFolderTest, DamageOfEachFileIsFound) {
  CheckpointFolder folder(path_);
  folder.Save(7, Numbered(7));
  for (const char* name : {"manifest", "state.params", "model-symbol.json", "model-0000.params"}) {
    const std::string whole = Read(File(name));
    ASSERT_FALSE(whole.empty());
    std::string flipped = whole;
    flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 1);
    for (const std::string& damaged : {flipped, whole.substr(0, whole.size() - 1), whole + "x",
                                       std::string(), std::string(100000, '\0')}) {
      Write(File(name), damaged);
      const Error error = ErrorOf([&] { folder.Load(7); });
      EXPECT_EQ(error.code(), Error::kDataLoss) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(name));
    }
    std::filesystem::remove(File(name));
    EXPECT_THAT(ErrorOf([&] { folder.Load(7); }).what(), HasSubstr(name));
    std::filesystem::create_directory(File(name));
    EXPECT_THAT(ErrorOf([&] { folder.Load(7); }).what(), HasSubstr(name));
    std::filesystem::remove(File(name));
    Write(File(name), whole);
  }
  ExpectNumbered(folder.Load(7), 7);
}

TEST_F(CheckpointFolderTest, FilesOfAnotherCheckpointAreFound) {
  CheckpointFolder folder(path_);
  folder.Save(7, Numbered(7));
  folder.Save(8, Numbered(8));
  const std::string of_8 = path_ + "/0000000008/";
  const std::string state = Read(File("state.params"));
  Write(File("state.params"), Read(of_8 + "state.params"));
  EXPECT_THAT(ErrorOf([&] { folder.Load(7); }).what(), HasSubstr("0000000007/state.params"));
  Write(File("state.params"), state);
  ExpectNumbered(folder.Load(7), 7);
  // All of its files are whole, but the folder is another one.
  std::filesystem::rename(of_8, path_ + "/0000000009");
  const Error error = ErrorOf([&] { folder.Load(9); });
  EXPECT_EQ(error.code(), Error::kDataLoss);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("found step 8"), HasSubstr("expected 9")));
}

TEST_F(CheckpointFolderTest, EachCallThatFailsLeavesWhatWasThere) {
  CheckpointFolder folder(path_, {.keep_last = 1});
  int64_t step = 1;
  folder.Save(step, Numbered(step));
  bool has_failed = true;
  for (int64_t n = 0; has_failed; ++n) {
    bool threw = false;
    {
      const FailingFiles failing({.failing_call = n});
      try {
        folder.Save(step + 1, Numbered(step + 1));
      } catch (const Error& error) {
        threw = true;
      }
      has_failed = failing.has_failed();
    }
    // Removing the old one may fail after the new one is there.
    ASSERT_TRUE(folder.Latest().has_value());
    if (!threw) {
      EXPECT_EQ(folder.Latest(), step + 1);
    }
    EXPECT_THAT(*folder.Latest(), testing::AnyOf(step, step + 1));
    step = *folder.Latest();
    ExpectNumbered(folder.Load(step), step);
  }
  folder.Save(step + 1, Numbered(step + 1));
  EXPECT_EQ(NumEntries(), 1);
}

TEST_F(CheckpointFolderTest, AFullDiskLeavesWhatWasThereAndShortWritesAreContinued) {
  CheckpointFolder folder(path_);
  folder.Save(1, Numbered(1));
  int64_t room = 0;
  for (bool fits = false; !fits; room += 37) {
    const FailingFiles failing({.room_bytes = room});
    try {
      folder.Save(2, Numbered(2));
      fits = true;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kResourceExhausted) << error.what();
      EXPECT_THAT(folder.Steps(), ElementsAre(1));
      EXPECT_EQ(NumEntries(), 1);
    }
  }
  EXPECT_GT(room, 500);
  ExpectNumbered(folder.Load(1), 1);
  ExpectNumbered(folder.Load(2), 2);
  const FailingFiles failing({.largest_write_bytes = 7});
  folder.Save(3, Numbered(3));
  EXPECT_TRUE(failing.has_failed());
  ExpectNumbered(folder.Load(3), 3);
}

}  // namespace
}  // namespace tessera
