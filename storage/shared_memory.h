#ifndef TESSERA_STORAGE_SHARED_MEMORY_H_
#define TESSERA_STORAGE_SHARED_MEMORY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/storage/handle.h"

namespace tessera {

/// The location of a block of Device::CpuShared() that another process can open. It may be sent
/// through a pipe, an argument or a file.
///
///     // One process:
///     const Storage::Handle block = storage->Alloc(size, Device::CpuShared());
///     Send(Share(block).ToString());
///     // Another one, of the same user on the same machine:
///     const SharedMapping mapping = SharedMapping::Open(SharedBlock::FromString(Receive()));
///     std::memcpy(mapping.data(), from, mapping.size_bytes());
struct SharedBlock {
  int64_t process_id = 0;    ///< the process that allocated the block
  int64_t descriptor = -1;   ///< the file descriptor of the memory in that process
  uint64_t file_number = 0;  ///< the memory's inode, which shows if the descriptor was reused
  int64_t offset_bytes = 0;  ///< the block's offset in the memory
  int64_t size_bytes = 0;    ///< the block's size, possibly 0

  /// Returns "tessera-shared:PROCESS:DESCRIPTOR:FILE:OFFSET:SIZE" in decimal numbers.
  std::string ToString() const;
  /// Parses the result of ToString. Throws Error(kInvalidArgument) that quotes the text.
  static SharedBlock FromString(std::string_view text);

  friend bool operator==(const SharedBlock&, const SharedBlock&) = default;
};

/// Describes a live block of Device::CpuShared() memory that this process allocated.
///
/// The storage that allocated the block still owns its memory. Free it only after all processes
/// have stopped using it, because the pool then reuses it. The processes must synchronize their
/// reads and writes, as threads must. The child of a fork sees its parent's blocks at the same
/// addresses; only the parent's storage reuses their memory. Throws Error(kFailedPrecondition) for
/// a block of another device and for one that was freed. Thread-safe.
SharedBlock Share(const StorageHandle& block);

/// A mapping of another process's block into this process, which the destructor unmaps. The memory
/// exists as long as the mapping does, even if the process that allocated it ends.
class SharedMapping {
 public:
  /// Maps nothing.
  SharedMapping() = default;
  /// Maps a block. Throws Error: kNotFound if the process has ended, has released the memory to the
  /// system, or belongs to another user; kInvalidArgument if the location exceeds the memory;
  /// kResourceExhausted if the system cannot map it.
  static SharedMapping Open(const SharedBlock& block);

  SharedMapping(SharedMapping&& other) noexcept { swap(other); }
  SharedMapping& operator=(SharedMapping&& other) noexcept {
    SharedMapping(static_cast<SharedMapping&&>(other)).swap(*this);
    return *this;
  }
  ~SharedMapping();

  /// The block's first byte, aligned to 64 bytes. Null for 0 bytes.
  void* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  void swap(SharedMapping& other) noexcept;

  void* mapped_ = nullptr;  // whole pages around the block
  int64_t mapped_bytes_ = 0;
  void* data_ = nullptr;
  int64_t size_bytes_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_STORAGE_SHARED_MEMORY_H_
