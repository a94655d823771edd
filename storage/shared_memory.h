#ifndef TESSERA_STORAGE_SHARED_MEMORY_H_
#define TESSERA_STORAGE_SHARED_MEMORY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/storage/handle.h"

namespace tessera {

/// Where a block of Device::CpuShared() lies, in words that another process understands: a value
/// that may travel through a pipe, an argument or a file.
///
///     // One process:
///     const Storage::Handle block = storage->Alloc(size, Device::CpuShared());
///     Send(Share(block).ToString());
///     // Another one, of the same user on the same machine:
///     const SharedMapping mapping = SharedMapping::Open(SharedBlock::FromString(Receive()));
///     std::memcpy(mapping.data(), from, mapping.size_bytes());
struct SharedBlock {
  int64_t process_id = 0;    ///< of the process that allocated it
  int64_t descriptor = -1;   ///< the process's file descriptor of the memory
  uint64_t file_number = 0;  ///< the memory's inode, which tells it from what came after it
  int64_t offset_bytes = 0;  ///< the block's place in the memory
  int64_t size_bytes = 0;    ///< 0 for a block of no bytes

  /// "tessera-shared:PROCESS:DESCRIPTOR:FILE:OFFSET:SIZE" in decimal numbers.
  std::string ToString() const;
  /// Reads what ToString wrote. Throws Error(kInvalidArgument) that quotes the text.
  static SharedBlock FromString(std::string_view text);

  friend bool operator==(const SharedBlock&, const SharedBlock&) = default;
};

/// Describes a live block of Device::CpuShared() memory that this process allocated.
///
/// The block's memory stays with the storage that it came from: Free it only when other processes
/// use it no more, since the pool hands it out again. The order of reads and writes is the
/// processes' own affair, as between threads. The child of a fork has its parent's blocks at the
/// same addresses; the parent's storage alone hands their memory out again.
/// Throws Error(kFailedPrecondition) for any other block and for one that was freed.
/// Threads: safe.
SharedBlock Share(const StorageHandle& block);

/// Another process's block in this process's memory, until the mapping goes. The memory stays even
/// if the process that allocated it ends.
class SharedMapping {
 public:
  /// Maps nothing.
  SharedMapping() = default;
  /// Throws Error: kNotFound if the process has ended, has given the memory back to the system, or
  /// may not be looked at by this user; kInvalidArgument if no block can lie there;
  /// kResourceExhausted if it cannot be mapped.
  static SharedMapping Open(const SharedBlock& block);

  SharedMapping(SharedMapping&& other) noexcept { swap(other); }
  SharedMapping& operator=(SharedMapping&& other) noexcept {
    SharedMapping(static_cast<SharedMapping&&>(other)).swap(*this);
    return *this;
  }
  ~SharedMapping();

  /// The block's first byte, aligned to 64 bytes; null for a block of no bytes.
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
