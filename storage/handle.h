#ifndef TESSERA_STORAGE_HANDLE_H_
#define TESSERA_STORAGE_HANDLE_H_

#include <cstdint>

#include "tessera/base/device.h"

namespace tessera {

namespace storage_internal {
struct Block;
}  // namespace storage_internal

/// A block of memory that Storage::Alloc returned. Handles may be copied. A block is freed once, on
/// any thread. A default handle and one of 0 bytes have a null pointer, and freeing them does
/// nothing.
struct StorageHandle {
  /// The first byte, aligned to at least 64 bytes. Null for 0 bytes.
  void* dptr = nullptr;
  /// The requested size. The caller may use no more, even if the block is larger.
  int64_t size_bytes = 0;
  Device device;  ///< the device that holds the memory

  /// Storage's own fields. Free compares `generation` with the block's to detect a second free, and
  /// finds the block's record through `block`.
  uint64_t generation = 0;
  storage_internal::Block* block = nullptr;
};

}  // namespace tessera

#endif  // TESSERA_STORAGE_HANDLE_H_
