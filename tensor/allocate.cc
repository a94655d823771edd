#include "tessera/tensor/allocate.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace tessera::tensor_internal {
namespace {

constexpr std::align_val_t kAlignment{64};

// From two huge pages on one at least lies within the block as a whole.
constexpr int64_t kMinHugeBytes = int64_t{4} << 20;
constexpr uintptr_t kPageBytes = 4096;

// Huge pages spare page faults, and a hardware prefetcher stops at the end of a page. Only advice:
// where the kernel has none to give, ordinary ones do.
void AdviseHugePages(void* memory, int64_t size_bytes) {
  if (size_bytes < kMinHugeBytes) return;
  const auto begin = (reinterpret_cast<uintptr_t>(memory) + kPageBytes - 1) / kPageBytes;
  const auto end =
      (reinterpret_cast<uintptr_t>(memory) + static_cast<uintptr_t>(size_bytes)) / kPageBytes;
  madvise(reinterpret_cast<void*>(begin * kPageBytes), (end - begin) * kPageBytes, MADV_HUGEPAGE);
}

}  // namespace

template <>
void* AllocateBytes<cpu>(int64_t size_bytes) {
  if (size_bytes == 0) return nullptr;
  void* memory = ::operator new(static_cast<size_t>(size_bytes), kAlignment, std::nothrow);
  if (memory == nullptr) {
    throw ResourceExhausted("AllocSpace: no memory for ", size_bytes, " bytes on the CPU");
  }
  AdviseHugePages(memory, size_bytes);
  return memory;
}

template <>
void FreeBytes<cpu>(void* memory) {
  ::operator delete(memory, kAlignment);
}

}  // namespace tessera::tensor_internal
