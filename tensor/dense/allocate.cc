#include "tessera/tensor/dense/allocate.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace tessera::tensor_internal {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePageBytes = size_t{2} << 20;
// What has two huge pages at least begins with one, so that ordinary pages are at most the last
// part. It also keeps equal elements of two blocks apart in Zen's first cache, whose lines are told
// apart by 8 bits, made of address bits 12 to 27: at a distance of 128 MiB and a page, at which
// blocks of 128 MiB were mapped, they drove each other out.
constexpr int64_t kMinHugeBytes = 2 * int64_t{kHugePageBytes};

}  // namespace

template <>
void* AllocateBytes<cpu>(int64_t size_bytes) {
  if (size_bytes == 0) return nullptr;
  const bool huge = size_bytes >= kMinHugeBytes;
  const auto size = static_cast<size_t>(size_bytes);
  void* memory = nullptr;
  if (posix_memalign(&memory, huge ? kHugePageBytes : kAlignment, size) != 0) {
    throw ResourceExhausted("AllocSpace: no memory for ", size_bytes, " bytes on the CPU");
  }
  // Huge pages spare page faults, and a hardware prefetcher stops at the end of a page. Only
  // advice: where the kernel has none to give, ordinary ones do.
  constexpr size_t kPageBytes = 4096;
  if (huge) madvise(memory, size / kPageBytes * kPageBytes, MADV_HUGEPAGE);
  return memory;
}

template <>
void FreeBytes<cpu>(void* memory) {
  std::free(memory);
}

}  // namespace tessera::tensor_internal
