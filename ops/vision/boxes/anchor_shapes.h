#ifndef TESSERA_OPS_VISION_BOXES_ANCHOR_SHAPES_H_
#define TESSERA_OPS_VISION_BOXES_ANCHOR_SHAPES_H_

#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/ops/property.h"

namespace tessera::ops_internal {

/// An array with an entry for each anchor, for each sample or for both.
struct AnchorArray {
  /// The meanings that an axis in `axes` may have, besides an extent.
  static constexpr index_t kAny = -1;          ///< an extent of its own
  static constexpr index_t kSamples = -2;      ///< the number of samples
  static constexpr index_t kAnchors = -3;      ///< the number of anchors
  static constexpr index_t kCoordinates = -4;  ///< four times the number of anchors

  const char* name;
  TShape* shape;
  std::vector<index_t> axes;
};

/// Completes the shapes of arrays with common numbers of samples and anchors. Returns whether all
/// are known. Throws Error(kInvalidArgument) that names the operator, the array and its shape if
/// they contradict each other.
bool InferAnchorShapes(const OperatorProperty& property, const std::vector<AnchorArray>& arrays);

/// Throws Error(kInvalidArgument) that names the operator unless there are four variances.
void CheckVariances(const OperatorProperty& property, const std::vector<float>& variances);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_VISION_BOXES_ANCHOR_SHAPES_H_
