#ifndef TESSERA_OPS_LOOPS_STRIDED_WALK_H_
#define TESSERA_OPS_LOOPS_STRIDED_WALK_H_

#include <algorithm>
#include <array>
#include <span>

#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"

/// Loops over the positions of dimensions that several arrays have in common. Each array has a list
/// of strides, one for each dimension: any numbers, 0 where it is broadcast.
namespace tessera::ops_internal {

/// Leaves out dimensions of extent 1, and merges a dimension with the one before it where, in every
/// list, the stride of the one before equals this one's stride times its extent. Changes extents
/// and strides in place, and returns the number of dimensions that remain: 0 for a single element.
inline int MergeDimensions(int num_dims, index_t* extents, std::span<index_t* const> strides) {
  int kept = 0;  // the last of them is open for merging
  for (int d = 0; d < num_dims; ++d) {
    const index_t extent = extents[d];
    if (extent == 1) continue;
    const bool merges = kept > 0 && std::all_of(strides.begin(), strides.end(), [=](index_t* list) {
                          return list[kept - 1] == list[d] * extent;
                        });
    const int target = merges ? kept - 1 : kept++;
    extents[target] = merges ? extents[target] * extent : extent;
    for (index_t* const list : strides) list[target] = list[d];
  }
  return kept;
}

/// Walks over positions in their order, the last dimension's first, and knows the offset of each of
/// kLists arrays. Requires: no extent is 0.
template <int kLists = 1, int kMaxDims = TShape::kMaxRank>
class StridedWalk {
 public:
  StridedWalk(int num_dims, const index_t* extents,
              const std::array<const index_t*, kLists>& strides, index_t start)
      : num_dims_(num_dims) {
    for (int d = num_dims - 1; d >= 0; --d) {
      Dimension& dimension = dimensions_[d];
      dimension.extent = extents[d];
      dimension.position = start % extents[d];
      start /= extents[d];
      for (size_t i = 0; i < kLists; ++i) {
        dimension.strides[i] = strides[i][d];
        offsets_[i] += dimension.position * strides[i][d];
      }
    }
  }

  index_t offset(size_t list = 0) const { return offsets_[list]; }
  index_t position(int d) const { return dimensions_[d].position; }

  /// Goes to the next position, from the last one to the first.
  void Next() {
    for (int d = num_dims_ - 1; d >= 0; --d) {
      Dimension& dimension = dimensions_[d];
      for (size_t i = 0; i < kLists; ++i) offsets_[i] += dimension.strides[i];
      if (++dimension.position < dimension.extent) return;
      for (size_t i = 0; i < kLists; ++i) offsets_[i] -= dimension.extent * dimension.strides[i];
      dimension.position = 0;
    }
  }
  /// Goes `steps` positions on. Requires: there is a dimension, and 1 <= steps <= the number of
  /// positions that are left in the last one, this one included.
  void Advance(index_t steps) {
    Dimension& last = dimensions_[num_dims_ - 1];
    last.position += steps - 1;
    for (size_t i = 0; i < kLists; ++i) offsets_[i] += (steps - 1) * last.strides[i];
    Next();
  }

 private:
  struct Dimension {
    index_t extent, position;
    index_t strides[kLists];
  };
  const int num_dims_;
  std::array<index_t, kLists> offsets_{};
  Dimension dimensions_[kMaxDims];
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_STRIDED_WALK_H_
