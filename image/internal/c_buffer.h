#ifndef TESSERA_IMAGE_INTERNAL_C_BUFFER_H_
#define TESSERA_IMAGE_INTERNAL_C_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace tessera::image_internal {

/// Bytes that grow without exceptions, for functions that C calls. It has no destructor, so that
/// longjmp may leave its functions; the owner frees the bytes.
struct CBuffer {
  uint8_t* bytes;
  size_t size;
  size_t capacity;

  /// Appends bytes. Returns false, and changes nothing, if memory is used up.
  bool Append(const uint8_t* from, size_t count) {
    if (count > capacity - size) {
      constexpr size_t kFirst = size_t{1} << 16;
      size_t wanted = capacity < kFirst / 2 ? kFirst : 2 * capacity;
      if (wanted < size + count) wanted = size + count;
      void* const grown = std::realloc(bytes, wanted);
      if (grown == nullptr) return false;
      bytes = static_cast<uint8_t*>(grown);
      capacity = wanted;
    }
    std::memcpy(bytes + size, from, count);
    size += count;
    return true;
  }
  void Free() { std::free(bytes); }
};

}  // namespace tessera::image_internal

#endif  // TESSERA_IMAGE_INTERNAL_C_BUFFER_H_
