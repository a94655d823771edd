#ifndef TESSERA_STORAGE_DEVICE_SHARED_SEGMENTS_H_
#define TESSERA_STORAGE_DEVICE_SHARED_SEGMENTS_H_

#include <cstdint>
#include <optional>

namespace tessera::storage_internal {

/// Returns the descriptor of a new anonymous file whose memory is reserved, or -1 with errno set if
/// the system has no memory or no descriptor left. Requires: size_bytes > 0. Thread-safe.
int NewAnonymousFile(int64_t size_bytes);

/// An anonymous file that this process has mapped as memory of Device::CpuShared().
struct SharedSegment {
  const char* begin = nullptr;  ///< the first byte of the mapping
  int64_t size_bytes = 0;
  int descriptor = -1;       ///< the file's descriptor in this process
  uint64_t file_number = 0;  ///< the file's inode
};

/// Returns the segment that holds the address, or nothing if no segment of this process does.
/// Thread-safe.
std::optional<SharedSegment> FindSharedSegment(const void* address);

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_DEVICE_SHARED_SEGMENTS_H_
