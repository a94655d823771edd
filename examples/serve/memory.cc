#include "tessera/examples/serve/memory.h"

#include <unistd.h>

#include <fstream>

#include "tessera/base/device.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/storage/storage.h"

namespace tessera::serve {

Memory MeasureMemory() {
  NDArray::WaitAll();
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return {.resident_bytes = resident * sysconf(_SC_PAGESIZE),
          .array_bytes = Storage::Get()->Stats(Device::Cpu()).live_bytes};
}

}  // namespace tessera::serve
