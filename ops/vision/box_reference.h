#ifndef TESSERA_OPS_VISION_BOX_REFERENCE_H_
#define TESSERA_OPS_VISION_BOX_REFERENCE_H_

#include <algorithm>

namespace tessera::ops_testing {

/// Returns intersection over union of two boxes (left, top, right, bottom), or 0.
inline double OverlapOfCorners(const double* a, const double* b) {
  double both = 1, of_a = 1, of_b = 1;
  for (const int axis : {0, 1}) {
    both *= std::max(0.0, std::min(a[axis + 2], b[axis + 2]) - std::max(a[axis], b[axis]));
    of_a *= std::max(0.0, a[axis + 2] - a[axis]);
    of_b *= std::max(0.0, b[axis + 2] - b[axis]);
  }
  return both > 0 ? both / (of_a + of_b - both) : 0;
}

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_VISION_BOX_REFERENCE_H_
