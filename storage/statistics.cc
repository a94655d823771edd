#include "tessera/storage/statistics.h"

#include <iomanip>
#include <limits>
#include <sstream>

namespace tessera {

double StorageStats::Fragmentation() const {
  if (peak_reserved_bytes == 0) return 0;
  return static_cast<double>(peak_reserved_bytes - peak_bytes) /
         static_cast<double>(peak_reserved_bytes);
}

std::string StorageStatsTable(Device device, const StorageStats& stats,
                              const std::vector<StorageTagStats>& tags) {
  std::ostringstream text;
  const auto line = [&text](std::string_view name, int64_t value) {
    text << "  " << std::left << std::setw(20) << name << std::right << std::setw(20) << value
         << "\n";
  };
  text << device << "\n";
  line("live bytes", stats.live_bytes);
  line("in use bytes", stats.in_use_bytes);
  line("cached bytes", stats.cached_bytes);
  line("reserved bytes", stats.reserved_bytes);
  if (stats.limit_bytes != std::numeric_limits<int64_t>::max()) {
    line("limit bytes", stats.limit_bytes);
  }
  line("peak bytes", stats.peak_bytes);
  line("peak since mark", stats.peak_since_mark_bytes);
  line("peak reserved", stats.peak_reserved_bytes);
  line("largest cached", stats.largest_cached_bytes);
  line("allocations", stats.allocations);
  line("frees", stats.frees);
  line("pool hits", stats.pool_hits);
  line("system allocations", stats.system_allocations);
  line("system failures", stats.system_failures);
  for (const StorageTagStats& tag : tags) {
    text << "  tag " << tag.tag << ": live " << tag.live_bytes << ", peak " << tag.peak_bytes
         << ", allocations " << tag.allocations << "\n";
  }
  return text.str();
}

}  // namespace tessera
