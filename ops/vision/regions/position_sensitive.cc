#include "tessera/ops/vision/regions/position_sensitive.h"

#include "tessera/base/error.h"

namespace tessera::ops_internal {

CellChannels PositionSensitiveParameters::Channels() const {
  const index_t groups = Groups();
  CellChannels channels{.stride = groups * groups};
  for (index_t i = 0; i < pooled_size; ++i) {
    for (index_t j = 0; j < pooled_size; ++j) {
      channels.of_cell.push_back(i * groups / pooled_size * groups + j * groups / pooled_size);
    }
  }
  return channels;
}

bool InferPositionSensitive(const OperatorProperty& property,
                            const PositionSensitiveParameters& param, std::vector<TShape>* in_shape,
                            TShape* out) {
  TShape &data = (*in_shape)[0], &rois = (*in_shape)[1];
  MergeShape(property, "data", &data, TShape::OfRank(4));
  MergeShape(property, "rois", &rois, {TShape::kUnknown, 5});
  const index_t groups = param.Groups(), least = param.output_dim * groups * groups;
  if (data[1] != TShape::kUnknown && data[1] < least) {
    throw InvalidArgument(property.TypeString(), ": data of shape ", data, " has ", data[1],
                          " channels, expected at least ", least,
                          " for output_dim=", param.output_dim, " and ", groups, " groups an axis");
  }
  const index_t size = param.pooled_size;
  MergeShape(property, "output", out, {rois[0], param.output_dim, size, size});
  MergeShape(property, "rois", &rois, {(*out)[0], 5});
  return data.known() && rois.known();
}

}  // namespace tessera::ops_internal
