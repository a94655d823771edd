// Allocates host memory: large pieces as huge pages from the kernel, small ones by malloc.

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "tessera/storage/device/alignment.h"
#include "tessera/storage/device/system_allocator.h"

namespace tessera {
namespace {

constexpr int64_t kHugePageBytes = int64_t{2} << 20;

/// Maps whole pages at a multiple of the huge page size. It maps more and unmaps both ends.
void* MapAligned(int64_t size_bytes) {
  const int64_t mapped_bytes = size_bytes + kHugePageBytes;
  void* mapped = mmap(nullptr, static_cast<size_t>(mapped_bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(mapped);
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t aligned = (address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  char* const ptr = begin + (aligned - address);
  const int64_t tail_bytes = (begin + mapped_bytes) - (ptr + size_bytes);
  if (ptr != begin) munmap(begin, static_cast<size_t>(ptr - begin));
  if (tail_bytes > 0) munmap(ptr + size_bytes, static_cast<size_t>(tail_bytes));
  // This is advice: without free huge pages the kernel uses ordinary pages.
  madvise(ptr, static_cast<size_t>(size_bytes), MADV_HUGEPAGE);
  return ptr;
}

/// Maps pieces of a megabyte or more. A page fault then covers 2 MiB where a whole huge page fits,
/// and a release reaches the kernel at once.
class CpuMemory final : public SystemAllocator {
 public:
  void* Allocate(int64_t size_bytes) override {
    if (IsMapped(size_bytes)) return MapAligned(size_bytes);
    // aligned_alloc requires a multiple of the alignment, which all pools request.
    return std::aligned_alloc(storage_internal::kAlignment, static_cast<size_t>(size_bytes));
  }

  void Release(void* ptr, int64_t size_bytes) noexcept override {
    if (IsMapped(size_bytes)) {
      munmap(ptr, static_cast<size_t>(size_bytes));
    } else {
      std::free(ptr);
    }
  }

 private:
  static constexpr int64_t kMinMappedBytes = int64_t{1} << 20;
  static constexpr int64_t kPageBytes = 4096;

  static bool IsMapped(int64_t size_bytes) {
    return size_bytes >= kMinMappedBytes && size_bytes % kPageBytes == 0;
  }
};

[[maybe_unused]] const bool registered = RegisterSystemAllocator(
    DeviceType::kCpu,
    [](Device) -> std::unique_ptr<SystemAllocator> { return std::make_unique<CpuMemory>(); });

}  // namespace
}  // namespace tessera
