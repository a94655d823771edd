#include "tessera/storage/pool/live_bytes.h"

namespace tessera::storage_internal {
namespace {

void Raise(std::atomic<int64_t>* peak, int64_t value) {
  int64_t known = peak->load(std::memory_order_relaxed);
  while (value > known && !peak->compare_exchange_weak(known, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

void LiveBytes::Report(int64_t change, int64_t peak) {
  // Relaxed: the count orders nothing.
  const int64_t highest = live_.fetch_add(change, std::memory_order_relaxed) + peak;
  Raise(&peak_, highest);
  Raise(&peak_since_mark_, highest);
}

void UnreportedBytes::Flush(LiveBytes* live) {
  if (bytes_ == 0 && peak_bytes_ == 0) return;
  live->Report(bytes_, peak_bytes_);
  max_given_ = std::clamp(max_given_ + bytes_, kMaxBytes, kMaxGivenBytes);
  bytes_ = peak_bytes_ = 0;
}

}  // namespace tessera::storage_internal
