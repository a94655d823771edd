#ifndef TESSERA_STORAGE_STATISTICS_H_
#define TESSERA_STORAGE_STATISTICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/device.h"

namespace tessera {

/// Memory of one device, as Storage::Stats() saw it. Byte counts of live memory are what callers
/// asked for. Exact when no other thread is inside storage; while others are, each figure is right
/// but they may stem from slightly different moments.
struct StorageStats {
  int64_t live_bytes = 0;      ///< asked for by blocks that are out
  int64_t in_use_bytes = 0;    ///< the same blocks after rounding up
  int64_t cached_bytes = 0;    ///< free: in the pool, in the threads' caches, and pending
  int64_t pending_bytes = 0;   ///< of those, freed on streams whose work is not known to be done
  int64_t reserved_bytes = 0;  ///< held from the system: in use + cached
  int64_t limit_bytes = 0;     ///< the most that may be reserved

  /// The highest live_bytes ever and since MarkPeak(). Exact with one thread. With several it may
  /// be too low by up to 4 MiB for each of them, and too high by up to 16 MiB for each that takes
  /// and gives back memory (4 MiB for others), but is never above what was reserved.
  int64_t peak_bytes = 0;
  int64_t peak_since_mark_bytes = 0;
  int64_t peak_reserved_bytes = 0;  ///< the highest reserved_bytes ever

  int64_t allocations = 0;         ///< successful calls of Alloc
  int64_t frees = 0;               ///< calls of Free and DirectFree on blocks that have bytes
  int64_t pool_hits = 0;           ///< allocations that took nothing from the system
  int64_t system_allocations = 0;  ///< times that the system gave memory
  int64_t system_failures = 0;     ///< times that it refused

  /// The largest free block of the pool: a request up to this size takes nothing from the system.
  int64_t largest_cached_bytes = 0;

  /// What the pool reserved beyond the peak of what was asked for, as a share of the former:
  /// (peak_reserved - peak) / peak_reserved; 0 before the first allocation.
  double Fragmentation() const;
};

/// Live memory that carries one tag.
struct StorageTagStats {
  std::string tag;          ///< as given to Alloc
  int64_t live_bytes = 0;   ///< asked for by blocks that are out
  int64_t peak_bytes = 0;   ///< the most that live_bytes ever was, as in StorageStats
  int64_t allocations = 0;  ///< blocks that were ever given out
};

/// The figures as a table for people, one line each.
std::string StorageStatsTable(Device device, const StorageStats& stats,
                              const std::vector<StorageTagStats>& tags);

}  // namespace tessera

#endif  // TESSERA_STORAGE_STATISTICS_H_
