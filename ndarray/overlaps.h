#ifndef TESSERA_NDARRAY_OVERLAPS_H_
#define TESSERA_NDARRAY_OVERLAPS_H_

#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera::ndarray_internal {

/// The memory of several arrays, to find those that share bytes with another one. Making it takes
/// time n log n. A search takes log n and, unless the arrays overlap each other, the time of its
/// result.
class Overlaps {
 public:
  /// Arrays that are none have no memory.
  explicit Overlaps(std::span<const NDArray> arrays);

  /// Calls visit(position) for each array that overlaps `memory`, in no particular order.
  template <typename Visit>
  void ForEach(const ArrayMemory& memory, const Visit& visit) const {
    for (size_t i = EndOf(memory); i > 0; --i) {
      const Place& place = places_[i - 1];
      if (place.memory.var != memory.var || place.greatest_end <= memory.begin) return;
      if (place.memory.Overlaps(memory)) visit(place.position);
    }
  }
  /// Returns whether any array overlaps `memory`.
  bool Any(const ArrayMemory& memory) const;

 private:
  struct Place {
    ArrayMemory memory;
    size_t position;           // of the array
    int64_t greatest_end = 0;  // among this place and those before it, of the same variable
  };

  /// Returns the end of the places that begin before `memory` ends.
  size_t EndOf(const ArrayMemory& memory) const;

  absl::InlinedVector<Place, 4> places_;  // by variable, then by begin
};

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_OVERLAPS_H_
