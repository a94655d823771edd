#include "tessera/ndarray/files/testing/peak_memory.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace tessera::ndarray_internal {
namespace {

/// Returns a field of /proc/self/status in bytes, or -1.
int64_t StatusBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kibibytes = 0;
    if (word == field && status >> kibibytes) return kibibytes << 10;
  }
  return -1;
}

}  // namespace

int64_t PeakGrowthBytes(const std::function<void()>& fn) {
  // Memory that was freed before must not be counted as taken, nor serve the function for free.
  malloc_trim(0);
  // "5" sets the peak to the present size.
  const bool is_reset =
      static_cast<bool>(std::ofstream("/proc/self/clear_refs") << "5" << std::flush);
  const int64_t before = StatusBytes("VmRSS:");
  fn();
  const int64_t peak = StatusBytes("VmHWM:");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#endif
  if (!is_reset || before < 0 || peak < 0) return 0;
  return std::max<int64_t>(peak - before, 0);
}

}  // namespace tessera::ndarray_internal
