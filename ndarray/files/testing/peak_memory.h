#ifndef TESSERA_NDARRAY_FILES_TESTING_PEAK_MEMORY_H_
#define TESSERA_NDARRAY_FILES_TESTING_PEAK_MEMORY_H_

#include <cstdint>
#include <functional>

namespace tessera::ndarray_internal {

/// Returns by how much the process's memory grows at most while `fn` runs, in bytes. Returns 0
/// where Linux does not say, and under sanitizers, which keep memory that is freed.
int64_t PeakGrowthBytes(const std::function<void()>& fn);

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_FILES_TESTING_PEAK_MEMORY_H_
