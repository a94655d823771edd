#ifndef TESSERA_STORAGE_SHARED_FILE_H_
#define TESSERA_STORAGE_SHARED_FILE_H_

#include <cstdint>
#include <memory>

#include "tessera/base/dialect.h"

namespace tessera {

/// Memory in an anonymous file of its own, which processes share by passing the file's descriptor:
/// to the child of a fork, or through a Unix socket. Memory of a pool is passed by Share instead,
/// which asks the sender to keep the block until the receiver is done. A file needs no such
/// agreement: it exists as long as any process has a SharedFile of it. Storage's limits and
/// statistics do not count it.
///
///     // One process:
///     const std::shared_ptr<SharedFile> file = SharedFile::Create(size);
///     SendDescriptor(socket, file->descriptor());
///     // Another one:
///     const std::shared_ptr<SharedFile> same = SharedFile::Open(ReceiveDescriptor(socket), size);
///
/// Threads: an object may be used and destroyed by any thread. Processes must synchronize their
/// reads and writes of the memory.
class SharedFile {
 public:
  /// Makes a file of zeros. Throws Error(kInvalidArgument) for a negative size, and
  /// Error(kResourceExhausted) if the system has no memory or no descriptor left.
  static std::shared_ptr<SharedFile> Create(int64_t size_bytes);

  /// Maps the file of a descriptor, which the object then owns. A descriptor that another object of
  /// this process owns is duplicated. Throws Error(kInvalidArgument) if it is no descriptor of a
  /// file with `size_bytes` bytes or more, and Error(kResourceExhausted) if the system cannot map
  /// the file. The descriptor still belongs to the caller after an error.
  static std::shared_ptr<SharedFile> Open(int descriptor, int64_t size_bytes);

  /// Unmaps the memory and closes the descriptor.
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  /// Returns the first byte, aligned to a page; also for a size of 0.
  void* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }
  /// Returns the file's descriptor, which the object owns.
  int descriptor() const { return descriptor_; }

 private:
  SharedFile() = default;
  /// Maps a file, without owning it yet.
  static std::shared_ptr<SharedFile> Map(const char* caller, int descriptor, int64_t size_bytes);
  /// Owns the descriptor that was mapped, or a copy of it if another object owns it.
  void Own(int descriptor);

  int descriptor_ = -1;
  void* data_ = nullptr;
  int64_t size_bytes_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_STORAGE_SHARED_FILE_H_
