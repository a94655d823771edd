#ifndef TESSERA_STORAGE_DEVICE_ALIGNMENT_H_
#define TESSERA_STORAGE_DEVICE_ALIGNMENT_H_

#include <cstdint>

namespace tessera::storage_internal {

/// Every block starts at a multiple of this many bytes, and its size is a multiple of it.
inline constexpr int64_t kAlignment = 64;

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_DEVICE_ALIGNMENT_H_
