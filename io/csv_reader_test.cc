#include "tessera/io/csv_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/io/internal/idx_bytes.h"

namespace tessera {
namespace {

using io_internal::Bytes;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Returns all numbers of a file with rows of that size.
template <typename T>
std::vector<T> Numbers(std::string_view text, size_t row_size) {
  const Bytes bytes(text.begin(), text.end());
  CsvReader reader(bytes, "test.csv");
  std::vector<T> numbers, row(row_size);
  while (reader.ReadRow(std::span<T>(row))) numbers.insert(numbers.end(), row.begin(), row.end());
  return numbers;
}

template <typename T>
Error ErrorOf(std::string_view text, size_t row_size) {
  try {
    Numbers<T>(text, row_size);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error for " << text;
  return Error(absl::StatusCode{}, "");
}

TEST(CsvReaderTest, ReadsWhatProgramsWrite) {
  for (const std::string_view text : {"1,2\n3,4\n", "1,2\r\n3,4\r\n", "1,2\r3,4\r", "1,2\n3,4",
                                      "1,2\n\n \n3,4\n\n", " 1 , 2\n3 ,\t4  \n", "1,2,\n3,4,\n",
                                      "\xef\xbb\xbf"
                                      "1,2\n3,4\n",
                                      "+1,2\n3,+4\n", "1.0,2.\n3,4.000\n"}) {
    EXPECT_THAT(Numbers<float>(text, 2), ElementsAre(1, 2, 3, 4)) << text;
    EXPECT_THAT(Numbers<int32_t>(text, 2), ElementsAre(1, 2, 3, 4)) << text;
    EXPECT_THAT(Numbers<int64_t>(text, 2), ElementsAre(1, 2, 3, 4)) << text;
  }
  EXPECT_TRUE(Numbers<float>("", 2).empty());
  EXPECT_TRUE(Numbers<float>("\n \n", 2).empty());
}

TEST(CsvReaderTest, RoundsNumbersAsCDoes) {
  EXPECT_THAT(Numbers<float>("1e3,-2.5E-2,.5,123456789,0.1\n", 5),
              ElementsAre(1000, -0.025f, 0.5f, 123456789.0f, 0.1f));
  EXPECT_THAT(Numbers<float>("inf,-INF,1e50,-1e50,1e-60\n", 5),
              ElementsAre(kInfinity, -kInfinity, kInfinity, -kInfinity, 0));
  EXPECT_TRUE(std::isnan(Numbers<float>("NaN\n", 1)[0]));
  EXPECT_THAT(Numbers<float>("0.12345678901234567890123456789012345678901234567890\n", 1),
              ElementsAre(0.12345679f));
}

TEST(CsvReaderTest, ReadsEveryInteger) {
  EXPECT_THAT(Numbers<int32_t>("2147483647,-2147483648\n", 2),
              ElementsAre(2147483647, std::numeric_limits<int32_t>::min()));
  EXPECT_THAT(
      Numbers<int64_t>("9223372036854775807,-9223372036854775808\n", 2),
      ElementsAre(std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()));
}

TEST(CsvReaderTest, ErrorsNameFileLineAndField) {
  const Error error = ErrorOf<float>("1,2\n\n3,x4 ,5\n", 2);
  EXPECT_EQ(error.code(), Error::kDataLoss);
  EXPECT_STREQ(error.what(), "test.csv: line 3, field 2: found \"x4\", expected a number");
}

TEST(CsvReaderTest, RefusesWhatIsNoNumber) {
  for (const std::string_view text : {"1x,2\n", "\"1\",2\n", "0x10,2\n", "1;2,3\n", "1,,2\n",
                                      ",1\n", "#c\n", "+-1,2\n", "1 2,3\n", "--1,2\n", "e5,1\n"}) {
    EXPECT_EQ(ErrorOf<float>(text, 2).code(), Error::kDataLoss) << text;
  }
  EXPECT_THAT(ErrorOf<int32_t>("1.5\n", 1).what(), HasSubstr("\"1.5\", expected an integer"));
  EXPECT_THAT(ErrorOf<int32_t>("3000000000\n", 1).what(), HasSubstr("an integer of 32 bits"));
  EXPECT_THAT(ErrorOf<int64_t>("9223372036854775808\n", 1).what(), HasSubstr("of 64 bits"));
  EXPECT_EQ(ErrorOf<int32_t>("1e2\n", 1).code(), Error::kDataLoss);
  EXPECT_THAT(ErrorOf<float>(std::string(300, '7') + "\n", 1).what(),
              AllOf(HasSubstr("…"), HasSubstr("expected a number")));
  EXPECT_THAT(ErrorOf<float>("<!DOCTYPE html><html>\n", 1).what(), HasSubstr("not a CSV file"));
}

TEST(CsvReaderTest, RowsHaveOneLength) {
  EXPECT_STREQ(ErrorOf<float>("1,2\n3\n", 2).what(),
               "test.csv: line 2: found 1 numbers, expected 2, the size of an example's shape");
  EXPECT_THAT(ErrorOf<float>("1,2,3\n", 2).what(),
              HasSubstr("found 3 or more numbers, expected 2"));
}

TEST(CsvReaderTest, RowsMayBeLongerThanTheBuffer) {
  constexpr size_t kCount = 40000;
  std::string text;
  for (size_t line = 0; line < 3; ++line) {
    for (size_t i = 0; i < kCount; ++i) text += std::to_string(i) + (i + 1 < kCount ? "," : "\r\n");
  }
  const std::vector<int32_t> numbers = Numbers<int32_t>(text, kCount);
  ASSERT_EQ(numbers.size(), 3 * kCount);
  for (size_t i = 0; i < numbers.size(); ++i) {
    ASSERT_EQ(numbers[i], static_cast<int32_t>(i % kCount)) << i;
  }
}

TEST(CsvReaderTest, ReadsFilesAlsoCompressed) {
  const std::string_view text = "1,2\n3,4\n";
  const Bytes bytes(text.begin(), text.end());
  for (const Bytes& contents : {bytes, io_internal::Gzip(bytes)}) {
    CsvReader reader(io_internal::WriteTestFile("reader.csv", contents));
    std::vector<float> row(2);
    ASSERT_TRUE(reader.ReadRow(std::span(row)));
    ASSERT_TRUE(reader.ReadRow(std::span(row)));
    EXPECT_THAT(row, ElementsAre(3, 4));
    EXPECT_FALSE(reader.ReadRow(std::span(row)));
  }
  try {
    CsvReader reader("/no/such.csv");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("/no/such.csv"));
  }
}

}  // namespace
}  // namespace tessera
