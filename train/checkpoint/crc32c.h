#ifndef TESSERA_TRAIN_CHECKPOINT_CRC32C_H_
#define TESSERA_TRAIN_CHECKPOINT_CRC32C_H_

#include <cstdint>
#include <string_view>

#include "tessera/base/dialect.h"

namespace tessera::train_internal {

/// Returns the checksum CRC-32C (G. Castagnoli et al., 1993; RFC 3720, appendix B.4) of bytes that
/// follow those whose checksum is `before`, eight bytes at a time by tables (M. E. Kounavis, F. L.
/// Berry, ISCC 2005).
uint32_t Crc32c(std::string_view bytes, uint32_t before = 0);

}  // namespace tessera::train_internal

#endif  // TESSERA_TRAIN_CHECKPOINT_CRC32C_H_
