#include "tessera/io/image_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using testing::HasSubstr;

TEST(ImageRecordTest, RecordsComeBack) {
  const std::vector<uint8_t> file = {7, 8, 9};
  for (const std::vector<float>& label : {std::vector<float>{2.5f}, std::vector<float>{1, 2, 3}}) {
    const std::string bytes = PackImageRecord({.label = label, .id = 1234567890123, .file = file});
    EXPECT_EQ(bytes.size(), 24 + (label.size() == 1 ? 0 : 4 * label.size()) + 3);
    const ImageRecord record = ParseImageRecord(bytes, "x");
    EXPECT_EQ(record.label, label);
    EXPECT_EQ(record.id, 1234567890123u);
    EXPECT_EQ(std::vector<uint8_t>(record.file.begin(), record.file.end()), file);
  }
  EXPECT_THROW(PackImageRecord({}), Error);
}

TEST(ImageRecordTest, TheHeaderIsThatOfMxnet) {
  const std::string bytes = PackImageRecord({.label = {1}, .id = 258, .file = {}});
  EXPECT_EQ(bytes, std::string("\0\0\0\0\0\0\x80\x3f\x02\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24));
}

TEST(ImageRecordTest, ShortRecordsAreErrors) {
  const auto message = [](const std::string& bytes) -> std::string {
    try {
      ParseImageRecord(bytes, "who");
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Error::kDataLoss);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message(std::string(23, '\0')), HasSubstr("who: found a record of 23 bytes"));
  std::string two_labels(31, '\0');
  two_labels[0] = 2;
  EXPECT_THAT(message(two_labels), HasSubstr("expected 2 labels"));
  std::string many_labels(100, '\xff');
  EXPECT_THAT(message(many_labels), HasSubstr("expected 4294967295 labels"));
}

}  // namespace
}  // namespace tessera
