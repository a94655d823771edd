#ifndef TESSERA_NDARRAY_FILES_ARRAY_SIZE_H_
#define TESSERA_NDARRAY_FILES_ARRAY_SIZE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"

namespace tessera::ndarray_internal {

/// The memory that a reader may take beyond four times its input.
inline constexpr int64_t kFreeBytes = int64_t{64} << 20;

/// The most memory that an array takes beside its elements: its handle, chunk, engine variable,
/// name, and the least block of the pool.
inline constexpr int64_t kArrayBytes = 768;

/// Returns the size of an array's elements in bytes, or nothing if it does not fit in 63 bits.
/// Requires: no extent is negative.
std::optional<int64_t> ElementsSizeBytes(std::span<const index_t> extents, DType dtype);

/// The largest rank that a file may state. NumPy has this limit, and MXNet's arrays.
inline constexpr int kMaxFileRank = 32;

/// Throws Error(kResourceExhausted) that begins with `name` if an input of that size cannot hold so
/// many entries, each an array or a text: with kArrayBytes for each, a reader would take more
/// memory than four times the input and kFreeBytes.
void RequireRoom(std::string_view name, uint64_t num_entries, int64_t size_bytes);

/// Returns the offset of the first byte that is no boolean, or nothing.
std::optional<int64_t> FindNoBoolean(const void* bytes, int64_t size_bytes);

/// Returns the shape as errors print it, of any rank.
std::string ShapeText(std::span<const index_t> extents);

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_FILES_ARRAY_SIZE_H_
