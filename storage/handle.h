#ifndef TESSERA_STORAGE_HANDLE_H_
#define TESSERA_STORAGE_HANDLE_H_

#include <cstdint>

#include "tessera/base/device.h"

namespace tessera {

namespace storage_internal {
struct Block;
}  // namespace storage_internal

/// A block of memory that Storage::Alloc gave out: a value that may be copied and freed on any
/// thread, once. The default value, like a block of no bytes, has a null pointer, and freeing it
/// does nothing.
struct StorageHandle {
  /// The first byte, aligned to 64 bytes or more; null for a block of no bytes.
  void* dptr = nullptr;
  /// What was asked for. The block may be larger, but the rest is not the caller's.
  int64_t size_bytes = 0;
  Device device;  ///< where it lies

  /// Storage's own: which of the block's lives this is, and where it keeps the block's state. They
  /// let Free refuse a handle that was freed before and find the block without a search.
  uint64_t generation = 0;
  storage_internal::Block* block = nullptr;
};

}  // namespace tessera

#endif  // TESSERA_STORAGE_HANDLE_H_
