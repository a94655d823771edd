#include "tessera/ndarray/files/array_size.h"

#include <algorithm>

#include "tessera/base/checked_size.h"
#include "tessera/base/error.h"

namespace tessera::ndarray_internal {
std::optional<int64_t> ElementsSizeBytes(std::span<const index_t> extents, DType dtype) {
  // An empty array may have extents whose product would overflow.
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return 0;
  CheckedSize size_bytes(DTypeSizeBytes(dtype));
  for (const index_t extent : extents) size_bytes = size_bytes * extent;
  return size_bytes.value();
}

void RequireRoom(std::string_view name, uint64_t num_entries, int64_t size_bytes) {
  const int64_t most = (kFreeBytes + 3 * size_bytes) / kArrayBytes;
  if (num_entries > static_cast<uint64_t>(most)) {
    throw ResourceExhausted(name, ": found ", num_entries, " entries in ", size_bytes,
                            " bytes; expected at most ", most,
                            ", since each takes memory beside its elements");
  }
}

std::optional<int64_t> FindNoBoolean(const void* bytes, int64_t size_bytes) {
  const auto* const begin = static_cast<const uint8_t*>(bytes);
  const auto* const end = begin + size_bytes;
  const auto* const wrong = std::find_if(begin, end, [](uint8_t byte) { return byte > 1; });
  if (wrong == end) return std::nullopt;
  return wrong - begin;
}

std::string ShapeText(std::span<const index_t> extents) {
  std::string text = "(";
  for (size_t i = 0; i < extents.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(extents[i]);
  }
  return text + (extents.size() == 1 ? ",)" : ")");
}

}  // namespace tessera::ndarray_internal
