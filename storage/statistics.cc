#include "tessera/storage/statistics.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>

namespace tessera {

double StorageStats::Fragmentation() const {
  if (peak_reserved_bytes == 0) return 0;
  return static_cast<double>(peak_reserved_bytes - peak_bytes) /
         static_cast<double>(peak_reserved_bytes);
}

namespace {

/// Appends one line: a name, and a value to the right of it. A stream would hide a failure to
/// allocate memory and give half a table.
void AddLine(std::string* text, std::string_view name, const std::string& value) {
  constexpr size_t kNameWidth = 20;
  constexpr size_t kValueWidth = 20;
  *text += "  ";
  *text += name;
  if (name.size() < kNameWidth) text->append(kNameWidth - name.size(), ' ');
  if (value.size() < kValueWidth) text->append(kValueWidth - value.size(), ' ');
  *text += value;
  *text += '\n';
}

std::string Percent(double share) {
  return std::to_string(std::lround(share * 1000) / 10) + "." +
         std::to_string(std::lround(share * 1000) % 10) + " %";
}

}  // namespace

std::string StorageStatsTable(Device device, const StorageStats& stats,
                              const std::vector<StorageTagStats>& tags) {
  std::string text = device.ToString() + "\n";
  const auto line = [&text](std::string_view name, int64_t value) {
    AddLine(&text, name, std::to_string(value));
  };
  line("live bytes", stats.live_bytes);
  line("in use bytes", stats.in_use_bytes);
  line("cached bytes", stats.cached_bytes);
  line("pending bytes", stats.pending_bytes);
  line("reserved bytes", stats.reserved_bytes);
  if (stats.limit_bytes != std::numeric_limits<int64_t>::max()) {
    line("limit bytes", stats.limit_bytes);
  }
  line("peak bytes", stats.peak_bytes);
  line("peak since mark", stats.peak_since_mark_bytes);
  line("peak reserved", stats.peak_reserved_bytes);
  AddLine(&text, "fragmentation", Percent(stats.Fragmentation()));
  line("largest cached", stats.largest_cached_bytes);
  line("allocations", stats.allocations);
  line("frees", stats.frees);
  line("pool hits", stats.pool_hits);
  line("system allocations", stats.system_allocations);
  line("system failures", stats.system_failures);
  for (const StorageTagStats& tag : tags) {
    text += "  tag " + tag.tag + ": live " + std::to_string(tag.live_bytes) + ", peak " +
            std::to_string(tag.peak_bytes) + ", allocations " + std::to_string(tag.allocations) +
            "\n";
  }
  return text;
}

}  // namespace tessera
