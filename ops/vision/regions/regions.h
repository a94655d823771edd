#ifndef TESSERA_OPS_VISION_REGIONS_REGIONS_H_
#define TESSERA_OPS_VISION_REGIONS_REGIONS_H_

#include <algorithm>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/elements.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"

/// Regions of images, of which ROIPooling and ROIAlign make images of one size.
namespace tessera::ops_internal {

/// The parameters that the operators share.
struct RegionParameters {
  TShape pooled_size;
  float spatial_scale = 1;

  /// Declares the fields above for the schema of this struct or of one derived from it.
  template <typename Schema>
  static void DeclareShared(Schema& schema) {
    using P = RegionParameters;
    schema.template Required<TShape>("pooled_size", &P::pooled_size,
                                     "(height, width) of a region's output");
    schema.template Required<float>("spatial_scale", &P::spatial_scale,
                                    "the factor from the regions' coordinates to the data's");
    schema.Range(0, 1);
  }
  static void Declare(ParameterSchema<RegionParameters>& schema) { DeclareShared(schema); }

  /// Throws Error(kInvalidArgument) that names the operator unless pooled_size has two extents.
  void Check(const std::string& op) const {
    bool valid = pooled_size.ndim() == 2;
    for (const index_t extent : pooled_size) valid = valid && extent >= 1 && extent <= (1 << 24);
    if (!valid) {
      throw InvalidArgument(op, ": parameter pooled_size=", pooled_size,
                            " must be a height and a width of at least 1");
    }
  }
};

/// A region in the data's pixels.
template <typename T>
struct Region {
  index_t sample;  ///< the number of its image, or -1 if it has none
  T left, top, right, bottom;
};

/// Reads regions from rows (sample, left, top, right, bottom). A negative sample, or NaN, is none.
/// Throws Error(kOutOfRange) for a sample beyond the last.
template <typename T>
std::vector<Region<T>> ReadRegions(const TBlob& rois, index_t samples, float scale) {
  const Elements<T> rows(rois);
  std::vector<Region<T>> regions;
  for (index_t r = 0; r < rois.shape_[0]; ++r) {
    const T* const row = rows.data() + 5 * r;
    index_t sample;
    LoadIndices(row, DTypeOf<T>::value, 1, &sample);
    if (sample >= samples) {
      throw OutOfRange("rois[", r, "] is of sample ", sample, ", but data has ", samples);
    }
    const T factor = static_cast<T>(scale);
    regions.push_back({std::max<index_t>(sample, -1), row[1] * factor, row[2] * factor,
                       row[3] * factor, row[4] * factor});
  }
  return regions;
}

/// Completes the shapes of data (samples, channels, height, width), rois (regions, 5) and output
/// (regions, channels / divisor, pooled_size). Returns whether all are known.
bool InferRegions(const OperatorProperty& property, const TShape& pooled_size, index_t divisor,
                  std::vector<TShape>* in_shape, TShape* out);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_VISION_REGIONS_REGIONS_H_
