#include "tessera/train/checkpoint/crc32c.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace tessera::train_internal {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78u;  // 0x1EDC6F41 with its bits reversed
constexpr size_t kTables = 8;

using Tables = std::array<std::array<uint32_t, 256>, kTables>;

/// Returns, in table k, the effect of a byte that k more bytes follow.
constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = value;
  }
  for (size_t k = 1; k < kTables; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 255];
    }
  }
  return tables;
}

constexpr Tables kTable = MakeTables();

}  // namespace

uint32_t Crc32c(std::string_view bytes, uint32_t before) {
  static_assert(std::endian::native == std::endian::little, "words are read as they are stored");
  uint32_t value = ~before;
  const char* next = bytes.data();
  size_t left = bytes.size();
  for (; left >= kTables; left -= kTables, next += kTables) {
    uint64_t word;
    std::memcpy(&word, next, sizeof(word));
    word ^= value;
    value = 0;
    for (size_t k = 0; k < kTables; ++k) {
      value ^= kTable[kTables - 1 - k][(word >> (8 * k)) & 255];
    }
  }
  for (; left > 0; --left, ++next) {
    value = (value >> 8) ^ kTable[0][(value ^ static_cast<unsigned char>(*next)) & 255];
  }
  return ~value;
}

}  // namespace tessera::train_internal
