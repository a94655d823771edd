#include "tessera/ndarray/overlaps.h"

#include <algorithm>
#include <functional>

namespace tessera::ndarray_internal {
namespace {

/// Returns whether a's bytes are of an earlier variable, or begin before `begin` in b's.
bool BeginsBefore(const ArrayMemory& a, const ArrayMemory& b, int64_t begin) {
  if (a.var != b.var) return std::less<>()(a.var, b.var);
  return a.begin < begin;
}

}  // namespace

Overlaps::Overlaps(std::span<const NDArray> arrays) {
  places_.reserve(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!arrays[i].is_none()) places_.push_back({ArrayAccess::Memory(arrays[i]), i});
  }
  std::sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) {
    return BeginsBefore(a.memory, b.memory, b.memory.begin);
  });
  for (size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    const bool follows = i > 0 && places_[i - 1].memory.var == place.memory.var;
    place.greatest_end =
        follows ? std::max(places_[i - 1].greatest_end, place.memory.end) : place.memory.end;
  }
}

size_t Overlaps::EndOf(const ArrayMemory& memory) const {
  const auto end = std::partition_point(places_.begin(), places_.end(), [&](const Place& place) {
    return BeginsBefore(place.memory, memory, memory.end);
  });
  return static_cast<size_t>(end - places_.begin());
}

bool Overlaps::Any(const ArrayMemory& memory) const {
  bool found = false;
  ForEach(memory, [&found](size_t) { found = true; });
  return found;
}

}  // namespace tessera::ndarray_internal
