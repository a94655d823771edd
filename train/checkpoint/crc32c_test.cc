#include "tessera/train/checkpoint/crc32c.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::train_internal {
namespace {

/// Divides bit by bit.
uint32_t Reference(std::string_view bytes) {
  uint32_t value = 0xFFFFFFFFu;
  for (const char c : bytes) {
    value ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) * 0x82F63B78u);
  }
  return ~value;
}

TEST(Crc32cTest, HasTheValuesOfTheStandard) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  // RFC 3720, appendix B.4.
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
}

TEST(Crc32cTest, AllLengthsAndSplitsAgree) {
  std::string bytes;
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(Crc32c(bytes), Reference(bytes)) << i;
    for (size_t split = 0; split <= bytes.size(); ++split) {
      const std::string_view all = bytes;
      EXPECT_EQ(Crc32c(all.substr(split), Crc32c(all.substr(0, split))), Crc32c(all));
    }
    bytes.push_back(static_cast<char>(i * 37 + 11));
  }
}

}  // namespace
}  // namespace tessera::train_internal
