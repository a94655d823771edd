#ifndef TESSERA_STORAGE_POOL_SIZE_CLASS_H_
#define TESSERA_STORAGE_POOL_SIZE_CLASS_H_

#include <bit>
#include <cstdint>

#include "tessera/base/error.h"
#include "tessera/storage/device/alignment.h"
#include "tessera/storage/pool/block.h"

namespace tessera::storage_internal {

/// Returns the class of a size. In units of kAlignment the classes end at 1, 2, …, 16, 18, 20, …,
/// 32, 36, …, eight for each doubling. A size rounded up to its class grows by less than an eighth.
///
/// With n the size in units of kAlignment and s = max(0, bit_width(n - 1) - 4), the class of n > 8
/// is 8 s + ((n - 1) >> s), and its largest member is (((n - 1) >> s) + 1) << s.
///
/// Requires: size_bytes > 0.
constexpr int SizeClass(int64_t size_bytes) {
  TESSERA_DCHECK(size_bytes > 0);
  const uint64_t below = static_cast<uint64_t>(size_bytes - 1) / kAlignment;  // n - 1
  if (below < 8) return static_cast<int>(below);
  const int shift = std::bit_width(below) - 4;
  return 8 * shift + static_cast<int>(below >> shift);
}

/// Returns the largest size in a class.
constexpr int64_t SizeOfClass(int size_class) {
  if (size_class < 16) return (size_class + 1) * kAlignment;
  const int shift = size_class / 8 - 1;
  return (int64_t{size_class % 8 + 8 + 1} << shift) * kAlignment;
}

/// The largest size of small blocks, which are rounded up to their class.
inline constexpr int64_t kMaxSmallBytes = int64_t{64} << 10;
inline constexpr int kNumSmallClasses = SizeClass(kMaxSmallBytes) + 1;
static_assert(SizeOfClass(kNumSmallClasses - 1) == kMaxSmallBytes);

/// Returns the kind of blocks of a size. Large blocks are whole pages.
constexpr BlockKind KindOf(int64_t size_bytes) {
  return size_bytes <= kMaxSmallBytes ? BlockKind::kSmall : BlockKind::kLarge;
}
inline constexpr int64_t kPageBytes = int64_t{4} << 10;

constexpr int64_t RoundUpTo(int64_t size_bytes, int64_t multiple) {
  return (size_bytes + multiple - 1) / multiple * multiple;
}

/// Returns the size to which the best-fit strategy rounds a size up.
constexpr int64_t RoundUpForBestFit(int64_t size_bytes) {
  return size_bytes <= kMaxSmallBytes ? SizeOfClass(SizeClass(size_bytes))
                                      : RoundUpTo(size_bytes, kPageBytes);
}

/// The largest size of a request. The address space of today's machines has 47 bits.
inline constexpr int64_t kMaxAllocBytes = int64_t{1} << 46;
inline constexpr int kNumClasses = SizeClass(2 * kMaxAllocBytes) + 1;

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_SIZE_CLASS_H_
