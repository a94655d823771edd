#include "tessera/ops/vision/regions/regions.h"

namespace tessera::ops_internal {

bool InferRegions(const OperatorProperty& property, const TShape& pooled_size, index_t divisor,
                  std::vector<TShape>* in_shape, TShape* out) {
  TShape &data = (*in_shape)[0], &rois = (*in_shape)[1];
  constexpr index_t kUnknown = TShape::kUnknown;
  MergeShape(property, "data", &data, TShape::OfRank(4));
  MergeShape(property, "rois", &rois, {kUnknown, 5});
  if (data[1] != kUnknown && data[1] % divisor != 0) {
    throw InvalidArgument(property.TypeString(), ": data of shape ", data, " has ", data[1],
                          " channels, which the ", divisor, " cells of pooled_size=", pooled_size,
                          " do not divide");
  }
  const index_t channels = data[1] == kUnknown ? kUnknown : data[1] / divisor;
  MergeShape(property, "output", out, {rois[0], channels, pooled_size[0], pooled_size[1]});
  MergeShape(property, "rois", &rois, {(*out)[0], 5});
  const index_t rows = ProductOfExtents(property, "data", {(*out)[1], divisor}, 0, 2);
  MergeShape(property, "data", &data, {kUnknown, rows, kUnknown, kUnknown});
  return data.known() && rois.known();
}

}  // namespace tessera::ops_internal
