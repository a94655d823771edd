#ifndef TESSERA_STORAGE_OPTIONS_H_
#define TESSERA_STORAGE_OPTIONS_H_

#include <cstdint>
#include <limits>
#include <memory>

#include "tessera/base/device.h"
#include "tessera/storage/device/stream_events.h"
#include "tessera/storage/device/system_allocator.h"

namespace tessera {

/// The way in which a pool keeps freed blocks for reuse.
enum class StoragePoolKind {
  /// The pool keeps nothing: each block is one system allocation. Useful to find memory errors.
  kNone,
  /// A freed block serves requests of exactly its size, rounded up to multiples of 64 bytes. Blocks
  /// waste no memory, but the pool keeps blocks of each size that was ever requested.
  kExact,
  /// Sizes are rounded up: to a power of two below `round_linear_cutoff_bytes`, to multiples of it
  /// above. Requests of varying sizes often reuse blocks. Up to half of a block is waste.
  kRounded,
  /// The default. Blocks are cut from large segments. A request gets the smallest free block that
  /// fits, and free neighbours are joined. Each thread caches some blocks.
  kBestFit,
};

/// The value of a limit in bytes that stands for no limit.
inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// The settings of one device's pool.
struct StorageOptions {
  /// The way in which freed blocks are kept.
  StoragePoolKind pool = StoragePoolKind::kBestFit;

  /// The maximum that the pool may hold from the system, live and cached memory together.
  int64_t limit_bytes = kNoLimit;

  /// The maximum that the pool may keep cached outside the threads' caches. Memory above it is
  /// released to the system if a whole system allocation is free. Each thread's cache may hold a
  /// 64th of this limit in small blocks, and a 64th in larger ones.
  int64_t cached_limit_bytes = kNoLimit;

  /// The cutoff of StoragePoolKind::kRounded, a power of two of at least 64.
  int64_t round_linear_cutoff_bytes = int64_t{1} << 24;

  /// The maximum that one thread's cache keeps in small blocks, of up to 64 KiB each, for
  /// StoragePoolKind::kBestFit. The cache also keeps larger blocks of up to 8 MiB each, 128 MiB
  /// together. The value 0 turns the threads' caches off. A pool without a free block that fits
  /// takes blocks from the caches before it asks the system. The default holds all small blocks
  /// that a training step of a recurrent network frees.
  int64_t thread_cache_bytes = int64_t{16} << 20;

  /// The source of memory. Null stands for the one that this build registered for the device. Tests
  /// inject failures here.
  std::shared_ptr<SystemAllocator> system_allocator = nullptr;

  /// The events of the device's streams, for AllocOnStream and FreeOnStream. Null stands for those
  /// that this build registered for the device. A device without any has no streams.
  std::shared_ptr<StreamEvents> stream_events = nullptr;

  /// Reads the settings for `device` from the environment. DEV stands for CPU, GPU, CPU_PINNED or
  /// CPU_SHARED:
  ///   TESSERA_DEV_MEM_POOL_TYPE = none | exact | round | best_fit
  ///   TESSERA_DEV_MEM_LIMIT_MB, TESSERA_DEV_MEM_CACHED_LIMIT_MB, TESSERA_DEV_MEM_THREAD_CACHE_MB
  ///     (2^20 bytes each)
  ///   TESSERA_DEV_MEM_POOL_ROUND_LINEAR_CUTOFF (the power of two's exponent, 12 to 40)
  /// Throws Error(kInvalidArgument) that names the variable if its value is out of range.
  static StorageOptions FromEnvironment(Device device);
};

}  // namespace tessera

#endif  // TESSERA_STORAGE_OPTIONS_H_
