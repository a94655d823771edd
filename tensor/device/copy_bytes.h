#ifndef TESSERA_TENSOR_DEVICE_COPY_BYTES_H_
#define TESSERA_TENSOR_DEVICE_COPY_BYTES_H_

#include <atomic>
#include <cstdint>

#include "tessera/base/dialect.h"

/// Copies of contiguous memory on the CPU, into the caches or past them.
namespace tessera::tensor_internal {

/// How a loop writes its output.
enum class Stores {
  kCached,     ///< into the caches, for which the processor first reads each line that is written
  kStreaming,  ///< past the caches, whole lines at a time: they are not read, and not kept
};

inline std::atomic<int64_t> streaming_bytes{0};  // 0 until the setting is read
int64_t ReadStreamingBytes();

/// Returns how a loop should write an output that takes `size_bytes` bytes together with all arrays
/// that the loop reads. It is kStreaming if the last-level cache cannot hold them, so that the
/// beginning of the output has left it when the end is written. The environment variable
/// TESSERA_STREAMING_BYTES sets the least such number of bytes and is read at the first call.
/// Throws Error(kInvalidArgument) if the variable is no number from 1 to 2^60. Results do not
/// depend on it.
inline Stores StoresFor(int64_t size_bytes) {
  const int64_t known = streaming_bytes.load(std::memory_order_relaxed);
  const int64_t least = known != 0 ? known : ReadStreamingBytes();
  return size_bytes >= least ? Stores::kStreaming : Stores::kCached;
}

/// Copies `size_bytes` bytes between arrays that do not overlap, at any addresses. The calling
/// thread must call FinishStores(stores) after its last copy.
void CopyBytes(const void* from, void* to, int64_t size_bytes, Stores stores);

/// Copies `rows` rows as CopyBytes copies one. The rows begin `from_stride` and `to_stride` bytes
/// apart, which may be negative.
void CopyRows(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t rows,
              int64_t size_bytes, Stores stores);

/// Orders streaming stores of the calling thread before its later stores, by which other threads
/// learn that the output is complete.
void FinishStores(Stores stores);

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_DEVICE_COPY_BYTES_H_
