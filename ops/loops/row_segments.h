#ifndef TESSERA_OPS_LOOPS_ROW_SEGMENTS_H_
#define TESSERA_OPS_LOOPS_ROW_SEGMENTS_H_

#include "tessera/base/shape.h"

namespace tessera::ops_internal {

/// The elements of a row: segments of `run` adjacent elements, which begin `stride` elements apart.
/// Element i of segment s has number s * stride + i.
struct RowSegments {
  index_t count = 1;
  index_t run = 0;
  index_t stride = 0;

  index_t Length() const { return count * run; }
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_ROW_SEGMENTS_H_
