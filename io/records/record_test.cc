#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/testing/errors.h"
#include "tessera/io/internal/idx_bytes.h"
#include "tessera/io/record_reader.h"
#include "tessera/io/record_writer.h"

namespace tessera {
namespace {

using base_testing::ErrorOf;
using io_internal::Bytes;
using io_internal::WriteTestFile;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kMagic = "\x0a\x23\xd7\xce";  // NOLINT: a test's constant

/// Records with and without the magic number, at aligned offsets and at others.
const std::vector<std::string>& Records() {
  static const auto* const records = new std::vector<std::string>{
      "",
      "a",
      "abcd",
      "abcde",
      kMagic,
      "ab" + kMagic + "cd",
      "abcd" + kMagic + "ef",
      kMagic + kMagic,
      "abcd" + kMagic + kMagic + "xyz",
      "xxxxxxxx" + kMagic,
      kMagic + "1",
      "abcd" + kMagic.substr(0, 3),
  };
  return *records;
}

/// The file that MXNet 1.9.1 (mx.recordio.MXRecordIO) wrote for these records, one a line.
constexpr std::string_view kMxnetFile =
    "0a23d7ce00000000"
    "0a23d7ce0100000061000000"
    "0a23d7ce0400000061626364"
    "0a23d7ce050000006162636465000000"
    "0a23d7ce000000200a23d7ce00000060"
    "0a23d7ce0800000061620a23d7ce6364"
    "0a23d7ce04000020616263640a23d7ce0200006065660000"
    "0a23d7ce000000200a23d7ce000000400a23d7ce00000060"
    "0a23d7ce04000020616263640a23d7ce000000400a23d7ce0300006078797a00"
    "0a23d7ce0800002078787878787878780a23d7ce00000060"
    "0a23d7ce000000200a23d7ce0100006031000000"
    "0a23d7ce07000000616263640a23d700";

/// The writer's Tell after each record, also MXNet's.
const std::vector<int64_t> kMxnetOffsets = {8,   20,  32,  48,  64,  80,  // NOLINT: likewise
                                            104, 128, 160, 184, 204, 220};

Bytes MxnetFile() {
  Bytes bytes;
  for (size_t i = 0; i < kMxnetFile.size(); i += 2) {
    bytes.push_back(
        static_cast<uint8_t>(std::stoi(std::string(kMxnetFile.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

Bytes ContentsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

/// Returns the error of reading all records of a damaged file.
Error ReadError(const Bytes& bytes) {
  return ErrorOf([&] {
    RecordReader reader(bytes, "test.rec");
    while (reader.ReadRecord()) {
    }
  });
}

TEST(RecordTest, WritesTheBytesOfMxnet) {
  const std::string path = testing::TempDir() + "/written.rec";
  RecordWriter writer(path);
  EXPECT_EQ(writer.Tell(), 0);
  for (size_t i = 0; i < Records().size(); ++i) {
    writer.WriteRecord(Records()[i]);
    EXPECT_EQ(writer.Tell(), kMxnetOffsets[i]);
  }
  writer.Close();
  EXPECT_EQ(ContentsOf(path), MxnetFile());
}

TEST(RecordTest, ReadsTheFileOfMxnet) {
  RecordReader reader(WriteTestFile("mxnet.rec", MxnetFile()));
  for (size_t i = 0; i < Records().size(); ++i) {
    EXPECT_EQ(reader.ReadRecord(), Records()[i]) << i;
    EXPECT_EQ(reader.Tell(), kMxnetOffsets[i]);
  }
  EXPECT_EQ(reader.ReadRecord(), std::nullopt);
  EXPECT_EQ(reader.ReadRecord(), std::nullopt);
}

TEST(RecordTest, SeekGoesToAnyRecord) {
  const Bytes file = MxnetFile();
  RecordReader reader(file, "test.rec");
  reader.Seek(kMxnetOffsets[7]);
  EXPECT_EQ(reader.ReadRecord(), Records()[8]);
  reader.Seek(0);
  EXPECT_EQ(reader.ReadRecord(), "");
  reader.Seek(int64_t{1} << 40);
  EXPECT_EQ(reader.ReadRecord(), std::nullopt);
  EXPECT_EQ(ErrorOf([&] { reader.Seek(-1); }).code(), Error::kInvalidArgument);
  reader.Seek(4);
  EXPECT_THAT(ErrorOf([&] { reader.ReadRecord(); }).what(),
              HasSubstr("test.rec: at byte 4: found 0x00000000, expected the magic number"));
  reader.Seek(kMxnetOffsets[0]);
  EXPECT_EQ(reader.ReadRecord(), "a");
}

TEST(RecordTest, LargeRecordsComeBack) {
  std::string large;
  for (int i = 0; i < 100000; ++i) large += i % 1000 == 7 ? kMagic : std::to_string(i);
  const std::string path = testing::TempDir() + "/large.rec";
  {
    RecordWriter writer(path);
    writer.WriteRecord(large);
    writer.WriteRecord("last");
  }
  RecordReader reader(path);
  EXPECT_TRUE(reader.ReadRecord() == large);
  EXPECT_EQ(reader.ReadRecord(), "last");
  EXPECT_EQ(reader.ReadRecord(), std::nullopt);
}

/// Records end within the blocks in which a file is read, at their ends, and in the next ones.
TEST(RecordTest, RecordsOfAllLengthsComeBackInAnyOrder) {
  const std::string path = testing::TempDir() + "/lengths.rec";
  std::vector<int64_t> offsets;
  const auto record = [](size_t i) {
    constexpr size_t kLengths[] = {65528, 1, 0, 131064, 300000, 65536, 4, 1048568, 70000, 2500000};
    return std::string(kLengths[i % std::size(kLengths)], static_cast<char>('a' + i % 26));
  };
  constexpr size_t kRecords = 40;
  {
    RecordWriter writer(path);
    for (size_t i = 0; i < kRecords; ++i) {
      offsets.push_back(writer.Tell());
      writer.WriteRecord(record(i));
    }
  }
  RecordReader reader(path);
  for (size_t i = 0; i < kRecords; ++i) {
    EXPECT_EQ(reader.Tell(), offsets[i]);
    EXPECT_TRUE(reader.ReadRecord() == record(i)) << i;
  }
  EXPECT_EQ(reader.ReadRecord(), std::nullopt);
  for (size_t i = 0; i < 3 * kRecords; ++i) {
    const size_t next = i * 7 % kRecords;
    reader.Seek(offsets[next]);
    EXPECT_TRUE(reader.ReadRecord() == record(next)) << next;
    // Often in the buffer.
    reader.Seek(offsets[next]);
    EXPECT_TRUE(reader.ReadRecord() == record(next)) << next;
    if (next + 1 < kRecords) {
      EXPECT_TRUE(reader.ReadRecord() == record(next + 1)) << next;
    }
  }
}

TEST(RecordTest, EveryTruncationIsAnErrorOrTheEndOfARecord) {
  const Bytes file = MxnetFile();
  for (size_t size = 0; size < file.size(); ++size) {
    RecordReader reader(std::span<const uint8_t>(file).first(size), "test.rec");
    size_t records = 0;
    try {
      while (reader.ReadRecord()) ++records;
      const int64_t end = records == 0 ? 0 : kMxnetOffsets[records - 1];
      EXPECT_EQ(end, static_cast<int64_t>(size));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kDataLoss);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("test.rec: "), HasSubstr("expected")));
    }
  }
}

TEST(RecordTest, DamageIsNamed) {
  Bytes file = MxnetFile();
  file[8] ^= 1;  // the second record's magic number
  EXPECT_STREQ(ReadError(file).what(),
               "test.rec: at byte 8: found 0xced7230b, expected the magic number 0xced7230a of a "
               "record");
  file = MxnetFile();
  file[15] = 0x60;  // its length: the last part of a record
  EXPECT_STREQ(ReadError(file).what(),
               "test.rec: at byte 8: found part 3 of a record, expected 0 or 1, a record's "
               "beginning");
  file[15] = 0xa0;
  EXPECT_THAT(ReadError(file).what(), HasSubstr("at byte 12: found part 5 of a record"));
  file[15] = 0x20;  // the first of several, and none follows
  EXPECT_THAT(ReadError(file).what(),
              HasSubstr("at byte 20: found part 0 of a record, expected 2 or 3"));
  file[15] = 0x1f;  // 520 MB
  EXPECT_THAT(ReadError(file).what(),
              AllOf(HasSubstr("found 204 bytes of the record at byte 8"), HasSubstr("520093700")));
  const std::string_view page = "<!DOCTYPE html><html>";
  EXPECT_THAT(ReadError({page.begin(), page.end()}).what(), HasSubstr("not a RecordIO file"));
}

TEST(RecordTest, FilesThatCannotBeOpenedAreNamed) {
  EXPECT_EQ(ErrorOf([] { RecordReader reader("/no/such.rec"); }).code(), Error::kNotFound);
  EXPECT_EQ(ErrorOf([] { RecordWriter writer("/no/such.rec"); }).code(), Error::kNotFound);
  EXPECT_THAT(ErrorOf([] { RecordWriter writer(testing::TempDir()); }).what(),
              HasSubstr("cannot be created"));
  const std::string path = testing::TempDir() + "/closed.rec";
  RecordWriter writer(path);
  writer.Close();
  writer.Close();
  EXPECT_EQ(ErrorOf([&] { writer.WriteRecord("late"); }).code(), Error::kFailedPrecondition);
}

TEST(RecordTest, CompressedFilesAreReadInOrder) {
  RecordReader reader(WriteTestFile("packed.rec.gz", io_internal::Gzip(MxnetFile())));
  for (const std::string& record : Records()) EXPECT_EQ(reader.ReadRecord(), record);
  EXPECT_EQ(ErrorOf([&] { reader.Seek(0); }).code(), Error::kUnimplemented);
  EXPECT_EQ(ErrorOf([&] { reader.Seek(reader.Tell()); }).code(), Error::kUnimplemented);
}

class IndexedRecordTest : public testing::Test {
 protected:
  static IndexedRecordReader Open(std::string_view index) {
    return IndexedRecordReader(WriteTestFile("records.idx", {index.begin(), index.end()}),
                               WriteTestFile("records.rec", MxnetFile()));
  }
};

TEST_F(IndexedRecordTest, ReadsRecordsByKey) {
  IndexedRecordReader reader = Open("7\t8\n-3\t0\n9\t64\r\n");
  EXPECT_THAT(reader.keys(), ElementsAre(7, -3, 9));
  EXPECT_EQ(reader.ReadRecord(9), Records()[5]);
  EXPECT_EQ(reader.ReadRecord(7), "a");
  EXPECT_EQ(reader.ReadRecord(-3), "");
  EXPECT_THAT(ErrorOf([&] { reader.ReadRecord(8); }).what(),
              AllOf(HasSubstr("records.idx: has no key 8"), HasSubstr("3 keys")));
}

TEST_F(IndexedRecordTest, DamagedIndexesAreNamed) {
  for (const std::string_view index : {"1\t0\nx\t8\n", "1\t0\n2 8\n", "1\t0\n2\t\n",
                                       "1\t0\n2\t8 \n", "1\t0\n2\t-8\n", "1\t0\n\n"}) {
    EXPECT_THAT(ErrorOf([&] { Open(index); }).what(),
                AllOf(HasSubstr("records.idx: line 2: found "), HasSubstr("expected a key")));
  }
  IndexedRecordReader reader = Open("1\t1000");
  EXPECT_THAT(ErrorOf([&] { reader.ReadRecord(1); }).what(), HasSubstr("has offset 1000"));
}

}  // namespace
}  // namespace tessera
