#include "tessera/tensor/dense/allocate.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace tessera::tensor_internal {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePageBytes = size_t{2} << 20;
// A block of at least two huge pages begins on a huge page, so that at most its last part lies on
// ordinary pages. The alignment also keeps equal elements of two blocks from evicting each other in
// Zen's first-level cache. The cache tells lines apart by 8 bits, which it makes of address bits 12
// to 27. Unaligned blocks of 128 MiB were mapped 128 MiB and one page apart, and their lines
// collided.
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
  // Huge pages cause fewer page faults, and a hardware prefetcher stops at the end of a page. The
  // call is advice: without free huge pages the kernel uses ordinary ones.
  constexpr size_t kPageBytes = 4096;
  if (huge) madvise(memory, size / kPageBytes * kPageBytes, MADV_HUGEPAGE);
  return memory;
}

template <>
void FreeBytes<cpu>(void* memory) {
  std::free(memory);
}

}  // namespace tessera::tensor_internal
