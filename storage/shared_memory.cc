// Host memory that several processes map. Each piece from the system is an anonymous file
// (memfd_create): it has no name that a crash would leave behind, does not count against the size
// of /dev/shm, and lives as long as somebody maps it. Other processes reach it through
// /proc/PROCESS/fd/DESCRIPTOR.

#include "tessera/storage/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "tessera/base/error.h"
#include "tessera/storage/block.h"
#include "tessera/storage/fork_locks.h"
#include "tessera/storage/host_memory.h"
#include "tessera/storage/system_allocator.h"

namespace tessera {

using storage_internal::ForkLocks;
using storage_internal::ForkRegistration;
using storage_internal::ForkSide;
using storage_internal::ForkStage;
using storage_internal::OrResourceExhausted;

namespace {

constexpr std::string_view kPrefix = "tessera-shared";
constexpr int64_t kPageBytes = 4096;

/// Closes a file descriptor at the end of a scope.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() {
    if (number_ >= 0) close(number_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const { return number_; }
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// The pieces that this process got from the system, for all storages. Thread-safe.
class Pieces final : public ForkLocks {
 public:
  struct Piece {
    int descriptor = -1;
    uint64_t file_number = 0;
    int64_t size_bytes = 0;
  };

  /// Throws std::bad_alloc.
  void Add(const char* begin, const Piece& piece) {
    const std::lock_guard<std::mutex> lock(mutex_);
    pieces_.emplace(begin, piece);
  }

  /// Returns the piece's descriptor.
  int Remove(const char* begin) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = pieces_.find(begin);
    const int descriptor = found->second.descriptor;
    pieces_.erase(found);
    return descriptor;
  }

  /// The piece that holds the address, and the address's place in it; false if there is none.
  bool Find(const char* address, Piece* piece, int64_t* offset_bytes) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto found = pieces_.upper_bound(address);
    if (found == pieces_.begin()) return false;
    --found;
    *offset_bytes = address - found->first;
    *piece = found->second;
    return *offset_bytes < piece->size_bytes;
  }

  void LockForFork(ForkStage stage) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (stage == ForkStage::kSystem) mutex_.lock();
  }
  void UnlockAfterFork(ForkSide) noexcept override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    mutex_.unlock();
  }

 private:
  mutable std::mutex mutex_;
  std::map<const char*, Piece> pieces_ ABSL_GUARDED_BY(mutex_);
  const ForkRegistration fork_registration_{this};
};

/// Never destroyed, as Storage::Get() is not.
Pieces& AllPieces() {
  static auto* const pieces = new Pieces();
  return *pieces;
}

// Before there are threads, as Storage::Get() is.
[[maybe_unused]] const Pieces& made_early = AllPieces();

/// Takes the memory of an empty file; false if there is none. fallocate, unlike ftruncate, takes it
/// now: otherwise a machine that has too little of it would kill whoever touches a page first.
bool TakeMemory(int file, int64_t size_bytes) {
  // A signal interrupts the call, which then has taken nothing. Where signals come faster than all
  // of the memory can be had, pieces get through between them.
  int64_t piece_bytes = size_bytes;
  for (int64_t taken_bytes = 0; taken_bytes < size_bytes;) {
    const int64_t next_bytes = std::min(piece_bytes, size_bytes - taken_bytes);
    if (fallocate(file, 0, taken_bytes, next_bytes) == 0) {
      taken_bytes += next_bytes;
    } else if (errno == EINTR) {
      piece_bytes = std::max(kPageBytes, next_bytes / 2 / kPageBytes * kPageBytes);
    } else {
      return false;
    }
  }
  return true;
}

class SharedMemory final : public SystemAllocator {
 public:
  void* Allocate(int64_t size_bytes) override {
    FileDescriptor file(memfd_create("tessera", MFD_CLOEXEC));
    if (file.get() < 0) return nullptr;
    if (!TakeMemory(file.get(), size_bytes)) return nullptr;
    struct stat status;
    if (fstat(file.get(), &status) != 0) return nullptr;
    void* const mapped = mmap(nullptr, static_cast<size_t>(size_bytes), PROT_READ | PROT_WRITE,
                              MAP_SHARED, file.get(), 0);
    if (mapped == MAP_FAILED) return nullptr;
    try {
      AllPieces().Add(static_cast<char*>(mapped),
                      {file.get(), static_cast<uint64_t>(status.st_ino), size_bytes});
    } catch (const std::bad_alloc&) {
      munmap(mapped, static_cast<size_t>(size_bytes));
      return nullptr;
    }
    file.Release();
    return mapped;
  }

  void Release(void* ptr, int64_t size_bytes) noexcept override {
    close(AllPieces().Remove(static_cast<char*>(ptr)));
    munmap(ptr, static_cast<size_t>(size_bytes));
  }

  bool copied_by_fork() const override { return false; }
};

[[maybe_unused]] const bool registered = RegisterSystemAllocator(
    DeviceType::kCpuShared,
    [](Device) -> std::unique_ptr<SystemAllocator> { return std::make_unique<SharedMemory>(); });

/// Takes one number and the colon before it off the front of `text`; false if there is none.
template <typename Number>
bool ReadNumber(std::string_view* text, Number* number) {
  if (text->empty() || text->front() != ':') return false;
  const char* const begin = text->data() + 1;
  const auto [end, error] = std::from_chars(begin, text->data() + text->size(), *number);
  if (error != std::errc() || *number < 0) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

}  // namespace

std::string SharedBlock::ToString() const {
  return OrResourceExhausted("SharedBlock::ToString", [this] {
    std::string text(kPrefix);
    for (const int64_t number : {process_id, descriptor}) text += ":" + std::to_string(number);
    text += ":" + std::to_string(file_number);
    for (const int64_t number : {offset_bytes, size_bytes}) text += ":" + std::to_string(number);
    return text;
  });
}

SharedBlock SharedBlock::FromString(std::string_view text) {
  SharedBlock block;
  std::string_view rest = text;
  const bool has_prefix = rest.starts_with(kPrefix);
  if (has_prefix) rest.remove_prefix(kPrefix.size());
  if (!has_prefix || !ReadNumber(&rest, &block.process_id) ||
      !ReadNumber(&rest, &block.descriptor) || !ReadNumber(&rest, &block.file_number) ||
      !ReadNumber(&rest, &block.offset_bytes) || !ReadNumber(&rest, &block.size_bytes) ||
      !rest.empty()) {
    throw InvalidArgument("SharedBlock::FromString: \"", text, "\"; expected ", kPrefix,
                          ":PROCESS:DESCRIPTOR:FILE:OFFSET:SIZE");
  }
  return block;
}

SharedBlock Share(const StorageHandle& block) {
  SharedBlock shared = {.process_id = getpid(), .descriptor = 0};
  if (block.block == nullptr) return shared;
  Pieces::Piece piece;
  const bool live = block.block->IsIn(block.generation);
  if (!live || block.device.type != DeviceType::kCpuShared ||
      !AllPieces().Find(static_cast<const char*>(block.dptr), &piece, &shared.offset_bytes)) {
    throw FailedPrecondition("Share: the block of ", block.size_bytes, " bytes on ", block.device,
                             live ? " is" : " was freed; it is",
                             " no live block of Device::CpuShared()");
  }
  shared.descriptor = piece.descriptor;
  shared.file_number = piece.file_number;
  shared.size_bytes = block.size_bytes;
  return shared;
}

SharedMapping SharedMapping::Open(const SharedBlock& block) {
  SharedMapping mapping;
  if (block.size_bytes == 0) return mapping;
  const std::string path = OrResourceExhausted("SharedMapping::Open", [&block] {
    return "/proc/" + std::to_string(block.process_id) + "/fd/" + std::to_string(block.descriptor);
  });
  const FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status;
  if (file.get() < 0 || fstat(file.get(), &status) != 0) {
    throw NotFound("SharedMapping::Open: ", block.ToString(), ": ", path, ": ",
                   std::strerror(errno), "; expected a process that lives and holds the block");
  }
  // A descriptor that was used again may name a file elsewhere with the same number.
  struct statfs system;
  const bool in_memory = fstatfs(file.get(), &system) == 0 && system.f_type == TMPFS_MAGIC;
  if (!in_memory || static_cast<uint64_t>(status.st_ino) != block.file_number) {
    throw NotFound("SharedMapping::Open: ", block.ToString(),
                   ": the process has given this memory back");
  }
  const int64_t file_bytes = status.st_size;
  if (block.offset_bytes < 0 || block.size_bytes < 0 || block.offset_bytes > file_bytes ||
      block.size_bytes > file_bytes - block.offset_bytes) {
    throw InvalidArgument("SharedMapping::Open: ", block.ToString(), ": the memory has only ",
                          file_bytes, " bytes");
  }
  const int64_t before_bytes = block.offset_bytes % kPageBytes;
  mapping.mapped_bytes_ = before_bytes + block.size_bytes;
  void* const mapped =
      mmap(nullptr, static_cast<size_t>(mapping.mapped_bytes_), PROT_READ | PROT_WRITE, MAP_SHARED,
           file.get(), static_cast<off_t>(block.offset_bytes - before_bytes));
  if (mapped == MAP_FAILED) {
    throw ResourceExhausted("SharedMapping::Open: ", block.ToString(), ": ", std::strerror(errno));
  }
  mapping.mapped_ = mapped;
  mapping.data_ = static_cast<char*>(mapped) + before_bytes;
  mapping.size_bytes_ = block.size_bytes;
  return mapping;
}

SharedMapping::~SharedMapping() {
  if (mapped_ != nullptr) munmap(mapped_, static_cast<size_t>(mapped_bytes_));
}

void SharedMapping::swap(SharedMapping& other) noexcept {
  std::swap(mapped_, other.mapped_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
}

}  // namespace tessera
