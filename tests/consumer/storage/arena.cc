// Frames of a video that come and go: the pool asks the system once for each size in flight.
#include <cstdio>
#include <vector>

#include "tessera/storage/storage.h"

using namespace tessera;  // NOLINT

int main() {
  Storage* const storage = Storage::Get();
  constexpr int64_t kFrameBytes = 1920 * 1080 * 3;
  for (int frame = 0; frame < 1000; ++frame) {
    std::vector<Storage::Handle> in_flight;
    for (const char* const stage : {"decoded", "scaled", "encoded"}) {
      in_flight.push_back(storage->Alloc(kFrameBytes, Device::Cpu(), stage));
    }
    for (const Storage::Handle& block : in_flight) storage->Free(block);
  }
  const StorageStats stats = storage->Stats(Device::Cpu());
  std::printf("%ld allocations, %ld from the system\n", static_cast<long>(stats.allocations),
              static_cast<long>(stats.system_allocations));
}
