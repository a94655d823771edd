#ifndef TESSERA_STORAGE_OPTIONS_H_
#define TESSERA_STORAGE_OPTIONS_H_

#include <cstdint>
#include <limits>
#include <memory>

#include "tessera/base/device.h"
#include "tessera/storage/device/stream_events.h"
#include "tessera/storage/device/system_allocator.h"

namespace tessera {

/// How freed blocks are kept for reuse.
enum class StoragePoolKind {
  /// Nothing is kept: each block is one system allocation. For finding memory errors.
  kNone,
  /// A freed block serves requests of exactly its size (in multiples of 64 bytes). Never wastes a
  /// byte in a block, but keeps one block for each size it has ever seen.
  kExact,
  /// Sizes are rounded up to a power of two below `round_linear_cutoff_bytes` and to multiples of
  /// it above. Few different sizes, so much reuse where sizes vary; up to half of a block is waste.
  kRounded,
  /// Blocks are cut from large segments, the smallest free one that fits is used, and neighbours
  /// that are both free are joined. Each thread caches some. The default.
  kBestFit,
};

/// In the place of a number of bytes: as much as there is.
inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// How one device's memory is managed.
struct StorageOptions {
  /// How freed blocks are kept.
  StoragePoolKind pool = StoragePoolKind::kBestFit;

  /// The most that may be held from the system at a time, live and cached together.
  int64_t limit_bytes = kNoLimit;

  /// The most that may stay cached, beside what the threads' caches hold: of small and of larger
  /// blocks each at most a 64th of this for each thread. What a Free leaves above it, or an Alloc
  /// that looked into those caches, goes back to the system, as far as whole system allocations are
  /// free.
  int64_t cached_limit_bytes = kNoLimit;

  /// For StoragePoolKind::kRounded; a power of two.
  int64_t round_linear_cutoff_bytes = int64_t{1} << 24;

  /// The most that one thread keeps of small freed blocks (up to 64 KiB each), for
  /// StoragePoolKind::kBestFit, beside larger ones of up to 8 MiB each and 128 MiB together; 0
  /// turns the threads' caches off. When the pool has nothing that fits, it takes some back before
  /// it asks the system. The default holds what a step of a recurrent network frees of them.
  int64_t thread_cache_bytes = int64_t{16} << 20;

  /// Where the memory comes from; null means what this build registered for the device. Tests
  /// inject failures here.
  std::shared_ptr<SystemAllocator> system_allocator = nullptr;

  /// How far the device's streams have come, for AllocOnStream and FreeOnStream; null means what
  /// this build registered for the device, or else that there are no streams.
  std::shared_ptr<StreamEvents> stream_events = nullptr;

  /// The settings for `device` from the environment, where DEV is CPU, GPU, CPU_PINNED or
  /// CPU_SHARED:
  ///   TESSERA_DEV_MEM_POOL_TYPE = none | exact | round | best_fit
  ///   TESSERA_DEV_MEM_LIMIT_MB, TESSERA_DEV_MEM_CACHED_LIMIT_MB, TESSERA_DEV_MEM_THREAD_CACHE_MB
  ///     (2^20 bytes each)
  ///   TESSERA_DEV_MEM_POOL_ROUND_LINEAR_CUTOFF (the power of two's exponent, 12 to 40)
  /// Throws Error(kInvalidArgument) that names the variable.
  static StorageOptions FromEnvironment(Device device);
};

}  // namespace tessera

#endif  // TESSERA_STORAGE_OPTIONS_H_
