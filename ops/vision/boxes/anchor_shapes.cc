#include "tessera/ops/vision/boxes/anchor_shapes.h"

#include <span>

#include "tessera/base/error.h"

namespace tessera::ops_internal {
namespace {

constexpr index_t kUnknown = TShape::kUnknown;

/// The extents that the arrays have in common.
struct CommonExtents {
  index_t samples = kUnknown;
  index_t anchors = kUnknown;
};

void LearnExtent(index_t extent, index_t* common) {
  if (*common == kUnknown) *common = extent;
}

void LearnExtents(const OperatorProperty& property, const AnchorArray& array,
                  CommonExtents* common) {
  for (size_t i = 0; i < array.axes.size(); ++i) {
    const index_t extent = (*array.shape)[static_cast<int>(i)];
    if (extent == kUnknown) continue;
    if (array.axes[i] == AnchorArray::kSamples) LearnExtent(extent, &common->samples);
    if (array.axes[i] == AnchorArray::kAnchors) LearnExtent(extent, &common->anchors);
    if (array.axes[i] != AnchorArray::kCoordinates) continue;
    if (extent % 4 != 0) {
      throw InvalidArgument(property.TypeString(), ": ", array.name, " has shape ", *array.shape,
                            ", expected 4 numbers for each anchor");
    }
    LearnExtent(extent / 4, &common->anchors);
  }
}

}  // namespace

bool InferAnchorShapes(const OperatorProperty& property, const std::vector<AnchorArray>& arrays) {
  CommonExtents common;
  for (const AnchorArray& array : arrays) {
    MergeShape(property, array.name, array.shape,
               TShape::OfRank(static_cast<int>(array.axes.size())));
    LearnExtents(property, array, &common);
  }
  bool known = true;
  for (const AnchorArray& array : arrays) {
    std::vector<index_t> extents = array.axes;
    for (index_t& extent : extents) {
      if (extent == AnchorArray::kSamples) extent = common.samples;
      if (extent == AnchorArray::kAnchors) extent = common.anchors;
      if (extent == AnchorArray::kCoordinates) {
        extent = ProductOfExtents(property, array.name, {common.anchors, 4}, 0, 2);
      }
    }
    MergeShape(property, array.name, array.shape, TShape(std::span<const index_t>(extents)));
    known &= array.shape->known();
  }
  return known;
}

void CheckVariances(const OperatorProperty& property, const std::vector<float>& variances) {
  if (variances.size() == 4) return;
  throw InvalidArgument(property.TypeString(), ": variances has ", variances.size(),
                        " numbers, expected 4");
}

}  // namespace tessera::ops_internal
