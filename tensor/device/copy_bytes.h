#ifndef TESSERA_TENSOR_DEVICE_COPY_BYTES_H_
#define TESSERA_TENSOR_DEVICE_COPY_BYTES_H_

#include <atomic>
#include <cstdint>

#include "tessera/base/dialect.h"

/// Copies of contiguous memory on the CPU, into the caches or past them.
namespace tessera::tensor_internal {

/// The place where a loop's results go.
enum class Stores {
  kCached,    ///< into the caches
  kStreamed,  ///< past the caches, so that memory which is completely overwritten is not read first
};

/// Sizes in bytes from which a result is streamed, which means written past the caches.
/// kStreamedBytes is for the result and what it is computed from: half as much again as a large
/// last-level cache has. kStreamedResultBytes is for the result alone. A sum a + b of 20 to 32 MiB
/// then takes 0.8 to 0.9 of the time, also with a loop that reads the result afterwards.
/// kStreamedRowBytes is for each row: too much of a short row lies in the cache lines where two
/// rows meet.
inline constexpr int64_t kStreamedBytes = int64_t{48} << 20;
inline constexpr int64_t kStreamedResultBytes = int64_t{32} << 20;
inline constexpr int64_t kStreamedRowBytes = int64_t{4} << 10;

/// Returns how a loop stores a result of `result_bytes` bytes that is computed from arrays of
/// `read_bytes` bytes, none of which is the result itself.
Stores StoresFor(int64_t result_bytes, int64_t read_bytes);

/// What StoresFor takes in place of kStreamedBytes; tests set a smaller number.
extern std::atomic<int64_t> least_streamed_bytes;

/// Copies `size_bytes` bytes between arrays that do not overlap, at any addresses. The calling
/// thread must call FinishStores(stores) after its last copy.
void CopyBytes(const void* from, void* to, int64_t size_bytes, Stores stores);

/// Copies `rows` rows as CopyBytes copies one. The rows begin `from_stride` and `to_stride` bytes
/// apart, which may be negative. Rows below kStreamedRowBytes are streamed only if they are made of
/// whole cache lines.
void CopyRows(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t rows,
              int64_t size_bytes, Stores stores);

/// Orders streamed stores of the calling thread before its later stores, by which other threads
/// learn that the result is complete.
void FinishStores(Stores stores);

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_DEVICE_COPY_BYTES_H_
