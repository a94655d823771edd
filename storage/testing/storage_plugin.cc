// Contains storage in a shared library, like a plugin or a Python extension.

#include "tessera/storage/storage.h"

/// Returns the live bytes while a block of 100 bytes is allocated.
extern "C" int UseStorage() {
  tessera::Storage* const storage = tessera::Storage::Get();
  int live_bytes = 0;
  for (int i = 0; i < 2; ++i) {  // from the system, then from the thread's cache
    const tessera::Storage::Handle block = storage->Alloc(100, tessera::Device::Cpu());
    live_bytes = static_cast<int>(storage->Stats(tessera::Device::Cpu()).live_bytes);
    storage->Free(block);
  }
  return live_bytes;
}
