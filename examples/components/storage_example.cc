// Pooled memory that is reused, bounded and counted.
#include <cstdio>

#include "tessera/base/error.h"
#include "tessera/storage/storage.h"

using namespace tessera;  // NOLINT

int main() {
  Storage* storage = Storage::Get();
  for (int step = 0; step < 100; ++step) {
    const Storage::Handle block = storage->Alloc(1 << 20, Device::Cpu(), "activations");
    static_cast<char*>(block.dptr)[0] = 1;
    storage->Free(block);  // back to the pool: the next Alloc takes nothing from the system
  }
  const StorageStats stats = storage->Stats(Device::Cpu());
  std::printf("%ld allocations, %ld from the system\n", static_cast<long>(stats.allocations),
              static_cast<long>(stats.system_allocations));
  try {
    storage->Alloc(int64_t{1} << 60, Device::Cpu());
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
  }
}
