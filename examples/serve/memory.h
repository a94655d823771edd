#ifndef TESSERA_EXAMPLES_SERVE_MEMORY_H_
#define TESSERA_EXAMPLES_SERVE_MEMORY_H_

#include <cstdint>

#include "tessera/base/dialect.h"

namespace tessera::serve {

/// The memory that the process has.
struct Memory {
  int64_t resident_bytes;  ///< in the machine's memory
  int64_t array_bytes;     ///< of arrays on the CPU that are alive
};

/// Returns what the process has now, after a wait for all operations.
Memory MeasureMemory();

}  // namespace tessera::serve

#endif  // TESSERA_EXAMPLES_SERVE_MEMORY_H_
