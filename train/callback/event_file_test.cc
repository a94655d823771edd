#include "tessera/train/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using std::string_literals::operator""s;
using testing::HasSubstr;

TEST(EventFileTest, MessagesHaveTheBytesOfProtocolBuffers) {
  const std::string time = "\x09\0\0\0\0\0\0\xf8\x3f"s;  // field 1: 1.5
  EXPECT_EQ(train_internal::FirstEvent(1.5), time + "\x1a\x0d" + "brain.Event:2");
  EXPECT_EQ(
      train_internal::ScalarEvent(1.5, 300, "loss", 0.25f),
      time + "\x10\xac\x02" + "\x2a\x0d" + "\x0a\x0b" + "\x0a\x04" + "loss" + "\x15\0\0\x80\x3e"s);
  // A long name's length takes two bytes.
  const std::string name(200, 'n');
  EXPECT_EQ(train_internal::ScalarEvent(1.5, 0, name, 0.25f), time + "\x10\0"s + "\x2a\xd3\x01" +
                                                                  "\x0a\xd0\x01" + "\x0a\xc8\x01" +
                                                                  name + "\x15\0\0\x80\x3e"s);
}

TEST(EventFileTest, RecordsHaveTheBytesOfTFRecord) {
  EXPECT_EQ(train_internal::RecordOf("abc"),
            "\x03\0\0\0\0\0\0\0\xb0\x99\x49\x0e"s + "abc" + "\x6e\x57\xf1\x21");
}

/// Returns the data of the records of a file, whose lengths are not beyond its end.
std::vector<std::string> Records(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<std::string> records;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t size = 0;
    std::memcpy(&size, bytes.data() + at, sizeof(size));
    records.push_back(bytes.substr(at + 12, size));
    EXPECT_EQ(bytes.substr(at, size + 16), train_internal::RecordOf(records.back()));
    at += size + 16;
  }
  return records;
}

TEST(EventFileTest, NumbersAreOnDiskAtOnce) {
  const std::string folder = testing::TempDir() + "/events/deep";
  std::filesystem::remove_all(folder);
  EventFile file(folder), other(folder);
  EXPECT_NE(file.path(), other.path());
  EXPECT_THAT(file.path(), HasSubstr("/events/deep/events.out.tfevents."));
  file.AddScalar("loss", 0.5, 7);
  const std::vector<std::string> records = Records(file.path());
  ASSERT_EQ(records.size(), 2u);
  EXPECT_THAT(records[0], HasSubstr("brain.Event:2"));
  // Behind the time, which changes.
  EXPECT_EQ(records[1].substr(9), train_internal::ScalarEvent(0, 7, "loss", 0.5f).substr(9));
  EXPECT_EQ(Records(other.path()).size(), 1u);
}

TEST(EventFileTest, AFileThatCannotBeMadeIsNamed) {
  std::ofstream(testing::TempDir() + "/plain") << "";
  try {
    EventFile file(testing::TempDir() + "/plain");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kFailedPrecondition);
    EXPECT_THAT(error.what(), HasSubstr("/plain/events.out.tfevents."));
  }
}

}  // namespace
}  // namespace tessera
