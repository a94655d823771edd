#include "tessera/io/idx_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <numeric>
#include <string>
#include <utility>

#include "tessera/base/testing/errors.h"
#include "tessera/io/internal/idx_bytes.h"

namespace tessera {
namespace {

using base_testing::ErrorOf;
using io_internal::Bytes;
using io_internal::Gzip;
using io_internal::IdxBytes;
using io_internal::WriteTestFile;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint8_t kUint8Code = 0x08;

Error ParseError(const Bytes& bytes) {
  return ErrorOf([&] { ParseIdx(bytes, "numbers"); });
}

TEST(IdxFileTest, ReadsShapeAndElements) {
  const HostArray array = ParseIdx(IdxBytes(kUint8Code, {2, 3}, {1, 2, 3, 4, 5, 255}), "numbers");
  EXPECT_EQ(array.dtype, DType::kUint8);
  EXPECT_EQ(array.shape, TShape({2, 3}));
  EXPECT_THAT(array.values<uint8_t>(), ElementsAre(1, 2, 3, 4, 5, 255));
}

TEST(IdxFileTest, ReadsEveryElementTypeInBigEndianOrder) {
  EXPECT_THAT(ParseIdx(IdxBytes(0x09, {2}, {0xff, 0x7f}), "x").values<int8_t>(),
              ElementsAre(-1, 127));
  EXPECT_THAT(ParseIdx(IdxBytes(0x0b, {2}, {0xff, 0xfe, 1, 2}), "x").values<int16_t>(),
              ElementsAre(-2, 258));
  EXPECT_THAT(ParseIdx(IdxBytes(0x0c, {1}, {1, 2, 3, 4}), "x").values<int32_t>(),
              ElementsAre(0x01020304));
  EXPECT_THAT(ParseIdx(IdxBytes(0x0d, {1}, {0xc0, 0x20, 0, 0}), "x").values<float>(),
              ElementsAre(-2.5f));
  EXPECT_THAT(ParseIdx(IdxBytes(0x0e, {1}, {0x3f, 0xf8, 0, 0, 0, 0, 0, 0}), "x").values<double>(),
              ElementsAre(1.5));
}

TEST(IdxFileTest, ReadsAnArrayWithoutElements) {
  const HostArray array = ParseIdx(IdxBytes(kUint8Code, {0, 28, 28}, {}), "empty");
  EXPECT_EQ(array.shape, TShape({0, 28, 28}));
  EXPECT_TRUE(array.values<uint8_t>().empty());
}

TEST(IdxFileTest, ReadsPlainAndCompressedFilesAlike) {
  Bytes elements(3 << 20);  // larger than the first piece
  std::iota(elements.begin(), elements.end(), 0);
  const Bytes bytes = IdxBytes(kUint8Code, {3, 1 << 20}, elements);
  const HostArray plain = ReadIdxFile(WriteTestFile("plain-idx2-ubyte", bytes));
  const HostArray packed = ReadIdxFile(WriteTestFile("packed-idx2-ubyte", Gzip(bytes)));
  EXPECT_EQ(plain.bytes, elements);
  EXPECT_EQ(packed.bytes, elements);
  EXPECT_EQ(packed.shape, plain.shape);
}

TEST(IdxFileTest, ReadsAFileOfSeveralGzipMembers) {
  const Bytes bytes = IdxBytes(kUint8Code, {4}, {1, 2, 3, 4});
  Bytes packed = Gzip(Bytes(bytes.begin(), bytes.begin() + 6));
  const Bytes rest = Gzip(Bytes(bytes.begin() + 6, bytes.end()));
  packed.insert(packed.end(), rest.begin(), rest.end());
  EXPECT_THAT(ParseIdx(packed, "x").values<uint8_t>(), ElementsAre(1, 2, 3, 4));
}

TEST(IdxFileTest, IgnoresZerosBehindGzipMembers) {
  const Bytes bytes = IdxBytes(kUint8Code, {4}, {1, 2, 3, 4});
  for (const size_t zeros : {1, 511, 1 << 16}) {  // more than a buffer too
    Bytes packed = Gzip(Bytes(bytes.begin(), bytes.begin() + 6));
    packed.resize(packed.size() + zeros);
    const Bytes rest = Gzip(Bytes(bytes.begin() + 6, bytes.end()));
    packed.insert(packed.end(), rest.begin(), rest.end());
    packed.resize(packed.size() + zeros);
    EXPECT_THAT(ParseIdx(packed, "x").values<uint8_t>(), ElementsAre(1, 2, 3, 4)) << zeros;
    packed.push_back('x');
    EXPECT_EQ(ParseError(packed).code(), Error::kDataLoss) << zeros;
  }
}

TEST(IdxFileTest, ValuesOfAnotherTypeAreRefused) {
  const HostArray array = ParseIdx(IdxBytes(kUint8Code, {1}, {1}), "x");
  const Error error = ErrorOf([&] { array.values<float>(); });
  EXPECT_EQ(error.code(), Error::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("float32"), HasSubstr("uint8")));
}

TEST(IdxFileTest, AMissingFileIsNotFound) {
  const std::string path = testing::TempDir() + "/no-such-file";
  const Error error = ErrorOf([&] { ReadIdxFile(path); });
  EXPECT_EQ(error.code(), Error::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr(path));
}

TEST(IdxFileTest, AFolderIsRefused) {
  const Error error = ErrorOf([] { ReadIdxFile(testing::TempDir()); });
  EXPECT_EQ(error.code(), Error::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("expected a file"));
}

TEST(IdxFileTest, ATruncatedFileNamesBothSizes) {
  const Error error = ParseError(IdxBytes(kUint8Code, {10, 10}, Bytes(99)));
  EXPECT_EQ(error.code(), Error::kDataLoss);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("numbers"), HasSubstr("found 111"),
                                  HasSubstr("expected 112"), HasSubstr("(10,10)")));
}

TEST(IdxFileTest, AnOversizedFileNamesBothSizes) {
  const Error error = ParseError(IdxBytes(kUint8Code, {10, 10}, Bytes(103)));
  EXPECT_EQ(error.code(), Error::kDataLoss);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("found 115"), HasSubstr("expected 112")));
}

TEST(IdxFileTest, EveryTruncatedHeaderIsRefused) {
  const Bytes bytes = IdxBytes(kUint8Code, {1, 1}, {1});
  for (size_t length = 0; length < bytes.size(); ++length) {
    const Error error = ParseError(Bytes(bytes.begin(), bytes.begin() + length));
    EXPECT_EQ(error.code(), Error::kDataLoss) << length;
    EXPECT_THAT(error.what(), HasSubstr("truncated")) << length;
  }
}

TEST(IdxFileTest, AWrongMagicNumberIsNamed) {
  for (const Bytes& start : {Bytes{1, 0, 8, 1}, Bytes{0, 1, 8, 1}, Bytes{0, 0, 7, 1},
                             Bytes{0, 0, 8, 0}, Bytes{0, 0, 8, 9}}) {
    Bytes bytes = start;
    bytes.resize(100);
    const Error error = ParseError(bytes);
    EXPECT_EQ(error.code(), Error::kDataLoss);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("wrong magic number 0x"), HasSubstr("0x00000803")));
  }
}

TEST(IdxFileTest, FilesInThePlaceOfDataAreRecognized) {
  for (const auto& [text, words] : std::initializer_list<std::pair<std::string, const char*>>{
           {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a", "Git LFS pointer"},
           {"<!DOCTYPE html>\n<html>", "HTML page"},
           {"PK\x03\x04", "ZIP archive"}}) {
    const Error error = ParseError(Bytes(text.begin(), text.end()));
    EXPECT_EQ(error.code(), Error::kDataLoss);
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
}

TEST(IdxFileTest, AnEnormousHeaderTakesNoMemory) {
  const uint32_t most = 0xffffffff;
  const Error terabytes = ParseError(IdxBytes(kUint8Code, {1 << 20, 1 << 20}, Bytes(5)));
  EXPECT_EQ(terabytes.code(), Error::kDataLoss);
  EXPECT_THAT(terabytes.what(), HasSubstr("truncated"));
  const Error impossible = ParseError(IdxBytes(kUint8Code, {most, most, most}, Bytes(5)));
  EXPECT_EQ(impossible.code(), Error::kDataLoss);
  EXPECT_THAT(impossible.what(), HasSubstr("impossible shape"));
}

TEST(IdxFileTest, ACompressedFileIsNotUnpackedBeyondItsHeader) {
  // 16 MiB of zeros in some 16 KiB, of which the header announces 16 bytes.
  const Bytes bomb = Gzip(IdxBytes(kUint8Code, {16}, Bytes(16 << 20)));
  // Another one has the zeros in a second member.
  Bytes members = Gzip(IdxBytes(kUint8Code, {16}, Bytes(16)));
  const Bytes zeros = Gzip(Bytes(16 << 20));
  members.insert(members.end(), zeros.begin(), zeros.end());
  for (const Bytes& packed : {bomb, members}) {
    ASSERT_LT(packed.size(), 1u << 15);
    const Error error = ParseError(packed);
    EXPECT_EQ(error.code(), Error::kDataLoss);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("too long"), HasSubstr("expected 24")));
  }
}

TEST(IdxFileTest, DamagedCompressionIsRefused) {
  Bytes elements(5000);
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<uint8_t>(i * i >> 3);
  const Bytes packed = Gzip(IdxBytes(kUint8Code, {5000}, elements));
  const Error truncated = ParseError(Bytes(packed.begin(), packed.end() - 20));
  EXPECT_EQ(truncated.code(), Error::kDataLoss);
  EXPECT_THAT(truncated.what(), AllOf(HasSubstr("numbers"), HasSubstr("compressed")));
  Bytes flipped = packed;
  flipped[flipped.size() - 6] ^= 1;  // in the checksum
  EXPECT_EQ(ParseError(flipped).code(), Error::kDataLoss);
  Bytes trailed = packed;
  trailed.push_back('x');
  EXPECT_EQ(ParseError(trailed).code(), Error::kDataLoss);
}

TEST(IdxFileTest, FindsPlainThenCompressedFiles) {
  const std::string folder = testing::TempDir() + "/find-idx";
  std::filesystem::create_directories(folder);
  const Error error = ErrorOf([&] { FindIdxFile(folder, "labels"); });
  EXPECT_EQ(error.code(), Error::kNotFound);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(folder + "/labels"), HasSubstr(folder + "/labels.gz")));
  WriteTestFile("find-idx/labels.gz", {});
  EXPECT_EQ(FindIdxFile(folder, "labels"), folder + "/labels.gz");
  WriteTestFile("find-idx/labels", {});
  EXPECT_EQ(FindIdxFile(folder, "labels"), folder + "/labels");
}

TEST(IdxFileTest, WhatCannotBeLookedAtIsNotCalledMissing) {
  // A link to itself, since nothing is hidden from a test that root runs.
  const std::string folder = testing::TempDir() + "/endless";
  std::filesystem::remove(folder);
  std::filesystem::create_symlink("endless", folder);
  const Error found = ErrorOf([&] { FindIdxFile(folder, "labels"); });
  EXPECT_EQ(found.code(), Error::kFailedPrecondition);
  EXPECT_THAT(found.what(), AllOf(HasSubstr(folder + "/labels"), HasSubstr(folder + "/labels.gz")));
  const Error opened = ErrorOf([&] { ReadIdxFile(folder + "/labels"); });
  EXPECT_EQ(opened.code(), Error::kFailedPrecondition);
  EXPECT_THAT(opened.what(), HasSubstr(folder + "/labels"));
}

TEST(IdxFileTest, AFileIsNoFolder) {
  WriteTestFile("no-folder", {});
  const std::string folder = testing::TempDir() + "/no-folder";
  EXPECT_EQ(ErrorOf([&] { FindIdxFile(folder, "labels"); }).code(), Error::kNotFound);
  EXPECT_EQ(ErrorOf([&] { ReadIdxFile(folder + "/labels"); }).code(), Error::kNotFound);
}

}  // namespace
}  // namespace tessera
