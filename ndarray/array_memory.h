#ifndef TESSERA_NDARRAY_ARRAY_MEMORY_H_
#define TESSERA_NDARRAY_ARRAY_MEMORY_H_

#include <cstdint>

#include "tessera/engine/engine.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera::ndarray_internal {

/// The location of an array's elements: bytes [begin, end) of the `size` bytes that `var` orders.
struct ArrayMemory {
  Variable* var = nullptr;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size = 0;

  /// Returns the location without allocating. Requires: the array is not none.
  static ArrayMemory Of(const NDArray& array);

  /// Returns whether the variable also has other elements, which an operation that writes this
  /// array keeps.
  bool IsPart() const { return end - begin < size; }
  bool IsSame(const ArrayMemory& other) const {
    return var == other.var && begin == other.begin && end == other.end;
  }
  bool Overlaps(const ArrayMemory& other) const {
    return var == other.var && begin < other.end && other.begin < end;
  }
};

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_ARRAY_MEMORY_H_
