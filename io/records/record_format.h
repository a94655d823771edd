#ifndef TESSERA_IO_RECORDS_RECORD_FORMAT_H_
#define TESSERA_IO_RECORDS_RECORD_FORMAT_H_

#include <cstdint>
#include <string_view>

namespace tessera::io_internal {

/// The first four bytes of each part of a record, little-endian.
inline constexpr uint32_t kRecordMagic = 0xced7230a;
inline constexpr std::string_view kRecordMagicBytes = "\x0a\x23\xd7\xce";

/// The place of a part in its record, in the three upper bits of the length that follows.
enum class RecordPart : uint32_t { kWhole = 0, kFirst = 1, kMiddle = 2, kLast = 3 };

inline constexpr int kRecordLengthBits = 29;
inline constexpr uint32_t kMaxRecordPartBytes = (uint32_t{1} << kRecordLengthBits) - 1;

/// Parts are padded to a multiple of so many bytes, and magic numbers lie at such offsets.
inline constexpr uint32_t kRecordAlignment = 4;

}  // namespace tessera::io_internal

#endif  // TESSERA_IO_RECORDS_RECORD_FORMAT_H_
