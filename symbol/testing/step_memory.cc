#include "tessera/symbol/testing/step_memory.h"

#include "tessera/base/device.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/storage/storage.h"

namespace tessera::symbol_testing {
namespace {

/// Returns the live bytes of graphs' memory for intermediate results.
int64_t GraphBytes() {
  for (const StorageTagStats& stats : Storage::Get()->TagStats(Device::Cpu())) {
    if (stats.tag == "graph") return stats.live_bytes;
  }
  return 0;
}

}  // namespace

int64_t BytesHeldAtPeak(const std::function<void()>& step) {
  Storage* const storage = Storage::Get();
  NDArray::WaitAll();
  const int64_t before = storage->Stats(Device::Cpu()).live_bytes - GraphBytes();
  storage->MarkPeak(Device::Cpu());
  step();
  NDArray::WaitAll();
  return storage->Stats(Device::Cpu()).peak_since_mark_bytes - before;
}

}  // namespace tessera::symbol_testing
