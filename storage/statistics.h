#ifndef TESSERA_STORAGE_STATISTICS_H_
#define TESSERA_STORAGE_STATISTICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/device.h"

namespace tessera {

/// The statistics of one device's memory. Counts of live bytes are those that callers requested.
/// The numbers are exact if no other thread is inside storage. Otherwise each number is correct,
/// but they may stem from slightly different moments.
struct StorageStats {
  int64_t live_bytes = 0;      ///< requested for live blocks
  int64_t in_use_bytes = 0;    ///< live blocks after rounding up
  int64_t cached_bytes = 0;    ///< free: in the pool, in the threads' caches, and pending
  int64_t pending_bytes = 0;   ///< the part of cached_bytes whose streams may still use it
  int64_t reserved_bytes = 0;  ///< held from the system: in use + cached
  int64_t limit_bytes = 0;     ///< the maximum of reserved_bytes

  /// The highest live_bytes ever and since MarkPeak(). Both are exact with one thread. With several
  /// threads they may be too low by 4 MiB for each thread, and too high by 16 MiB for each thread
  /// that frees memory which it allocated (4 MiB for other threads). They never exceed
  /// peak_reserved_bytes.
  int64_t peak_bytes = 0;
  int64_t peak_since_mark_bytes = 0;
  int64_t peak_reserved_bytes = 0;  ///< the highest reserved_bytes ever

  int64_t allocations = 0;         ///< successful calls of Alloc
  int64_t frees = 0;               ///< freed blocks, except those of 0 bytes
  int64_t pool_hits = 0;           ///< allocations that needed no memory from the system
  int64_t system_allocations = 0;  ///< successful allocations from the system
  int64_t system_failures = 0;     ///< allocations that the system refused

  /// The largest free block of the pool. A request of up to this size needs nothing from the
  /// system.
  int64_t largest_cached_bytes = 0;

  /// Returns the share of the reserved peak that exceeds the requested peak:
  /// (peak_reserved - peak) / peak_reserved. Returns 0 before the first allocation.
  double Fragmentation() const;
};

/// The statistics of the memory that carries one tag.
struct StorageTagStats {
  std::string tag;          ///< the name that Alloc was given
  int64_t live_bytes = 0;   ///< requested for live blocks
  int64_t peak_bytes = 0;   ///< the highest live_bytes ever, as exact as StorageStats::peak_bytes
  int64_t allocations = 0;  ///< successful allocations
};

/// Formats the statistics as a readable table, one line for each number.
std::string StorageStatsTable(Device device, const StorageStats& stats,
                              const std::vector<StorageTagStats>& tags);

}  // namespace tessera

#endif  // TESSERA_STORAGE_STATISTICS_H_
