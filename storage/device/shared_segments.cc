// Allocates memory that several processes map. Each segment is an anonymous file (memfd_create):
// a crash leaves no name behind, the size of /dev/shm does not limit it, and it lives as long as
// any process maps it. Other processes reach it through /proc/PROCESS/fd/DESCRIPTOR.

#include "tessera/storage/device/shared_segments.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <new>

#include "absl/base/thread_annotations.h"
#include "tessera/storage/device/file_descriptor.h"
#include "tessera/storage/device/fork_locks.h"
#include "tessera/storage/device/system_allocator.h"

namespace tessera {
namespace storage_internal {
namespace {

constexpr int64_t kPageBytes = 4096;

/// The segments of all storages of this process. Thread-safe.
class SharedSegments final : public ForkLocks {
 public:
  /// Throws std::bad_alloc.
  void Add(const SharedSegment& segment) {
    const std::lock_guard<std::mutex> lock(mutex_);
    segments_.emplace(segment.begin, segment);
  }

  /// Returns the segment's descriptor.
  int Remove(const char* begin) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = segments_.find(begin);
    const int descriptor = found->second.descriptor;
    segments_.erase(found);
    return descriptor;
  }

  std::optional<SharedSegment> Find(const char* address) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto after = segments_.upper_bound(address);
    if (after == segments_.begin()) return std::nullopt;
    const SharedSegment& segment = std::prev(after)->second;
    if (address - segment.begin >= segment.size_bytes) return std::nullopt;
    return segment;
  }

  void LockForFork(ForkStage stage) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (stage == ForkStage::kSystem) mutex_.lock();
  }
  void UnlockAfterFork(ForkSide) noexcept override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    mutex_.unlock();
  }

 private:
  mutable std::mutex mutex_;
  std::map<const char*, SharedSegment> segments_ ABSL_GUARDED_BY(mutex_);
  const ForkRegistration fork_registration_{this};
};

/// Returns the one object of its kind. It is never destroyed, like Storage::Get().
SharedSegments& AllSegments() {
  static auto* const segments = new SharedSegments();
  return *segments;
}

// The object exists before the first thread: the child of a fork would wait for ever for a thread
// that was making it.
[[maybe_unused]] const SharedSegments& made_early = AllSegments();

/// Reserves memory for an empty file; returns false if there is not enough. fallocate reserves it
/// now. ftruncate would not: the kernel would kill a process that touches a page when memory is
/// short.
bool ReserveMemory(int file, int64_t size_bytes) {
  // A signal interrupts the call, which then has reserved nothing. Smaller pieces succeed between
  // signals that come faster than the whole file can be reserved.
  int64_t piece_bytes = size_bytes;
  for (int64_t reserved_bytes = 0; reserved_bytes < size_bytes;) {
    const int64_t next_bytes = std::min(piece_bytes, size_bytes - reserved_bytes);
    if (fallocate(file, 0, reserved_bytes, next_bytes) == 0) {
      reserved_bytes += next_bytes;
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
    FileDescriptor file(NewAnonymousFile(size_bytes));
    if (file.get() < 0) return nullptr;
    struct stat status;
    if (fstat(file.get(), &status) != 0) return nullptr;
    void* const mapped = mmap(nullptr, static_cast<size_t>(size_bytes), PROT_READ | PROT_WRITE,
                              MAP_SHARED, file.get(), 0);
    if (mapped == MAP_FAILED) return nullptr;
    try {
      AllSegments().Add({static_cast<char*>(mapped), size_bytes, file.get(),
                         static_cast<uint64_t>(status.st_ino)});
    } catch (const std::bad_alloc&) {
      munmap(mapped, static_cast<size_t>(size_bytes));
      return nullptr;
    }
    file.Release();
    return mapped;
  }

  void Release(void* ptr, int64_t size_bytes) noexcept override {
    close(AllSegments().Remove(static_cast<char*>(ptr)));
    munmap(ptr, static_cast<size_t>(size_bytes));
  }

  bool copied_by_fork() const override { return false; }
};

[[maybe_unused]] const bool registered = RegisterSystemAllocator(
    DeviceType::kCpuShared,
    [](Device) -> std::unique_ptr<SystemAllocator> { return std::make_unique<SharedMemory>(); });

}  // namespace

int NewAnonymousFile(int64_t size_bytes) {
  FileDescriptor file(memfd_create("tessera", MFD_CLOEXEC));
  if (file.get() < 0 || !ReserveMemory(file.get(), size_bytes)) return -1;
  return file.Release();
}

std::optional<SharedSegment> FindSharedSegment(const void* address) {
  return AllSegments().Find(static_cast<const char*>(address));
}

}  // namespace storage_internal
}  // namespace tessera
