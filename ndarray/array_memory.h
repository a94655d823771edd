#ifndef TESSERA_NDARRAY_ARRAY_MEMORY_H_
#define TESSERA_NDARRAY_ARRAY_MEMORY_H_

#include <cstdint>

#include "tessera/engine/engine.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera::ndarray_internal {

/// Where an array's elements lie: bytes [begin, end) of the `size` bytes that `var` stands for.
struct ArrayMemory {
  Variable* var = nullptr;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size = 0;

  /// Takes no memory. The array must not be none.
  static ArrayMemory Of(const NDArray& array);

  /// An operation that writes this array leaves other elements of the variable as they are.
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
