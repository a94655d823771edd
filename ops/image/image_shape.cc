#include "tessera/ops/image/image_shape.h"

#include "tessera/base/error.h"

namespace tessera::ops_internal {

bool MergeImageRanks(const OperatorProperty& property, std::string_view layout, TShape* data,
                     TShape* out) {
  if (data->rank_known()) {
    MergeShape(property, "output", out, TShape::OfRank(data->ndim()));
  } else if (out->rank_known()) {
    *data = TShape::OfRank(out->ndim());
  } else {
    return false;
  }
  if (data->ndim() != 3 && data->ndim() != 4) {
    throw InvalidArgument(property.TypeString(), ": data has shape ", *data, ", expected ", layout);
  }
  return true;
}

void MergeExtents(const OperatorProperty& property, TShape* data, int d, TShape* out, int e) {
  TShape known = TShape::OfRank(out->ndim());
  known[e] = (*data)[d];
  MergeShape(property, "output", out, known);
  (*data)[d] = (*out)[e];
}

bool InferImageShape(const OperatorProperty& property, std::vector<TShape>* in_shape,
                     std::vector<TShape>* out_shape) {
  TShape &data = (*in_shape)[0], &out = (*out_shape)[0];
  if (!MergeImageRanks(property, kImageLayout, &data, &out)) return false;
  MergeShape(property, "output", &out, data);
  MergeShape(property, "data", &data, out);
  return data.known();
}

bool InferColorImageShape(const OperatorProperty& property, std::vector<TShape>* in_shape,
                          std::vector<TShape>* out_shape) {
  const bool known = InferImageShape(property, in_shape, out_shape);
  const TShape& data = (*in_shape)[0];
  if (!data.rank_known()) return false;
  const index_t channels = data[data.ndim() - 1];
  if (channels != TShape::kUnknown && channels != 1 && channels != 3) {
    throw InvalidArgument(property.TypeString(), ": data has shape ", data, " with ", channels,
                          " channels, expected 1 or 3");
  }
  return known;
}

}  // namespace tessera::ops_internal
